"""The one table of a report: columns with their unit and direction, rows with what they are about, doubts, what is shaded.

HTML, Markdown, CSV, JSON and the terminal write it down; none of them decides what it says.
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
from dutlab.report.model.words import MBPS, Unit, better_of, bit_rate_unit, grouped, unit_for, with_two_digits
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
    """Numbers of the notes that touch it."""
    severe: bool = False
    published: str = ""
    """Digits of a figure that was imported once, as printed in a unit of so many base units."""
    published_scale: float = 0.0
    link: str = ""
    """The link under which the records of its trials have it; empty for what is worked out from several."""
    at_least: bool = False
    """A bound: no trial, or not every one, came to a value that is too much, so it is so much or more."""
    disturbed: bool = False
    """Other work disturbed a trial of it."""

    def published_in(self, scale: float) -> str:
        """Its own digits in a table whose unit is `scale` base units; empty where it has none, or was printed in a unit of another kind."""
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
    """A place without a figure, and why."""

    why: str
    trials: tuple[int, ...] = ()
    greyed: Figure | None = None
    """Figure of trials that other work disturbed: shown with less weight, and part of no median or verdict."""


Value = Figure | Missing


Cell = Value | float | str
"""A figure or why there is none; a number that was not measured (a ceiling, a share), in base units; or words."""


class Links(str):
    """Words of a cell that are links: to files, relative to the run's folder and quoted, or to a `#place` of the page."""

    __slots__ = ("links",)
    links: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, links: Sequence[tuple[str, str]]) -> Self:
        """(words, file or #place) of each."""
        result = cls(" ".join(words for words, _ in links))
        result.links = tuple(links)
        return result


@dataclass(frozen=True)
class Column:
    """A column: figures of one name, or words where `figure` is empty."""

    head: str
    """Without the unit."""
    figure: str = ""
    """Its name ends in its unit."""
    unit: Unit | None = None
    """In which its figures are printed; None for the one that follows from their name and size."""
    name: str = ""
    """In tables for programs, where it differs from `figure`."""
    group: str = ""
    """A head above this column and its neighbours of the same group."""
    align: Literal["left", "right"] = "left"
    """Alignment of words; numbers are aligned right, as figures are."""
    spread: bool = True
    """The spread of repeats is printed."""
    shown: bool = True
    """In print; otherwise only in CSV, JSON and plots."""
    links: tuple[str, ...] = ()
    """Subject of its figures, where the rows do not say it: the links that were driven at once, …"""
    link: str = ""
    """… the one of them, or their sum `a+b`, …"""
    size: str = ""
    """… and the frame size."""
    coded: bool = False
    """Its words are few, and each has a colour."""
    better: Better = ""
    """Better direction; empty: as declared for the figure."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "better", self.better or better_of(self.figure))

    @property
    def numeric(self) -> bool:
        """It goes to the right."""
        return bool(self.figure or self.unit) or self.align == "right"

    @property
    def sum(self) -> bool:
        """All that was driven at once, added up: links, and both directions of a link."""
        return len(apart(self.link)) > 1 and subject_of(self.link).places == self.links


@dataclass(frozen=True)
class Row:
    """A row, and what of the experiment it is about."""

    label: str
    """One of the run's labels; empty for a row about none, as a ceiling."""
    cells: tuple[Cell, ...]
    links: str = ""
    link: str = ""
    size: str = ""
    """Frame size, or the name of a mix."""
    ceilings: tuple[float | None, ...] = ()
    """Ceiling of each cell; empty without ceilings."""
    head: str = ""
    """Said in the place of the label where there is none."""
    broken: bool = False
    """Printed as what a severe doubt touches."""
    alike: bool = False
    """All cells but the first say the same, which a page can say once."""

    @property
    def marks(self) -> tuple[int, ...]:
        """Numbers of the notes that touch any of its figures."""
        return tuple(sorted({mark for cell in self.cells if isinstance(cell, Figure) for mark in cell.marks}))

    @property
    def severe(self) -> bool:
        """A severe doubt touches one of its figures."""
        return any(isinstance(cell, Figure) and cell.severe for cell in self.cells)

    @property
    def trials(self) -> tuple[int, ...]:
        """Behind any of its figures, or of those that should be there."""
        return tuple(dict.fromkeys(t for cell in self.cells if isinstance(cell, Figure | Missing) for t in cell.trials))


