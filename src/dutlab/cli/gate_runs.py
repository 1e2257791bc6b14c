"""Runs of a gate: both versions, by counts one after the other or by time in rounds, and second measurements of worse results."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dutlab.cli.loop import run_in_order
from dutlab.cli.manner import CommonOptions
from dutlab.cli.userns import become_root
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.analysis.comparison import Pair
    from dutlab.analysis.gate import CellName, GateCell
    from dutlab.analysis.verdict import CheckKind
    from dutlab.report.questions.gated import GatePart, MeasuredSides
    from dutlab.runner.execution import RunOptions
    from dutlab.runner.progress import RunResult
    from dutlab.runner.run import Work
    from dutlab.stats.functions import FunctionChange

_AGAIN_FRAMES = 2
"""Factor of frames with which a worse cell is counted again."""
Works = Sequence["Work"]


@dataclass
class GateRuns:
    """Runs of one gate, and their verdicts."""

    runs: Path
    allowed: float
    time_allowed: float
    budget_s: float
    """Longest time of measurements by time, in seconds."""
    engine: Path = Path()
    _made: list[Path] = field(default_factory=list)
    _grown: dict[str, tuple[FunctionChange, ...]] = field(default_factory=dict)
    """Label → functions that take more instructions in the newer version, from the second count."""

    def counted(self, works: Works) -> GatePart:
        """Compare by counts, which need only one trial a cell. Raises as runner.run does."""
        from dutlab.analysis.gate import gate_counts

        sides = self.sides(self._one_after_the_other(works))
        cells = gate_counts(sides.pairs, lambda names: self._again(works, sides, names), self.allowed)
        return self._part("instructions", cells, self.allowed, sides)

    def timed(self, works: Works) -> GatePart:
        """Compare by figures that have an error, in rounds. Raises as runner.run does."""
        from dutlab.analysis.gate import gate_rounds

        measure = _Rounds(self, works)
        cells = gate_rounds(measure, self.time_allowed)
        return self._part("time", cells, self.time_allowed, measure.first)

    def of_runs(self, paths: Sequence[Path]) -> list[GatePart]:
        """Compare two existing runs, and measure worse cells again by the runs' plans. Raises as runner.run does."""
        from dutlab.analysis.gate import gate_counts, gate_rounds
        from dutlab.measures import is_exact
        from dutlab.report.questions.sides import require_different_runs
        from dutlab.runner.repeat import to_repeat

        require_different_runs(paths)
        works = [to_repeat(path, testbed=None, trusted=False) for path in paths]
        sides = self.sides(paths)
        counts, rest = ([p for p in sides.pairs if is_exact(p.figure) is exact] for exact in (True, False))
        parts: list[GatePart] = []
        if counts or not rest:
            cells = gate_counts(counts, lambda names: self._again(works, sides, names), self.allowed)
            parts.append(self._part("instructions", cells, self.allowed, sides))
        if rest:
            cells = gate_rounds(_Rounds(self, works, sides), self.time_allowed, begun=rest)
            parts.append(self._part("time", cells, self.time_allowed, sides))
        return parts

    def again(self, paths: Sequence[Path], least: Mapping[CellName, float]) -> dict[CellName, CheckKind]:
        """Measure again the results in `least` of two runs, and return verdicts for changes above it. Results without one are left out."""
        from dutlab.analysis.gate import ALLOWED_BY_LEAST, of_counts, remeasure_by_rounds
        from dutlab.measures import is_exact
        from dutlab.runner.repeat import to_repeat

        works = [to_repeat(path, testbed=None, trusted=False) for path in paths]
        sides = self.sides(paths)
        kinds: dict[CellName, CheckKind] = {}
        counts = [name for name in least if is_exact(name[1])]
        if counts:
            cells = [of_counts(pair, least.get((pair.label, pair.figure), 0.0)) for pair in self._again(works, sides, counts)]
            kinds |= {c.name: c.kind for c in cells}
        if rest := [name for name in least if name not in counts]:
            allowed = ALLOWED_BY_LEAST * max(least[name] for name in rest)
            kinds |= {c.name: c.kind for c in remeasure_by_rounds(_Rounds(self, works, sides), rest, allowed)}
        return kinds

    def options(self, budget_s: float | None = None) -> RunOptions:
        """Return the options of each run."""
        from dutlab.runner.execution import RunOptions

        return RunOptions(self.runs, self.engine, ("dutlab", *sys.argv[1:]), unattended=True, budget_s=budget_s)

    def made(self, folders: Sequence[Path]) -> Sequence[Path]:
        """Add runs for the report, and return them."""
        self._made += folders
        return folders

    def _one_after_the_other(self, works: Works) -> Sequence[Path]:
        from dutlab.runner.run import carry_out_work

        async def both() -> list[Path]:
            names = ("older: ", "newer: ")
            return [
                (await carry_out_work(work, self.options(), CommonOptions().console(name))).folder
                for name, work in zip(names, works, strict=True)
            ]

        return self.made(run_in_order(both()))

    def _again(self, works: Works, sides: MeasuredSides, names: Collection[CellName]) -> Sequence[Pair]:
        """Count the cells again with more frames."""
        from dutlab.report.questions.function_changes import function_changes
        from dutlab.report.questions.gated import called_as
        from dutlab.runner.narrowed import narrowed, with_more_frames
        from dutlab.stats.functions import grown

        keys = sides.keys_of(names)
        few = [narrowed(work, keys) for work in works]
        more = [with_more_frames(work, _AGAIN_FRAMES) for work in few]
        folders = self._one_after_the_other(more)
        second = self.sides(folders)
        called, changed = labels(few[0], more[0], sides, second), function_changes(*folders)
        self._grown |= {called.get(label, label): grown(changed[key]) for label, (key, _) in second.keys.items() if key in changed}
        return called_as(second.pairs, called)

    def sides(self, folders: Sequence[Path]) -> MeasuredSides:
        from dutlab.report.model.contests import CompareRequest
        from dutlab.report.questions.gated import measured_sides
        from dutlab.report.questions.sides import of_any_kernel, open_run

        older, newer = (of_any_kernel(open_run(folder)) for folder in folders)
        return measured_sides(older, newer, CompareRequest())

    def _part(self, what: str, cells: Sequence[GateCell], allowed: float, sides: MeasuredSides | None) -> GatePart:
        from dutlab.analysis.verdict import CheckKind
        from dutlab.report.questions.gated import GatePart
        from dutlab.report.write import report_finished

        report_finished(self._made)
        runs, self._made = tuple(map(str, self._made)), []
        absent, failures = (sides.absent, sides.failures) if sides is not None else ((), ())
        functions = tuple((c.label, changes) for c in cells if c.kind is CheckKind.FAIL and (changes := self._grown.get(c.label)))
        return GatePart(what, (*cells, *absent), allowed, failures, runs, functions if what == "instructions" else ())


