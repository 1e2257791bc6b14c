"""Which trials of a plan are needed: all of them, or, under a rule for repeats, those that the rule has not made needless.

What the rule says follows from the plan and the records alone, so a run that goes on, its report and the index all come to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from dutlab.analysis.compare import main_figures
from dutlab.analysis.repeats import RepeatRule, decide
from dutlab.plan.cell import Cell
from dutlab.spec.experiment import RepeatUntil
from dutlab.store.record import TrialRecord


def planned_cells(plan: Mapping[str, Any]) -> dict[int, Cell]:
    """Trial → cell, of what plan.json holds. Entries that are none are left out: the records speak for themselves."""
    out: dict[int, Cell] = {}
    trials = plan.get("trials")
    for entry in trials if isinstance(trials, list) else ():
        try:
            out[int(entry["number"])] = Cell.model_validate(entry["cell"])
        except (KeyError, TypeError, ValueError, ValidationError):
            continue
    return out


def repeat_rule(plan: Mapping[str, Any]) -> RepeatRule | None:
    """The rule of a plan.json; None where every planned repeat is done."""
    try:
        return RepeatUntil.model_validate(found).rule if (found := plan.get("repeat_rule")) else None
    except ValueError:
        return None


def needed_cells(plan: Mapping[str, Any], records: Iterable[TrialRecord]) -> dict[int, Cell]:
    """Trial → cell, without the trials that the plan's rule has made needless."""
    planned, rule = planned_cells(plan), repeat_rule(plan)
    out = frozenset[int]() if rule is None else needless(planned, records, rule)
    return {n: cell for n, cell in planned.items() if n not in out}


def needless(planned: Mapping[int, Cell], records: Iterable[TrialRecord], rule: RepeatRule) -> frozenset[int]:
    """Trials without a record, of cells whose repeats were as close as `rule` wants once; they are judged by their main figure.

    A trial without a result decides nothing.
    """
    done = {r.trial: r for r in records}
    by_cell: dict[str, list[int]] = {}
    for number, cell in planned.items():
        by_cell.setdefault(cell.model_copy(update={"repeat": 0}).model_dump_json(), []).append(number)
    out = set[int]()
    for numbers in by_cell.values():
        values = [v for n in sorted(numbers) if n in done and (v := _value(done[n])) is not None]
        if any(decide(values[:k], rule).reached for k in range(1, len(values) + 1)):
            out.update(n for n in numbers if n not in done)
    return frozenset(out)


def _value(record: TrialRecord) -> float | None:
    figures = record.figures.get(record.cell.link_label, {}) if record.status == "measured" else {}
    return next((figures[name] for name in main_figures(figures)), None)
