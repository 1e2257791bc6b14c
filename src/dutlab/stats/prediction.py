"""Prediction intervals: the range of the median of one more run, if nothing changes.

An interval of a median says where the true median is. A new run has an error too, so its median is inside a wider interval. On the
logarithm, the variance of the difference of two medians is the variance of a repeat times the sum of c/n over both, where c is at most
π/2 (the median of normal values); for one or two values, whose median is their mean, it is 1. With t quantiles this is the usual
prediction interval (G. J. Hahn and W. Q. Meeker, Statistical Intervals, 1991, section 4.8), for medians.

None of them covers what no earlier run shows: the caller widens the interval by the change that another set-up may bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, log, pi, sqrt
from statistics import NormalDist, fmean, variance

from dutlab.stats import student
from dutlab.stats.few import CELLS_FOR_PRIOR, FEWEST, SharedSpread, shared_spread
from dutlab.stats.summary import Interval, median

FEWEST_RUNS = 3
"""Fewest runs whose own spread gives the interval."""
_FARTHEST = 300.0
"""Largest logarithm, to stay within the range of a float."""


def next_of_repeats(values: Sequence[float], count: int, outside: float, shared: SharedSpread | None) -> Interval | None:
    """Return the range of the median of `count` repeats in another run, from the repeats of one run; None for fewer than FEWEST.

    `outside` is the probability of a median outside. `shared` is the common spread of cells that were measured together. Values that are
    not all above 0 have no logarithm: their own spread counts, on the linear scale.
    """
    if len(values) < FEWEST or count < 1:
        return None
    own, middle = len(values) - 1.0, median(values)
    weight = fsum(_of_median(n) / n for n in (len(values), count))
    if min(values) <= 0:
        away = student.quantile(1 - outside / 2, own) * sqrt(variance(values) * weight)
        return Interval(middle - away, middle + away, 1 - outside)
    of_one, freedom = _spread([log(v) for v in values], shared)
    return _around(middle, student.quantile(1 - outside / 2, freedom) * sqrt(of_one * weight), outside)


@dataclass(frozen=True)
class CommonChange:
    """Change from run to run: the part that all cells of a device share, and the rest of each cell; both on the logarithm."""

    by_run: tuple[float, ...]
    """Change of each run, whose mean is 0."""
    rest: SharedSpread

    @property
    def variance(self) -> float:
        """Variance of the change, with one degree of freedom less than runs."""
        return variance(self.by_run)


def common_change(cells: Sequence[Sequence[float]]) -> CommonChange | None:
    """Return the common change of cells, each with the medians of the same runs, all above 0; None for too few cells or runs."""
    if len(cells) < CELLS_FOR_PRIOR or len(cells[0]) < FEWEST_RUNS:
        return None
    logs = [_centred([log(v) for v in medians]) for medians in cells]
    by_run = [fmean(of_run) for of_run in zip(*logs, strict=True)]
    return CommonChange(tuple(by_run), shared_spread([[exp(v - change) for v, change in zip(of, by_run, strict=True)] for of in logs]))


def next_of_runs(
    medians: Sequence[float], outside: float, shared: SharedSpread | None = None, common: CommonChange | None = None, together: float = 0.05
) -> Interval | None:
    """Return the range of the next run's median, from those of at least FEWEST_RUNS independent runs, all above 0; else None.

    `shared` is the common spread of such medians, if they change from run to run independently of one another. `common` is what cells of
    the same runs share. It is one quantity for all cells, so it is outside with half of `together`, however many cells there are.
    """
    if len(medians) < FEWEST_RUNS or min(medians) <= 0:
        return None
    logs, runs = [log(v) for v in medians], len(medians)
    of_all = 0.0
    if common is not None and len(common.by_run) == runs:
        of_all = student.quantile(1 - together / 4, runs - 1) ** 2 * common.variance
        own = [v - change for v, change in zip(logs, common.by_run, strict=True)]
        of_one, freedom = _spread(own, common.rest)
    else:
        of_one, freedom = _spread(logs, shared)
    of_one *= student.quantile(1 - outside / 2, freedom) ** 2
    return _around(exp(fmean(logs)), sqrt((of_one + of_all) * (1 + 1 / runs)), outside)


def at_level(interval: Interval, centre: float, outside: float) -> Interval:
    """Return an interval for another probability `outside`, as that of a normal distribution."""
    normal = NormalDist()
    by = normal.inv_cdf(1 - outside / 2) / normal.inv_cdf((1 + interval.confidence) / 2)
    return Interval(centre - by * (centre - interval.low), centre + by * (interval.high - centre), 1 - outside)


def widened(interval: Interval, by: float) -> Interval:
    """Return the interval widened by the relative change `by` to either side."""
    low, high = ((v / (1 + by), v * (1 + by)) for v in (interval.low, interval.high))
    return Interval(min(low), max(high), interval.confidence)


def reach_of(interval: Interval, centre: float) -> float | None:
    """Return how far the interval reaches from `centre` (above 0) as a ratio less 1; None where it reaches 0 or the centre is 0."""
    if centre <= 0 or interval.low <= 0:
        return None
    return max(interval.high / centre, centre / interval.low) - 1


def _centred(values: Sequence[float]) -> list[float]:
    middle = fmean(values)
    return [v - middle for v in values]


def _spread(logs: Sequence[float], shared: SharedSpread | None) -> tuple[float, float]:
    """Return the variance of one value and its degrees of freedom, with those of a common spread (dutlab.stats.few)."""
    own = len(logs) - 1.0
    if shared is None:
        return variance(logs), own
    return max((shared.freedom * shared.variance + own * variance(logs)) / (shared.freedom + own), shared.floor), shared.freedom + own


def _around(centre: float, away: float, outside: float) -> Interval:
    by = exp(min(away, _FARTHEST))
    return Interval(centre / by, centre * by, 1 - outside)


def _of_median(n: int) -> float:
    """Return the variance of the median of n normal values ÷ that of their mean; above two values, its largest."""
    return 1.0 if n <= 2 else pi / 2  # noqa: PLR2004 - the median of two is their mean
