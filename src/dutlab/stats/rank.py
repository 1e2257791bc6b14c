"""Two samples compared by rank: no distribution is assumed, and small samples get exact answers.

Mann-Whitney's U counts the pairs (one of each sample) in which the second is larger, ties as a half (H. B. Mann, D. R. Whitney, Ann. Math.
Stat. 18, 1947). Its distribution under no difference is computed from the ranks as they are, so ties are exact too (E. L. Lehmann,
Nonparametrics, section 1.4). From more than 20 values a side on, the normal approximation with its correction for ties is used.
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
"""Values a side up to which p is exact."""
MOST_EXACT_PAIRS = 2000
"""Pairs of two samples up to which each is looked at."""


@dataclass(frozen=True)
class RankTest:
    """Position of the second sample relative to the first."""

    u: float
    """Pairs in which the second is larger, ties as a half: 0 to n × m."""
    p: float
    """Two-sided: how often chance alone, with no difference, puts U as far from its middle."""
    least_p: float
    """The smallest p that samples of these sizes can reach; above 0.05 nothing can be proven."""
    delta: float
    """Cliff's delta, -1 to 1: share of pairs in which the second is larger less share in which it is smaller."""


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> RankTest:
    """The second sample against the first. Raises ValueError for an empty one."""
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
    """The two-sided p of samples that do not overlap: 2 of all ways to divide n + m values. 3 and 3: 0.1; 4 and 4: 0.029."""
    return min(2 / comb(n + m, n), 1.0)


Strata = Sequence[tuple[Sequence[float], Sequence[float]]]
"""The two samples of each run."""


def over_runs(strata: Strata, least: float) -> RankTest:
    """The second samples against the first by the runs in which their median lies beyond it by more than `least`: a sign test.

    Raises ValueError for an empty sample, and where there is no run.
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
    """Values on each side from which samples that do not overlap reach p <= `level` at all."""
    n = 1
    while least_p(n, n) > level:
        n += 1
    return n


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p of each, so that among all of them a false difference is claimed with at most the level asked (S. Holm, 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    out, reached = [1.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        reached = max(reached, min((len(p_values) - place) * p_values[index], 1.0))
        out[index] = reached
    return out


def p_words(p: float) -> str:
    """`p = 0.012`; digits beyond the third say nothing."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"  # noqa: PLR2004 -- as above


def u_quantile(n: int, m: int, share: float) -> tuple[int, float]:
    """The largest k with P(U < k) <= `share` for samples without ties and without a difference, and that probability; (0, 0) for none.

    From many pairs on by the normal approximation: the exact distribution would need gigabytes.
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
    """Twice the rank of every value, rising, and by value; equal values share their mean rank, hence twice."""
    ranks: list[int] = []
    of_value: dict[float, int] = {}
    for value, same in groupby(sorted([*first, *second])):
        count = len(list(same))
        of_value[value] = 2 * len(ranks) + count + 1
        ranks += [of_value[value]] * count
    return tuple(ranks), of_value


@lru_cache(maxsize=256)
def _rank_sums(ranks: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return how many subsets of `size` ranks have each sum; index is the sum.

    One integer holds the counts of all sums, in fields of so many bytes: shifted by a rank, it is those of these subsets and that rank.
    """
    width = len(ranks) // 8 + 1
    ways = [1, *[0] * size]
    for rank in ranks:
        for taken in range(size, 0, -1):
            ways[taken] += ways[taken - 1] << 8 * width * rank
    fields = ways[size].to_bytes(width * (sum(ranks) + 1), "little")
    return tuple(int.from_bytes(fields[at : at + width], "little") for at in range(0, len(fields), width))
