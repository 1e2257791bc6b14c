"""Comparisons of the same cells of two runs, of two sides of several runs each, or of the modes of one run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import Any

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Comparison, Pair
from dutlab.analysis.design import NotKnown, RunOrder, in_turn
from dutlab.analysis.differences import ValueDifference, differences
from dutlab.analysis.iperf3_changes import CountChange, changes_between
from dutlab.analysis.together import Together, together
from dutlab.errors import InputError
from dutlab.plan.cell import Cell
from dutlab.plan.trials import Turns
from dutlab.report.model.contests import (
    CompareRequest,
    OwnWords,
    between_modes,
    cell_label,
    compared_by,
    contests_of,
    decided,
    insist_on_directions,
    overall_of,
    own_words,
)  # fmt: skip
from dutlab.report.questions.sides import ComparedRun, apart_by_version, side_names, without_mode
from dutlab.stats.summary import median
from dutlab.store.cell_figures import CellFigure, CellFigures, CellKey, cells_of, figure_names, key_of, name_words
from dutlab.store.record import TrialRecord
from dutlab.subject import figure_name

FEWEST_RUNS = 4
"""Total number of runs from which each run counts as one value; below it, the newest run of a side represents the side."""

_MOST_REASONS = 5


@dataclass(frozen=True)
class ComparedPair:
    """Comparison of the second side with the first."""

    first: str
    second: str
    """Names of the runs (`--name`), else their folders; or a mode of one run."""
    design: RunOrder
    comparisons: tuple[Comparison, ...]
    together: Together | None
    """Overall comparison of all cells; None if there is only one cell."""
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    """Cells that the other side lacks."""
    differences: tuple[ValueDifference, ...]
    faults: tuple[str, ...]
    count_changes: tuple[CountChange, ...] = ()
    """Changes in how iperf3 counts, between the versions of both sides."""
    runs: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Run folders of both sides; empty for modes of one run."""

    @property
    def not_known(self) -> tuple[NotKnown, ...]:
        """Questions that the design leaves open; modes of one run share its set-up."""
        return self.design.not_known if any(self.runs) else ()


def compare_runs(
    first: Sequence[ComparedRun],
    second: Sequence[ComparedRun],
    asked: CompareRequest | None = None,
    *,
    names: Sequence[str] = (),
) -> ComparedPair:
    """Compare the same cells of two sides, each of one or more runs, the oldest first; `names` replace side_names().

    With four runs or more in all, each run counts once, by the median of its repeats; with fewer the newest of each side is compared.
    Raises InputError when no cell is in both, when cells have no figure to be compared by, and for a figure that neither has.
    """
    asked = asked or CompareRequest()
    faults = [f for run in (*first, *second) for f in run.faults]
    if (apart := apart_by_version([first, second])) is not None:
        (first, second), versions = apart
        names = [f"{name} ({version})" for name, version in zip(names or side_names((first, second)), versions, strict=True)]
    if len(first) + len(second) < FEWEST_RUNS and len(first) + len(second) > 2:  # noqa: PLR2004 - one a side is the least
        faults.append(f"{len(first)} and {len(second)} runs show no spread between runs; the newest of each side is compared")
        first, second = first[-1:], second[-1:]
    ours, theirs = ([_cells(run) for run in side] for side in (first, second))
    insist_on_figures(asked.figures, [*first, *second])
    several = len(ours) + len(theirs) > 2  # noqa: PLR2004 - as above
    here, there = (dict(chain.from_iterable(of.items() for of in side)) for side in (ours, theirs))
    shared = [key for key in here if key in there]
    fact_differences = differences(first[-1].facts, second[-1].facts)
    sides = (first, second)
    names = names or side_names(sides)
    if not shared:
        where = _where(ours, theirs)
        a, b = ([*dict.fromkeys(mode for run in side for mode in run.modes)] for side in sides)
        can = a and b and not set(a) & set(b)
        match = f", or match their modes with --match-modes: {', '.join(a)} and {', '.join(b)}" if can else ""
        raise InputError(
            f"{names[0]} and {names[1]} have no cell in common",
            remedy=f"compare runs of the same experiment{where and f' ({where})'}{match}",
        )
    own = own_words(cell.cell for cell in (*here.values(), *there.values()))
    if several:
        design = RunOrder.RUNS
        order = {at: place for place, at in enumerate(sorted(_begun(of) for of in (*ours, *theirs)))}
        places = [[order[_begun(of)] for of in side] for side in (ours, theirs)]
        pairs = [p for key in shared for p in _pairs_of_runs(key, (ours, theirs), places, asked, own)]
    else:
        cells = [(here[key], there[key]) for key in shared]
        design = RunOrder.ROUNDS if _have_rounds(first[0], second[0], cells) else _design(RunOrder.INTERLEAVED, cells)
        pairs = [p for a, b in cells for p in _pairs(a, b, design, asked, own)]
        if design is RunOrder.ROUNDS and (alone := sum(_alone(a, b) for a, b in cells)):
            faults.append(f"{alone} results were measured in a round in which the other run has none, and are left out")
    _insist_on_pairs(pairs, f"{names[0]} and {names[1]}", [*here.values(), *there.values()])
    comparisons = compare(pairs, margin=asked.margin, least=asked.least)
    return ComparedPair(
        first=names[0],
        second=names[1],
        design=design,
        comparisons=comparisons,
        together=together(comparisons),
        only_first=_labels({key: of.cell for key, of in here.items()}, there.keys(), own),
        only_second=_labels({key: of.cell for key, of in there.items()}, here.keys(), own),
        differences=fact_differences,
        faults=tuple(faults),
        count_changes=_count_changes(_records(first), _records(second), comparisons),
        runs=(tuple(run.name for run in first), tuple(run.name for run in second)),
    )


