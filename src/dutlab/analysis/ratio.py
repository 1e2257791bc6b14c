"""How many times one sample is another, with an interval.

From ten values a side on: the ratio of the medians with a bias-corrected and accelerated bootstrap interval (B. Efron, JASA 82, 1987), its
resampling seeded. Below that: the median of all pairwise ratios (Hodges-Lehmann) with the interval that inverts the exact rank test, which
exists from four values a side on. Both are of repeats, never of seconds inside a trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from dutlab.analysis.rank import u_quantile
from dutlab.analysis.statistics import CONFIDENCE, Interval, median

FIRST_BOOTSTRAP_N = 10
RESAMPLES = 9999
SEED = 20261121


@dataclass(frozen=True)
class Ratio:
    """The second over the first. `interval` is None where repeats are too few for one."""

    ratio: float
    interval: Interval | None
    method: str
    """`ratio of medians, BCa bootstrap` or `median of pairwise ratios, exact`; how the interval was found."""

    def within(self, margin: float) -> bool:
        """The whole interval lies between 1 / (1 + margin) and 1 + margin: equivalent, for a margin that was given beforehand."""
        return self.interval is not None and 1 / (1 + margin) <= self.interval.low and self.interval.high <= 1 + margin


def ratio_of(first: Sequence[float], second: Sequence[float], *, confidence: float = CONFIDENCE, seed: int = SEED) -> Ratio:
    """`second` over `first`. Raises ValueError where there is no ratio: an empty sample, or values that are not above zero."""
    if not first or not second:
        raise ValueError("an empty sample has no ratio")
    if not all(isfinite(v) and v > 0 for v in (*first, *second)):
        raise ValueError("there is no ratio of values that are not above zero")
    if len({*first}) == 1 and len({*second}) == 1:
        return _pairwise(first, second, confidence)  # resampling constants finds nothing
    if min(len(first), len(second)) < FIRST_BOOTSTRAP_N:
        return _pairwise(first, second, confidence)
    return _bootstrap(first, second, confidence, seed) or _pairwise(first, second, confidence)


def _pairwise(first: Sequence[float], second: Sequence[float], confidence: float) -> Ratio:
    ratios = sorted(b / a for a in first for b in second)
    k, outside = u_quantile(len(first), len(second), (1 - confidence) / 2)
    interval = Interval(ratios[k - 1], ratios[len(ratios) - k], 1 - 2 * outside) if k else None
    return Ratio(median(ratios), interval, "median of pairwise ratios, exact")


def _bootstrap(first: Sequence[float], second: Sequence[float], confidence: float, seed: int) -> Ratio | None:
    """None where the bootstrap degenerates, as with values nearly all equal."""
    import warnings  # noqa: PLC0415 - with SciPy's

    import numpy as np  # noqa: PLC0415 - SciPy takes 1.8 s to load, which only comparisons of many repeats need
    from scipy.stats import DegenerateDataWarning, bootstrap  # noqa: PLC0415 - as above

    def statistic(a: Any, b: Any, axis: int) -> Any:  # noqa: ANN401 - arrays, as SciPy passes them
        return np.median(b, axis=axis) / np.median(a, axis=axis)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        found = bootstrap(
            (np.asarray(first), np.asarray(second)), statistic, n_resamples=RESAMPLES, vectorized=True, confidence_level=confidence,
            method="BCa", rng=np.random.default_rng(seed),
        ).confidence_interval  # fmt: skip
    if not (isfinite(found.low) and isfinite(found.high)):
        return None
    interval = Interval(float(found.low), float(found.high), confidence)
    return Ratio(median(second) / median(first), interval, "ratio of medians, BCa bootstrap")
