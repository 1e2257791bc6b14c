"""A table that a method has the report print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from dutlab.report.model.value import Figure, Value


class Links(str):
    """Words of a cell that are links to files, which are relative to the run's folder and quoted."""

    __slots__ = ("links",)
    links: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, links: Sequence[tuple[str, str]]) -> Self:
        """(words, file) of each."""
        made = cls(" ".join(words for words, _ in links))
        made.links = tuple(links)
        return made


@dataclass(frozen=True)
class GridColumn:
    """A column of a grid: figures of one name, which ends in their unit, or words where `figure` is empty."""

    head: str
    figure: str = ""


@dataclass(frozen=True)
class GridRow:
    """A row of a grid, and what of the experiment it is about."""

    label: str
    """One of the run's labels; empty for a row about none, as a ceiling."""
    cells: tuple[Value | str, ...]
    links: str = ""
    link: str = ""
    size: str = ""
    """Frame size, or the name of a mix."""
    ceilings: tuple[float | None, ...] = ()
    """Of each cell, or none at all."""


@dataclass(frozen=True)
class Grid:
    """A table that a method has the report print."""

    slug: str
    """Its name in file names and programs, unique in the run."""
    caption: str
    columns: tuple[GridColumn, ...]
    rows: tuple[GridRow, ...]
    common_marks: tuple[int, ...] = ()
    """Notes that touch every figure here."""
    shaded: Literal["no", "by-value"] = "no"
    """A heat map: each figure's field is shaded by its share of the largest."""
    folded: bool = False
    """Shown only to who asks for it."""

    def shade_percent(self, value: Value | str) -> int:
        """How strongly a field is shaded; 0 where it is not."""
        if self.shaded == "no" or not isinstance(value, Figure):
            return 0
        most = max(cell.median for row in self.rows for cell in row.cells if isinstance(cell, Figure))
        return round(100 * value.median / most) if most > 0 else 0
