"""From the repeats of a cell to one figure of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.table import Figure, Missing, Value
from dutlab.stats.summary import summarise
from dutlab.store.loads import DELIVERED, load_of
from dutlab.store.record import PUBLISHED, TrialRecord


def value_of(group: Group | None, link: str, figure: str, book: NoteBook) -> Value:
    """The median of `figure` on `link` over the group's repeats with its spread and its doubts, or why there is none."""
    if group is None:
        return Missing("not part of the plan")
    value = computed_value(group, link, figure, lambda r: r.figures.get(link, {}).get(figure), book)
    if not isinstance(value, Figure) or value.n != 1:
        return value
    rows = (row for r in group.measured if r.trial in value.trials for row in r.tables.get(PUBLISHED, ()))
    own = next((row for row in rows if (row.get("link"), row.get("figure")) == (link, figure)), None)
    scale = own and own.get("scale")
    return replace(value, published=str(own["text"]), published_scale=float(scale)) if own and isinstance(scale, int | float) else value


def computed_value(group: Group, link: str, figure: str, of: Callable[[TrialRecord], float | None], book: NoteBook) -> Value:
    """The same of what `of` makes of each record; it has the doubts of `figure`."""
    values = {r.trial: value for r in group.measured if (value := of(r)) is not None}
    if not values:
        why = f"not measured: no {figure} in the records" if group.measured else group.why_missing
        return Missing(why, tuple(group.planned))
    have = [r for r in group.measured if r.trial in values]
    marks = tuple(sorted(set().union(*(book.touching(r, link, figure) for r in have))))
    return replace(figure_of(values, len(group.planned)), marks=marks, severe=book.severe(marks))


def figure_of(values: Mapping[int, float], planned: int) -> Figure:
    """The figure of what was found by trial, of so many planned; without doubts."""
    found = summarise(list(values.values()))
    return Figure(
        median=found.median,
        low=found.interval.low if found.interval else found.low,
        high=found.interval.high if found.interval else found.high,
        interval=found.interval is not None,
        n=found.n,
        planned=planned,
        trials=tuple(values),
    )


def ceiling_of(group: Group | None, link: str, figure: str) -> float | None:
    """The limit that the records give for a figure; they agree, since it follows from facts."""
    for record in group.records if group else ():
        if (limit := record.ceilings.get(link, {}).get(figure)) is not None:
            return limit
    return None


_LOST = "loss_ratio"
"""Doubts that touch it touch what was delivered too."""


def load_value(group: Group | None, link: str, figure: str, book: NoteBook) -> Value:
    """BACKPRESSURE or DELIVERED of a link or of several together."""
    if group is None:
        return Missing("not part of the plan")
    doubted = _LOST if figure == DELIVERED else figure
    return computed_value(group, link, doubted, lambda record: load_of(record, link, figure), book)
