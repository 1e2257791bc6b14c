"""Trials of a test of the DUT's state (flows, connections): requested and observed values, and the counters that increased."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dutlab.report.model.figures import figure_of
from dutlab.report.model.groups import Group
from dutlab.report.model.table import Column, Table, Value

Head = tuple[str, str]
"""Head of a column, and the name in the record's table."""


def rows_of(table: str, group: Group) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (trial number, row)."""
    for record in group.measured:
        for row in record.tables.get(table, ()):
            yield record.trial, row


def trials_table(table: str, title: str, groups: Sequence[Group], heads: Callable[[Mapping[str, None]], Sequence[Head]]) -> Table | None:
    """Return a table with a row per trial; None without trials. `heads` gets the names with a non-zero value, in the record's order."""
    trials = [(g, trial, row) for g in groups for trial, row in rows_of(table, g)]
    if not trials:
        return None
    named = heads(dict.fromkeys(name for _, _, row in trials for name in row if row[name]))
    rows = [
        group.row((group.cell.link_label, *(_value(trial, row.get(name)) for _, name in named)), link=group.cell.link_label)
        for group, trial, row in trials
    ]
    columns = (Column("link"), *(Column(head, name) for head, name in named))
    return Table(table.replace("_", "-"), title, columns, tuple(rows))


def _value(trial: int, value: Any) -> Value | str:  # noqa: ANN401 a record's tables hold numbers and words
    return figure_of({trial: float(value)}, 1) if isinstance(value, int | float) else "–"


def notes_of(groups: Sequence[Group]) -> Iterator[str]:
    """Yield the notes of trials, each once per cell."""
    for group in groups:
        for note in dict.fromkeys(note for r in group.measured for note in r.notes):
            yield f"{group.label}, link {group.cell.link_label}: {note}."