def keys_by_label(runs: Sequence[ComparedRun]) -> dict[str, tuple[CellKey, str]]:
    """Return label → cell and name, for each cell of two runs; labels are those of compare_runs()."""
    cells = {key: cell for run in runs for key, cell in _cells(run).items()}
    own = own_words(cell.cell for cell in cells.values())
    return {_label(cell.cell, name, own): (key, name) for key, cell in cells.items() for name in (*cell.names, cell.cell.link_label)}


def compare_modes(run: ComparedRun, *, baseline: str | None = None, asked: CompareRequest | None = None) -> tuple[ComparedPair, ...]:
    """Compare every other mode of a run with `baseline` (default: the first measured mode), by the rule for answers.

    Holm's correction covers every two modes and levels of the run, for any baseline.

    Raises InputError for a baseline or a figure that the run lacks, cells without a figure to compare, or a single mode.
    """
    asked = asked or CompareRequest()
    insist_on_figures(asked.figures, (run,))
    modes = run.modes
    base = baseline or (modes[0] if modes else "")
    others = [m for m in modes if m != base]
    if base not in modes or not others:
        raise InputError(f"{run.name} has no two modes to compare{f' with {baseline}' if baseline else ''}",
                         remedy=f"its modes are {', '.join(modes) or 'none'}")  # fmt: skip
    every = _cells(run)
    cells = {m: {key_of(cell): cell for of in every.values() if of.cell.mode == m and (cell := without_mode(of.cell))} for m in modes}
    answer = decided(contests_of([every], asked, base=base), asked)
    of_mode = {m: between_modes(answer, every, base, m) for m in others}
    whole = overall_of(answer, every, [base, *others])
    _insist_on_pairs([c.pair for of in of_mode.values() for c in of], run.name, list(every.values()))
    own = own_words(cell for of in cells.values() for cell in of.values())
    return tuple(
        ComparedPair(
            first=base,
            second=m,
            design=_design_of(of_mode[m]),
            comparisons=of_mode[m],
            together=whole.get((base, m)),
            only_first=_labels(cells[base], cells[m].keys(), own),
            only_second=_labels(cells[m], cells[base].keys(), own),
            differences=(),
            faults=run.faults,
            count_changes=_count_changes(_records([run], base), _records([run], m), of_mode[m]),
        )
        for m in others
    )


def _count_changes(
    ours: Sequence[TrialRecord], theirs: Sequence[TrialRecord], comparisons: Sequence[Comparison]
) -> tuple[CountChange, ...]:
    measures = {figure_name(c.pair.figure).measure for c in comparisons}
    return changes_between(_versions(ours), _versions(theirs), measures, [r.cell.params for r in (*ours, *theirs)])


