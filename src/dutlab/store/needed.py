"""Trials of a plan that are needed: all, or those that the rule for repeats has not made needless.

The result depends only on the plan and the records, so a resumed run, its report and the index agree.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from dutlab.plan.cell import Cell
from dutlab.spec.repeats import RepeatUntil
from dutlab.stats.repeats import RepeatRule, decide
from dutlab.store.cell_figures import CellFigures, counts
from dutlab.store.record import TrialRecord
from dutlab.store.record_reader import of_repeat
from dutlab.workloads import main_figures


def planned_cells(plan: Mapping[str, Any]) -> dict[int, Cell]:
    """Return trial → cell of a plan.json. Invalid entries are left out, because records have their own cells."""
    out, known = dict[int, Cell](), dict[str, Cell]()
    trials = plan.get("trials")
    for entry in trials if isinstance(trials, list) else ():
        try:
            cell, repeat = entry["cell"], entry["cell"]["repeat"]
            text = repr({**cell, "repeat": None})
            if type(repeat) is not int or text not in known:  # all repeats of a cell are equal in the rest
                known[text] = Cell.model_validate(cell)
                repeat = known[text].repeat
            out[int(entry["number"])] = of_repeat(known[text], repeat)
        except (KeyError, TypeError, ValueError, ValidationError):
            continue
    return out


def repeat_rule(plan: Mapping[str, Any]) -> RepeatRule | None:
    """Return the rule for repeats of a plan.json; None if every planned repeat is done."""
    try:
        return RepeatUntil.model_validate(entry).rule if (entry := plan.get("repeat_rule")) else None
    except ValueError:
        return None


def needed_cells(plan: Mapping[str, Any], records: Iterable[TrialRecord]) -> dict[int, Cell]:
    """Return trial → cell, without the trials that the plan's rule has made needless."""
    planned, rule = planned_cells(plan), repeat_rule(plan)
    out = frozenset[int]() if rule is None else needless(planned, records, rule)
    return {n: cell for n, cell in planned.items() if n not in out}


def count_needed(plan: Mapping[str, Any], records: Sequence[TrialRecord]) -> int:
    """Return the number of needed_cells(). Without a rule for repeats, the entries of the plan are only counted."""
    if repeat_rule(plan) is not None:
        return len(needed_cells(plan, records))
    trials = plan.get("trials")
    return sum(isinstance(entry, Mapping) and "cell" in entry for entry in trials) if isinstance(trials, list) else 0


class Repeats:
    """Rule for repeats, applied to records as they come in: each once, in any order.

    Cells are judged by their main figure. A trial without a result has no influence.
    """

    def __init__(self, planned: Mapping[int, Cell], records: Iterable[TrialRecord], rule: RepeatRule) -> None:
        by_cell: dict[str, _Repeated] = {}
        self._of: dict[int, _Repeated] = {}
        for number, cell in sorted(planned.items()):
            key = cell.model_copy(update={"repeat": 0}).model_dump_json()
            self._of[number] = by_cell.setdefault(key, _Repeated(rule))
        self._done = set[int]()
        for record in records:
            self.add(record)

    def add(self, record: TrialRecord) -> None:
        """Add the record of a trial."""
        self._done.add(record.trial)
        value = _value(record)
        if value is not None and record.trial in self._of:
            self._of[record.trial].add(record.trial, value)

    def set_aside(self, trial: int) -> None:
        """Remove a trial whose record does not count any more."""
        self._done.discard(trial)
        if trial in self._of:
            self._of[trial].remove(trial)

    def needless(self, trial: int) -> bool:
        """Return whether `trial` has no record, and its cell's repeats were as close as the rule requires."""
        return trial not in self._done and self._of[trial].close_from is not None


@dataclass
class _Repeated:
    """Results of one cell, in the order of their trials."""

    rule: RepeatRule
    trials: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    close_from: int | None = None
    """Smallest number of first results that were as close as the rule requires; None if they never were."""

    def add(self, trial: int, value: float) -> None:
        at = bisect(self.trials, trial)
        self.trials.insert(at, trial)
        self.values.insert(at, value)
        self._changed(at)

    def remove(self, trial: int) -> None:
        if trial in self.trials:
            at = self.trials.index(trial)
            del self.trials[at], self.values[at]
            self._changed(at)

    def _changed(self, at: int) -> None:
        if self.close_from is None or self.close_from > at:  # the first close_from results have not changed otherwise
            longer = range(at + 1, len(self.values) + 1)
            self.close_from = next((k for k in longer if decide(self.values[:k], self.rule).reached), None)


def needless(planned: Mapping[int, Cell], records: Iterable[TrialRecord], rule: RepeatRule) -> frozenset[int]:
    """Return the trials without a record whose cells' repeats were as close as `rule` requires."""
    repeats = Repeats(planned, records, rule)
    return frozenset(n for n in planned if repeats.needless(n))


def _value(record: TrialRecord) -> float | None:
    if not counts(record) or not record.figures:
        return None
    figures = record.figures[CellFigures(record.cell, (record,)).names[0]]
    return next((figures[name] for name in main_figures(record.cell.workload, figures)), None)
