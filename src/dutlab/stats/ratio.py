"""Ratio of the medians of two samples, with its interval.

Each median has its exact interval of order statistics. Both are combined by the method of variance estimates recovery (G. Y. Zou, A.
Donner, Stat. Med. 27, 2008, equation 4) on the logarithm. The distances from the median to both ends are scaled from the interval's
true confidence to 95 %. With four values a side or more, the interval holds the ratio with 95 to 99 % for normal, skewed, heavy-tailed
and bimodal values (tests/bench/verdict_rates.py measures it). Differences use the same method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import exp, hypot, isfinite, log
from statistics import NormalDist

from dutlab.stats.summary import CONFIDENCE, Interval, binomials, median

FEWEST = 4
"""Fewest values a side for an interval."""
_FARTHEST = 300.0
"""Largest logarithm of an interval, to stay within the range of a float."""


@dataclass(frozen=True)
class Ratio:
    """Ratio of the second sample to the first. `interval` is None for too few repeats."""

    ratio: float
    interval: Interval | None
    method: str
    """Kind of ratio and method of the interval: `ratio of medians, MOVER`."""

    def within(self, margin: float) -> bool:
        """Return True if the whole interval is between 1 / (1 + margin) and 1 + margin: equivalent, for a margin chosen beforehand."""
        return self.interval is not None and 1 / (1 + margin) <= self.interval.low and self.interval.high <= 1 + margin


def ratio_of(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Return the median of `second` over that of `first`. Raises ValueError for an empty sample, or values not above zero."""
    if not first or not second:
        raise ValueError("an empty sample has no ratio")
    if not all(isfinite(v) and v > 0 for v in (*first, *second)):
        raise ValueError("there is no ratio of values that are not above zero")
    ratio = median(second) / median(first)
    away = difference_bounds([*map(log, first)], [*map(log, second)], log(median(first)), log(median(second)))
    interval = None if away is None or max(away) > _FARTHEST else Interval(ratio * exp(-away[0]), ratio * exp(away[1]), CONFIDENCE)
    return Ratio(ratio, interval, "ratio of medians, MOVER")


def difference_bounds(first: Sequence[float], second: Sequence[float], a: float, b: float) -> tuple[float, float] | None:
    """Return how far the 95 % interval of b - a reaches below and above it; None below four values a side.

    `a` and `b` are the medians of the samples.
    """
    if min(len(first), len(second)) < FEWEST:
        return None
    (low_a, high_a), (low_b, high_b) = _reach(first, a), _reach(second, b)
    return hypot(low_b, high_a), hypot(high_b, low_a)


def _reach(values: Sequence[float], middle: float) -> tuple[float, float]:
    """Return how far the median's interval reaches below and above it, scaled to a normal estimate at 95 %."""
    ordered, (k, scale) = sorted(values), order_scale(len(values))
    return (middle - ordered[k - 1]) * scale, (ordered[-k] - middle) * scale


@lru_cache(maxsize=256)
def order_scale(n: int) -> tuple[int, float]:
    """Return the rank k of the order statistics whose interval holds the median with 95 %, and the factor to a normal interval of 95 %.

    For few values k is 1: the interval goes from the least to the greatest value.
    """
    all_ways = 1 << n
    k, outside = 1, 2 / all_ways
    for ways in islice(binomials(n), 1, n // 2):
        if (more := outside + 2 * ways / all_ways) > 1 - CONFIDENCE:
            break
        k, outside = k + 1, more
    return k, NormalDist().inv_cdf((1 + CONFIDENCE) / 2) / NormalDist().inv_cdf(1 - outside / 2)
