"""Comparison of few repeats of many cells: their spread is estimated from all cells together.

With three repeats a side, ranks never give p below 0.1, and few repeats of many cells prove nothing once p is adjusted for all cells. But
cells that were measured together show one another's spread. So the variance of a pair is the mean of this pair's variance and that of all
cells, weighted by degrees of freedom (G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004, article 3, section 6.2), on the logarithm. A t
test follows. It assumes normal values. A box with two states violates this: a cell whose few repeats all had one state seems to have no
spread. So no pair's variance is smaller than the upper quartile over the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, quantiles, variance

from dutlab.stats.rank import least_p
from dutlab.stats.runs import RunLevels, drawn_together

FEWEST = 3
"""Fewest repeats a side: two too often see the same state of the box."""
_LEAST_SD = 0.001
"""Least standard deviation of the logarithm. Smaller differences are from the resolution of a clock or a counter."""
CELLS_FOR_PRIOR = 3
"""Fewest cells for a common variance."""


def takes_over(n: int, m: int, tests: int, level: float) -> bool:
    """Return True if n and m repeats are too few for ranks at `level` among `tests` tests, but enough for this method."""
    return min(n, m) >= FEWEST and least_p(n, m) * tests > level


@dataclass(frozen=True)
class SharedSpread:
    """Common spread of cells that were measured together, as variances of logarithms."""

    variance: float
    """Common variance of all cells."""
    freedom: float
    """Degrees of freedom of the common variance, added to those of a cell. Many if the cells differ by no more than chance."""
    floor: float
    """Upper quartile of the variance over the cells."""

    def levels(self, first: Sequence[float], second: Sequence[float]) -> RunLevels:
        """Compare the second side with the first; at least FEWEST values a side, all above zero."""
        logs = [[log(v) for v in side] for side in (first, second)]
        own = sum(len(side) - 1 for side in logs)
        squares = sum(variance(side) * (len(side) - 1) for side in logs)
        shared = (self.freedom * self.variance + squares) / (self.freedom + own)
        error = sqrt(max(shared, self.floor) * sum(1 / len(side) for side in logs))
        a, b = (exp(fmean(side)) for side in logs)
        return RunLevels(a, b, ((error, self.freedom + own),))


def shared_spread(cells: Sequence[Sequence[float]]) -> SharedSpread:
    """Estimate the common spread of at least one cell; each has at least two repeats, all above zero."""
    variances = [max(variance([log(v) for v in cell]), _LEAST_SD**2) for cell in cells]
    floor = quantiles(variances, n=4, method="inclusive")[2] if len(variances) > 1 else variances[0]
    if len(variances) < CELLS_FOR_PRIOR:
        return SharedSpread(1.0, 0.0, floor)
    return SharedSpread(*drawn_together(variances, [len(cell) - 1.0 for cell in cells]), floor)
