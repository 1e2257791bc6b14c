"""Datagrams of many lengths: received rates of each, and the length above which a datagram needs several packets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.figures import figure_of
from dutlab.report.model.groups import Group, trial_notes
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Missing, Row, Table, Value
from dutlab.spec.workloads.datagrams import DatagramsSetting

_FIGURES = (
    ("packets each", "packets_per_datagram"),
    ("offered", "offered_pps"),
    ("received", "received_pps"),
    ("goodput", "goodput_bps"),
    ("lost", "loss_ratio"),
)


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, link and length, and for each link a curve of the received rate over length."""
    columns = (Column("link"), Column("payload, bytes"), *(Column(head, figure) for head, figure in _FIGURES))
    notes = trial_notes(groups)
    return Section(
        slug="datagrams",
        workload="datagrams",
        title="Datagrams",
        lead=(
            "UDP from a socket of the source to one of the sink (iperf3 -u), one length after the other. Rates count datagrams; loss at "
            "full speed is mostly the receiving host's. The vertical line is where a datagram no longer fits into one packet of the path."
        ),
        tables=(Table("datagrams", "Datagrams by length", columns, tuple(row for g in groups for row in _rows(g))),),
        curves=tuple(
            curve for link in dict.fromkeys(link for g in groups for link in g.cell.links) for curve in _curve(groups, link, labels)
        ),
        words=tuple(notes),
    )


def _rows(group: Group) -> Iterator[Row]:
    for link in group.cell.links:
        for length in group.cell.setting_as(DatagramsSetting).lengths_bytes:
            values = (_value(group, link, length, figure) for _, figure in _FIGURES)
            yield group.row((link, str(length), *values), link=link, size=str(length))


def _value(group: Group, link: str, length: int, figure: str) -> Value:
    value_by_trial = {
        record.trial: float(row[figure] or 0.0)
        for record in group.measured
        for row in record.tables.get("lengths", ())
        if row["link"] == link and row["length_bytes"] == length
    }
    return figure_of(value_by_trial, len(group.planned)) if value_by_trial else Missing(group.why_missing, tuple(group.planned))


def _curve(groups: Sequence[Group], link: str, labels: Sequence[str]) -> Iterator[Curve]:
    """Yield the curve of the first repeat of each mode."""
    lines, limits = [], set()
    for group in (g for label in labels for g in groups if g.label == label and link in g.cell.links and g.measured):
        rows = [row for row in group.measured[0].tables.get("lengths", ()) if row["link"] == link]
        lines.append(Line(group.label, _points(rows, "received_pps")))
        lines.append(Line(f"{group.label}, offered", _points(rows, "offered_pps"), "asked"))
        limits.add(group.measured[0].figures.get(link, {}).get("whole_bytes"))
    if any(line.points for line in lines):
        yield Curve(
            slug=f"datagrams-{link}",
            title=f"Datagrams received by length, link {link}",
            x_title="payload of a datagram, bytes",
            x="length_bytes",
            y_title="datagrams",
            y="received_pps",
            lines=tuple(lines),
            moments=tuple(Moment(limit, f"whole up to {limit:.0f}") for limit in sorted(x for x in limits if x is not None)),
        )


def _points(rows: Sequence[Mapping[str, int | float | str | None]], figure: str) -> tuple[tuple[float, float], ...]:
    """Return points by ascending length."""
    return tuple(sorted((float(row["length_bytes"] or 0.0), float(row[figure] or 0.0)) for row in rows))
