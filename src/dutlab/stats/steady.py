"""Steady state of a drive by SNIA's Solid State Storage Performance Test Specification: five rounds, range 20 %, slope 10 %.

The last five rounds of each tracked variable meet two conditions (PTS 2.0.2, section 2.1.24, as quoted by others; docs/method/pts.md).
Their range is at most 20 % of their mean. Their least-squares line rises or falls by at most 10 % of the mean over the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

WINDOW = 5
RANGE_SHARE, SLOPE_SHARE = 0.20, 0.10
MOST_ROUNDS = 25


@dataclass(frozen=True)
class Steadiness:
    """Statistics of one window of rounds. `first` is the number of its first round, from 1."""

    first: int
    mean: float
    spread: float
    """Maximum less minimum."""
    excursion: float
    """Rise or fall of the least-squares line from the first round to the last; never negative."""
    slope: float = 0.0
    """Rise of that line per round."""
    intercept: float = 0.0
    """Value of that line at round 0."""
    correlation: float = 0.0
    """Correlation of values and round numbers (Pearson); 0 if all values are equal."""

    @property
    def last(self) -> int:
        """Number of its last round."""
        return self.first + WINDOW - 1

    @property
    def is_steady(self) -> bool:
        """True if both conditions of steady state hold."""
        return self.mean > 0 and self.spread <= RANGE_SHARE * self.mean and self.excursion <= SLOPE_SHARE * self.mean


def steadiness(rounds: Sequence[float]) -> Steadiness | None:
    """Return the statistics of the last WINDOW of `rounds`; None if there are fewer."""
    if len(rounds) < WINDOW:
        return None
    window, first = rounds[-WINDOW:], len(rounds) - WINDOW + 1
    mean, middle = fmean(window), (WINDOW - 1) / 2
    squares = sum((n - middle) ** 2 for n in range(WINDOW))
    slope = sum((n - middle) * (value - mean) for n, value in enumerate(window)) / squares
    deviations = sum((value - mean) ** 2 for value in window)
    correlation = slope * sqrt(squares / deviations) if deviations > 0 else 0.0
    return Steadiness(
        first, mean, max(window) - min(window), abs(slope) * (WINDOW - 1), slope, mean - slope * (first + middle), correlation
    )


def first_steady(rounds: Sequence[float]) -> Steadiness | None:
    """Return the first steady window within MOST_ROUNDS; None if there is none."""
    for end in range(WINDOW, min(len(rounds), MOST_ROUNDS) + 1):
        window = steadiness(rounds[:end])
        if window is not None and window.is_steady:
            return window
    return None


def first_all_steady(variables: Sequence[Sequence[float]]) -> int | None:
    """Return the round that ends the first window, within MOST_ROUNDS, in which all tracked variables are steady; None if there is none.

    `variables` has the values of each tracked variable by round.
    """
    rounds = min(map(len, variables), default=0)
    for end in range(WINDOW, min(rounds, MOST_ROUNDS) + 1):
        windows = [steadiness(values[:end]) for values in variables]
        if all(window is not None and window.is_steady for window in windows):
            return end
    return None