def _records(side: Sequence[ComparedRun], mode: str = "") -> list[TrialRecord]:
    """Return the records of one mode, or of all modes if `mode` is empty."""
    return [r for run in side for r in run.records if mode in ("", r.cell.mode)]


def _versions(records: Sequence[TrialRecord]) -> set[str]:
    return {of for r in records if (of := r.tool_facts.get("iperf3_version") or r.tool_facts.get("iperf3"))}


def _design_of(comparisons: Sequence[Comparison]) -> RunOrder:
    """Return the weakest design of the comparisons."""
    return max((c.pair.design for c in comparisons), key=lambda design: design.least, default=RunOrder.IN_TURN)


_Cells = dict[CellKey, CellFigures]


def _cells(run: ComparedRun) -> _Cells:
    return _by_size(cells_of(run.records))


def _by_size(cells: _Cells) -> _Cells:
    return dict(sorted(cells.items(), key=lambda item: _size_first(item[1].cell)))


def _begun(cells: _Cells) -> tuple[Any, ...]:
    """Return the start of a run's first trial, and an id that distinguishes runs with the same start."""
    return (min((c.records[0].started for c in cells.values()), default=None), id(cells))


def _design(turns: RunOrder, cells: Sequence[tuple[CellFigures, CellFigures]]) -> RunOrder:
    """Return `turns` if both sides took turns in time, else ONE_AFTER_THE_OTHER."""
    moments = [([r.started for r in a.records], [r.started for r in b.records]) for a, b in cells]
    return turns if in_turn(moments) else RunOrder.ONE_AFTER_THE_OTHER


def _have_rounds(first: ComparedRun, second: ComparedRun, cells: Sequence[tuple[CellFigures, CellFigures]]) -> bool:
    """Return whether two runs took turns in a random order, and most of their values have a partner in the same round."""
    turns, others = Turns.of(first.facts), Turns.of(second.facts)
    if turns is None or others is None or not turns.is_interleaved_with(others):
        return False
    return 2 * sum(_alone(a, b) for a, b in cells) < sum(len(of.records) for pair in cells for of in pair)


def _alone(first: CellFigures, second: CellFigures) -> int:
    """Return the number of records of both that have no partner in a round."""
    paired = _neighbours([(r.started, r.cell.repeat) for r in first.records], [(r.started, r.cell.repeat) for r in second.records])
    return len(first.records) + len(second.records) - 2 * len(paired)


def _in_rounds(first: Sequence[CellFigure], second: Sequence[CellFigure]) -> tuple[tuple[CellFigure, ...], tuple[CellFigure, ...]]:
    """Return the figures of each side that have a partner, round by round."""
    paired = _neighbours([(r.started, r.repeat) for r in first], [(r.started, r.repeat) for r in second])
    ours, theirs = ({r.repeat: r for r in side} for side in (first, second))
    return tuple(ours[n] for n in paired), tuple(theirs[n] for n in paired)


def _neighbours(first: Sequence[tuple[datetime, int]], second: Sequence[tuple[datetime, int]]) -> list[int]:
    """Return the repeats that both sides measured one directly after the other; a trial repeated later or alone is not included."""
    order = sorted([*((at, repeat, 0) for at, repeat in first), *((at, repeat, 1) for at, repeat in second)])
    return sorted(a[1] for a, b in pairwise(order) if a[1] == b[1] and a[2] != b[2])


def _pairs(first: CellFigures, second: CellFigures, design: RunOrder, asked: CompareRequest, own: OwnWords) -> list[Pair]:
    """Return a pair for each figure and direction that either side has."""
    out = []
    for name, figure in compared_by([first, second], asked.figures):
        a, b = first.readings(name, figure), second.readings(name, figure)
        if design is RunOrder.ROUNDS:
            a, b = _in_rounds(a, b)
        out.append(
            Pair(
                label=_label(first.cell, name, own),
                figure=figure,
                first=tuple(r.value for r in a),
                second=tuple(r.value for r in b),
                design=design,
                first_at=tuple(r.repeat for r in a),
                second_at=tuple(r.repeat for r in b),
                whole=name in {first.names[0], second.names[0]},
                better=asked.side_of(figure),
                at_least=(any(r.at_least for r in a), any(r.at_least for r in b)),
                disturbed=(sum(r.disturbed for r in a), sum(r.disturbed for r in b)),
            )
        )
    return out


