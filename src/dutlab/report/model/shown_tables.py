"""Tables of a section as a page shows them: without tables that repeat the answer, and with long tables folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dutlab.report.model.table import Figure, Row, Table

if TYPE_CHECKING:
    from dutlab.report.model.run_report import RunReport, Section

MOST_OPEN_ROWS = 16
"""Largest number of rows of a table that is shown unfolded although its section is drawn as well."""
_MOST_REPEATED = 0.5
"""Share of a table's figures that are in the answer, above which the table is folded."""
_Key = tuple[str, str, tuple[int, ...], float]


def shown_tables(report: RunReport, section: Section) -> list[tuple[Table, bool]]:
    """Return (table, shown) for each table of a section. A table is not shown if the answer's tables have all that it has, except notes."""
    answered = {key for table in report.answer.tables for key in _keys(table)}
    texts = {text for table in report.answer.tables for row in table.rows for text in _texts(table, row)}
    drawn = bool(section.drawings or section.curves)
    return [_shown(table, answered, texts, drawn=drawn) for table in section.tables]


def _shown(table: Table, answered: set[_Key], texts: set[str], *, drawn: bool) -> tuple[Table, bool]:
    keys = list(_keys(table))
    repeated = sum(key in answered for key in keys)
    if keys and repeated == len(keys) and _is_redundant(table, texts):
        return table, False
    fold = bool(keys) and repeated > _MOST_REPEATED * len(keys)
    return (replace(table, folded=True) if fold or (drawn and len(table.rows) > MOST_OPEN_ROWS) else table), True


def _keys(table: Table) -> Iterator[_Key]:
    for row in table.rows:
        for i in table.shown:
            if isinstance(cell := row.cells[i], Figure):
                yield table.columns[i].figure, cell.link, cell.trials, cell.median


def _is_redundant(table: Table, texts: set[str]) -> bool:
    """Return whether the answer has all texts of the table as well, and the table has no computed numbers, such as ceilings."""
    cells = [row.cells[i] for row in table.rows for i in table.shown]
    return not any(isinstance(cell, float) for cell in cells) and all(cell in texts for cell in cells if isinstance(cell, str) and cell)


def _texts(table: Table, row: Row) -> Iterator[str]:
    yield from (row.size, row.links, row.link)
    yield from (cell for cell in row.cells if isinstance(cell, str))
    yield from (words for column in table.columns for words in (column.size, column.link))


def shared_marks(tables: Sequence[Table]) -> frozenset[int]:
    """Return the numbers of the notes that apply to every figure of all marked tables, so that a page states them once.

    Empty if only one table has marks. Tables of computed figures, such as frame loss by rate, have no marks.
    """
    marked = [t for t in tables if t.common_marks or any(row.marks for row in t.rows)]
    return frozenset(set.intersection(*(set(t.common_marks) for t in marked))) if len(marked) > 1 else frozenset()
