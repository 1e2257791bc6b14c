"""From run folders to comparisons: the same cells of two runs, or the modes of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dutlab.analysis.compare import Comparison, Pair, Together, compare, main_figures, together
from dutlab.analysis.differences import Difference, differences
from dutlab.errors import InputError
from dutlab.plan.cell import Cell
from dutlab.report.groups import GroupKey, key_of
from dutlab.store.needed import needed_cells
from dutlab.store.read import reading
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder


@dataclass(frozen=True)
class ComparedRun:
    """One run as far as comparisons go."""

    name: str
    records: tuple[TrialRecord, ...]
    facts: Mapping[str, Any]
    """Experiment, testbed, hosts and tools, for what differs."""
    faults: tuple[str, ...] = ()
    """What could not be read."""


@dataclass(frozen=True)
class ComparedPair:
    """The second against the first."""

    first: str
    second: str
    comparisons: tuple[Comparison, ...]
    together: Together | None
    """What all cells say at once; None where there is one cell only."""
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    """Cells that the other side has not."""
    differences: tuple[Difference, ...]
    faults: tuple[str, ...]


def open_run(path: Path) -> ComparedRun:
    """A run, finished or not. Raises InputError when it is none, NewerRun, StoreError."""
    with reading(path):
        return _open_run(RunFolder.open(path))


def _open_run(run: RunFolder) -> ComparedRun:
    faults, tools = list[str](), dict[str, str]()
    records = list(run.readable_records(faults))
    for record in records:
        tools |= record.tool_facts
    if short := len(needed_cells(run.plan, records)) - len(records):
        faults.append(f"{run.name}: {short} trials of the plan have no record that can be read")
    hosts = {name: {k: v for k, v in facts.items() if k != "host"} for name, facts in run.hosts().items()}
    return ComparedRun(run.name, tuple(records), {**run.resolved, "hosts": hosts, "tools": tools}, tuple(faults))


def compare_runs(first: ComparedRun, second: ComparedRun, *, figures: Sequence[str] = (), margin: float | None = None) -> ComparedPair:
    """The same cells of two runs. `figures` asks for others than the main one of each cell.

    Raises InputError when no cell is in both, and for a figure that neither has.
    """
    _insist_on_figures(figures, (first, second))
    ours, theirs = _by_cell(first.records), _by_cell(second.records)
    shared = [key for key in ours if key in theirs]
    found = differences(first.facts, second.facts)
    if not shared:
        where = "; ".join(f"{d.path}: {d.first} and {d.second}" for d in found[:5])
        raise InputError(
            f"{first.name} and {second.name} have no cell in common",
            remedy=f"compare runs of the same experiment ({where or 'their trials have no result'})",
        )
    pairs = [p for key in shared for p in _pairs(ours[key], theirs[key], _label(ours[key][0].cell), figures)]
    comparisons = compare(pairs, margin=margin)
    return ComparedPair(
        first=first.name,
        second=second.name,
        comparisons=comparisons,
        together=together(comparisons),
        only_first=_labels(ours, theirs),
        only_second=_labels(theirs, ours),
        differences=found,
        faults=(*first.faults, *second.faults),
    )


def compare_modes(
    run: ComparedRun, *, baseline: str | None = None, figures: Sequence[str] = (), margin: float | None = None
) -> tuple[ComparedPair, ...]:
    """Every other mode of a run against `baseline` (without it: the first that was measured). Holm's correction spans all of them.

    Raises InputError for a baseline or a figure that the run has not, or a single mode.
    """
    _insist_on_figures(figures, (run,))
    modes = list(dict.fromkeys(r.cell.mode for r in sorted(run.records, key=lambda r: mode_order(run, r.cell.mode))))
    base = baseline or (modes[0] if modes else "")
    others = [m for m in modes if m != base]
    if base not in modes or not others:
        raise InputError(f"{run.name} has no two modes to compare{f' with {baseline}' if baseline else ''}",
                         remedy=f"its modes are {', '.join(modes) or 'none'}")  # fmt: skip
    cells = {m: _by_cell([_without_mode(r) for r in run.records if r.cell.mode == m]) for m in modes}
    pairs = [
        (m, p)
        for m in others
        for key in cells[base]
        if key in cells[m]
        for p in _pairs(cells[base][key], cells[m][key], _label(cells[base][key][0].cell), figures)
    ]
    found = compare([p for _, p in pairs], margin=margin)
    of_mode = {m: tuple(c for c, (of, _) in zip(found, pairs, strict=True) if of == m) for m in others}
    return tuple(
        ComparedPair(
            first=base,
            second=m,
            comparisons=of_mode[m],
            together=together(of_mode[m]),
            only_first=_labels(cells[base], cells[m]),
            only_second=_labels(cells[m], cells[base]),
            differences=(),
            faults=run.faults,
        )
        for m in others
    )


def _by_cell(records: Sequence[TrialRecord]) -> dict[GroupKey, list[TrialRecord]]:
    out: dict[GroupKey, list[TrialRecord]] = {}
    for record in sorted(records, key=lambda r: r.started):
        if record.status == "measured":
            out.setdefault(key_of(record.cell), []).append(record)
    return dict(sorted(out.items(), key=lambda item: _size_first(item[1][0].cell)))


def _pairs(first: Sequence[TrialRecord], second: Sequence[TrialRecord], label: str, figures: Sequence[str]) -> list[Pair]:
    link = first[0].cell.link_label or next(iter(first[0].figures), "")  # steps have no link
    wanted = figures or _main_figures([*first, *second], link)
    pairs = [Pair(label, figure, _values(first, link, figure), _values(second, link, figure)) for figure in wanted]
    return [p for p in pairs if p.first or p.second]


def _insist_on_figures(figures: Sequence[str], runs: Sequence[ComparedRun]) -> None:
    known = {name for run in runs for r in run.records for of_link in r.figures.values() for name in of_link}
    if absent := [figure for figure in figures if figure not in known]:
        said = f"{' and '.join(dict.fromkeys(run.name for run in runs))}: no {', '.join(absent)}"
        raise InputError(said, remedy=f"there are {', '.join(sorted(known)) or 'no figures'}")


def _main_figures(records: Sequence[TrialRecord], link: str) -> list[str]:
    return main_figures(name for r in records for name in r.figures.get(link, ()))


def _values(records: Sequence[TrialRecord], link: str, figure: str) -> tuple[float, ...]:
    return tuple(r.figures[link][figure] for r in records if figure in r.figures.get(link, ()))


def _label(cell: Cell) -> str:
    return cell_label(cell.mode, cell.factors, cell.workload, str(cell.params.get("frame_size") or ""), cell.link_label)


def cell_label(mode: str, factors: Mapping[str, str], workload: str, frame_size: str, links: str) -> str:
    """`nat · sweep 64 · link a`."""
    varied = [f"{name} {level}" for name, level in factors.items() if name != "mode"]
    return " · ".join([*([mode] if mode else []), *varied, f"{workload}{f' {frame_size}' if frame_size else ''}", f"link {links}"])


def _labels(of: Mapping[GroupKey, Sequence[TrialRecord]], without: Mapping[GroupKey, Sequence[TrialRecord]]) -> tuple[str, ...]:
    return tuple(_label(records[0].cell) for key, records in of.items() if key not in without)


def _without_mode(record: TrialRecord) -> TrialRecord:
    factors = {name: level for name, level in record.cell.factors.items() if name != "mode"}
    return record.model_copy(update={"cell": record.cell.model_copy(update={"mode": "", "factors": factors})})


def mode_order(run: ComparedRun, mode: str) -> int:
    """Modes in the order of the experiment file; one that it does not name comes last."""
    experiment = run.facts.get("experiment")
    factors = experiment.get("factors") if isinstance(experiment, Mapping) else None
    named = factors.get("mode", []) if isinstance(factors, Mapping) else []
    return list(named).index(mode) if mode in named else len(named)


def _size_first(cell: Cell) -> tuple[str, str, tuple[str, ...], float, str]:
    size = str(cell.params.get("frame_size", ""))
    return (cell.mode, cell.workload, cell.links, float(size) if size.isdigit() else float("inf"), size)
