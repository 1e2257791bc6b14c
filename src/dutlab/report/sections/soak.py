"""Soak: amount and times of loss, and latency over the hours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group, trial_notes
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import COUNT, SECONDS
from dutlab.report.sections import critical_part, latency_times

_COLUMNS = (
    ("offered", "offered_pps"),
    ("received", "received_pps"),
    ("lost or not taken", "loss_ratio"),
    ("loss events", "loss_events"),
    ("longest clean", "longest_clean_s"),
    ("latency, median", "latency_p50_ns"),
    ("first tenth, mean", "latency_first_ns"),
    ("last tenth, mean", "latency_last_ns"),
)
_CURVES = (("loss", "lost, of what was offered", "loss_ratio"), ("latency", "mean latency", "latency_mean_ns"))
MOST_EVENTS = 50
_LEAD = "One rate for a long time. A loss event is a stretch of seconds in which frames were lost, or not taken by the DUT."


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section of results at one rate, and of critical rates."""
    sought, at_one_rate = [g for g in groups if critical_part.seeks_rate(g)], [g for g in groups if not critical_part.seeks_rate(g)]
    leads = [words for words, some in ((_LEAD, at_one_rate), (critical_part.LEAD, sought)) if some]
    return Section(
        slug="soak",
        workload="soak",
        title="Soak",
        lead=" ".join(leads),
        tables=(*(_held(at_one_rate, book) if at_one_rate else ()), *([critical_part.table(sought, book)] if sought else ())),
        curves=(*(curve for g in at_one_rate for curve in _curves(g)), *(curve for g in sought for curve in critical_part.curves(g))),
        words=(
            *trial_notes(groups),
            *latency_times.words(groups),
        ),
    )


def _held(groups: Sequence[Group], book: NoteBook) -> list[Table]:
    """Return tables with a row per mode, frame size and link, and of the loss events of every trial."""
    known = [c for c in _COLUMNS if any(c[1] in of for g in groups for r in g.measured for of in r.figures.values())] or _COLUMNS
    rows = [row for g in groups for row in _rows(g, [figure for _, figure in known], book)]
    columns = (Column("frames"), Column("link"), *(Column(head, figure) for head, figure in known))
    tables = [book.table("soak", "The whole time", columns, rows)]
    events = [row for g in groups for row in _events(g)]
    if events:
        heads = ("trial", "link", "from the first frame", "lasted", "frames lost")
        more = len(events) - MOST_EVENTS
        beyond = f"; {more} more are in the records" if more > 0 else ""
        caption = f"Seconds in which frames were lost{beyond}"
        tables.append(Table("soak-events", caption, tuple(Column(h) for h in heads), tuple(events[:MOST_EVENTS])))
    return tables


def _rows(group: Group, figures: Sequence[str], book: NoteBook) -> list[Row]:
    size = group.cell.setting.size
    return [
        group.row((size, link, *(value_of(group, link, figure, book) for figure in figures)), link=link, size=size)
        for link in group.cell.links
    ]


def _events(group: Group) -> list[Row]:
    return [
        group.row(
            (
                str(record.trial), str(row["link"]), *(SECONDS.text(float(row[name] or 0.0)) for name in ("at_s", "lasted_s")),
                COUNT.number(float(row["lost_frames"] or 0.0)),
            ),
            link=str(row["link"]),
        )
        for record in group.measured
        for row in record.tables.get("events", ())
    ]  # fmt: skip


def _curves(group: Group) -> Iterator[Curve]:
    """Yield curves of the first repeat, one line per link."""
    record = next((r for r in group.measured if r.tables.get("course")), None)
    for slug, words, figure in _CURVES if record else ():
        rows = [row for row in record.tables["course"] if row.get(figure) is not None] if record else []
        lines = [
            Line(link, tuple((float(r["at_s"] or 0.0), float(r[figure] or 0.0)) for r in rows if r["link"] == link))
            for link in group.cell.links
        ]
        if any(line.points for line in lines):
            yield Curve(
                slug=f"soak-{group.planned[0]}-{slug}",
                title=f"Soak of {group.cell.setting.size}, {group.label}: {slug}",
                x_title="after the first frame",
                x="at_s",
                y_title=words,
                y=figure,
                lines=tuple(lines),
                note="" if len(group.measured) == 1 else f"The first of {len(group.measured)} repeats is drawn.",
            )
