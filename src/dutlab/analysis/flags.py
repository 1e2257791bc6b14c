"""Shape of repeats around their median: outliers, a drift, two clusters ("heaps"). They are hints, never reasons to delete a value."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import factorial, sqrt
from statistics import NormalDist

from dutlab.stats.summary import median
from dutlab.units import si

FEWEST = 5
"""Fewest repeats for a flag. With fewer, chance explains any shape."""
OUTLIER_MADS = 14.826
"""Distance of an outlier in median absolute deviations: ten standard deviations of a normal distribution, as in hyperfine."""
DRIFT_LEVEL = 0.05
HEAP_GAPS = 3.0
"""Smallest gap between two heaps, in widths of the wider heap."""
SMALLEST_HEAP = 2
LARGEST_EXACT = 100
"""Largest number of repeats for which the probability of a trend is exact."""
MOST_SLOPES = 1000
"""Largest number of repeats for which the slope of each pair is used."""


@dataclass(frozen=True)
class Drift:
    """Repeats that rise or fall with time (Mann-Kendall)."""

    change: float
    """Change from first to last along the Theil-Sen line, relative to the median; 0 for a median of 0."""
    p: float


@dataclass(frozen=True)
class Heaps:
    """Repeats that fall into two heaps."""

    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Flags:
    """Shape of the values; `outliers` are indices in the order of time."""

    outliers: tuple[int, ...] = ()
    drift: Drift | None = None
    heaps: Heaps | None = None
    constant: bool = False
    """True if all values are the same: either nothing varies, or the measurement was not repeated."""

    @property
    def words(self) -> tuple[str, ...]:
        """One clause for each flag."""
        out = []
        if self.outliers:
            places = ", ".join(f"#{n + 1}" for n in self.outliers)
            out.append(f"repeat {places} is far from the others")
        if self.drift:
            way, share = "rise" if self.drift.change > 0 else "fall", 100 * abs(self.drift.change)
            out.append(f"repeats {way} with time by {share:.1f} % of their median from first to last (p = {self.drift.p:.3f})")
        if self.heaps:
            low, high = (f"{len(heap)} around {si(median(heap), '').strip()}" for heap in (self.heaps.low, self.heaps.high))
            out.append(f"repeats form two groups, {low} and {high}")
        if self.constant:
            out.append("all repeats are exactly the same")
        return tuple(out)


def flags_of(values: Sequence[float]) -> Flags:
    """Return the flags of `values`, which are in time order."""
    return _flags_of(tuple(values))


@lru_cache(maxsize=256)
def _flags_of(values: tuple[float, ...]) -> Flags:
    """Return the flags of `values`. Cached, because one side is part of several comparisons."""
    if len(values) > 1 and len(set(values)) == 1:
        return Flags(constant=True)
    if len(values) < FEWEST:
        return Flags()
    heaps = heaps_of(values)
    return Flags(() if heaps else outliers_of(values), drift_of(values), heaps)


def outliers_of(values: Sequence[float]) -> tuple[int, ...]:
    """Return indices of values more than OUTLIER_MADS median absolute deviations from the median.

    If most values are equal, all others are outliers.
    """
    middle = median(values)
    away = [abs(v - middle) for v in values]
    mad = median(away)
    return tuple(n for n, a in enumerate(away) if a > OUTLIER_MADS * mad)


def drift_of(values: Sequence[float]) -> Drift | None:
    """Return a trend over time that is significant at DRIFT_LEVEL in the Mann-Kendall test, else None.

    Equal values count for neither side, so the test is conservative.
    """
    n = len(values)
    p = _trend_p(n, abs(_score(values)))
    if p > DRIFT_LEVEL:
        return None
    middle = median(values)
    return Drift(_slope(values) * (n - 1) / abs(middle) if middle else 0.0, p)


def _score(values: Sequence[float]) -> int:
    """Return the number of pairs that rise with time, less the number that fall."""
    before, score = list[float](), 0
    for value in values:
        score += bisect_left(before, value) - (len(before) - bisect_right(before, value))
        insort(before, value)
    return score


def _slope(values: Sequence[float]) -> float:
    """Return the Theil-Sen slope per repeat. For more than MOST_SLOPES repeats, use medians of equal groups of neighbours."""
    size = -(-len(values) // MOST_SLOPES)
    levels = [median(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]
    return median([(levels[j] - levels[i]) / (j - i) for j in range(len(levels)) for i in range(j)]) / size


def heaps_of(values: Sequence[float]) -> Heaps | None:
    """Return two heaps of at least two values each, whose gap is over HEAP_GAPS times the width of either; else None."""
    ordered = sorted(values)
    gaps = [b - a for a, b in pairwise(ordered)]
    cut = max(range(len(gaps)), key=gaps.__getitem__) + 1
    low, high = ordered[:cut], ordered[cut:]
    if min(len(low), len(high)) < SMALLEST_HEAP:
        return None
    widest = max(low[-1] - low[0], high[-1] - high[0])
    return Heaps(tuple(low), tuple(high)) if gaps[cut - 1] > HEAP_GAPS * widest else None


def _trend_p(n: int, score: int) -> float:
    """Return P(|S| >= score) for n values in random order. S is the number of pairs, less twice the number of inversions.

    More than LARGEST_EXACT values use the normal approximation with continuity correction
    (M. G. Kendall, Rank Correlation Methods, 1975, chapter 4).
    """
    if n > LARGEST_EXACT:
        return 2 * NormalDist().cdf(-max(score - 1, 0) / sqrt(n * (n - 1) * (2 * n + 5) / 18))
    inversions = _inversions(n)
    most = n * (n - 1) // 2
    reached = sum(count for of, count in enumerate(inversions) if abs(most - 2 * of) >= score)
    return reached / factorial(n)


@lru_cache(maxsize=64)
def _inversions(n: int) -> tuple[int, ...]:
    """Return the number of orders of n values that have each number of inversions (Mahonian numbers)."""
    ways = [1]
    for k in range(2, n + 1):
        below = [0, *accumulate(ways)]
        last = len(ways)
        ways = [below[min(i + 1, last)] - below[max(0, i - k + 1)] for i in range(last + k - 1)]
    return tuple(ways)
