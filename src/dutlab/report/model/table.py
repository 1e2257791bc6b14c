"""Model of a report's tables: columns with unit and better direction, rows with their subject, doubts and shading.

HTML, Markdown, CSV, JSON and the terminal render this model. They add no content.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import groupby
from typing import Literal, Self

from dutlab.measures import BIT_RATES, Better, measure_unit
from dutlab.report.model.words import MBPS, Unit, better_of, bit_rate_unit, chosen_rate, grouped, unit_for, with_two_digits
from dutlab.subject import apart, subject_of


@dataclass(frozen=True)
class Figure:
    """A median over repeats. `low`, `high` are the 95 % interval where one exists (`interval`), else the whole range."""

    median: float
    low: float
    high: float
    interval: bool
    n: int
    planned: int
    trials: tuple[int, ...]
    marks: tuple[int, ...] = ()
    """Numbers of the notes about this figure."""
    severe: bool = False
    published: str = ""
    """Digits of an imported figure as published, in a unit of `published_scale` base units."""
    published_scale: float = 0.0
    link: str = ""
    """Link of the figure in the trial records; empty if it is computed from several links."""
    at_least: bool = False
    """True if the figure is a lower bound: some trials found no upper limit."""
    disturbed: bool = False
    """True if other work disturbed one of its trials."""

    def published_in(self, scale: float) -> str:
        """Return its published digits in a unit of `scale` base units; empty without such digits, or if the units differ in kind."""
        if not self.published:
            return ""
        shift = math.log10(self.published_scale / scale)
        if not math.isclose(shift, round(shift), abs_tol=1e-9):
            return ""
        own = Decimal(self.published)
        places = -int(own.as_tuple().exponent) - round(shift)
        return f"{own.scaleb(round(shift)):.{max(0, places)}f}"

    @property
    def relative_spread(self) -> float:
        """(high - low) / median, 0 for a median of 0."""
        return (self.high - self.low) / abs(self.median) if self.median else 0.0


@dataclass(frozen=True)
class Missing:
    """An empty cell, and the reason."""

    why: str
    trials: tuple[int, ...] = ()
    greyed: Figure | None = None
    """Figure from disturbed trials: shown less prominently, and not used for any median or verdict."""


Value = Figure | Missing


Cell = Value | float | str
"""A figure, or the reason for its absence; a computed number (a ceiling, a share), in base units; or text."""


class Links(str):
    """Text of a cell that consists of links: to quoted paths relative to the run's folder, or to a `#place` of the page."""

    __slots__ = ("links",)
    links: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, links: Sequence[tuple[str, str]]) -> Self:
        """Make a cell from (text, file or #place) of each link."""
        result = cls(" ".join(words for words, _ in links))
        result.links = tuple(links)
        return result


@dataclass(frozen=True)
class Column:
    """A column: figures of one name, or text if `figure` is empty."""

    head: str
    """Column head without the unit."""
    figure: str = ""
    """Name of the figure; it ends in its unit."""
    unit: Unit | None = None
    """Printed unit of the figures; None: chosen by their name and size."""
    name: str = ""
    """Column name in tables for programs, if it differs from `figure`."""
    group: str = ""
    """Common head above this column and its neighbours of the same group."""
    align: Literal["left", "right"] = "left"
    """Alignment of text; figures and numbers are always aligned right."""
    spread: bool = True
    """True if the spread of repeats is printed."""
    shown: bool = True
    """True if the column is printed; otherwise it is only in CSV, JSON and plots."""
    links: tuple[str, ...] = ()
    """Links that were driven at once, if the column and not the row determines them."""
    link: str = ""
    """Link of the figures, or the sum `a+b`, if the column determines it."""
    size: str = ""
    """Frame size, if the column determines it."""
    coded: bool = False
    """True if the column has a few fixed words, each with a colour."""
    better: Better = ""
    """Better direction; empty: as declared for the figure."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "better", self.better or better_of(self.figure))

    @property
    def numeric(self) -> bool:
        """True if the column is aligned right."""
        return bool(self.figure or self.unit) or self.align == "right"

    @property
    def sum(self) -> bool:
        """True if its figures are the sum over everything driven at once: links, and both directions of a link."""
        return len(apart(self.link)) > 1 and subject_of(self.link).places == self.links


@dataclass(frozen=True)
class Row:
    """A row, and its subject in the experiment."""

    label: str
    """One of the run's labels; empty for a row without one, such as a ceiling."""
    cells: tuple[Cell, ...]
    links: str = ""
    link: str = ""
    size: str = ""
    """Frame size, or the name of a mix."""
    ceilings: tuple[float | None, ...] = ()
    """Ceiling of each cell; empty without ceilings."""
    head: str = ""
    """Text in place of an empty label."""
    broken: bool = False
    """True if the row is printed as with a severe doubt."""
    alike: bool = False
    """True if all cells but the first are the same, so that a page can merge them."""

    @property
    def marks(self) -> tuple[int, ...]:
        """Numbers of the notes about any of its figures."""
        return tuple(sorted({mark for cell in self.cells if isinstance(cell, Figure) for mark in cell.marks}))

    @property
    def severe(self) -> bool:
        """True if one of its figures has a severe doubt."""
        return any(isinstance(cell, Figure) and cell.severe for cell in self.cells)

    @property
    def trials(self) -> tuple[int, ...]:
        """Numbers of the trials of its figures and of its missing figures."""
        return tuple(dict.fromkeys(t for cell in self.cells if isinstance(cell, Figure | Missing) for t in cell.trials))


