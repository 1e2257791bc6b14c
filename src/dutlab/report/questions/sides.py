"""Sides of a comparison: their runs, their names, and modes renamed to match the other side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dutlab.errors import InputError
from dutlab.plan.cell import Cell
from dutlab.printable import printable
from dutlab.spec.factors import VERSION
from dutlab.store.additions import attached_facts
from dutlab.store.cell_figures import key_of
from dutlab.store.needed import needed_cells
from dutlab.store.read import reading
from dutlab.store.record import TrialRecord
from dutlab.store.record_reader import FIGURES_ONLY
from dutlab.store.run_folder import RunFolder

_NAMED = 2
"""Largest number of runs of a side that are named one by one."""


@dataclass(frozen=True)
class ComparedRun:
    """One run, as data for comparisons."""

    name: str
    records: tuple[TrialRecord, ...]
    facts: Mapping[str, Any]
    """Experiment, testbed, hosts and tools, to find differences."""
    faults: tuple[str, ...] = ()
    """Parts that could not be read."""

    def named(self, part: str) -> str:
        """Return the name of its `experiment` or `testbed`; empty if the run does not have it."""
        entry = self.facts.get(part)
        return str(entry.get("name") or "") if isinstance(entry, Mapping) else ""

    @property
    def modes(self) -> tuple[str, ...]:
        """Measured modes, in the order of the experiment file."""
        return tuple(sorted(dict.fromkeys(r.cell.mode for r in self.records), key=lambda mode: mode_order(self, mode)))


def open_run(path: Path) -> ComparedRun:
    """Read a run, finished or not. Raises InputError if it is not a run, NewerRun, StoreError."""
    with reading(path):
        return _open_run(RunFolder.open(path))


def _open_run(run: RunFolder) -> ComparedRun:
    faults, tools = list[str](), dict[str, str]()
    records = list(run.readable_records(faults, without=FIGURES_ONLY))
    for record in records:
        tools |= record.tool_facts
    if short := len(needed_cells(run.plan, records)) - len(records):
        faults.append(f"{run.name}: {short} trials of the plan have no record that can be read")
    hosts = {name: {k: v for k, v in facts.items() if k != "host"} for name, facts in run.hosts().items()}
    attached = attached_facts(run.path, faults)
    facts = {**run.resolved, "hosts": hosts, "tools": tools, **({"attached": attached} if attached else {})}
    return ComparedRun(run.name, tuple(records), facts, tuple(faults))


def require_different_runs(runs: Sequence[Path]) -> None:
    """Raise InputError for a run that would be compared with itself."""
    if again := next((path for path, n in Counter(path.resolve() for path in runs).items() if n > 1), None):
        raise InputError(f"{printable(again.name)} is named twice", remedy="name two runs; one run alone compares its modes")


def side_names(sides: Sequence[Sequence[ComparedRun]]) -> list[str]:
    """Return names that distinguish the sides: of their experiments, else of their testbeds, else of their folders."""
    for part in ("experiment", "testbed"):
        names = [{run.named(part) for run in side} for side in sides]
        labels = [name for of in names for name in of if name]
        if len(labels) == len(set(labels)) == len(sides) == sum(map(len, names)):
            return [name if len(side) == 1 else f"{name} ({len(side)} runs)" for name, side in zip(labels, sides, strict=True)]
    return [folders(side) for side in sides]


def with_modes_renamed(runs: Sequence[ComparedRun], baselines: Sequence[ComparedRun], names: Mapping[str, str]) -> list[ComparedRun]:
    """Return `runs` with their modes renamed to those of `baselines`; `names` is baseline mode → mode of `runs`.

    Raises InputError for a mode that the side does not have, and for two modes of `runs` that would have one name.
    """
    for side, wanted in ((baselines, names.keys()), (runs, names.values())):
        known = list(dict.fromkeys(mode for run in side for mode in run.modes))
        if absent := [mode for mode in wanted if mode not in known]:
            raise InputError(f"{folders(side)}: no mode {', '.join(absent)}", remedy=f"there are {', '.join(known) or 'no modes'}")
    new = {theirs: ours for ours, theirs in names.items()}
    called = Counter(new.get(mode, mode) for mode in dict.fromkeys(mode for run in runs for mode in run.modes))
    if twice := [mode for mode, times in called.items() if times > 1] or [t for t, times in Counter(names.values()).items() if times > 1]:
        raise InputError(f"{folders(runs)}: two modes would be compared as one: {', '.join(twice)}", remedy="match each mode once")
    return [replace(run, records=tuple(_in_mode(r, new.get(r.cell.mode, r.cell.mode)) for r in run.records)) for run in runs]


def without_mode(cell: Cell) -> Cell:
    """Return the cell without its mode, so that modes of one run have cells in common."""
    return _without(cell, "mode", mode="")


def of_any_kernel(run: ComparedRun) -> ComparedRun:
    """Return a run of guests with a single kernel without that kernel, so that it has cells in common with runs of other kernels."""
    without = tuple(map(without_kernels, run.records))
    of_several = len({key_of(r.cell) for r in without}) < len({key_of(r.cell) for r in run.records})
    return run if of_several else replace(run, records=without)


def without_kernels(record: TrialRecord) -> TrialRecord:
    """Return a record without the kernel of its guest."""
    return record.model_copy(update={"cell": record.cell.model_copy(update={"setting": record.cell.setting.of_any_kernel})})


def without_version(record: TrialRecord) -> TrialRecord:
    """Return the record without its version."""
    return record.model_copy(update={"cell": _without(record.cell, VERSION)})


def _without(cell: Cell, factor: str, **more: str) -> Cell:
    factors = {name: level for name, level in cell.factors.items() if name != factor}
    return cell.model_copy(update={**more, "factors": factors})


def apart_by_version(sides: Sequence[Sequence[ComparedRun]]) -> tuple[list[list[ComparedRun]], list[str]] | None:
    """Return two sides without versions, and their versions, if each side measured one version and these differ; else None."""
    levels = [{record.cell.factors.get(VERSION, "") for run in side for record in run.records} for side in sides]
    versions = [level for of in levels if len(of) == 1 for level in of]
    if len(versions) != len(sides) or len(set(versions)) != len(sides) or not all(versions):
        return None
    bare = [[replace(run, records=tuple(map(without_version, run.records))) for run in side] for side in sides]
    return bare, versions


def mode_order(run: ComparedRun, mode: str) -> int:
    """Return the position of a mode in the experiment file; a mode that it does not name comes last."""
    experiment = run.facts.get("experiment")
    factors = experiment.get("factors") if isinstance(experiment, Mapping) else None
    named = factors.get("mode") if isinstance(factors, Mapping) else None
    modes = named if isinstance(named, list) else []
    return modes.index(mode) if mode in modes else len(modes)


def folders(side: Sequence[ComparedRun]) -> str:
    """Return the name of a side, made of its run folders."""
    return " and ".join(run.name for run in side) if len(side) <= _NAMED else f"{len(side)} runs up to {side[-1].name}"


def _in_mode(record: TrialRecord, mode: str) -> TrialRecord:
    factors = {**record.cell.factors, **({"mode": mode} if "mode" in record.cell.factors else {})}
    return record.model_copy(update={"cell": record.cell.model_copy(update={"mode": mode, "factors": factors})})
