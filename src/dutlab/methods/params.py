"""A cell's parameters as what they mean: what is missing, or is no such thing, is one error in the same words for every method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dutlab.errors import InputError
from dutlab.plan.cell import Cell

_T = TypeVar("_T")


@dataclass(frozen=True)
class Params:
    """Those of one cell. Every reading raises InputError, with the cell's workload and where it is described."""

    cell: Cell

    def one(self, name: str, kind: Callable[[str], _T]) -> _T:
        """What must be there: `kind` makes it of its text, and raises ValueError for what is none."""
        found = self.maybe(name, kind)
        if found is None:
            raise self._fault(f"{name} is missing")
        return found

    def maybe(self, name: str, kind: Callable[[str], _T]) -> _T | None:
        """What may be left out."""
        value = self.cell.params.get(name)
        try:
            return None if value is None else kind(str(value))
        except ValueError as e:
            raise self._fault(f"{name}: {e}") from e

    def each(self, name: str, kind: Callable[[str], _T]) -> tuple[_T, ...]:
        """A list by commas; left out it is empty."""
        return self.maybe(name, lambda text: tuple(kind(word) for word in text.split(",") if word)) or ()

    def _fault(self, what: str) -> InputError:
        workload = self.cell.workload
        return InputError(f"workload {workload} is not fully described: {what}", remedy=f"see `{workload}` in the reference")
