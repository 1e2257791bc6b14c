"""One figure over another, as a method found it step by step: loss over load, rate over time."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.axis import Scale, draw_x_axis, draw_y_axis, spread
from dutlab.report.model import Curve
from dutlab.report.palette import QUIET, series_colour, series_shape
from dutlab.report.plot import Plot
from dutlab.report.svg import Drawing, shortened, text_width
from dutlab.report.words import unit_of

WIDTH, HEIGHT = 340.0, 210.0
LEFT = 74.0
LABEL_SIZE, LABEL_GAP = 13.5, 16.5
MOST_MARKS = 40
"""A line with more points than this is drawn without a mark on each."""


def curve_plot(curve: Curve, labels: Sequence[str]) -> Plot | None:
    """None without any point. A line has the colour of its place among the run's `labels`, or the next free one."""
    lines = [line for line in curve.lines if line.points]
    if not lines:
        return None
    across, up = unit_of(curve.x), unit_of(curve.y)
    drawn = [[(px / across.scale, py / up.scale) for px, py in line.points] for line in lines]
    xs, ys = [px for points in drawn for px, _ in points], [py for points in drawn for _, py in points]
    x_ends = curve.x_span or (min(xs) * across.scale, (max(xs) if max(xs) > min(xs) else min(xs) + 1) * across.scale)
    y_ends = curve.y_span or (min(0.0, *ys) * up.scale, (max(ys) * 1.08 or 1.0) * up.scale)
    x = Scale(x_ends[0] / across.scale, x_ends[1] / across.scale, 0.0, WIDTH)
    y = Scale(y_ends[0] / up.scale, y_ends[1] / up.scale, HEIGHT, 0.0)

    d = Drawing()
    left = max(LEFT, draw_y_axis(d, y, left=0.0, right=WIDTH, title=_titled(curve.y_title, up.name)))
    below = draw_x_axis(d, x, top=0.0, bottom=HEIGHT, title=_titled(curve.x_title, across.name), ticks=x.ticks())
    for words, limit in curve.limits:
        if y.low <= limit / up.scale <= y.high:
            at = y(limit / up.scale)
            d.line(0, at, WIDTH, at, colour=QUIET, width=1.5, dash="2 3")
            d.text(4, at - 8, words, size=12.0, colour=QUIET)
    places = _places(lines_labels := [line.label for line in lines], labels)
    for place, points in zip(places, drawn, strict=True):
        d.path([(x(px), y(py)) for px, py in points], colour=series_colour(place))
        for px, py in points if len(points) <= MOST_MARKS else ():
            d.mark(x(px), y(py), series_shape(place), colour=series_colour(place))
    ends = sorted(zip(lines_labels, places, (points[-1] for points in drawn), strict=True), key=lambda end: y(end[2][1]))
    for (label, place, end), at in zip(ends, spread([y(end[1]) for _, _, end in ends], LABEL_GAP, HEIGHT), strict=True):
        d.line(x(end[0]) + 7, y(end[1]), WIDTH + 12, at, colour=series_colour(place), width=0.75)
        d.text(WIDTH + 16, at, shortened(label), size=LABEL_SIZE, colour=series_colour(place), bold=True)
    right = 20 + max(text_width(shortened(label), LABEL_SIZE) for label in lines_labels)
    return Plot(
        name=curve.slug,
        title=curve.title,
        described=f"{curve.title}: {curve.y_title} over {curve.x_title}",
        drawing=d,
        box=(-left, -14.0, left + WIDTH + right, HEIGHT + 14.0 + below),
        note=curve.note,
    )


def _titled(title: str, unit: str) -> str:
    return f"{title}, {unit}" if unit else title


def _places(lines: Sequence[str], labels: Sequence[str]) -> list[int]:
    """Labels of the run keep their colours; other lines get the places after them."""
    own = [line for line in lines if line not in labels]
    if len(own) == len(lines):
        return list(range(len(lines)))
    return [labels.index(line) if line in labels else len(labels) + own.index(line) for line in lines]
