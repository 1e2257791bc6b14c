"""Tests and intervals of a mean that stay valid when checked after each value (sequential analysis).

Two hypotheses are compared by their likelihood ratio (A. Wald, Ann. Math. Stat. 16, 1945, 117). If one is true, the ratio in favour of the
other ever reaches 1 / share with a probability of at most `share`. This needs the fewest values.

An interval needs more values. Take the likelihood of t under means drawn from a normal distribution, over that under the mean in question.
If that mean is true, this ratio is 1 on average at each look, whatever the variance is (T. L. Lai, Ann. Stat. 4, 1976, 265; H. Wang, A.
Ramdas, Anytime-valid t-tests, 2025). So it ever reaches 1 / share with a probability of at most `share` (Ville's inequality). The interval
consists of all means whose ratio is lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev, variance

FEWEST = 6
"""Fewest values for a result: a few values seldom show heavy tails."""
_DRAWN = 0.25
"""Variance of the drawn means over that of a value: changes of half a standard deviation are found soonest."""
_LEAST_SD = 0.001
"""Least standard deviation of logarithms. Smaller differences are from the resolution of a clock."""
_LOST = 3
"""Correction for few values: t with v degrees of freedom has a variance of v / (v - 2)."""


@dataclass(frozen=True)
class Reach:
    """Mean with its interval."""

    mean: float
    low: float
    high: float


def mean_reach(values: Sequence[float], share: float) -> Reach | None:
    """Return the interval that excludes the true mean with a probability of at most `share`, over all looks; None for too few values."""
    n = len(values)
    if n < FEWEST:
        return None
    # With v = n - 1 and b = 1 + n g (g: variance of the drawn means over that of a value) the ratio is
    # b^-1/2 ((1 + t²/v) / (1 + t²/(v b)))^(n/2), which is below 1 / share where t²/v < (k - 1) / (1 - k / b).
    b = 1 + n * _DRAWN
    k = exp((log(b) / 2 - log(share)) * 2 / n)
    mean = fmean(values)
    if k >= b:
        return None
    away = sqrt((k - 1) / (1 - k / b) * (n - 1) / n) * max(stdev(values), _LEAST_SD)
    return Reach(mean, mean - away, mean + away)


def log_likelihood_ratio(values: Sequence[float], first: float, second: float) -> float:
    """Return the log-likelihood ratio of mean `second` to mean `first`; 0 for too few values."""
    n = len(values)
    if n < FEWEST:
        return 0.0
    spread = max(variance(values), _LEAST_SD**2) * (n - 1) / (n - _LOST)
    return (second - first) * n * (fmean(values) - (first + second) / 2) / spread
