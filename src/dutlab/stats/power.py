"""Smallest difference that repeats can prove, by the rule of the verdict, for normally distributed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import atan, cos, exp, log, log1p, pi, sin, sqrt
from statistics import NormalDist, fmean

from dutlab.stats.rank import MOST_EXACT_PAIRS, u_quantile
from dutlab.stats.ratio import FEWEST as FEWEST_OF_INTERVAL
from dutlab.stats.ratio import order_scale
from dutlab.stats.summary import CONFIDENCE

LEAST_IN_TURN = 0.01
"""Least relative change that counts between interleaved runs: the layout of code in memory alone changes more."""
POWER = 0.8
_DRAWS = 4000
_SEED = 20261122
_FARTHEST = 300.0
"""Largest logarithm in the search; a larger difference is not reported."""
_SHIFTS: Mapping[int, tuple[float, ...]] = {
    4: (2.947,),
    5: (3.126, 2.722, 2.549),
    6: (3.297, 2.867, 2.553, 2.4, 2.336, 2.327),
    7: (3.433, 3.021, 2.729, 2.51, 2.356, 2.276, 2.213, 2.197, 2.187),
    8: (3.585, 3.204, 2.912, 2.711, 2.519, 2.386, 2.264, 2.187, 2.134, 2.101, 2.084, 2.072, 2.068, 2.062),
    9: (3.693, 3.319, 3.039, 2.846, 2.676, 2.532, 2.411, 2.305, 2.202, 2.11, 2.028, 1.961, 1.913, 1.879, 1.849, 1.831, 1.821, 1.812),
    10: (3.767, 3.417, 3.152, 2.964, 2.793, 2.663, 2.539, 2.43, 2.332, 2.232, 2.147, 2.07, 2.008, 1.944, 1.892, 1.851, 1.814, 1.783,
         1.762, 1.751, 1.742, 1.737, 1.735, 1.73),
}  # fmt: skip
"""Shifts by _simulated(), by the number of repeats on both sides; one for each k = 1, 2, … up to that of 5 %.

They are precomputed because loading NumPy takes longer than making a plan.
"""


def provable(n: int, m: int, *, sd: float, comparisons: int, least: float, level: float = 0.05) -> float | None:
    """Return the smallest relative difference that n and m repeats prove among `comparisons` comparisons, four times in five.

    `sd` is the relative spread of the repeats. None if no difference, however large, could be proven.
    """
    away = _deviations(n, m, level / max(comparisons, 1))
    return None if away is None or away * sd > _FARTHEST else exp(log1p(least) + away * sd) - 1


def spread_of(*sides: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms within the sides; 0 if all values are equal.

    All values are above zero, and at least one side has two.
    """
    squares, freedom = 0.0, 0
    for values in sides:
        logs = [log(v) for v in values]
        middle = fmean(logs)
        squares += sum((v - middle) ** 2 for v in logs)
        freedom += len(logs) - 1
    return sqrt(squares / freedom) if freedom > 0 else 0.0


def smallest_provable_difference(
    repeats: int, cells: int, *, sd: float, comparisons: int, least: float, level: float = 0.05
) -> float | None:
    """Return the smallest provable difference by the rule for few repeats (dutlab.stats.few), if all cells have the same spread.

    None for fewer repeats than few.FEWEST.
    """
    from dutlab.stats import few  # noqa: PLC0415 -- most plans have enough repeats for ranks

    if repeats < few.FEWEST:
        return None
    freedom = (cells if cells >= few.CELLS_FOR_PRIOR else 2) * (repeats - 1)
    of_floor = sqrt(_QUARTILE[min(repeats, max(_QUARTILE))])
    away = (_t_quantile(1 - level / comparisons / 2, freedom) + _t_quantile(POWER, freedom)) * of_floor * sqrt(2 / repeats)
    return exp(log1p(least) + away * sd) - 1


_QUARTILE = {3: 1.386, 4: 1.369, 5: 1.346, 6: 1.325}
"""Upper quartile of a sample variance, by the number of normal values of variance 1 (chi-squared ÷ degrees of freedom)."""


def _t_quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t with whole degrees of freedom (M. Abramowitz, I. Stegun, 26.7.3 and 26.7.4). SciPy loads slowly."""
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 2 * share - 1 else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """Return the probability that the absolute value is at most `t`."""
    theta = atan(t / sqrt(freedom))
    square, term = cos(theta) ** 2, cos(theta) if freedom % 2 else 1.0
    total = 0.0
    for n in range(1 + freedom % 2, freedom, 2):
        total += term
        term *= n / (n + 1) * square
    return 2 / pi * (theta + sin(theta) * total) if freedom % 2 else sin(theta) * total


@lru_cache(maxsize=256)
def _deviations(n: int, m: int, level: float) -> float | None:
    """Return the shift, in standard deviations, that is proven at `level` with probability POWER; None if none is."""
    if n * m > MOST_EXACT_PAIRS and min(n, m) >= FEWEST_OF_INTERVAL:
        return _deviations_of_many(n, m, level)
    k, _ = u_quantile(n, m, level / 2)
    if not k or min(n, m) < FEWEST_OF_INTERVAL:
        return None
    known = _SHIFTS.get(n, ()) if n == m else ()
    return known[k - 1] if k <= len(known) else _simulated(n, m, k)


def _simulated(n: int, m: int, k: int) -> float:
    """Return the simulated shift at which fewer than k of the pairs contradict it, with probability POWER."""
    import numpy as np  # noqa: PLC0415 - takes 80 ms to import, and few commands need it

    dice = np.random.default_rng(_SEED)
    a, b = np.sort(dice.normal(size=(_DRAWS, n))), np.sort(dice.normal(size=(_DRAWS, m)))
    # second + shift is larger than all but k - 1 of the pairs once the shift passes the k-th largest of a - b
    pairs = np.sort((a[:, :, None] - b[:, None, :]).reshape(_DRAWS, -1))
    of_rank = pairs[:, n * m - k]
    (i, scale_a), (j, scale_b) = order_scale(n), order_scale(m)
    middle_a, middle_b = np.median(a, axis=1), np.median(b, axis=1)
    of_interval = np.hypot((middle_b - b[:, j - 1]) * scale_b, (a[:, -i] - middle_a) * scale_a) - (middle_b - middle_a)
    return float(np.quantile(np.maximum(of_rank, of_interval), POWER))


def _deviations_of_many(n: int, m: int, level: float) -> float:
    """Return the shift for large samples, by the asymptotic spread of the verdict's statistic.

    For normal values with a standard deviation of 1, the rank test's estimate of a shift has variance pi/3 (1/n + 1/m), and a difference of
    medians pi/2 (1/n + 1/m) (E. L. Lehmann, Nonparametrics, sections 2.4 and 2.5).
    """
    z = NormalDist().inv_cdf
    of_rank = (z(1 - level / 2) + z(POWER)) * sqrt(pi / 3)
    of_interval = (z((1 + CONFIDENCE) / 2) + z(POWER)) * sqrt(pi / 2)
    return max(of_rank, of_interval) * sqrt(1 / n + 1 / m)
