"""What commands of the user's own did: each step of each host with its status and its time."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.figures import figure_of
from dutlab.report.grid import Grid, GridColumn, GridRow
from dutlab.report.groups import Group
from dutlab.report.model import Section
from dutlab.report.notes import NoteBook
from dutlab.report.value import Missing, Value
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder

_Key = tuple[str, ...]
_Row = dict[str, int | float | str | None]
_STARTS = (
    GridColumn("host"),
    GridColumn("phase"),
    GridColumn("no sooner than", "earliest_ns"),
    GridColumn("no later than", "latest_ns"),
    GridColumn("its clock was ahead by", "clock_ahead_ns"),
    GridColumn("known within", "clock_error_ns"),
)


def section(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """One row a step and mode; times are medians over trials."""
    del run, labels, book
    rows = [row for g in groups for row in _rows(g)]
    columns = (
        GridColumn("host"),
        GridColumn("phase"),
        GridColumn("step"),
        GridColumn("command"),
        GridColumn("ended with"),
        GridColumn("took", "duration_s"),
    )
    failed = dict.fromkeys(note for g in groups for r in g.records for note in r.notes)
    return Section(
        slug="steps",
        workload="steps",
        title="Steps",
        lead="Commands in four phases. Hosts begin a phase together; the steps of a host follow one another.",
        grids=(
            Grid("steps", "Each step, and how it ended", columns, tuple(rows)),
            Grid("starts", "When each host began, after the instant agreed on", _STARTS, tuple(row for g in groups for row in _starts(g))),
        ),
        words=tuple(failed) or (("Every step did what it was asked for.",) if rows else ()),
    )


def _rows(group: Group) -> list[GridRow]:
    found = _table(group, "steps", ("host", "phase", "step", "command"))
    return [GridRow(group.label, (*key, _ends(rows), _median(rows, "duration_s"))) for key, rows in found.items()]


def _starts(group: Group) -> list[GridRow]:
    found = _table(group, "starts", ("host", "phase"))
    return [GridRow(group.label, (*key, *(_median(rows, c.figure) for c in _STARTS if c.figure))) for key, rows in found.items()]


def _table(group: Group, name: str, keys: Sequence[str]) -> dict[_Key, list[tuple[TrialRecord, _Row]]]:
    """Rows of all trials that name the same thing."""
    found: dict[_Key, list[tuple[TrialRecord, _Row]]] = {}
    for record in group.records:
        for row in record.tables.get(name, ()):
            found.setdefault(tuple(str(row[key]) for key in keys), []).append((record, row))
    return found


def _ends(rows: Sequence[tuple[TrialRecord, _Row]]) -> str:
    said = dict.fromkeys(str(row["why"] or f"{row['status']}") for _, row in rows)
    return "; ".join(said)


def _median(rows: Sequence[tuple[TrialRecord, _Row]], column: str) -> Value:
    known = {record.trial: float(value) for record, row in rows if (value := row[column]) is not None}
    return figure_of(known, len(rows)) if known else Missing("not told", tuple(record.trial for record, _ in rows))
