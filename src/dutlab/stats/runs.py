"""Runs as the unit: the levels of two sides over several runs each, in the order of time.

A run enters with the logarithm of its median. The difference of the two means is a linear estimate, so its standard error is known for
any autocorrelation; runs seldom are independent (heat, neighbours, updates of a whole night), and from a few runs nobody can tell. So p is
the larger of two: that of independent runs, and that of runs with an autocorrelation of 0.8, with the degrees of freedom of F. E.
Satterthwaite (Biometrics Bull. 2, 1946). A single new run against several older ones is a special case.

What changes from run to run mostly befalls the whole box, and a cell that shows little of it in a few runs had luck: so no cell's error is
taken to be smaller than the median over all cells of the same runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, log1p
from statistics import median
from typing import TYPE_CHECKING

from dutlab.stats.summary import CONFIDENCE, Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST = 4
"""Runs of both sides together: below that a spread between runs is not known."""
ASSUMED = (0.0, 0.8)
"""Autocorrelations from one run to the next, of which the less favourable is taken."""
POWER = 0.8
_FARTHEST = 300.0
"""As a logarithm: no float holds what lies further off."""


@dataclass(frozen=True)
class RunLevels:
    """The second side against the first."""

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
        """95 % interval of the ratio."""
        away = exp(self.reach((1 - CONFIDENCE) / 2))
        return Interval(self.ratio / away, self.ratio * away, CONFIDENCE)

    def p(self, least: float) -> float:
        """Two-sided: how often chance shows a change this far beyond `least` where there is none larger."""
        from scipy.special import stdtr  # noqa: PLC0415 - 0.1 s that only this needs

        beyond = abs(log(self.ratio)) - log1p(least)
        if beyond <= 0:
            return 1.0
        return max(float(2 * stdtr(df, -beyond / se)) if se > 0 else 0.0 for se, df in self.errors)

    def reach(self, level: float) -> float:
        """How far the one-sided interval at `level` reaches from the logarithm of the ratio, to either side."""
        from scipy.special import stdtrit  # noqa: PLC0415 - as above

        return min(max(float(stdtrit(df, 1 - level)) * se for se, df in self.errors), _FARTHEST)

    def provable(self, least: float, level: float) -> float:
        """The smallest relative change that such runs would have proven at `level`, four times in five."""
        from scipy.special import stdtrit  # noqa: PLC0415 - as above

        away = max(float(stdtrit(df, 1 - level / 2) + stdtrit(df, POWER)) * se for se, df in self.errors)
        return exp(min(log1p(least) + away, _FARTHEST)) - 1


def levels_of(first: Sequence[float], second: Sequence[float], first_at: Sequence[int], second_at: Sequence[int]) -> RunLevels | None:
    """`first` and `second` are medians of runs, `…_at` their places in time. None where they are too few, or values are not above 0."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need

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


def of_one_box(cells: Sequence[RunLevels]) -> list[RunLevels]:
    """The cells of the same runs, none with a smaller error than the median over all of them."""
    if not cells:
        return []
    usual = [median(cell.errors[n][0] for cell in cells) for n in range(len(ASSUMED))]
    return [replace(c, errors=tuple((max(se, floor), df) for (se, df), floor in zip(c.errors, usual, strict=True))) for c in cells]


def _error(side: NDArray[np.int_], y: NDArray[np.float64], phi: float) -> tuple[float, float]:
    """Standard error of the difference of the sides' means, and its degrees of freedom, where neighbours are correlated by `phi`."""
    import numpy as np  # noqa: PLC0415 - as above

    n = len(y)
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    correlation = np.where(lag == 0, 1.0, phi**lag)
    weights = np.where(side == 1, 1 / (side == 1).sum(), -1 / (side == 0).sum())
    sides = np.column_stack([side == 0, side == 1]).astype(float)
    residual = np.eye(n) - sides @ np.linalg.pinv(sides)
    of_squares = residual @ correlation
    trace = float(np.trace(of_squares))
    variance = float(((residual @ y) ** 2).sum()) / trace
    return float(np.sqrt(variance * (weights @ correlation @ weights))), trace**2 / float(np.trace(of_squares @ of_squares))
