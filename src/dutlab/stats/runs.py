"""Compare two sides by whole runs: the levels of both sides over several runs each, in time order.

The value of a run is the logarithm of its median. The difference of the two means is a linear estimate, so its standard error is known for
any autocorrelation. Runs are seldom independent (heat, neighbours, updates during a night), and a few runs cannot show the dependence. So p
is the larger of two values: for independent runs, and for runs with an autocorrelation of 0.8. Degrees of freedom follow F. E.
Satterthwaite (Biometrics Bull. 2, 1946). A single new run against several older ones is a special case.

Changes from run to run mostly affect all cells of a device. A small spread of one cell over a few runs is often chance. So the error of a
cell is at least the median error over all cells of the same runs.

If each of several runs has both sides, each run gives one ratio, and the t-test is over these ratios. Their spread includes effects of a
run on only one side. A few runs estimate this spread badly, so it is shrunk towards the spread of the other pairs, as far as these agree
(G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004). It is never taken smaller than measured.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, log1p, sqrt
from statistics import fmean, median, stdev, variance
from typing import TYPE_CHECKING

from dutlab.stats import student
from dutlab.stats.ratio import Ratio
from dutlab.stats.summary import CONFIDENCE, Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST = 4
"""Smallest number of runs, of both sides together. With fewer, the spread between runs is unknown."""
ASSUMED = (0.0, 0.8)
"""Assumed autocorrelations between successive runs; the one with the larger error counts."""
POWER = 0.8
FEWEST_WITHIN = 2
"""Smallest number of runs that have both sides."""
_AS_FAR = 0.8
_RESOLUTION = 1e-6
"""Smallest relative spread between runs."""
_FARTHEST = 300.0
"""Largest logarithm, to stay within the range of a float."""


@dataclass(frozen=True)
class RunLevels:
    """Comparison of the second side with the first."""

    first: float
    second: float
    """Geometric means over the runs of a side."""
    errors: tuple[tuple[float, float], ...]
    """(standard error of the logarithm of the ratio, degrees of freedom) for each assumed autocorrelation."""

    @property
    def ratio(self) -> float:
        """Second ÷ first."""
        return self.second / self.first

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the ratio."""
        away = exp(self.reach((1 - CONFIDENCE) / 2))
        return Interval(self.ratio / away, self.ratio * away, CONFIDENCE)

    @property
    def between(self) -> Ratio:
        """The ratio with its interval."""
        return Ratio(self.ratio, self.interval, "ratio of geometric means over runs")

    def p(self, least: float) -> float:
        """Return the two-sided p-value of a change beyond `least`: how often chance shows it if the true change is not larger."""
        beyond = abs(log(self.ratio)) - log1p(least)
        if beyond <= 0:
            return 1.0
        return max(student.two_sided(beyond / se, df) if se > 0 else 0.0 for se, df in self.errors)

    def reach(self, level: float) -> float:
        """Return how far the one-sided interval at `level` reaches from the logarithm of the ratio, to either side."""
        return min(max(student.quantile(1 - level, df) * se for se, df in self.errors), _FARTHEST)

    def provable(self, least: float, level: float) -> float:
        """Return the smallest relative change that such runs prove at `level` with a power of 80 %."""
        away = max((student.quantile(1 - level / 2, df) + student.quantile(POWER, df)) * se for se, df in self.errors)
        return exp(min(log1p(least) + away, _FARTHEST)) - 1


def levels_of(first: Sequence[float], second: Sequence[float], first_at: Sequence[int], second_at: Sequence[int]) -> RunLevels | None:
    """Compare run medians `first` and `second`, with their positions in time `…_at`. None for too few runs, or values not above 0."""
    import numpy as np  # noqa: PLC0415 - takes 80 ms to import, and few commands need it

    if not first or not second or len(first) + len(second) < FEWEST or min(*first, *second) <= 0:
        return None
    order = sorted(
        [
            *((at, 0, log(v)) for at, v in zip(first_at, first, strict=True)),
            *((at, 1, log(v)) for at, v in zip(second_at, second, strict=True)),
        ]
    )
    side, y = np.array([s for _, s, _ in order]), np.array([v for _, _, v in order])
    errors = tuple(_error(side, y, phi) for phi in ASSUMED)
    a, b = float(y[side == 0].mean()), float(y[side == 1].mean())
    return RunLevels(exp(a), exp(b), errors)


