"""Figures of the page, each computed from the repeats of a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.table import Figure, Missing, Value
from dutlab.report.model.words import Unit, unit_for
from dutlab.stats.summary import summarise
from dutlab.store.cell_figures import Column, has_bounds, is_bound
from dutlab.store.loads import DELIVERED, load_of
from dutlab.store.record import PUBLISHED, TrialRecord
from dutlab.subject import apart


def value_of(group: Group | None, link: str, figure: str, book: NoteBook) -> Value:
    """Return the median of `figure` on `link` over the group's repeats, with spread and doubts, or the reason for its absence."""
    if group is None:
        return Missing("not part of the plan")
    column = group.column(link, figure)
    value = _value(group, column, lambda r: r.figures.get(link, {}).get(figure), book, link=link, figure=figure)
    if not isinstance(value, Figure) or value.n != 1:
        return value
    own = {
        str(row["link"]): (str(row["text"]), float(row["scale"] or 0))
        for r in group.measured
        if r.trial in value.trials
        for row in r.tables.get(PUBLISHED, ())
        if row.get("figure") == figure
    }
    parts = [own[name] for name in ([link] if link in own else apart(link)) if name in own]
    if len(parts) < (1 if link in own else len(apart(link))) or len({scale for _, scale in parts}) != 1:
        return value
    text, scale = parts[0]
    if len(parts) > 1:  # a sum that is missing from the published table gets the digits of its parts
        text = str(sum(Decimal(digits) for digits, _ in parts))
    return replace(value, published=text, published_scale=scale)


def computed_value(group: Group, link: str, figure: str, of: Callable[[TrialRecord], float | None], book: NoteBook) -> Value:
    """Return the median of the values that `of` computes from each record, with the doubts of `figure`."""
    values = {r.trial: value for r in group.measured if (value := of(r)) is not None}
    return _value(group, Column(tuple(values), tuple(values.values())), of, book, link=link, figure=figure)


def _value(group: Group, column: Column, of: Callable[[TrialRecord], float | None], book: NoteBook, *, link: str, figure: str) -> Value:
    if not column.trials:
        why = f"not measured: no {figure} in the records" if group.measured else group.why_missing
        greyed = {} if group.measured else {r.trial: value for r in group.disturbed if (value := of(r)) is not None}
        return Missing(why, tuple(group.planned), figure_of(greyed, len(group.planned)) if greyed else None)
    marks = tuple(sorted(book.touching(column.trials, link, figure)))
    bound = has_bounds(group.cell) and not {r.trial for r in group.measured if is_bound(r, link, figure)}.isdisjoint(column.trials)
    result = _figure(column, len(group.planned))
    return replace(result, marks=marks, severe=book.severe(marks), link=link, at_least=bound, disturbed=book.disturbed(marks))


def figure_of(values: Mapping[int, float], planned: int) -> Figure:
    """Return the figure of `values` (trial → value), with the number of planned repeats; without doubts."""
    return _figure(Column(tuple(values), tuple(values.values())), planned)


def _figure(column: Column, planned: int) -> Figure:
    summary = summarise(column.values)
    return Figure(
        median=summary.median,
        low=summary.interval.low if summary.interval else summary.low,
        high=summary.interval.high if summary.interval else summary.high,
        interval=summary.interval is not None,
        n=summary.n,
        planned=planned,
        trials=column.trials,
    )


def rate_unit(groups: Iterable[Group], figure: str) -> Unit:
    """Return the unit in which the answer's table prints `figure` of these cells, for sentences about it."""
    return unit_for(figure, [value for g in groups for value in g.column(g.main[1], figure).values])


def value_or_dash(group: Group, figure: str, book: NoteBook, link: str = "") -> Value | str:
    """Return the value, or a dash if a measured cell cannot have it, such as a percentile with too few samples."""
    value = value_of(group, link or group.cell.link_label, figure, book)
    return "–" if isinstance(value, Missing) and group.measured else value


def number_in(row: Mapping[str, object], name: str) -> float | None:
    """Return a number of a row of a record's table; None for text and for a row without it."""
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else None


def ceiling_of(group: Group | None, link: str, figure: str) -> float | None:
    """Return the ceiling of a figure from the first record that has one; all agree, since ceilings follow from facts."""
    for record in group.records if group else ():
        if (limit := record.ceilings.get(link, {}).get(figure)) is not None:
            return limit
    return None


_LOST = "loss_ratio"
"""Figure whose doubts also apply to DELIVERED."""


def load_value(group: Group | None, link: str, figure: str, book: NoteBook) -> Value:
    """Return BACKPRESSURE or DELIVERED of a link, or of several links together."""
    if group is None:
        return Missing("not part of the plan")
    doubted = _LOST if figure == DELIVERED else figure
    return computed_value(group, link, doubted, lambda record: load_of(record, link, figure), book)