@dataclass(frozen=True)
class Table:
    """A table of a report."""

    slug: str
    """Name for file names and programs, unique in the run."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    common_marks: tuple[int, ...] = ()
    """Numbers of the notes about every figure of the table."""
    asked: str = ""
    """Settings as text: `4 streams, 30 s`."""
    notes: tuple[str, ...] = ()
    """Notes below the table."""
    first: str = "mode"
    """Head of the column of labels; empty for a table without one."""
    shaded: bool = False
    """True for a heat map: each cell is shaded by its figure ÷ the largest figure, in the colour of its direction."""
    darkest: float | None = None
    """Figure with the darkest shade, if it is in another table."""
    marked: Literal["figures", "rows"] = "figures"
    """Place of the note numbers: next to each figure, or once per row."""
    again: bool = False
    """True if the table repeats figures of another table; programs read only that other table."""
    judged: bool = False
    """True if each row names its limit."""
    folded: bool = False
    """True if the table is hidden until the reader unfolds it."""

    @cached_property
    def units(self) -> list[Unit]:
        """Units of the columns. All cells of a column share a unit. If the table has only one figure, all columns share it."""
        numbers = [[row.cells[i] for row in self.rows] for i in range(len(self.columns))]
        if self.same_figure:
            numbers = [[cell for of in numbers for cell in of]] * len(self.columns)
        return [c.unit or common_unit(c.figure, of) for c, of in zip(self.columns, numbers, strict=True)]

    @property
    def same_figure(self) -> bool:
        """True if two or more columns have figures, all of one name. Their unit is then only in the caption."""
        figures = [c.figure for c in self.columns if c.figure and c.shown]
        return len(figures) > 1 and len(set(figures)) == 1

    @property
    def caption(self) -> str:
        """Caption, as `TCP goodput, Gb/s: 4 streams, 30 s`."""
        unit = next(u.name for c, u in zip(self.columns, self.units, strict=True) if c.figure) if self.same_figure else ""
        return f"{self.title}{f', {unit}' if unit else ''}{f': {self.asked}' if self.asked else ''}"

    @property
    def shown(self) -> list[int]:
        """Indices of the printed columns."""
        return [i for i, c in enumerate(self.columns) if c.shown]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Group heads, each with its number of columns; empty without groups."""
        heads = [(words, len(list(same))) for words, same in groupby(self.columns[i].group for i in self.shown)]
        return heads if any(words for words, _ in heads) else []

    def head(self, i: int, *, flat: bool = False) -> str:
        """Return a column's head, as `offered, kpps`; with `flat` including its group: `latency: p50, µs`."""
        column = self.columns[i]
        has_unit = column.figure and not self.same_figure
        own = ", ".join(filter(None, (column.head, self.units[i].name if has_unit else "")))
        return f"{column.group}: {own}" if flat and column.group else own

    def gap(self, row: Row) -> int | None:
        """Return the printed column from which on all cells are missing for one reason, so that a page prints it once; else None."""
        cells = [row.cells[i] for i in self.shown]
        first = next((n for n, cell in enumerate(cells) if isinstance(cell, Missing)), None)
        if first is None or first == len(cells) - 1:
            return None
        rest = {cell.why if isinstance(cell, Missing) and cell.greyed is None else cell for cell in cells[first:] if cell != ""}
        return first if len(rest) == 1 else None

    def shade_percent(self, cell: Cell) -> int:
        """Return the shading of a cell in percent; 0 without shading."""
        if not self.shaded or not isinstance(cell, Figure):
            return 0
        most = self.darkest or max(c.median for row in self.rows for c in row.cells if isinstance(c, Figure))
        return round(100 * cell.median / most) if most > 0 else 0


