"""Ordinary least squares, with intervals for errors of unequal size.

The covariance is HC3 (MacKinnon and White, Some heteroskedasticity-consistent covariance matrix estimators with improved finite sample
properties, 1985): each residual is divided by 1 - leverage. Intervals use Student's t with rows - rank degrees of freedom.

A plan may not separate all terms: two columns may change only together. The fit then has the rank of the plan, and only sums of terms
that the plan determines have a value (estimable functions; Searle, Linear Models, section 5.4). Columns are scaled to length 1 first, so
that the rank does not depend on units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dutlab.stats.student import quantile
from dutlab.stats.summary import CONFIDENCE, Interval

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

LEAST_SINGULAR = 0.005
"""Least singular value of the scaled columns, as a share of the largest. A rate that was meant to be constant varies by less."""
MOST_SHARE = 0.02
"""Largest share of a sum of terms, in scaled units, in a direction that the plan does not determine."""
ALONE = 1 - 1e-6
"""Leverage from which on a row determines a part of the fit alone, so that its own error is not visible."""


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Fit of `values` by a sum of columns. A sum of terms is asked for by the weight of each: `(1, 4, 8000)`."""

    estimates: tuple[float, ...]
    """Estimate of each term. Only those that separates() confirms have a meaning."""
    residuals: tuple[float, ...]
    """Value less fitted value, by row."""
    leverages: tuple[float, ...]
    """Weight of each row's own value in its fitted value, 0 to 1."""
    rank: int
    scale: NDArray[float64]
    """Length of each column, shape (terms,)."""
    basis: NDArray[float64]
    """Directions that the rows determine, in scaled units, shape (rank, terms)."""
    inverse: NDArray[float64]
    """Pseudo-inverse of the scaled columns, shape (terms, rows)."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom: rows less rank."""
        return len(self.residuals) - self.rank

    @property
    def deviation(self) -> float | None:
        """Standard deviation of one value around the fit; None without degrees of freedom."""
        return (sum(r * r for r in self.residuals) / self.freedom) ** 0.5 if self.freedom > 0 else None

    def undetermined(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Return the part of a sum of terms that the rows do not determine, of each term, as a share of the sum's length."""
        import numpy as np  # noqa: PLC0415 - few commands fit anything

        scaled = np.asarray(weights, float) / self.scale
        length = float(np.linalg.norm(scaled))
        rest = scaled - self.basis.T @ (self.basis @ scaled)
        return tuple(float(r) / length for r in rest) if length else (0.0,) * len(weights)

    def separates(self, weights: Sequence[float]) -> bool:
        """Return whether the rows determine this sum of terms."""
        return max(map(abs, self.undetermined(weights))) <= MOST_SHARE

    def value(self, weights: Sequence[float]) -> float:
        """Return the sum of terms."""
        return sum(w * b for w, b in zip(weights, self.estimates, strict=True))

    def leverage(self, weights: Sequence[float]) -> float:
        """Return the leverage that a row with these columns would have. One above all of `leverages` is outside of what was measured."""
        influence = self._influence(weights)
        return float(influence @ influence)

    def standard_error(self, weights: Sequence[float]) -> float | None:
        """Return the HC3 standard error of a sum of terms; None if a row whose own error is not visible determines it."""
        influence, squares = self._influence(weights), 0.0
        least = 1e-6 * max(map(abs, influence), default=0.0)
        for part, residual, leverage in zip(influence, self.residuals, self.leverages, strict=True):
            if leverage >= ALONE:
                if abs(part) > least:
                    return None
            else:
                squares += (float(part) * residual / (1 - leverage)) ** 2
        return squares**0.5 if self.freedom > 0 else None

    def interval(self, weights: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
        """Return the interval of a sum of terms; None if its error is not known."""
        error = self.standard_error(weights)
        return None if error is None else self._around(self.value(weights), error, confidence)

    def prediction(self, weights: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
        """Return the interval for one new value with these columns: the error of the sum, and of one value around the fit."""
        error, deviation = self.standard_error(weights), self.deviation
        if error is None or deviation is None:
            return None
        return self._around(self.value(weights), (error**2 + deviation**2) ** 0.5, confidence)

    def _around(self, value: float, error: float, confidence: float) -> Interval:
        reach = error * quantile((1 + confidence) / 2, self.freedom)
        return Interval(value - reach, value + reach, confidence)

    def _influence(self, weights: Sequence[float]) -> NDArray[float64]:
        """Return the weight of each row's value in a sum of terms, shape (rows,)."""
        import numpy as np  # noqa: PLC0415 - as above

        return self.inverse.T @ (np.asarray(weights, float) / self.scale)


def least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> LinearFit:
    """Fit `values` by the columns of `rows`, shape (rows, terms). Raises ValueError without rows, or for other than finite numbers."""
    import numpy as np  # noqa: PLC0415 - as above

    matrix, wanted = np.asarray(rows, float), np.asarray(values, float)
    if not len(wanted) or matrix.shape[:1] != wanted.shape or not (np.isfinite(matrix).all() and np.isfinite(wanted).all()):
        raise ValueError("a fit needs rows of finite numbers, and a value for each")
    lengths = np.linalg.norm(matrix, axis=0)
    scale = np.where(lengths > 0, lengths, 1.0)
    left, singular, right = np.linalg.svd(matrix / scale, full_matrices=False)
    rank = int((singular > LEAST_SINGULAR * singular[0]).sum()) if singular[0] > 0 else 0
    left, basis = left[:, :rank], right[:rank]
    inverse = basis.T @ (left / singular[:rank]).T
    scaled = inverse @ wanted
    return LinearFit(
        estimates=tuple(map(float, scaled / scale)),
        residuals=tuple(map(float, wanted - matrix / scale @ scaled)),
        leverages=tuple(float(h) for h in (left * left).sum(axis=1)),
        rank=rank,
        scale=scale,
        basis=basis,
        inverse=inverse,
    )
