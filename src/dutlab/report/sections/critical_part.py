"""Part of a soak's section on its critical rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.table import Column, Row, Table
from dutlab.spec.workloads.soak import SoakSetting

LEAD = (
    "The critical rate of a link is the rate at which the DUT is expected to lose just the target share. Its interval is a 95 % credible "
    "interval; the scatter of the trials about the curve is estimated from the trials."
)
_COLUMNS = (
    ("target", "target_loss_ratio"),
    ("critical rate", "critical_pps"),
    ("at least", "critical_low_pps"),
    ("at most", "critical_high_pps"),
    ("by stretch", "stretch/critical_pps"),
    ("by erf", "erf/critical_pps"),
    ("trials", "trials"),
)
_LINES = (("offered", "intended_pps"), ("critical rate", "critical_pps"), ("at least", "low_pps"), ("at most", "high_pps"))


def seeks_rate(group: Group) -> bool:
    """Return whether the cell is a search for the critical rate, not one rate for hours."""
    return group.cell.setting_as(SoakSetting).target_loss_percent is not None


def table(groups: Sequence[Group], book: NoteBook) -> Table:
    """Return the table: a row per mode, frame size and set of links."""
    rows = []
    for g in groups:
        size, links = g.cell.setting.size, g.cell.link_label
        cells = (size, links, *(value_of(g, links, figure, book) for _, figure in _COLUMNS))
        rows.append(Row(g.label, cells, links=links, link=links, size=size))
    columns = (Column("frames"), Column("links"), *(Column(head, figure) for head, figure in _COLUMNS))
    return book.table("soak-critical", "Critical rate of each link", columns, rows)


def curves(group: Group) -> Iterator[Curve]:
    """Yield the curve of the estimate over the trials, for the first repeat."""
    record = next((r for r in group.measured if r.tables.get("critical")), None)
    if record is None:
        return
    rows = record.tables["critical"]
    yield Curve(
        slug=f"soak-{group.planned[0]}-critical",
        title=f"Critical rate of {group.cell.setting.size}, {group.label}",
        x_title="trial",
        x="trial",
        y_title="rate of each link",
        y="critical_pps",
        lines=tuple(
            Line(
                words,
                tuple((float(row["trial"] or 0.0), float(row[name] or 0.0)) for row in rows),
                role="asked" if name == "intended_pps" else "found",
            )
            for words, name in _LINES
        ),
        note="" if len(group.measured) == 1 else f"The first of {len(group.measured)} repeats is drawn.",
    )
