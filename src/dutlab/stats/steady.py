"""Steady state of a drive by SNIA's Solid State Storage Performance Test Specification: five rounds, range 20 %, slope 10 %.

The last five rounds of the tracked figure meet two conditions. Their range is at most 20 % of their mean. Their least-squares line rises
or falls by at most 10 % of the mean over the window. The rules come from three secondary sources (docs/method/pts.md), not from SNIA.
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
    """Statistics of one window of rounds. `first` is the number of its first round, from 1."""

    first: int
    mean: float
    spread: float
    """Maximum less minimum."""
    excursion: float
    """Rise or fall of the least-squares line from the first round to the last; never negative."""

    @property
    def is_steady(self) -> bool:
        """True if both conditions of steady state hold."""
        return self.mean > 0 and self.spread <= RANGE_SHARE * self.mean and self.excursion <= SLOPE_SHARE * self.mean


def steadiness(rounds: Sequence[float]) -> Steadiness | None:
    """Return the statistics of the last WINDOW of `rounds`; None if there are fewer."""
    if len(rounds) < WINDOW:
        return None
    window = rounds[-WINDOW:]
    mean, middle = fmean(window), (WINDOW - 1) / 2
    slope = sum((n - middle) * (value - mean) for n, value in enumerate(window)) / sum((n - middle) ** 2 for n in range(WINDOW))
    return Steadiness(len(rounds) - WINDOW + 1, mean, max(window) - min(window), abs(slope) * (WINDOW - 1))


def first_steady(rounds: Sequence[float]) -> Steadiness | None:
    """Return the first steady window within MOST_ROUNDS; None if there is none."""
    for end in range(WINDOW, min(len(rounds), MOST_ROUNDS) + 1):
        window = steadiness(rounds[:end])
        if window is not None and window.is_steady:
            return window
    return None
