"""What commands of the user's own did: each step of each host with its status and its time."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.figures import figure_of
from dutlab.report.groups import Group
from dutlab.report.model import Grid, GridColumn, GridRow, Missing, Section, Value
from dutlab.report.notes import NoteBook
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder

_Key = tuple[str, str, str, str]


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
        grids=(Grid("steps", "Each step, and how it ended", columns, tuple(rows)),),
        words=tuple(failed),
    )


def _rows(group: Group) -> list[GridRow]:
    found: dict[_Key, list[tuple[TrialRecord, dict[str, int | float | str | None]]]] = {}
    for record in group.records:
        for row in record.tables.get("steps", ()):
            found.setdefault((str(row["host"]), str(row["phase"]), str(row["step"]), str(row["command"])), []).append((record, row))
    return [GridRow(group.label, (*key, _ends(rows), _took(rows))) for key, rows in found.items()]


def _ends(rows: Sequence[tuple[TrialRecord, dict[str, int | float | str | None]]]) -> str:
    said = dict.fromkeys(str(row["why"] or f"{row['status']}") for _, row in rows)
    return "; ".join(said)


def _took(rows: Sequence[tuple[TrialRecord, dict[str, int | float | str | None]]]) -> Value:
    known = {record.trial: float(took) for record, row in rows if (took := row["duration_s"]) is not None}
    return figure_of(known, len(rows)) if known else Missing("not told", tuple(record.trial for record, _ in rows))
