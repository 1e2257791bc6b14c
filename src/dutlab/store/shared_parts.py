"""Parts that many records of a run have in common, each held once: a run of 20,000 trials then fits into memory.

Repeats have the same doubts, checks and versions of tools. Of each record these are most of the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from dutlab.plan.cell import Cell
from dutlab.store.record import TrialRecord

T = TypeVar("T")


_WRITTEN, _CELL_WRITTEN = set(TrialRecord.model_fields), set(Cell.model_fields)
"""The fields that pydantic takes to be set: those of each record take 2 kB."""


class SharedParts:
    """The parts of the records of one run."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def of(self, record: TrialRecord) -> TrialRecord:
        """The same record, made of parts that are held already where there are equal ones."""
        cell = record.cell
        parts = {
            "cell": self._cell(cell),
            "doubts": [self._one(doubt, lambda d: tuple(vars(d).values())) for doubt in record.doubts],
            "checks": self._one(record.checks, repr),
            "tool_facts": self._one(record.tool_facts, _items),
            "raw": self._one(record.raw, tuple),
            "notes": self._one(record.notes, tuple),
            "ceilings": self._one(record.ceilings, repr),
        }
        return TrialRecord.model_construct(_WRITTEN, **{**vars(record), **parts})

    def _cell(self, cell: Cell) -> Cell:
        """The cell of a record; its setting is one object already (spec/workloads)."""
        parts = {"factors": self._one(cell.factors, _items), "links": self._one(cell.links, tuple)}
        return Cell.model_construct(_CELL_WRITTEN, **{**vars(cell), **parts})

    def _one(self, part: T, key: Callable[[T], Hashable]) -> T:
        found: T = self._known.setdefault((type(part), key(part)), part)
        return found


def _items(of: dict[str, str]) -> Hashable:
    return tuple(of.items())
