"""Statements on a mean after each value. Stopping as soon as something can be said does not make the answer wrong more often.

Two hypotheses are separated by the ratio of their likelihoods (A. Wald, Ann. Math. Stat. 16, 1945, 117): under the one it is as large as
1 / share in favour of the other with a probability of at most `share`, at whatever look. It needs the fewest values.

An interval takes more. The likelihood of t under means that are drawn from a normal distribution, over that under the mean in question,
is 1 on average at each look, whatever the variance is (T. L. Lai, Ann. Stat. 4, 1976, 265; H. Wang, A. Ramdas, Anytime-valid t-tests,
2025). So it is ever as large as 1 / share with a probability of at most `share` (Ville's inequality). The interval has all means of which
it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev, variance

FEWEST = 6
"""Values, below which nothing is said: of few, heavy tails show too seldom."""
_DRAWN = 0.25
"""Variance of the means that are drawn, by that of a value: changes of half a standard deviation are found soonest."""
_LEAST_SD = 0.001
"""Least standard deviation of logarithms; values nearer to each other are so by the steps of a clock."""
_LOST = 3
"""Degrees of freedom: t of v of them has a variance of v / (v - 2), by which the variance of few values is too small."""


@dataclass(frozen=True)
class Reach:
    """Range of the mean."""

    mean: float
    low: float
    high: float


def mean_reach(values: Sequence[float], share: float) -> Reach | None:
    """The interval that leaves the mean out with a probability of at most `share`, over all looks together; None for too few values."""
    n = len(values)
    if n < FEWEST:
        return None
    # With v = n - 1 and b = 1 + n g (g is the variance of means that are drawn, by that of a value) the ratio is
    # b^-1/2 ((1 + t²/v) / (1 + t²/(v b)))^(n/2), which is below 1 / share where t²/v < (k - 1) / (1 - k / b).
    b = 1 + n * _DRAWN
    k = exp((log(b) / 2 - log(share)) * 2 / n)
    mean = fmean(values)
    if k >= b:
        return None
    away = sqrt((k - 1) / (1 - k / b) * (n - 1) / n) * max(stdev(values), _LEAST_SD)
    return Reach(mean, mean - away, mean + away)


def likelier(values: Sequence[float], first: float, second: float) -> float:
    """Logarithm of how much likelier the values are if their mean is `second` than if it is `first`; 0 for too few values."""
    n = len(values)
    if n < FEWEST:
        return 0.0
    spread = max(variance(values), _LEAST_SD**2) * (n - 1) / (n - _LOST)
    return (second - first) * n * (fmean(values) - (first + second) / 2) / spread
