"""Failures of a path under load: loss of each flow, and the recovery times of the first and the last flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.methods.convergence import FAILURE, REVERSION
from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group, trial_notes
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Figure, Row, Table, Value
from dutlab.report.model.words import latency_text
from dutlab.spec.workloads.convergence import ConvergenceSetting
from dutlab.subject import part_figure

_LOSS = (
    ("shortest", "route_loss_min_ns"),
    ("median", "route_loss_p50_ns"),
    ("longest", "route_loss_max_ns"),
    ("all flows", "loss_derived_ns"),
    ("flows that lost frames", "affected_ratio"),
    ("frames lost", "lost_frames"),
    ("events without loss", "lossless_ratio"),
)
_TIMES = (
    ("loss begins", "loss_begins_ns"),
    ("first flow back", "first_route_ns"),
    ("all flows back", "full_convergence_ns"),
    ("true to within", "instant_error_ns"),
    ("all back, by rate", "full_rate_ns"),
    ("the command", "command_ns"),
)
_WORDS = {FAILURE: "fails", REVERSION: "comes back"}


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: tables of losses and of times with a row per mode, event and part; the rate around the first event of each."""
    resolution = _resolution(groups, book)
    return Section(
        slug="convergence",
        workload="convergence",
        title="Convergence",
        lead="Loss of connectivity of a flow is its lost frames ÷ its rate (RFC 6412 section 3.6.5)"
        f"{resolution and f', exact to the gap between two of its frames, {resolution}'}. Times are from the instant at which the event's "
        "command was given; by rate, they end with the last sample that lacks frames of a flow.",
        tables=(
            _table("convergence-loss", "Loss of connectivity", groups, _LOSS, book),
            _table("convergence-times", "Time since the event", groups, _TIMES, book),
        ),
        curves=tuple(curve for group in groups for curve in _curves(group)),
        words=tuple(trial_notes(groups)),
    )


def _event(group: Group) -> str:
    return group.cell.setting_as(ConvergenceSetting).event.name


def _resolution(groups: Sequence[Group], book: NoteBook) -> str:
    gaps = [value_of(g, g.cell.link_label, "resolution_ns", book) for g in groups]
    return latency_text(max(gap.median for gap in gaps if isinstance(gap, Figure))) if any(isinstance(gap, Figure) for gap in gaps) else ""


def _table(slug: str, title: str, groups: Sequence[Group], shown: Sequence[tuple[str, str]], book: NoteBook) -> Table:
    rows = [_row(group, part, shown, book) for group in groups for part in _WORDS]
    return book.table(slug, title, (*map(Column, ("event", "the path")), *(Column(*one) for one in shown)), rows)


def _row(group: Group, part: str, shown: Sequence[tuple[str, str]], book: NoteBook) -> Row:
    link = group.cell.link_label
    values: list[Value | str] = []
    for _, measure in shown:
        value = value_of(group, link, part_figure(part, measure), book)
        values.append(value if isinstance(value, Figure) or not group.measured else "–")
    cells = (_event(group), _WORDS[part], *values)
    return group.row(cells, link=link, size=group.cell.setting.size)


def _curves(group: Group) -> Iterator[Curve]:
    """Yield the curve of the first measured repeat."""
    record = next((r for r in group.measured if r.tables.get("course")), None)
    if record is None:
        return

    def points(part: str, name: str) -> tuple[tuple[float, float], ...]:
        return tuple((float(row["at_s"] or 0), float(row[name] or 0)) for row in record.tables["course"] if row["part"] == part)

    lines = [Line(f"the path {words}", points(part, "received_pps")) for part, words in _WORDS.items()]
    lines.append(Line("offered", points(FAILURE, "offered_pps"), role="asked"))
    yield Curve(
        slug=f"convergence-{group.planned[0]}",
        title=f"{group.label}: {_event(group)}",
        x_title="time since the event",
        x="at_s",
        y_title="frames received, all flows",
        y="received_pps",
        lines=tuple(line for line in lines if line.points),
        moments=(Moment(0.0, "event"),),
    )
