"""The path MTU of each link, hop by hop."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.grid import Grid, GridColumn, GridRow
from dutlab.report.groups import Group
from dutlab.report.model import Section
from dutlab.report.notes import NoteBook
from dutlab.report.value import Figure, Missing, Value
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder

_FIGURES = ("path_mtu_bytes", "payload_bytes")


def section(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """One row a mode, link, sender and hop; where repeats differ, the least that was found."""
    del run, labels, book
    columns = (
        GridColumn("link"),
        GridColumn("from"),
        GridColumn("to"),
        GridColumn("MTU, bytes", _FIGURES[0]),
        GridColumn("payload, bytes", _FIGURES[1]),
    )
    rows = tuple(row for g in groups for row in _rows(g))
    return Section(
        slug="path-mtu",
        workload="path-mtu",
        title="Path MTU",
        lead="The largest IP packet that reaches each hop whole, by pings that may not be fragmented, and the payload of such a ping.",
        grids=(Grid("path-mtu", "Path MTU by hop", columns, rows),),
        words=tuple(
            dict.fromkeys(
                [*(note for g in groups for r in g.records for note in r.notes), *(said for g in groups for said in _least_words(g))]
            )
        ),
    )


def _rows(group: Group) -> list[GridRow]:
    found: dict[tuple[str, str, str], list[tuple[TrialRecord, dict[str, int | float | str | None]]]] = {}
    for record in group.measured:
        for row in record.tables.get("path_mtu", ()):
            found.setdefault((str(row["link"]), str(row["from"]), str(row["to"])), []).append((record, row))
    if not found:
        missing = Missing(group.why_missing, tuple(group.planned))
        return [GridRow(group.label, (group.cell.link_label, "", "", missing, missing))]
    return [GridRow(group.label, (*key, *(_least(rows, figure, group) for figure in _FIGURES)), link=key[0]) for key, rows in found.items()]


def _least(rows: Sequence[tuple[TrialRecord, dict[str, int | float | str | None]]], figure: str, group: Group) -> Value:
    values = [float(row[figure] or 0) for _, row in rows]
    trials = tuple(record.trial for record, _ in rows)
    return Figure(min(values), min(values), max(values), interval=False, n=len(values), planned=len(group.planned), trials=trials)


def _least_words(group: Group) -> list[str]:
    """What each link carries whole, in a sentence."""
    least = {link: min(r.figures[link][_FIGURES[0]] for r in group.measured) for link in (group.cell.links if group.measured else ())}
    return [f"{group.label}: link {link} carries packets of up to {mtu:.0f} bytes whole." for link, mtu in least.items()]
