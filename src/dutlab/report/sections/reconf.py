"""Changes of the DUT's mode under load: time out of service of each, and duration of the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group, trial_notes
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Figure, Row, Value
from dutlab.report.model.words import latency_text
from dutlab.spec.workloads.reconf import FAILURE, RELOAD, ReconfSetting
from dutlab.subject import figure_name, part_figure

_WAYS = ("into", "back", "reload", FAILURE)
_COLUMNS = (
    ("out of service, median", "outage_ns"),
    ("longest", "outage_max_ns"),
    ("without loss", "lossless_ratio"),
    ("the command, median", "command_ns"),
)
_SILENCE = ("longest silence", "silence_s")
"""Column that is shown if the receiver saw a silence."""
_OPEN = ("frames pass afterwards", "open_ratio")
"""Column that is shown for failures."""


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a row per mode, change, frame size and link, and a curve of all changes in their order."""
    fails = any(g.cell.setting_as(ReconfSetting).failure for g in groups)
    silent = any(figure_name(name).measure == _SILENCE[1] for g in groups for r in g.measured for of in r.figures.values() for name in of)
    shown = (*_COLUMNS, *([_OPEN] if fails else []), *([_SILENCE] if silent else []))
    rows = [_row(g, link, direction, shown, book) for g in groups for link in g.cell.links for direction in _directions(g)]
    heads = ("frames", "link", "change", "offered")
    columns = (*(Column(head, "intended_pps" if head == "offered" else "") for head in heads), *(Column(*one) for one in shown))
    return Section(
        slug="reconf",
        workload="reconf",
        title="Changes of mode under load",
        lead="Out of service is frames lost ÷ offered rate of a load in which the mode was changed once. A change that loses no frame is "
        "shorter than the gap between two frames. A silence is exact only to one reading of the receiver.",
        tables=(book.table("reconf", "Time out of service", columns, rows),),
        curves=tuple(curve for g in groups for curve in _curves(g)),
        words=tuple(trial_notes(groups)),
    )


def _to(group: Group) -> str:
    return group.cell.setting_as(ReconfSetting).to


def _directions(group: Group) -> list[str]:
    directions = {str(row["direction"]) for r in group.measured for row in r.tables.get("changes", ())}
    setting = group.cell.setting_as(ReconfSetting)
    asked = {FAILURE} if setting.failure else {"reload"} if setting.to in {RELOAD, group.cell.mode} else {"into", "back"}
    return [direction for direction in _WAYS if direction in (directions or asked)]


def _row(group: Group, link: str, direction: str, shown: Sequence[tuple[str, str]], book: NoteBook) -> Row:
    size, to = group.cell.setting.size, _to(group)
    words = {"into": f"into {to}", "back": f"back from {to}", "reload": "the same again", FAILURE: f"failure: {to}"}[direction]
    values: list[Value | str] = [value_of(group, link, part_figure(direction, measure), book) for _, measure in shown]
    shorter = _shorter(group, link, book)
    lossless = values[2]
    if isinstance(lossless, Figure) and shorter:
        values[:2] = [value if isinstance(value, Figure) else shorter for value in values[:2]]
    passes = value_of(group, link, part_figure(direction, _OPEN[1]), book) if direction == FAILURE else None
    if isinstance(passes, Figure) and passes.median == 0:
        values[:2] = ["without end: it fails closed"] * 2
    unseen = {_SILENCE[1]: "none seen"}
    values = [unseen.get(name, value) if not isinstance(value, Figure) else value for value, (_, name) in zip(values, shown, strict=True)]
    cells = (size, link, words, value_of(group, link, "intended_pps", book), *values)
    return group.row(cells, link=link, size=size)


def _shorter(group: Group, link: str, book: NoteBook) -> str:
    """Return the text in place of a time below the resolution of this load."""
    gap = value_of(group, link, "resolution_ns", book)
    return f"shorter than the gap between two frames, {latency_text(gap.median)}" if isinstance(gap, Figure) else ""


def _curves(group: Group) -> Iterator[Curve]:
    """Yield the curve of the changes with loss in the first repeat."""
    record = next((r for r in group.measured if r.tables.get("changes")), None)
    if record is None:
        return
    lines = []
    for link in group.cell.links:
        for direction in _directions(group):
            rows = [r for r in record.tables["changes"] if (r["link"], r["direction"]) == (link, direction) and r["outage_ns"] is not None]
            points = tuple((float(r["change"] or 0), float(r["outage_ns"] or 0)) for r in rows)
            lines.append(Line(f"{link}, {direction}", points))
    if any(len(line.points) > 1 for line in lines):
        yield Curve(
            slug=f"reconf-{group.planned[0]}",
            title=f"Changes of {group.label} ({_to(group)}), {group.cell.setting.size}",
            x_title="change",
            x="change",
            y_title="out of service",
            y="outage_ns",
            lines=tuple(line for line in lines if line.points),
            scale="log",
            note="Changes without loss are not drawn.",
        )
