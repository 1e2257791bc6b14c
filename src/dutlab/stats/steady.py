"""Steady state of a drive by the rules of SNIA's Solid State Storage Performance Test Specification: five rounds, range 20 %, slope 10 %.

Over the last five rounds of the tracked figure: the range is at most 20 % of their mean, and the line of least squares through them rises
or falls over the window by at most 10 % of it. Read from three secondary sources, see docs/method/pts.md; the specification was not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

WINDOW = 5
RANGE_SHARE, SLOPE_SHARE = 0.20, 0.10
MOST_ROUNDS = 25


@dataclass(frozen=True)
class Steadiness:
    """Result of the last rounds of a window. `first` is the number of its first round, from 1."""

    first: int
    mean: float
    spread: float
    """Greatest less least."""
    excursion: float
    """Rise or fall of the line of least squares, from the first round to the last."""

    @property
    def is_steady(self) -> bool:
        """Both conditions."""
        return self.mean > 0 and self.spread <= RANGE_SHARE * self.mean and self.excursion <= SLOPE_SHARE * self.mean


def steadiness(rounds: Sequence[float]) -> Steadiness | None:
    """Steadiness of the last WINDOW of `rounds`; None where there are fewer."""
    if len(rounds) < WINDOW:
        return None
    window = rounds[-WINDOW:]
    mean, middle = fmean(window), (WINDOW - 1) / 2
    slope = sum((n - middle) * (value - mean) for n, value in enumerate(window)) / sum((n - middle) ** 2 for n in range(WINDOW))
    return Steadiness(len(rounds) - WINDOW + 1, mean, max(window) - min(window), abs(slope) * (WINDOW - 1))


def first_steady(rounds: Sequence[float]) -> Steadiness | None:
    """The first window that is steady within MOST_ROUNDS; None where none is."""
    for end in range(WINDOW, min(len(rounds), MOST_ROUNDS) + 1):
        window = steadiness(rounds[:end])
        if window is not None and window.is_steady:
            return window
    return None
