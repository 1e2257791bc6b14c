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
from dutlab.store.cell_figures import has_bounds, is_bound
from dutlab.store.loads import DELIVERED, load_of
from dutlab.store.record import PUBLISHED, TrialRecord
from dutlab.subject import apart


def value_of(group: Group | None, link: str, figure: str, book: NoteBook) -> Value:
    """Return the median of `figure` on `link` over the group's repeats, with spread and doubts, or the reason for its absence."""
    if group is None:
        return Missing("not part of the plan")
    value = computed_value(group, link, figure, lambda r: r.figures.get(link, {}).get(figure), book)
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
    if not values:
        why = f"not measured: no {figure} in the records" if group.measured else group.why_missing
        greyed = {} if group.measured else {r.trial: value for r in group.disturbed if (value := of(r)) is not None}
        return Missing(why, tuple(group.planned), figure_of(greyed, len(group.planned)) if greyed else None)
    have = [r for r in group.measured if r.trial in values]
    marks = tuple(sorted(book.touching(have, link, figure)))
    bound = has_bounds(group.cell) and any(is_bound(r, link, figure) for r in have)
    result = figure_of(values, len(group.planned))
    return replace(result, marks=marks, severe=book.severe(marks), link=link, at_least=bound, disturbed=book.disturbed(marks))


def figure_of(values: Mapping[int, float], planned: int) -> Figure:
    """Return the figure of `values` (trial → value), with the number of planned repeats; without doubts."""
    summary = summarise(list(values.values()))
    return Figure(
        median=summary.median,
        low=summary.interval.low if summary.interval else summary.low,
        high=summary.interval.high if summary.interval else summary.high,
        interval=summary.interval is not None,
        n=summary.n,
        planned=planned,
        trials=tuple(values),
    )


def rate_unit(groups: Iterable[Group], figure: str) -> Unit:
    """Return the unit in which the answer's table prints `figure` of these cells, for sentences about it."""
    rates = (r.figures.get(g.main[1], {}).get(figure) for g in groups for r in g.measured)
    return unit_for(figure, [value for value in rates if value is not None])


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
