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
    """A measured line, or a reference line, which is drawn faint and broken."""
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
    """Scale of the vertical axis; a logarithmic one leaves out values that are not above 0."""
    x_scale: Literal["linear", "log"] = "linear"
    note: str = ""
    x_span: tuple[float, float] | None = None
    """The ends of the axis where a standard prescribes them; None follows the points. `y_span` is the same for the other axis."""
    y_span: tuple[float, float] | None = None
    y_unit: Unit | None = None
    """Unit of a figure whose name does not have it."""
    x_ticks: tuple[tuple[float, str], ...] = ()
    """Marks of the horizontal axis, with their words; empty for round values."""
    below: Curve | None = None
    """Another curve over the same level axis, drawn below this one; its level axis and its moments count for both."""
