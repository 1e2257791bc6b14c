"""Summary of a trial's repeats: the median, and its interval.

The 95 % interval is exact and assumes no distribution. The true median of n independent values is between the k-th smallest and the k-th
largest with a probability from the binomial distribution alone (order statistics; H. A. David, Order Statistics, section 2.5). Below six
values no such interval reaches 95 %; then only the range is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
    best, outside, all_ways = (0, 0.0), 0, 1 << n
    for k, ways in zip(range(1, n // 2 + 1), binomials(n), strict=False):
        outside += 2 * ways  # of 2^n equally likely ways to fall on either side of the median
        reached = 1 - outside / all_ways
        if reached < confidence:
            break
        best = (k, reached)
    return best


def binomials(n: int) -> Iterator[int]:
    """Yield the binomial coefficients of n and 0, 1 and so on, each from the one before: math.comb takes milliseconds for thousands."""
    ways = 1
    for k in range(n + 1):
        yield ways
        ways = ways * (n - k) // (k + 1)


def summarise(values: Sequence[float]) -> Summary:
    """Return median, range and, for six values or more, the 95 % interval. Raises ValueError for no values."""
    ordered = sorted(values)  # once: sorting ordered values again takes only one pass
    return Summary(len(ordered), median(ordered), min(ordered), max(ordered), order_interval(ordered))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile `share`, interpolated (Hyndman and Fan's type 7). Raises ValueError for no values."""
    if not values:
        raise ValueError("no values have no percentile")
    ordered, at = sorted(values), share * (len(values) - 1)
    low = ordered[int(at)]
    return low + (ordered[min(int(at) + 1, len(values) - 1)] - low) * (at % 1)
