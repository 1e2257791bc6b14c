"""Limits found by search: a table per goal, the same trials under other definitions, and the course of each search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import ceiling_of, computed_value, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column, Figure, Missing, Row, Table, Value
from dutlab.report.model.words import plural, size_order
from dutlab.report.sections.headline import bounds, compared, first_of
from dutlab.report.sections.rescored import Rescored, rescored
from dutlab.report.sections.search_words import deviations, findings, no_upper
from dutlab.stats.rescore import RescoredBounds
from dutlab.store.record import TrialRecord
from dutlab.subject import joined, part_figure

LEAD = """The lower bound is the highest rate that met the goal, the upper bound the lowest rate that missed it.
Conditional throughput is the lower bound less its loss. Rates are intended rates; for links driven at once, their sum. Frames that the
DUT's port did not take count as lost by the DUT; a rate that the generator did not reach is not a result of the DUT."""
MOST_COURSES = 16
"""Largest number of searches whose course is drawn."""
SHOWN_WIDTHS = 8.0
"""Range of rates that is drawn on each side of the bounds, as a multiple of their distance."""
_COSTS = (("trials", "search_trials"), ("sent for", "search_sent_s"), ("saved", "search_saved_s"))


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a table per goal, one of other definitions, and a curve per set of links and frame size."""
    groups = sorted(groups, key=lambda g: (labels.index(g.label), _order(g)))
    names = list(dict.fromkeys(str(row["name"]) for g in groups for r in g.measured for row in r.tables.get("goals", ())))
    tables = [_table(name, groups, book) for name in names] or [_without_result(groups)]
    again = rescored(groups)
    return Section(
        slug="search",
        workload="search",
        title="Bounds",
        lead=LEAD,
        tables=(*tables, *([_other_definitions(again)] if again else [])),
        curves=tuple(_courses(groups)),
        words=tuple(findings(groups, names, book)),
        answer=tuple(bounds(groups, [part_figure(name, "lower_pps") for name in names], book, no_upper)),
        headlines=tuple(h for name in names[:1] for h in _headline(name, groups, labels, book)),
        deviations=tuple(deviations(groups)),
    )


def _table(name: str, groups: Sequence[Group], book: NoteBook) -> Table:
    line_rates = any(ceiling_of(g, g.cell.link_label, "received_pps") for g in groups)
    columns = [
        Column("links"),
        Column("frame size"),
        Column("lower bound", part_figure(name, "lower_pps")),
        Column("upper bound", part_figure(name, "upper_pps")),
        Column("width", part_figure(name, "width_ratio")),
        Column("conditional", part_figure(name, "conditional_pps")),
        Column("on the wire, L1", part_figure(name, "lower_bps_l1")),
        *([Column("of line rate", part_figure(name, "line_ratio"))] if line_rates else []),
        *(Column(head, figure) for head, figure in _COSTS),
        Column("irregular"),
    ]
    rows = [_row(name, g, columns, book) for g in groups]
    return book.table(f"search-{name}", f"Goal {name}: {_goal_words(name, groups)}", columns, rows)


def _row(name: str, group: Group, columns: Sequence[Column], book: NoteBook) -> Row:
    cell, link = group.cell, group.cell.link_label
    irregular = "; ".join(dict.fromkeys(str(row["irregular"]) for row in _goal_rows(name, group) if row["irregular"]))
    line = ceiling_of(group, link, "received_pps")
    of_records = {
        part_figure(name, "width_ratio"): lambda r: _width(r, link, name),
        part_figure(name, "line_ratio"): lambda r: _share(r.figures.get(link, {}).get(part_figure(name, "lower_pps")), line),
    }
    cells: list[Value | str] = [link, cell.setting.size]
    for column in columns[2:-1]:
        if (of := of_records.get(column.figure)) is not None:
            value = computed_value(group, link, column.figure, of, book)
        else:
            value = value_of(group, link, column.figure, book)
        unknown = isinstance(value, Missing) and irregular
        cells.append(Missing(f"unknown: {irregular}", value.trials) if unknown else value)
    return Row(group.label, (*cells, irregular), links=joined(cell.links), link=link, size=cell.setting.size)


def _goal_rows(name: str, group: Group) -> list[Mapping[str, Any]]:
    return [row for r in group.measured for row in r.tables.get("goals", ()) if row["name"] == name]


def _goal_words(name: str, groups: Sequence[Group]) -> str:
    goal = next(row for g in groups for row in _goal_rows(name, g))
    loss = "zero loss" if not goal["loss_ratio"] else f"at most {100 * goal['loss_ratio']:g} % loss"
    trials, good = goal["sum_s"] / goal["final_s"], 1 - goal["exceed_ratio"]
    if trials <= 1:
        return f"{loss} in a trial of {goal['final_s']:g} s"
    share = "each" if good == 1 else f"at least {'half' if good == 0.5 else f'{100 * good:g} %'}"  # noqa: PLR2004 -- a half
    return f"{loss} in {share} of {trials:g} {goal['final_s']:g}-s trials"


def _without_result(groups: Sequence[Group]) -> Table:
    rows = tuple(Row(g.label, (g.cell.link_label, g.cell.setting.size, Missing(g.why_missing, tuple(g.planned)))) for g in groups)
    return Table("search", "No search has a result", (Column("links"), Column("frame size"), Column("result")), rows)


def _width(record: TrialRecord, link: str, name: str) -> float | None:
    figures = record.figures.get(link, {})
    lower, upper = figures.get(part_figure(name, "lower_pps")), figures.get(part_figure(name, "upper_pps"))
    return None if lower is None or upper is None else (upper - lower) / upper


def _share(rate: float | None, of: float | None) -> float | None:
    return None if rate is None or of is None else rate / of


def _headline(name: str, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> tuple[Headline, ...]:
    """Return the comparison of modes at the first size and links that several modes have, with a summary of the others."""
    headlines = []
    for (links, size), same in groupby(sorted(groups, key=_order), key=_place):
        cells = {g.label: g for g in same}
        named = [(label, value_of(cells[label], links, part_figure(name, "lower_pps"), book)) for label in labels if label in cells]
        what = f"{size}-byte frames" if size.isdigit() else size
        headlines.append(compared(f"{name}, {what} through link {links}", named, part_figure(name, "lower_pps"), book))
    return first_of([h for h in headlines if h is not None])


def _place(group: Group) -> tuple[str, str]:
    return group.cell.link_label, group.cell.setting.size


def _order(group: Group) -> tuple[int, str, tuple[int, float, str]]:
    link, size = _place(group)
    return len(group.cell.links), link, size_order(size)


def _other_definitions(again: Sequence[Rescored]) -> Table:
    names = [a.definition.name for a in again[0].answers]
    columns = [Column("links"), Column("frame size"), Column("trial")]
    columns += [Column(name, part_figure(name, "lower_pps")) for name in names]
    rows = [
        Row(
            r.label,
            (r.links, r.size, str(r.trials[0]), *(_answer(a, r.trials) for a in r.answers)),
            links=r.links,
            link=r.links,
            size=r.size,
        )
        for r in again
    ]
    return Table(
        "search-rescored", "What the same trials say under other definitions: lower bounds, of each link", tuple(columns), tuple(rows)
    )


def _answer(answer: RescoredBounds, trials: tuple[int, ...]) -> Value:
    if answer.lower_pps is None:
        return Missing(f"unknown: {answer.why}", trials)
    lower = answer.lower_pps
    return Figure(lower, lower, lower, interval=False, n=1, planned=1, trials=trials)


def _courses(groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield the rates in the order in which they were tried, around the bounds of the first goal: a plot for the first search of a cell."""
    searched = [g for g in sorted(groups, key=_order) if g.measured and g.measured[0].tables.get("trials")]
    several = len({g.label for g in searched}) > 1
    for group in searched[:MOST_COURSES]:
        links, size = _place(group)
        record, label = group.measured[0], group.label
        goal = next(iter(record.tables.get("goals", ())), {})
        rows = [row for row in record.tables["trials"] if row["counts"] == "yes"]
        bounds_pps = [float(of) for name in ("lower_pps", "upper_pps") if isinstance(of := goal.get(name), int | float)]
        span = _around(bounds_pps)
        shown = [row for row in rows if span is None or span[0] <= float(row["load_pps"] or 0) <= span[1]]
        words = ["Each mark is one trial: filled if its loss met the goal, hollow if it missed it."]
        words += [f"Dashed: the bounds of {_goal_name(goal)}."] if bounds_pps else []
        words += (
            [f"{plural(more, 'trial')} at rates beyond this axis {'is' if more == 1 else 'are'} not drawn."]
            if (more := len(rows) - len(shown))
            else []
        )
        yield Curve(
            slug=f"search-{links}-{size}{f'-{label}' if several else ''}",
            title=f"Course of the search, {f'{label}, ' if several else ''}frame size {size}, link {links}",
            x_title="trial",
            x="trial",
            y_title="rate of each link",
            y="load_pps",
            lines=tuple(_course(label, shown, goal, bounds_pps)),
            note=" ".join(words),
            y_span=span,
        )


