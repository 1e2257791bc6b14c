"""Forwarding over the size of the routing table: a row per count, a curve per mode and frame size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import rate_unit, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Figure, Row, Value, figure_text
from dutlab.report.model.words import PERCENT
from dutlab.spec.workloads.routes import RoutesSetting
from dutlab.subject import figure_name, part_figure

_LOADING = (("loaded in", "routes_load_s"), ("loaded", "routes_load_per_s"), ("routes used", "routes_hit"))
_FULL_SPEED = (("forwarded", "received_pps"), ("lost or not taken", "refused_ratio"), ("lost", "loss_ratio"))
LEAD = """All routes are of one length and lead to the sink; frames go to one address behind each, in pseudo-random order. Before each
trial the DUT's own count of them is compared with what was loaded, and addresses behind some are looked up. Routes next to each other are
the easy case for a trie: a real table has gaps and several lengths."""


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: one table, and a curve per link and frame size with a line per mode."""
    groups = sorted(groups, key=lambda g: (labels.index(g.label), g.cell.link_label, g.cell.setting.size, _count(g)))
    rates = _rates(groups)
    rows = [_row(g, rates, book) for g in groups]
    columns = (
        Column("routes"), Column("frames"), Column("link"), *(Column(head, figure) for head, figure in (*rates, *_LOADING)),
    )  # fmt: skip
    return Section(
        slug="routes",
        workload="routes",
        title="Size of the routing table",
        lead=LEAD,
        tables=(book.table("routes", "Forwarding by number of routes", columns, rows),),
        curves=tuple(_curves(groups, labels, rates[0][1], book)),
        words=tuple(_words(groups, rates[0][1], book)),
    )


def _count(group: Group) -> int:
    return group.cell.setting_as(RoutesSetting).routes


def _rates(groups: Sequence[Group]) -> tuple[tuple[str, str], ...]:
    """Return the columns of results: bounds of each goal of a search, or the rate at full speed."""
    goals = list(dict.fromkeys(str(row["name"]) for g in groups for r in g.measured for row in r.tables.get("goals", ())))
    if not goals:
        return _FULL_SPEED
    return tuple((f"{goal}, {bound} bound", part_figure(goal, f"{bound}_pps")) for goal in goals for bound in ("lower", "upper"))


def _row(group: Group, rates: Sequence[tuple[str, str]], book: NoteBook) -> Row:
    cell = group.cell
    size, link = cell.setting.size, cell.link_label
    values: list[Value] = [value_of(group, link, figure, book) for _, figure in (*rates, *_LOADING)]
    return Row(group.label, (f"{_count(group):,}".replace(",", " "), size, link, *values), links=link, link=link, size=size)


def _curves(groups: Sequence[Group], labels: Sequence[str], figure: str, book: NoteBook) -> Iterator[Curve]:
    places = dict.fromkeys((g.cell.link_label, g.cell.setting.size) for g in groups)
    for link, size in places:
        at_place = [g for g in groups if (g.cell.link_label, g.cell.setting.size) == (link, size)]
        lines = []
        for label in labels:
            values = [(float(_count(g)), value_of(g, link, figure, book)) for g in at_place if g.label == label]
            points = tuple((count, value.median) for count, value in values if isinstance(value, Figure))
            lines += [Line(label, points)] if points else []
        if any(len(line.points) > 1 for line in lines):
            yield Curve(
                slug=f"routes-{link}-{size}",
                title=f"Forwarding of {f'{size}-byte frames' if size.isdigit() else size} over link {link} by number of routes",
                x_title="routes",
                x="routes_count",
                y_title="lower bound" if figure_name(figure).measure == "lower_pps" else "forwarded",
                y=figure,
                lines=tuple(lines),
                x_scale="log",
            )


def _words(groups: Sequence[Group], figure: str, book: NoteBook) -> Iterator[str]:
    """Yield comparisons of the largest table with the smallest, for each mode, link and size, and notes of the trials."""
    unit = rate_unit(groups, figure)
    for label, link, size in dict.fromkeys((g.label, g.cell.link_label, g.cell.setting.size) for g in groups):
        of_cell = [g for g in groups if (g.label, g.cell.link_label, g.cell.setting.size) == (label, link, size)]
        values = [(g, v) for g in of_cell if isinstance(v := value_of(g, link, figure, book), Figure)]
        if len(values) > 1 and values[0][1].median > 0:
            (few, least), (many, most) = values[0], values[-1]
            change = PERCENT.text(most.median / least.median - 1)
            yield (
                f"{label}, {size}, link {link}: {figure_text(most, unit)} with {_count(many)} routes, "
                f"{figure_text(least, unit)} with {_count(few)} ({change})."
            )
        for g in of_cell:
            notes = dict.fromkeys(note for r in g.measured for note in r.notes if "route" in note and "the DUT counts" not in note)
            yield from (f"{label}, {size}, link {link}, {_count(g)} routes: {note}." for note in notes)
