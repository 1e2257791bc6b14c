"""A plot of one figure over another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from dutlab.report.model.words import Unit

_HOLE = 4
"""Length of a gap, as a multiple of the usual pause between readings."""


@dataclass(frozen=True)
class Line:
    """Points of a curve in the order they are joined; x and y in the base units of the axes' figures."""

    label: str
    points: tuple[tuple[float, float], ...]
    role: Literal["found", "asked", "apart", "bound"] = "found"
    """Role in the plot. `found`: a measured line; `asked`: a reference line, drawn faint and dashed; `apart`: points that are not joined;
    `bound`: a thin line in the colour of the line with the same label, without a text."""
    gap: float | None = None
    """Largest x distance of two points that are joined; a larger one is a gap in the readings. None joins all points."""
    missed: tuple[int, ...] = ()
    """Indices of the points that missed their goal; their marks are hollow."""


@dataclass(frozen=True)
class Moment:
    """An upright line across a curve, at `x`, with a text. Lines without a text mark repeated events."""

    x: float
    words: str


@dataclass(frozen=True)
class Band:
    """A stretch of the horizontal axis: a state, and the share of full load in it, from 0 to 1."""

    start: float
    end: float
    words: str
    load: float = 0.0


@dataclass(frozen=True)
class Curve:
    """A plot of one figure over another. Both names end in their unit."""

    slug: str
    title: str
    x_title: str
    x: str
    y_title: str
    y: str
    lines: tuple[Line, ...]
    limits: tuple[tuple[str, float], ...] = ()
    """Horizontal lines: text and value."""
    moments: tuple[Moment, ...] = ()
    scale: Literal["linear", "log"] = "linear"
    """Scale of the vertical axis; a logarithmic one leaves out values that are not above 0."""
    x_scale: Literal["linear", "log"] = "linear"
    note: str = ""
    x_span: tuple[float, float] | None = None
    """Ends of the horizontal axis, if a standard prescribes them; None: from the points."""
    y_span: tuple[float, float] | None = None
    """Ends of the vertical axis, as above."""
    y_unit: Unit | None = None
    """Unit of `y`, if its name does not contain it."""
    x_ticks: tuple[tuple[float, str], ...] = ()
    """Ticks of the horizontal axis: value and text; empty for round values."""
    below: Curve | None = None
    """Curve drawn below this one, and so on. The horizontal axis and the moments of the lowest apply to all."""
    panel: str = ""
    """Text above the panel of a curve that is drawn above or below others."""
    bands: tuple[Band, ...] = ()
    """States over time, drawn above the uppermost of several curves."""


def usual_gap(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the time between two readings that counts as a gap in a line: a few usual pauses; None for fewer than two readings."""
    pauses = sorted(after[0] - before[0] for before, after in pairwise(points))
    return _HOLE * pauses[len(pauses) // 2] if pauses else None
