"""Few repeats of many cells: their spread is estimated from all cells together.

Three repeats a side never fall below p = 0.1 by ranks, and few repeats of many cells prove nothing once p is adjusted for all of them. Yet
cells that were measured together inform one another's spread. So the variance of a pair is the mean of its own and of that of all cells,
weighted by degrees of freedom (G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004, article 3, section 6.2), on the logarithm. A t
test follows. It assumes normal values. A box with two states breaks it: a cell whose few repeats all met one state seems to have no
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
"""Repeats a side: of two, both too often meet one state of the box."""
_LEAST_SD = 0.001
"""Least standard deviation of the logarithm. Values nearer to each other are so by the steps of a clock or a counter."""
CELLS_FOR_PRIOR = 3
"""Fewer cells tell nothing of each other."""


def takes_over(n: int, m: int, tests: int, level: float) -> bool:
    """Return whether n and m repeats are too few for ranks at `level` among so many tests, but enough for this, whatever the values are."""
    return min(n, m) >= FEWEST and least_p(n, m) * tests > level


@dataclass(frozen=True)
class SharedSpread:
    """Spread of cells that were measured together, as variances of logarithms."""

    variance: float
    """Common variance of all cells."""
    freedom: float
    """Degrees of freedom that it adds to those of a cell: many where the cells differ by no more than chance."""
    floor: float
    """The upper quartile over the cells."""

    def levels(self, first: Sequence[float], second: Sequence[float]) -> RunLevels:
        """The second side against the first; at least FEWEST values a side, above zero."""
        logs = [[log(v) for v in side] for side in (first, second)]
        own = sum(len(side) - 1 for side in logs)
        squares = sum(variance(side) * (len(side) - 1) for side in logs)
        shared = (self.freedom * self.variance + squares) / (self.freedom + own)
        error = sqrt(max(shared, self.floor) * sum(1 / len(side) for side in logs))
        a, b = (exp(fmean(side)) for side in logs)
        return RunLevels(a, b, ((error, self.freedom + own),))


def shared_spread(cells: Sequence[Sequence[float]]) -> SharedSpread:
    """Estimate it from cells with at least two repeats each, values above zero; at least one cell."""
    variances = [max(variance([log(v) for v in cell]), _LEAST_SD**2) for cell in cells]
    floor = quantiles(variances, n=4, method="inclusive")[2] if len(variances) > 1 else variances[0]
    if len(variances) < CELLS_FOR_PRIOR:
        return SharedSpread(1.0, 0.0, floor)
    return SharedSpread(*drawn_together(variances, [len(cell) - 1.0 for cell in cells]), floor)
