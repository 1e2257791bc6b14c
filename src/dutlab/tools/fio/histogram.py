"""Latency histograms of fio: sums over jobs, drives and hosts, and percentiles of the sum.

Each value below 128 ns has its own bin. Above, each power of two has 64 bins, and json+ names a bin by its midpoint in ns (plat_idx_to_val
in fio's stat.c, FIO_IO_U_PLAT_BITS = 6). So a percentile is right within 1/128. Percentiles are never averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

SHARES = {"p50": 0.50, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
"""Percentile → share of all I/Os that took no longer."""
_BITS = 6
_BINS = 1 << _BITS
"""Bins for each power of two."""
LEAST_BEYOND = 10
"""Least number of I/Os above a percentile for it to be reported."""


def value_of_bin(index: int) -> int:
    """Return the midpoint in ns of the bin with this number (plat_idx_to_val)."""
    if index < 2 * _BINS:
        return index
    octave = index // _BINS - 1
    return int((1 << (octave + _BITS)) + (index % _BINS + 0.5) * (1 << octave))


def merged(histograms: Iterable[Mapping[int, int]]) -> Counter[int]:
    """Return the sum of histograms: midpoint in ns → count."""
    total: Counter[int] = Counter()
    for bins in histograms:
        total.update(bins)
    return total


def percentile(bins: Mapping[int, int], share: float) -> int:
    """Return the midpoint in ns of the first bin at which `share` of all counts is reached. Raises ValueError if nothing was counted."""
    count = sum(bins.values())
    if not count:
        raise ValueError("no I/O was counted")
    reached = 0
    for value in sorted(bins):
        reached += bins[value]
        if reached >= share * count:
            return value
    return max(bins)


def percentiles(bins: Mapping[int, int], shares: Mapping[str, float] = SHARES) -> dict[str, float]:
    """Return the percentiles of `shares`, without those that too few I/Os exceed."""
    count = sum(bins.values())
    return {name: float(percentile(bins, share)) for name, share in shares.items() if count * (1 - share) >= LEAST_BEYOND}