def measured_again(paths: Sequence[Path], least: Mapping[CellName, float], within_s: float, runs: Path) -> dict[CellName, CheckKind]:
    """Measure an older and a newer run again, in folder `runs`, for the results in `least`; return verdicts for changes above it."""
    from dutlab.runner.recovery import builds_lab
    from dutlab.tools.engine.binary import find_engine

    if any(builds_lab(path) for path in paths):
        become_root()
    return GateRuns(runs, 0.0, 0.0, within_s, find_engine()).again(paths, least)


def labels(was: Work, now: Work, first: MeasuredSides, second: MeasuredSides) -> dict[str, str]:
    """Return label in the second measurement → label in the first. The trials of both have the same order."""
    from dutlab.runner.narrowed import keys_of

    old = {
        new: old
        for a, b in zip(was.plan.trials, now.plan.trials, strict=True)
        for old, new in zip(keys_of(a.cell), keys_of(b.cell), strict=True)
    }
    called = {place: label for label, place in first.keys.items()}
    return {label: called[old.get(key, key), name] for label, (key, name) in second.keys.items() if (old.get(key, key), name) in called}


class _Rounds:
    """Measurement of both versions in rounds, within one budget."""

    def __init__(self, of: GateRuns, works: Works, sides: MeasuredSides | None = None) -> None:
        self._of, self._works, self.first = of, works, sides
        self._ends = time.monotonic() + of.budget_s

    def __call__(self, names: Collection[CellName], enough: Callable[[Sequence[Pair]], bool]) -> Sequence[Pair]:
        """Measure rounds of the cells in `names`, or of all, until `enough`."""
        from dutlab.report.questions.gated import called_as
        from dutlab.runner.narrowed import narrowed

        works = self._works
        if names and self.first is not None:
            works = [narrowed(work, self.first.keys_of(names)) for work in works]
        left = self._ends - time.monotonic()
        if left <= 0:
            return ()
        done = run_in_order(self._measured(works, left, enough))
        folders = self._of.made([result.folder for result in done])
        sides = self._of.sides(folders)
        if self.first is None:
            self.first = sides
            return sides.pairs
        return called_as(sides.pairs, labels(works[0], works[0], self.first, sides))

    async def _measured(self, works: Works, left: float, enough: Callable[[Sequence[Pair]], bool]) -> Sequence[RunResult]:
        """Measure both versions alternately; build the lab once if both use the same."""
        from dutlab import labs
        from dutlab.runner.in_turn import run_in_turn

        async def measured(options: RunOptions) -> Sequence[RunResult]:
            return await run_in_turn(
                works,
                options,
                lambda place: CommonOptions().console(("older: ", "newer: ")[place]),
                enough=lambda of: enough(self._pairs(of)),
            )

        options, names = self._of.options(left), {work.testbed.lab for work in works}
        if len(names) > 1 or (name := next(iter(names))) is None:
            return await measured(options)
        async with labs.used(name) as lab:
            return await measured(replace(options, standing_lab=lab.label))

    def _pairs(self, folders: Sequence[Path]) -> Sequence[Pair]:
        """Return the pairs of results so far; none before both versions have a result."""
        try:
            return self._of.sides(folders).pairs
        except InputError:
            return ()