def _goal_name(goal: Mapping[str, Any]) -> str:
    name = str(goal["name"])
    return name.upper() if name in {"ndr", "pdr"} else name


def _around(bounds_pps: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of an axis on which two bounds are distinguishable; None without two of them."""
    if len(bounds_pps) < 2 or bounds_pps[0] >= bounds_pps[1]:  # noqa: PLR2004 -- a lower and an upper one
        return None
    lower, upper = bounds_pps
    margin = SHOWN_WIDTHS * (upper - lower)
    return max(0.0, lower - margin), upper + margin


def _course(label: str, rows: Sequence[Mapping[str, Any]], goal: Mapping[str, Any], bounds_pps: Sequence[float]) -> Iterator[Line]:
    """Yield the trials of a search, and its bounds over all of them."""
    most = float(goal.get("loss_ratio") or 0.0)
    missed = tuple(n for n, row in enumerate(rows) if float(row["known_loss_ratio"] or 0.0) > most)
    yield Line(label, tuple((float(row["number"] or 0), float(row["load_pps"] or 0)) for row in rows), "apart", missed=missed)
    ends = [float(row["number"] or 0) for row in rows] or [1.0]
    yield from (Line(label, ((min(ends), bound), (max(ends), bound)), "bound") for bound in bounds_pps)