def _pairs_of_runs(
    key: CellKey, sides: Sequence[Sequence[_Cells]], places: Sequence[Sequence[int]], asked: CompareRequest, own: OwnWords
) -> list[Pair]:
    """Return pairs in which each run is one value: the median of its repeats."""
    have = [[(of[key], place) for of, place in zip(side, at, strict=True) if key in of] for side, at in zip(sides, places, strict=True)]
    cells = [cell for side in have for cell, _ in side]
    out = []
    for name, figure in compared_by(cells, asked.figures):
        values, at = list[tuple[float, ...]](), list[tuple[int, ...]]()
        for side in have:
            medians = [(median([r.value for r in readings]), place) for cell, place in side if (readings := cell.readings(name, figure))]
            values.append(tuple(v for v, _ in medians))
            at.append(tuple(place for _, place in medians))
        label, whole = _label(cells[0].cell, name, own), name == cells[0].names[0]
        bounds = [any(r.at_least for cell, _ in side for r in cell.readings(name, figure)) for side in have]
        pair = Pair(label, figure, values[0], values[1], RunOrder.RUNS, at[0], at[1], whole, asked.side_of(figure), (bounds[0], bounds[1]))
        out.append(pair)
    return out


def _where(ours: Sequence[Mapping[CellKey, CellFigures]], theirs: Sequence[Mapping[CellKey, CellFigures]]) -> str:
    """Return why two sides have no cell in common: their workloads, else the settings in which no two of their cells agree."""
    sides = [[cell.cell for of in side for cell in of.values()] for side in (ours, theirs)]
    kinds = [", ".join(dict.fromkeys(cell.workload for cell in side)) for side in sides]
    if kinds[0] != kinds[1] or not kinds[0]:
        return f"workloads with results: {kinds[0] or 'none'} and {kinds[1] or 'none'}"
    asked = [[{**cell.factors, **cell.params, "link": cell.link_label} for cell in side] for side in sides]
    names = [name for name in dict.fromkeys(chain.from_iterable(chain(*asked))) if name != "mode"]
    values = {name: [list(dict.fromkeys(_plain(of[name]) for of in side if name in of)) for side in asked] for name in names}
    apart = [(name, a, b) for name, (a, b) in values.items() if not set(a) & set(b)]
    return "; ".join(f"{name}: {', '.join(a) or 'not stated'} and {', '.join(b) or 'not stated'}" for name, a, b in apart[:_MOST_REASONS])


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def insist_on_figures(figures: Sequence[str], runs: Sequence[ComparedRun]) -> None:
    """Raise InputError for a figure that no run has."""
    if not figures:
        return
    known = figure_names(chain.from_iterable(cells_of(run.records).values() for run in runs))
    if absent := [figure for figure in figures if figure not in known]:
        message = f"{' and '.join(dict.fromkeys(run.name for run in runs))}: no {', '.join(absent)}"
        raise InputError(message, remedy=f"there are {', '.join(known) or 'no figures'}")


def _insist_on_pairs(pairs: Sequence[Pair], of: str, cells: Sequence[CellFigures]) -> None:
    if not pairs:
        known = figure_names(cells)
        raise InputError(
            f"{of}: no cell has a figure that cells are compared by",
            remedy=f"name one with --figure: {', '.join(known)}" if known else "no trial has a result; `dutlab report` has the reason",
        )
    insist_on_directions(pairs)


def _label(cell: Cell, name: str, own: OwnWords) -> str:
    size = cell.setting.size
    words = cell_label(cell.mode, cell.factors, cell.workload, size, name_words(name, cell.links, cell.workload))
    return " · ".join(filter(None, (words, own.get(key_of(cell), ""))))


def _labels(of: Mapping[CellKey, Cell], without: Collection[CellKey], own: OwnWords) -> tuple[str, ...]:
    """Return the labels of cells that the other side does not have."""
    return tuple(_label(cell, cell.link_label, own) for key, cell in of.items() if key not in without)


def _size_first(cell: Cell) -> tuple[str, str, tuple[str, ...], float, str]:
    size = cell.setting.size
    return (cell.mode, cell.workload, cell.links, float(size) if size.isdigit() else float("inf"), size)
