"""Plot of ratios around 1 with their intervals, a row each, for comparisons and effects of factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dutlab.report.plots.axis import Scale, apart, draw_x_axis
from dutlab.report.plots.palette import FAINT, GRID, INK, QUIET, SERIES
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.svg import SvgDrawing, distinct, text_width

WIDTH, STEP = 300.0, 24.0
TEXT_SIZE = 13.0
_COLOUR = {"better": SERIES[2], "worse": SERIES[1], "neither": QUIET}
_SHAPE = {"better": "triangle-up", "worse": "triangle-down", "neither": "circle"}
_LONGEST = 46
_SMALL, _LINE = 10.5, 11.5
"""Size of text and distance of lines, of a label in two lines."""
_WIDE = 1.4
_FAR_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_FARTHER = 4.0
"""Reach from which only the ticks 1, 2, 5 and their powers of ten fit."""


Side = Literal["better", "worse", "neither"]


@dataclass(frozen=True)
class RatioRow:
    """One ratio with its interval or range, which may be missing, and the verdict in a few words."""

    label: str
    ratio: float
    low: float
    high: float
    side: Side
    words: str


def ratio_plot(name: str, title: str, rows: Sequence[RatioRow], *, margin: float | None = None) -> Plot:
    """Draw ratios on a logarithmic axis, where 1/2 and 2 are equally far from 1. `rows` is not empty; `margin` is shaded."""
    reach = max(1.02, *(max(r.high, 1 / r.low) for r in rows), 1 + (margin or 0.0)) * 1.03
    x = Scale(1 / reach, reach, 0.0, WIDTH, log=True)
    height = STEP * len(rows)
    d, lines = SvgDrawing(), _label_lines([r.label for r in rows])
    if margin is not None:
        d.rect(x(1 / (1 + margin)), 0, x(1 + margin) - x(1 / (1 + margin)), height, colour=GRID)
    below = draw_x_axis(d, x, top=0.0, bottom=height, title="times the baseline", ticks=apart(x, _ticks(reach)))
    d.line(x(1.0), -4, x(1.0), height, colour=INK, width=1.25)
    for n, row in enumerate(rows):
        middle = (n + 0.5) * STEP
        colour = _COLOUR[row.side]
        for line, text in enumerate(of := lines[row.label]):
            d.text(
                -10, middle + (line - (len(of) - 1) / 2) * _LINE, text, size=TEXT_SIZE if len(of) == 1 else _SMALL, colour=INK, anchor="end"
            )
        d.line(0, middle, WIDTH, middle, colour=FAINT, width=0.5)
        d.line(x(row.low), middle, x(row.high), middle, colour=colour, width=3)
        d.mark(x(row.ratio), middle, _SHAPE[row.side], colour=colour, size=4.5)
        d.text(WIDTH + 10, middle, f"{row.ratio:.3f} {row.words}", size=TEXT_SIZE, colour=colour)
    left = 18 + max(text_width(text, TEXT_SIZE) for of in lines.values() for text in of)
    right = 20 + max(text_width(f"{r.ratio:.3f} {r.words}", TEXT_SIZE) for r in rows)
    for n, row in enumerate(rows):
        hover_lines = [row.label, f"{row.ratio:.4f}, from {row.low:.4f} to {row.high:.4f}; {row.words}"]
        d.hover_text(0.0, n * STEP, WIDTH, STEP, hover_lines, at=x(row.ratio) + 12, right=WIDTH + right)
    box = (-left, -10.0, left + WIDTH + right, height + below + 10.0)
    return Plot(name, title, f"{title}: ratios with their intervals, a row each, on a logarithmic axis", d, box)


def _label_lines(labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the lines of each label: two if it is long and has a colon; what is too long then is shortened, so that labels differ."""
    halves = {label: label.partition(": ") for label in labels if len(label) > _LONGEST}
    out = {label: (f"{a}:", b) for label, (a, colon, b) in halves.items() if colon and max(len(a) + 1, len(b)) <= _LONGEST}
    short = distinct((label for label in labels if label not in out), _LONGEST)
    return {label: out.get(label) or (short[label],) for label in labels}


def _ticks(reach: float) -> list[float]:
    """Return a few round ratios on both sides of 1."""
    if reach >= _WIDE:
        ticks = [t for t in _FAR_TICKS if reach < _FARTHER or f"{t:g}".strip("0.") in {"1", "2", "5"}]
        return [t for t in ticks if 1 / reach <= t <= reach]
    step = next(step for step in (0.01, 0.02, 0.05, 0.1) if 1 + 4 * step >= reach)
    return [t for n in range(-3, 4) if 1 / reach <= (t := round(1 + step * n, 4)) <= reach]
