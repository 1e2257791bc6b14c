"""Comparison of two samples by rank: assumes no distribution, and is exact for small samples.

Mann-Whitney's U counts the pairs (one of each sample) in which the second is larger, ties as a half (H. B. Mann, D. R. Whitney, Ann. Math.
Stat. 18, 1947). Its distribution under no difference is computed from the actual ranks, so ties are exact too (E. L. Lehmann,
Nonparametrics, section 1.4). Above 20 values a side, the normal approximation with its correction for ties is used.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import comb, floor, sqrt
from statistics import NormalDist

from dutlab.stats.summary import median

LARGEST_EXACT = 20
"""Most values a side for an exact p."""
MOST_EXACT_PAIRS = 2000
"""Most pairs of two samples for an exact distribution."""


@dataclass(frozen=True)
class RankTest:
    """Position of the second sample relative to the first."""

    u: float
    """Pairs in which the second is larger, ties as a half: 0 to n × m."""
    p: float
    """Two-sided p: probability that U is at least as far from its middle if there is no difference."""
    least_p: float
    """Smallest p that samples of these sizes can reach; above 0.05 nothing can be proven."""
    delta: float
    """Cliff's delta, -1 to 1: share of pairs in which the second is larger less share in which it is smaller."""


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> RankTest:
    """Compare the second sample with the first. Raises ValueError for an empty sample."""
    n, m = len(first), len(second)
    if not n or not m:
        raise ValueError("an empty sample compares with nothing")
    ordered = sorted(second)
    u = sum(m - (bisect_left(ordered, a) + bisect_right(ordered, a)) / 2 for a in first)
    exact = max(n, m) <= LARGEST_EXACT
    return RankTest(
        u=u,
        p=_exact_p(first, second) if exact else _normal_p(first, second, u),
        least_p=least_p(n, m),
        delta=2 * u / (n * m) - 1,
    )


def least_p(n: int, m: int) -> float:
    """Return the two-sided p of samples that do not overlap: 2 of all ways to divide n + m values. 3 and 3: 0.1; 4 and 4: 0.029."""
    return min(2 / comb(n + m, n), 1.0)


Strata = Sequence[tuple[Sequence[float], Sequence[float]]]
"""The two samples of each run."""


def over_runs(strata: Strata, least: float) -> RankTest:
    """Compare the second samples with the first by a sign test over runs: count the runs whose medians differ by more than `least`.

    Raises ValueError for an empty sample, and if there is no run.
    """
    if not strata:
        raise ValueError("no run has both samples")
    medians = [(median(first), median(second)) for first, second in strata]
    more, less = (sum(max(ends) > min(ends) * (1 + least) and (b > a) is up for ends in medians for a, b in [ends]) for up in (True, False))
    runs, most = len(medians), max(more, less)
    p = min(2 * sum(comb(runs, k) for k in range(most, runs + 1)) / 2**runs, 1.0)
    delta = (more - less) / runs
    pairs = sum(len(first) for first, _ in strata) * sum(len(second) for _, second in strata)
    return RankTest(u=(delta + 1) / 2 * pairs, p=p, least_p=2 / 2**runs, delta=delta)


def repeats_needed(level: float = 0.05) -> int:
    """Return the fewest values a side with which samples that do not overlap reach p <= `level`."""
    n = 1
    while least_p(n, n) > level:
        n += 1
    return n


def holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values: the probability of any false claim among them is at most the level asked (S. Holm, 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    out, reached = [1.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        reached = max(reached, min((len(p_values) - place) * p_values[index], 1.0))
        out[index] = reached
    return out


def p_words(p: float) -> str:
    """Return text as in `p = 0.012`; at most three digits."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"  # noqa: PLR2004 -- three digits


def u_quantile(n: int, m: int, share: float) -> tuple[int, float]:
    """Return the largest k with P(U < k) <= `share`, and that probability; (0, 0) for none.

    The samples have no ties and no difference. Above MOST_EXACT_PAIRS pairs the normal approximation is used: the exact distribution would
    need gigabytes.
    """
    if n * m > MOST_EXACT_PAIRS:
        k = floor(n * m / 2 + NormalDist().inv_cdf(share) * sqrt(n * m * (n + m + 1) / 12) + 0.5)
        return (k, share) if k > 0 else (0, 0.0)
    ways = _rank_sums(tuple(range(1, n + m + 1)), m)
    offset, all_ways = m * (m + 1) // 2, comb(n + m, n)  # the rank sum of U = 0
    below, k = 0.0, 0
    while k < n * m and (more := below + ways[offset + k] / all_ways) <= share:
        below, k = more, k + 1
    return k, below


def _exact_p(first: Sequence[float], second: Sequence[float]) -> float:
    ranks, of_value = _doubled_ranks(first, second)
    ways = _rank_sums(ranks, len(second))
    middle = len(second) * (len(ranks) + 1)
    far = abs(sum(of_value[v] for v in second) - middle)
    reached = sum(count for at, count in enumerate(ways) if abs(at - middle) >= far)
    return reached / comb(len(ranks), len(second))


def _normal_p(first: Sequence[float], second: Sequence[float], u: float) -> float:
    """Return p by the variance of U, corrected for ties (Lehmann, section 1.4), with a correction for continuity."""
    n, m, both = len(first), len(second), len(first) + len(second)
    ties = sum(count**3 - count for count in Counter([*first, *second]).values())
    variance = n * m / 12 * (both + 1 - ties / (both * (both - 1)))
    if variance == 0:
        return 1.0
    z = max(abs(u - n * m / 2) - 0.5, 0.0) / sqrt(variance)
    return min(2 * NormalDist().cdf(-z), 1.0)


def _doubled_ranks(first: Sequence[float], second: Sequence[float]) -> tuple[tuple[int, ...], dict[float, int]]:
    """Return twice the rank of every value, in rising order, and by value. Equal values share their mean rank, which may be a half."""
    ranks: list[int] = []
    of_value: dict[float, int] = {}
    for value, same in groupby(sorted([*first, *second])):
        count = len(list(same))
        of_value[value] = 2 * len(ranks) + count + 1
        ranks += [of_value[value]] * count
    return tuple(ranks), of_value


@lru_cache(maxsize=256)
def _rank_sums(ranks: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return how many subsets of `size` ranks have each sum; the index is the sum.

    One integer holds the counts of all sums in fields of fixed width. Shifting it by a rank adds that rank to every subset.
    """
    width = len(ranks) // 8 + 1
    ways = [1, *[0] * size]
    for rank in ranks:
        for taken in range(size, 0, -1):
            ways[taken] += ways[taken - 1] << 8 * width * rank
    fields = ways[size].to_bytes(width * (sum(ranks) + 1), "little")
    return tuple(int.from_bytes(fields[at : at + width], "little") for at in range(0, len(fields), width))