@dataclass(frozen=True)
class Table:
    """A table that a report prints."""

    slug: str
    """Its name in file names and programs, unique in the run."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    common_marks: tuple[int, ...] = ()
    """Notes that touch every figure here."""
    asked: str = ""
    """Request, in words: `4 streams, 30 s`."""
    notes: tuple[str, ...] = ()
    """Said below it."""
    first: str = "mode"
    """Head of the column of labels; empty for a table without one."""
    shaded: bool = False
    """A heat map: each figure's field is shaded by its share of the largest, in the colour of its direction."""
    darkest: float | None = None
    """The figure that is shaded most, where it is in another table."""
    marked: Literal["figures", "rows"] = "figures"
    """Place of the numbers of doubts: next to each figure, or once a row."""
    again: bool = False
    """It shows once more what another table of the run holds, which programs read."""
    judged: bool = False
    """Each row names what limited it."""
    folded: bool = False
    """Shown only to who asks for it."""

    @cached_property
    def units(self) -> list[Unit]:
        """Units of the columns. Bit rates of one column share a unit, and so do columns of one figure if there is no other."""
        numbers = [[row.cells[i] for row in self.rows] for i in range(len(self.columns))]
        if self.same_figure:
            numbers = [[cell for of in numbers for cell in of]] * len(self.columns)
        return [c.unit or common_unit(c.figure, of) for c, of in zip(self.columns, numbers, strict=True)]

    @property
    def same_figure(self) -> bool:
        """All columns of figures, two or more, are of one figure: its unit is said once."""
        figures = [c.figure for c in self.columns if c.figure and c.shown]
        return len(figures) > 1 and len(set(figures)) == 1

    @property
    def caption(self) -> str:
        """`TCP goodput, Gb/s: 4 streams, 30 s`."""
        unit = next(u.name for c, u in zip(self.columns, self.units, strict=True) if c.figure) if self.same_figure else ""
        return f"{self.title}{f', {unit}' if unit else ''}{f': {self.asked}' if self.asked else ''}"

    @property
    def shown(self) -> list[int]:
        """Places of the columns that are printed."""
        return [i for i, c in enumerate(self.columns) if c.shown]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The upper heads and how many columns each is above; empty where there are none."""
        heads = [(words, len(list(same))) for words, same in groupby(self.columns[i].group for i in self.shown)]
        return heads if any(words for words, _ in heads) else []

    def head(self, i: int, *, flat: bool = False) -> str:
        """`offered, kpps`; where all heads are in one line, with its group: `latency: p50, µs`."""
        column = self.columns[i]
        has_unit = column.figure and not self.same_figure
        own = ", ".join(filter(None, (column.head, self.units[i].name if has_unit else "")))
        return f"{column.group}: {own}" if flat and column.group else own

    def gap(self, row: Row) -> int | None:
        """From which printed place on the row has one reason why there is nothing, which is then said once."""
        cells = [row.cells[i] for i in self.shown]
        first = next((n for n, cell in enumerate(cells) if isinstance(cell, Missing)), None)
        if first is None or first == len(cells) - 1:
            return None
        rest = {cell.why if isinstance(cell, Missing) and cell.greyed is None else cell for cell in cells[first:] if cell != ""}
        return first if len(rest) == 1 else None

    def shade_percent(self, cell: Cell) -> int:
        """Return how strongly a field is shaded, in percent; 0 where it is not."""
        if not self.shaded or not isinstance(cell, Figure):
            return 0
        most = self.darkest or max(c.median for row in self.rows for c in row.cells if isinstance(c, Figure))
        return round(100 * cell.median / most) if most > 0 else 0


def without_empty(table: Table) -> Table:
    """Remove columns without any figure, where others have some, and name them below the table."""
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
    """A table of words under `head`, which says nothing of modes; columns numbered in `right` go to the right."""
    columns = tuple(Column(words, align="right" if n in right else "left") for n, words in enumerate(head))
    return Table("", title, columns, tuple(Row("", tuple(cells)) for cells in rows), first="")


def number_text(cell: Figure | float, unit: Unit) -> str:
    """A figure in its own digits where it was published in this unit; a bound is said as one, `≥ 171.5`."""
    if isinstance(cell, Figure):
        number = grouped(cell.published_in(unit.scale)) or _in_its_digits(cell, cell.median, unit)
        return f"≥ {number}" if cell.at_least else number
    return unit.number(cell) if not cell or round(cell / unit.scale, unit.digits) else with_two_digits(unit, cell).number(cell)


def figure_text(cell: Figure | float, unit: Unit) -> str:
    """number_text() with the unit: in a sentence as in its table."""
    return f"{number_text(cell, unit)} {unit.name}".strip()


def spread_text(cell: Cell, unit: Unit) -> str:
    """`8.61–9.02`, where there are repeats."""
    if not isinstance(cell, Figure) or cell.n == 1:
        return ""
    return f"{_in_its_digits(cell, cell.low, unit)}–{_in_its_digits(cell, cell.high, unit)}"


def _in_its_digits(cell: Figure, value: float, unit: Unit) -> str:
    """The median or an end, to the digits that the spread of repeats leaves, and to two significant ones at least.

    The digits of a value depend on its size alone, so the interval that is printed holds the median that is printed.
    """
    return with_two_digits(_to_spread(cell, unit), value).number(value)


def _to_spread(cell: Figure, unit: Unit) -> Unit:
    """Return the unit with the digits that the spread of repeats leaves: two of the spread's where its half begins with 1, else one."""
    half = (cell.high - cell.low) / 2 / unit.scale
    if cell.n == 1 or half <= 0:
        return unit
    place = math.floor(math.log10(half))
    digits = -place + (1 if half < 2 * 10.0**place else 0)
    return replace(unit, digits=min(unit.digits, digits))


def common_unit(figure: str, cells: Sequence[Cell]) -> Unit:
    """The unit of `cells` together: of bit rates the one that all were published in; else, as of frame rates, one that suits them."""
    cells = [cell.greyed if isinstance(cell, Missing) and cell.greyed is not None else cell for cell in cells]
    if measure_unit(figure) not in BIT_RATES:
        return unit_for(figure, [cell.median if isinstance(cell, Figure) else cell for cell in cells if isinstance(cell, Figure | float)])
    figures = [cell for cell in cells if isinstance(cell, Figure)]
    published = {cell.published_scale for cell in figures if cell.published}
    return MBPS if published == {MBPS.scale} else bit_rate_unit([cell.median for cell in figures])
