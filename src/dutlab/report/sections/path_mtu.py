"""Path MTU of each link, hop by hop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Figure, Missing, Row, Table, Value
from dutlab.store.record import TrialRecord

_FIGURES = ("path_mtu_bytes", "payload_bytes")


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, link, sender and hop; if repeats differ, the smallest MTU."""
    groups = sorted(groups, key=lambda g: (labels.index(g.label) if g.label in labels else len(labels), g.cell.link_label))
    columns = (
        Column("link"),
        Column("from"),
        Column("to"),
        Column("MTU", _FIGURES[0]),
        Column("payload, bytes", _FIGURES[1]),
        Column(""),
    )
    rows = tuple(row for g in groups for row in _rows(g))
    return Section(
        slug="path-mtu",
        workload="path-mtu",
        title="Path MTU",
        lead="The largest IP packet that reaches each hop unfragmented, by pings that forbid fragments, and the payload of such a ping.",
        tables=(Table("path-mtu", "Path MTU by hop", columns, rows),),
        words=tuple(
            dict.fromkeys(
                [
                    *(sentence for g in groups for sentence in _least_words(g)),
                    *(f"{g.label}: {n}." for g in groups for r in g.records for n in r.notes),
                ]
            )
        ),
    )


def _rows(group: Group) -> list[Row]:
    rows_by_key: dict[tuple[str, str, str], list[tuple[TrialRecord, dict[str, int | float | str | None]]]] = {}
    for record in group.measured:
        for row in record.tables.get("path_mtu", ()):
            rows_by_key.setdefault((str(row["link"]), str(row["from"]), str(row["to"])), []).append((record, row))
    if not rows_by_key:
        missing = Missing(group.why_missing, tuple(group.planned))
        return [Row(group.label, (group.cell.link_label, "", "", missing, missing, ""))]
    mtus = {key: min(float(row[_FIGURES[0]] or 0) for _, row in rows) for key, rows in rows_by_key.items()}
    return [
        Row(group.label, (*key, *(_least(rows, figure, group) for figure in _FIGURES), _narrow(key, mtus)), link=key[0])
        for key, rows in rows_by_key.items()
    ]


def _narrow(hop: tuple[str, str, str], mtus: Mapping[tuple[str, str, str], float]) -> str:
    """Return `the narrow hop` for the first hop with the smallest MTU of its link, if others carry more."""
    own = {key: mtu for key, mtu in mtus.items() if key[0] == hop[0]}
    least = min(own.values())
    return "the narrow hop" if max(own.values()) > least and hop == next(key for key, mtu in own.items() if mtu == least) else ""


def _least(rows: Sequence[tuple[TrialRecord, dict[str, int | float | str | None]]], figure: str, group: Group) -> Value:
    values = [float(row[figure] or 0) for _, row in rows]
    trials = tuple(record.trial for record, _ in rows)
    return Figure(min(values), min(values), max(values), interval=False, n=len(values), planned=len(group.planned), trials=trials)


def _least_words(group: Group) -> list[str]:
    """Return sentences on the largest packet of each link."""
    links = group.cell.links if group.measured else ()
    least = {link: [min(r.figures[link][figure] for r in group.measured) for figure in _FIGURES] for link in links}
    return [
        f"{group.label}: link {link} carries packets of up to {mtu:.0f} bytes whole, pings with {payload:.0f} bytes of payload."
        for link, (mtu, payload) in least.items()
    ]
