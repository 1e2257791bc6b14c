"""Summary of a trial's repeats: the median, and its interval.

The 95 % interval is exact and assumes no distribution. The true median of n independent values is between the k-th smallest and the k-th
largest with a probability from the binomial distribution alone (order statistics; H. A. David, Order Statistics, section 2.5). Below six
values no such interval reaches 95 %; then only the range is known.
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
    """Summary of repeats. `low` and `high` are the whole range; `interval` is None for too few repeats."""

    n: int
    median: float
    low: float
    high: float
    interval: Interval | None

    @property
    def relative_range(self) -> float:
        """(high - low) / median; 0 if the median is 0."""
        return (self.high - self.low) / abs(self.median) if self.median else 0.0


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the two middle values. Raises ValueError for no values."""
    if not values:
        raise ValueError("no values have no median")
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def order_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the narrowest interval [k-th smallest, k-th largest] that holds the median with at least `confidence`; None if none does."""
    ordered, (k, reached) = sorted(values), _order_rank(len(values), confidence)
    return Interval(ordered[k - 1], ordered[-k], reached) if k else None


@lru_cache
def _order_rank(n: int, confidence: float) -> tuple[int, float]:
    """Return the k of order_interval() for n values and its confidence; k is 0 if no interval is enough."""
    best, outside = (0, 0.0), 0
    for k in range(1, n // 2 + 1):
        outside += 2 * comb(n, k - 1)  # of 2^n equally likely ways to fall on either side of the median
        reached = 1 - outside / 2**n
        if reached < confidence:
            break
        best = (k, reached)
    return best


def summarise(values: Sequence[float]) -> Summary:
    """Return median, range and, for six values or more, the 95 % interval. Raises ValueError for no values."""
    return Summary(len(values), median(values), min(values), max(values), order_interval(values))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile `share`, interpolated (Hyndman and Fan's type 7). Raises ValueError for no values."""
    if not values:
        raise ValueError("no values have no percentile")
    ordered, at = sorted(values), share * (len(values) - 1)
    low = ordered[int(at)]
    return low + (ordered[min(int(at) + 1, len(values) - 1)] - low) * (at % 1)
