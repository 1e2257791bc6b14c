"""Array that loses a drive under load: figures of each phase, and one timeline of all readings, with the phases marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.figures import value_of, value_or_dash
from dutlab.report.model.groups import Group, trial_notes
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column, Figure, Table, Value
from dutlab.report.model.words import Unit, alike_names, latency_text, setting_words
from dutlab.report.sections.headline import compared
from dutlab.store.record import TrialRecord
from dutlab.subject import part_figure

PHASES = ("healthy", "degraded", "rebuilding", "rebuilt")
_COLUMNS = (
    Column("mean", "iops"),
    Column("least of a second", "least_iops"),
    Column("latency, median", "clat_p50_ns"),
    Column("p99", "clat_p99_ns"),
    Column("cores of the host", "host_cpu_cores"),
)
_REBUILD = (Column("rebuild took", "rebuild_s"), Column("rebuilt", "rebuild_bytes_per_s"))
_MOMENTS = {"degraded": "lost", "rebuilding": "back", "rebuilt": "rebuilt"}
"""Phase → the event that begins it, in a word that fits above a plot."""
_SHARE = Unit("%", 1.0, 0)


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, load and phase, and a timeline of each load's first repeat."""
    rows = [g.row((_asked(g, groups), phase, *_values(g, phase, book))) for g in groups for phase in PHASES]
    rebuilds = [g.row((_asked(g, groups), *(value_or_dash(g, c.figure, book) for c in _REBUILD))) for g in groups]
    loads = Column("asked", shown=any(_asked(g, groups) for g in groups))
    columns = (loads, Column("phase"), *_COLUMNS)
    marks = [v.marks for row in (*rows, *rebuilds) for v in row.cells if isinstance(v, Figure)]
    return Section(
        slug="array-failure",
        workload="array-failure",
        title="An array that loses a drive",
        lead="One load from before a drive fails until after the rebuild. A second counts for a phase if all of it is within. Reads and "
        "writes together; latency is from submission to completion; cores are those of the whole host, for all of its work.",
        tables=(
            Table("array-failure", "Each phase", columns, tuple(rows), book.common(marks)),
            Table("array-failure-rebuild", "Rebuilds", (loads, *_REBUILD), tuple(rebuilds), book.common(marks)),
        ),
        curves=tuple(curve for g in groups for curve in _film(g, groups)),
        words=tuple(trial_notes(groups)),
        headlines=tuple(h for h in [_headline(groups, labels, book)] if h is not None),
    )


def _values(group: Group, phase: str, book: NoteBook) -> list[Value | str]:
    return [value_or_dash(group, part_figure(phase, column.figure), book) for column in _COLUMNS]


def _headline(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Headline | None:
    """Return the comparison of modes while they are rebuilt, under the first load that several have."""
    for asked in dict.fromkeys(_asked(g, groups) for g in groups):
        cells = {g.label: g for g in groups if _asked(g, groups) == asked}
        named = [(label, value_of(g, g.cell.link_label, "rebuilding/iops", book)) for label in labels if (g := cells.get(label))]
        if (headline := compared(f"while it is rebuilt{f', {asked}' if asked else ''}", named, "rebuilding/iops", book)) is not None:
            return headline
    return None


def _film(group: Group, groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield the timeline of a cell. The lines have no common unit, so each is a share of its largest value, which its label gives."""
    record = next((r for r in group.measured if r.tables.get("film")), None)
    if record is None:
        return
    lines = []
    for name, words, text_of in (
        ("iops", "IOPS", lambda most: f"{most:,.0f}"),
        ("clat_p99_ns", "p99", latency_text),
        ("host_cpu_cores", "CPU", lambda most: f"{most:.2f} cores"),
        ("rebuild_bytes_per_s", "rebuild", lambda most: f"{most / 1e6:,.1f} MB/s"),
    ):
        points = _points(record, name)
        if most := max((value for _, value in points), default=0.0):
            lines.append(Line(f"{words}: 100 % is {text_of(most)}", tuple((at_s, 100 * value / most) for at_s, value in points)))
    asked = _asked(group, groups)
    yield Curve(
        slug=f"array-failure-{group.planned[0]}",
        title=f"A drive of {group.label} fails and is added again{f': {asked}' if asked else ''}",
        x_title="time",
        x="time_s",
        y_title="share of its largest",
        y="share",
        lines=tuple(lines),
        moments=tuple(
            Moment(float(row["began_s"] or 0), _MOMENTS[str(row["phase"])])
            for row in record.tables.get("phases", ())
            if row["phase"] in _MOMENTS
        ),
        y_unit=_SHARE,
        y_span=(0.0, 100.0),
        note="First repeat. The drive is lost, is added again, and is rebuilt.",
    )


def _points(record: TrialRecord, name: str) -> tuple[tuple[float, float], ...]:
    """Return only the seconds that have the value: otherwise the rebuild's line would be at 0 before the rebuild."""
    rows = record.tables["film"]
    return tuple((float(row["at_s"] or 0), float(value)) for row in rows if isinstance(value := row.get(name), int | float))


def _asked(group: Group, groups: Sequence[Group]) -> str:
    return setting_words(group.cell.setting, without=alike_names(g.cell.setting for g in groups))
