"""A plot of one figure over another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dutlab.report.model.words import Unit


@dataclass(frozen=True)
class Line:
    """Points of a curve in the order they are joined; x and y in the base units of the axes' figures."""

    label: str
    points: tuple[tuple[float, float], ...]
    role: Literal["found", "asked"] = "found"
    """What was measured, or what it is measured against: that is drawn faint and broken."""
    gap: float | None = None
    """Points further apart than this along the x axis are not joined: nothing was read between them. None joins all."""


@dataclass(frozen=True)
class Moment:
    """An upright line across a curve: where on its x axis, and what was there; without words one of a row of them."""

    x: float
    words: str


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
    """Horizontal lines, with their words."""
    moments: tuple[Moment, ...] = ()
    scale: Literal["linear", "log"] = "linear"
    """Of the upright axis; a logarithmic one leaves out what is not above 0."""
    x_scale: Literal["linear", "log"] = "linear"
    note: str = ""
    x_span: tuple[float, float] | None = None
    """The ends of the axis where a standard prescribes them; None follows the points. Likewise `y_span`."""
    y_span: tuple[float, float] | None = None
    y_unit: Unit | None = None
    """Of a figure whose name does not say it."""
    x_ticks: tuple[tuple[float, str], ...] = ()
    """Where the level axis is marked, and in which words; empty for round values."""
    below: Curve | None = None
    """Another curve over the same level axis, drawn below this one; its level axis and its moments count for both."""