def without_empty(table: Table) -> Table:
    """Hide columns without any figure, if other columns have figures, and name them below the table."""
    cells = [[row.cells[i] for row in table.rows] for i in range(len(table.columns))]
    why = {i: {c.why if isinstance(c, Missing) else "" for c in of} for i, of in enumerate(cells) if table.columns[i].shown}
    empty = {i: words for i, reasons in why.items() if len(reasons) == 1 and (words := next(iter(reasons)))}
    if not empty or table.same_figure or not any(isinstance(c, Figure) for i in why for c in cells[i]):
        return table
    groups: dict[str, list[str]] = {}
    for i, words in empty.items():
        column = table.columns[i]
        groups.setdefault(words, []).append(f"{column.group}: {column.head}" if column.group else column.head)
    parts = (f"{', '.join(heads)} ({words})" for words, heads in groups.items())
    note = f"In no row: {'; '.join(parts)}."
    columns = tuple(replace(c, shown=False) if i in empty else c for i, c in enumerate(table.columns))
    return replace(table, columns=columns, notes=(*table.notes, note))


def word_table(head: Sequence[str], rows: Iterable[Sequence[Cell]], *, title: str = "", right: Collection[int] = ()) -> Table:
    """Return a table of text under `head`, without a column of labels. Columns in `right` are aligned right."""
    columns = tuple(Column(words, align="right" if n in right else "left") for n, words in enumerate(head))
    return Table("", title, columns, tuple(Row("", tuple(cells)) for cells in rows), first="")


def number_text(cell: Figure | float, unit: Unit) -> str:
    """Return a number as text, in its published digits if it has any in this unit. A lower bound is written `≥ 171.5`."""
    if isinstance(cell, Figure):
        number = grouped(cell.published_in(unit.scale)) or _rounded_to_spread(cell, cell.median, unit)
        return f"≥ {number}" if cell.at_least else number
    return unit.number(cell) if not cell or round(cell / unit.scale, unit.digits) else with_two_digits(unit, cell).number(cell)


def figure_text(cell: Figure | float, unit: Unit) -> str:
    """Return number_text() with the unit, so that sentences and tables have the same text."""
    return f"{number_text(cell, unit)} {unit.name}".strip()


def spread_text(cell: Cell, unit: Unit) -> str:
    """Return the spread of repeats, as `8.61–9.02`; empty without repeats."""
    if not isinstance(cell, Figure) or cell.n == 1:
        return ""
    return f"{_rounded_to_spread(cell, cell.low, unit)}–{_rounded_to_spread(cell, cell.high, unit)}"


def _rounded_to_spread(cell: Figure, value: float, unit: Unit) -> str:
    """Return the median or an end with the digits that the spread of repeats allows, but at least two significant ones.

    Values of the same size have the same digits, so the printed interval contains the printed median.
    """
    return with_two_digits(_to_spread(cell, unit), value).number(value)


def _to_spread(cell: Figure, unit: Unit) -> Unit:
    """Return the unit with the digits that half the spread allows: two significant digits of it if it begins with 1, else one."""
    half = (cell.high - cell.low) / 2 / unit.scale
    if cell.n == 1 or half <= 0:
        return unit
    place = math.floor(math.log10(half))
    digits = -place + (1 if half < 2 * 10.0**place else 0)
    return replace(unit, digits=min(unit.digits, digits))


def common_unit(figure: str, cells: Sequence[Cell]) -> Unit:
    """Return a common unit for `cells`. For bit rates that were all published in Mb/s it is Mb/s, else it suits their size."""
    cells = [cell.greyed if isinstance(cell, Missing) and cell.greyed is not None else cell for cell in cells]
    if measure_unit(figure) not in BIT_RATES:
        return unit_for(figure, [cell.median if isinstance(cell, Figure) else cell for cell in cells if isinstance(cell, Figure | float)])
    figures = [cell for cell in cells if isinstance(cell, Figure)]
    published = {cell.published_scale for cell in figures if cell.published}
    return MBPS if published == {MBPS.scale} and chosen_rate() is None else bit_rate_unit([cell.median for cell in figures])
