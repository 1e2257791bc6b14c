"""Summary of a trial's repeats: the median, and its interval.

The 95 % interval is exact and assumes no distribution: of n independent values, the median of what they come from lies between the
k-th smallest and the k-th largest with a probability that follows from the binomial distribution alone (order statistics; H. A. David,
Order Statistics, section 2.5). Below six values no such interval reaches 95 %, and the range is all that can be said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """Interval of the median, with its true `confidence` (at least the asked one)."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Summary:
    """Repeats in short. `interval` is None where none can exist; `low` and `high` are then the whole range, which they always are."""

    n: int
    median: float
    low: float
    high: float
    interval: Interval | None

    @property
    def relative_range(self) -> float:
        """(high - low) / median; 0 for a median of 0."""
        return (self.high - self.low) / abs(self.median) if self.median else 0.0


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle. Raises ValueError for none."""
    if not values:
        raise ValueError("no values have no median")
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def order_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The narrowest interval [k-th smallest, k-th largest] that holds the median with at least `confidence`; None if none does."""
    ordered, (k, reached) = sorted(values), _order_rank(len(values), confidence)
    return Interval(ordered[k - 1], ordered[-k], reached) if k else None


@lru_cache
def _order_rank(n: int, confidence: float) -> tuple[int, float]:
    """The k of order_interval() for n values, 0 where none is enough, and the confidence that it reaches."""
    best, outside = (0, 0.0), 0
    for k in range(1, n // 2 + 1):
        outside += 2 * comb(n, k - 1)  # of 2^n equally likely ways to fall on either side of the median
        reached = 1 - outside / 2**n
        if reached < confidence:
            break
        best = (k, reached)
    return best


def summarise(values: Sequence[float]) -> Summary:
    """Median, range and, from six values on, the 95 % interval. Raises ValueError for none."""
    return Summary(len(values), median(values), min(values), max(values), order_interval(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lie, interpolated (Hyndman and Fan's type 7). Raises ValueError for none."""
    if not values:
        raise ValueError("no values have no percentile")
    ordered, at = sorted(values), share * (len(values) - 1)
    low = ordered[int(at)]
    return low + (ordered[min(int(at) + 1, len(values) - 1)] - low) * (at % 1)
