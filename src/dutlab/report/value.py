"""A place in a table: a figure with its spread, or why there is none."""

from __future__ import annotations

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
