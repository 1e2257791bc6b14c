"""Numbers of a drawing for the page's script: only the drawn ones, in the units of the drawing."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dutlab.report.model.words import Unit
from dutlab.report.plots.axis import Scale
from dutlab.report.plots.palette import QUIET, SERIES, series_colour, series_dash, series_shape
from dutlab.report.plots.svg import SvgDrawing, corners, distinct

MOST_POINTS = 4000
"""Largest number of points of an interactive figure; more would double the size of a large page."""
MOST_HOVERED, EDGE = 200, 10.0
"""Largest number of columns of a file that show their values, and their reach beyond the first and the last place, in pixels."""
Point = tuple[float, ...]
"""x and y; optionally the low and high of y, 0 if no line leads to the point, and 1 if it missed the goal of its line."""


@dataclass(frozen=True)
class ExploredLine:
    """One line of a figure. `place` decides colour and mark; None is for reference lines and limits, which are dashed."""

    label: str
    place: int | None
    shift: float = 0.0
    """Horizontal shift of everything drawn of it, in pixels."""
    apart: bool = False
    """True if its points are not joined, so that each has a mark however many there are."""


@dataclass(frozen=True)
class View:
    """One vertical axis with the points of each line on it, in the order of the figure's lines."""

    title: str
    unit: str
    digits: int
    scale: Scale
    points: Sequence[Sequence[Point]]
    limits: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Explored:
    """A figure of lines over one horizontal axis. The first view is the one that was drawn."""

    x_name: str
    """Name of the horizontal axis; the slider moves all figures that share it."""
    x_title: str
    x_unit: str
    x: Scale
    lines: Sequence[ExploredLine]
    views: Sequence[View]
    ticks: Sequence[tuple[float, str]] = ()
    """Ticks of the horizontal axis: position and text; empty for round values."""
    moments: Sequence[tuple[float, str]] = ()
    """Vertical lines: position and text."""
    fixed: bool = False
    """True if the horizontal axis has categories, so it cannot be logarithmic."""
    whole: bool = False
    """True if the horizontal axis counts, so that its ticks are whole numbers."""

    def text(self) -> str:
        """Return JSON for a script element; empty for a figure of too many points."""
        if sum(len(points) for view in self.views for points in view.points) > MOST_POINTS:
            return ""
        short = distinct(line.label for line in self.lines)
        across = {
            "name": self.x_name,
            "title": self.x_title,
            "unit": self.x_unit,
            "fixed": self.fixed,
            "whole": self.whole,
            "ticks": self.ticks,
        }
        document = {
            "x": across | _ends(self.x),
            "width": abs(self.x.at_high - self.x.at_low),
            "height": abs(self.views[0].scale.at_high - self.views[0].scale.at_low),
            "moments": self.moments,
            "lines": [_line(line, short[line.label]) for line in self.lines],
            "views": [
                {"title": v.title, "unit": v.unit, "digits": max(v.digits, 0), "limits": v.limits, **_ends(v.scale),
                 "points": [[[_short(value) for value in p] for p in points if all(map(math.isfinite, p))] for points in v.points]}
                for v in self.views
            ],
        }  # fmt: skip
        # A script element of any type ends at the first "</script".
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def add_hover_values(explored: Explored, d: SvgDrawing, right: float) -> None:
    """Make columns of a drawing that show the values of its lines at one place while the pointer is on them, for a separate file."""
    view = explored.views[0]
    at: dict[float, list[str]] = {}
    ticks = dict(explored.ticks)
    for line, points in zip(explored.lines, view.points, strict=True):
        for x, y, *rest in points:
            spread = f" ({_number(rest[0], view)}–{_number(rest[1], view)})" if len(rest) > 1 and rest[0] < rest[1] else ""
            at.setdefault(x, []).append(f"{line.label}: {_number(y, view)} {view.unit}".strip() + spread)
    places = sorted(at, key=explored.x)
    if not places or len(places) > MOST_HOVERED:
        return
    pixels = [explored.x(place) for place in places]
    middles = [(a + b) / 2 for a, b in pairwise(pixels)]
    ends = [pixels[0] - EDGE, *middles, pixels[-1] + EDGE]
    height = abs(view.scale.at_high - view.scale.at_low)
    for place, (left, end) in zip(places, pairwise(ends), strict=True):
        head = f"{ticks.get(place) or f'{place:,.10g}'} {explored.x_unit}".strip()
        d.hover_text(left, 0.0, end - left, height, [head, *at[place]], at=end + 6, right=right)


def _number(value: float, view: View) -> str:
    return Unit("", 1.0, view.digits).number(value)


def _ends(scale: Scale) -> dict[str, object]:
    return {"low": scale.low, "high": scale.high, "log": scale.log}


def _line(line: ExploredLine, short: str) -> dict[str, object]:
    drawn: dict[str, object] = {"label": line.label, "short": short, "shift": round(line.shift, 2), "apart": line.apart}
    if line.place is None:
        return drawn | {"colour": QUIET, "dash": "5 4"}
    mark = corners(series_shape(line.place))
    return drawn | {"colour": series_colour(line.place), "dash": series_dash(line.place), "place": line.place % len(SERIES), "mark": mark}


def _short(value: float) -> float:
    """Round to seven significant digits, more than are ever shown."""
    return float(f"{value:.7g}")
