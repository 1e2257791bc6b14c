"""A place in a table: a figure with its spread, or why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A median over repeats. `low`, `high` are the 95 % interval where one exists (`interval`), else the whole range."""

    median: float
    low: float
    high: float
    interval: bool
    n: int
    planned: int
    trials: tuple[int, ...]
    marks: tuple[int, ...] = ()
    """Numbers of the notes that touch it."""
    severe: bool = False
    published: str = ""
    """Of a figure that was imported once: its digits, as they were printed in a unit of so many base units."""
    published_scale: float = 0.0

    def published_in(self, scale: float) -> str:
        """Its own digits in a table whose unit is `scale` base units; empty where it has none, or was printed in another unit."""
        return self.published if self.published and math.isclose(self.published_scale, scale) else ""

    @property
    def relative_spread(self) -> float:
        """(high - low) / median, 0 for a median of 0."""
        return (self.high - self.low) / abs(self.median) if self.median else 0.0


@dataclass(frozen=True)
class Missing:
    """A place without a figure, and why."""

    why: str
    trials: tuple[int, ...] = ()


Value = Figure | Missing