def with_error_floor(cells: Sequence[RunLevels]) -> list[RunLevels]:
    """Return the cells of the same runs; the error of each is at least the median error of all."""
    if not cells:
        return []
    usual = [median(cell.errors[n][0] for cell in cells) for n in range(len(ASSUMED))]
    return [replace(c, errors=tuple((max(se, floor), df) for (se, df), floor in zip(c.errors, usual, strict=True))) for c in cells]


def share_as_far(cells: Sequence[tuple[Sequence[float], float]]) -> list[float]:
    """Return for each cell the share of earlier runs that are as far from their median as the cell's new run; 0 if none is.

    A cell is (medians of several runs, median of the new run), all above 0. Occasional failed repeats make medians far outside a normal
    distribution: rarely in one cell, but often in some cell. So the runs of all cells are counted together. A run counts if it is on the
    same side and at least four fifths as far away. This is the empirical p of a Monte Carlo test (B. V. North, D. Curtis, P. C. Sham,
    Am. J. Hum. Genet. 71, 2002).
    """
    middles = [median(map(log, of)) for of, _ in cells]
    around = sorted(log(v) - middle for (of, _), middle in zip(cells, middles, strict=True) for v in of)
    away = [log(one) - middle for (_, one), middle in zip(cells, middles, strict=True)]
    counts = [bisect_right(around, by * _AS_FAR) if by < 0 else len(around) - bisect_left(around, by * _AS_FAR) for by in away]
    return [(count + 1) / (len(around) + 1) if count else 0.0 for count in counts]


def levels_within(strata: Sequence[tuple[float, float]]) -> RunLevels | None:
    """Compare medians of both sides in the same runs. None for too few runs, or values not above 0."""
    if len(strata) < FEWEST_WITHIN or min(min(of) for of in strata) <= 0:
        return None
    change = [log(second / first) for first, second in strata]
    first = exp(fmean(log(of) for of, _ in strata))
    error = max(stdev(change), _RESOLUTION) / sqrt(len(change))
    return RunLevels(first, first * exp(fmean(change)), ((error, len(change) - 1.0),))


def with_pooled_errors(pairs: Sequence[RunLevels]) -> list[RunLevels]:
    """Return the pairs with errors that use the spread between runs of all pairs. Each pair has the same number of runs."""
    if len(pairs) < 2:  # noqa: PLR2004 - one pair has no others
        return list(pairs)
    ((_, own),) = pairs[0].errors
    usual, more = drawn_together([of.errors[0][0] ** 2 for of in pairs], [own] * len(pairs))
    drawn = [(sqrt((more * usual + own * se**2) / (more + own)), se) for ((se, _),) in (of.errors for of in pairs)]
    return [replace(of, errors=((max(se), own + more),)) for of, se in zip(pairs, drawn, strict=True)]


def drawn_together(variances: Sequence[float], freedoms: Sequence[float]) -> tuple[float, float]:
    """Return the prior variance and its degrees of freedom, which are few if the variances differ by more than chance.

    The estimate uses the moments of the logarithms (Smyth, section 6.2). It needs at least two variances, all above 0.
    """
    from scipy.special import digamma, polygamma  # noqa: PLC0415 - takes 80 ms to import, and only this needs it

    logs = [log(v) - float(digamma(own / 2)) + log(own / 2) for v, own in zip(variances, freedoms, strict=True)]
    beyond = variance(logs) - fmean(float(polygamma(1, own / 2)) for own in freedoms)
    low, high = _LEAST_WORTH, _MOST_WORTH
    while high / low > 1.0 + 1e-6:
        middle = sqrt(low * high)
        low, high = (middle, high) if float(polygamma(1, middle / 2)) > beyond else (low, middle)
    return exp(fmean(logs) + float(digamma(low / 2)) - log(low / 2)), low


_LEAST_WORTH, _MOST_WORTH = 1e-3, 1e4


def _error(side: NDArray[np.int_], y: NDArray[np.float64], phi: float) -> tuple[float, float]:
    """Return standard error and degrees of freedom of the difference of means, if neighbours have the correlation `phi`."""
    import numpy as np  # noqa: PLC0415 - as above

    n = len(y)
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    correlation = np.where(lag == 0, 1.0, phi**lag)
    weights = np.where(side == 1, 1 / (side == 1).sum(), -1 / (side == 0).sum())
    sides = np.column_stack([side == 0, side == 1]).astype(float)
    residual = np.eye(n) - sides @ np.linalg.pinv(sides)
    of_squares = residual @ correlation
    trace = float(np.trace(of_squares))
    squares = float(((residual @ y) ** 2).sum()) / trace
    return float(np.sqrt(squares * (weights @ correlation @ weights))), trace**2 / float(np.trace(of_squares @ of_squares))
