"""Steps in the level of a series of runs, tested against effects that occur without a change.

- Autocorrelation. One estimate compares differences of runs two apart with differences of neighbours (S. Chakar, E. Lebarbier,
  C. Lévy-Leduc, S. Robin, Bernoulli 23, 2017: steps hardly affect it). The other is from the residuals of the step. The larger one
  is used, raised by half a standard error and by its bias. Generalised least squares remove it.
- Drift, also one that slows down, speeds up or follows seasons. A step is tested over the likeliest line through all runs
  (P. Perron, T. Yabu, J. Bus. Econ. Stat. 27, 2009), and over the likeliest curves through the runs around it.
- Outliers. Values are clipped to a few standard deviations from the median of the runs around them (P. Fearnhead, G. Rigaill,
  J. Am. Stat. Assoc. 114, 2019: a bounded loss). A step in the raw values only must also be one that outliers would seldom make by chance.
- Changes of spread. The error of a step is that of the runs around it, if that is larger than the error of all runs (H. White,
  Econometrica 48, 1980).

p is multiplied by the number of places, as the search for the best place requires. On both sides of a proven step the search is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, comb, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from dutlab.analysis.design import LEVEL
from dutlab.stats import student
from dutlab.stats.summary import median

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SHORTEST = 2
AROUND = 7
"""Runs on either side that define the usual level at a place."""
_CLIP = 2.5
"""Distance from the usual level to which values are clipped, in standard deviations."""
_NEAR = 60
"""Runs on either side within which a step is distinguished from a curve."""
_MOST_BENDS, _RUNS_A_BEND = 8, 8
"""Highest degree of such a curve, and runs needed for each degree."""
_AS_LIKELY = 3.0
"""Largest difference from the least criterion for a likely curve: it is e^(3 / 2) = 4.5 times less likely."""
_KEPT, _KEPT_OF_SMOOTH = 0.7, 0.85
"""Share of the differences between runs that are used, the smaller ones, since the others may be changes: for the noise, and for the
autocorrelation of values without outliers."""
_MOST = 0.98
"""Largest autocorrelation of the model. With more, a series has no level that could change."""
_APART = 6.0
"""Distance from both neighbours at which a single run counts as an outlier, in standard deviations of a run."""
_RESOLUTION = 1e-6
"""Least noise of runs, as a share of the largest value. Runs that agree better get this noise."""
FEWEST = 6
"""Fewest runs. With fewer, the spread of single runs is not known well enough."""


@dataclass(frozen=True)
class LevelSeries:
    """Runs in time order, with the clipped value of each."""

    y: Array
    near: Array
    """Clipped values: outliers are moved to the usual range around them."""
    least: float
    phi: float
    apart: tuple[int, ...] = ()

    @classmethod
    def of(cls, y: Array) -> LevelSeries:
        import numpy as np  # noqa: PLC0415 - as above

        least = _RESOLUTION * float(np.abs(y).max())
        noise = max(_spread(y[1:] - y[:-1], _KEPT) / sqrt(2), least)
        around = _medians(y)
        usual = max(float(np.median(np.abs(y - around))) * 1.4826, noise)
        near = around + np.clip(y - around, -_CLIP * usual, _CLIP * usual)
        return cls(y, near, least, autocorrelation(near), _apart(y, noise))

    def part(self, first: int, last: int) -> LevelSeries:
        """Return a part of the runs, with the noise and autocorrelation of all runs."""
        return replace(self, y=self.y[first:last], near=self.near[first:last])


def level_steps(of: LevelSeries, *, places: int, offset: int = 0) -> list[tuple[int, float]]:
    """Return the places where a new level begins, and p of each."""
    if len(of.y) < FEWEST or not of.least:  # too few, or all are 0
        return []
    step = _proven(of, places)
    if step is None:
        return []
    at, p = step
    return [
        *level_steps(of.part(0, at), places=places, offset=offset),
        (offset + at, p),
        *level_steps(of.part(at, len(of.y)), places=places, offset=offset + at),
    ]


def _proven(of: LevelSeries, places: int) -> tuple[int, float] | None:
    """Return the clearest step and its p, if it is proven.

    The raw values prove it if outliers seldom make such a step by chance. Otherwise the clipped values may prove it.
    """
    step = _step(of.y, of, places)
    if step is not None:
        at, effect, p = step
        if (p := max(p, min(_by_chance(of, at, effect) * places, 1.0))) <= LEVEL:
            return at, p
    step = _step(of.near, of, places)
    return None if step is None else (_refined(of.y, step[0]), step[2])


def _step(y: Array, of: LevelSeries, places: int) -> tuple[int, float, float] | None:
    """Return the place of the step that explains most, its size, and p for all places; None where it is not proven.

    The step is tested against a line through all runs, and against curves through the runs around it.
    """
    at, effect, p = _step_over_curves(y, of, degrees=2)
    if p * places > LEVEL:
        return None
    first, last = max(at - _NEAR, 0), min(at + _NEAR, len(y))
    here, _, also = _step_over_curves(y[first:last], of.part(first, last), degrees=1 + min(_MOST_BENDS, (last - first) // _RUNS_A_BEND))
    p = max(p, also) * places
    return (at, effect, p) if p <= LEVEL and abs(first + here - at) <= AROUND else None


def _step_over_curves(y: Array, of: LevelSeries, *, degrees: int) -> tuple[int, float, float]:
    """Return place and size of a step over the likeliest curve of a degree below `degrees`, and p.

    p is the largest one of all curves that are nearly as likely. The likelihood of a curve follows from the residuals of the curve with a
    step, for the clipped values, and from the number of parameters (G. Schwarz, Ann. Stat. 6, 1978).
    """
    curves = sorted((_cost(of, degree), degree) for degree in range(degrees))
    steps = []
    for cost, degree in curves:
        if cost > curves[0][0] + _AS_LIKELY:
            break
        step = StepFit(y, of.phi, of.least, degree=degree).best()
        if (more := left_over(y, step[0], degree)) > of.phi:
            step = StepFit(y, more, of.least, degree=degree).best()
        steps.append(step)
    (at, effect, _), *_ = steps
    return at, effect, max(p for _, _, p in steps)


def _cost(of: LevelSeries, degree: int) -> float:
    """Return Schwarz's criterion of a curve with a step in it. The curve with the least criterion is the likeliest."""
    fit, n = StepFit(of.near, of.phi, of.least, degree=degree), len(of.near)
    left = fit.left(fit.best()[0])
    return n * log(max(float(left @ left), n * of.least**2)) + degree * log(n)


class StepFit:
    """Fit of a step over a level and a line (a curve, for a higher degree), with autocorrelation `phi` of neighbours.

    The part that neighbours share is removed from each value.
    """

    def __init__(self, y: Array, phi: float, least: float, *, degree: int = 1) -> None:
        import numpy as np  # noqa: PLC0415 - as above

        self.n, self.phi, self.least = len(y), phi, least
        self.basis: list[Array] = []
        for power in range(degree + 1):
            column = self._rest(alone(np.linspace(-1, 1, self.n) ** power, phi))
            self.basis.append(column / sqrt(float(column @ column)))
        self.z = self._rest(alone(y - y.mean(), phi))
        self.freedom = self.n - len(self.basis) - 1

    def _rest(self, column: Array) -> Array:
        """Return the part of a column that is orthogonal to the level and the line."""
        for of in self.basis:
            column = column - (of @ column) * of
        return column

    def best(self) -> tuple[int, float, float]:
        """Return the place, size and two-sided p of the step that explains most."""
        import numpy as np  # noqa: PLC0415 - as above

        rest = 1 - self.phi
        places = np.arange(SHORTEST, self.n - SHORTEST + 1)
        after = self.n - 1 - places

        def with_steps(column: Array) -> Array:
            sums = np.concatenate([np.cumsum(column[::-1])[::-1], [0.0]])
            return np.asarray(column[places] + rest * sums[places + 1])

        own = 1 + after * rest**2 - sum(with_steps(of) ** 2 for of in self.basis)
        effects = with_steps(self.z) / own
        left = np.maximum(float(self.z @ self.z) - effects**2 * own, self.n * self.least**2)
        size = np.abs(effects) * np.sqrt(own / (left / self.freedom))
        best = int(size.argmax())
        at, effect = int(places[best]), float(effects[best])
        error = max(sqrt(left[best] / self.freedom / own[best]), self._error_around(at, effect))
        return at, effect, student.two_sided(effect / error, self.freedom)

    def _size_of(self, at: int) -> Array:
        """Return the column of a step by 1 at a place."""
        import numpy as np  # noqa: PLC0415 - as above

        return self._rest(alone((np.arange(self.n) >= at).astype(float), self.phi))

    def left(self, at: int) -> Array:
        """Return the residuals of the fit with a step at a place."""
        step = self._size_of(at)
        return self.z - (step @ self.z) / (step @ step) * step

    def _error_around(self, at: int, effect: float) -> float:
        """Return the standard error of a step, where each run has the spread of the runs around it."""
        import numpy as np  # noqa: PLC0415 - as above

        step = self._size_of(at)
        squares = (self.z - effect * step) ** 2 * self.n / self.freedom
        width = min(2 * AROUND + 1, self.n)
        sums = np.concatenate([[0.0], np.cumsum(squares)])
        first = np.clip(np.arange(self.n) - width // 2, 0, self.n - width)
        around = (sums[first + width] - sums[first]) / width
        return sqrt(float((step**2 * around).sum())) / float(step @ step)


def alone(y: Array, phi: float) -> Array:
    """Remove from each value the part that it shares with the one before it."""
    import numpy as np  # noqa: PLC0415 - as above

    return np.concatenate([[sqrt(1 - phi**2) * y[0]], y[1:] - phi * y[:-1]])


def _by_chance(of: LevelSeries, at: int, effect: float) -> float:
    """Return the probability that outliers alone make the shorter side of a step, given their share on the longer side."""
    import numpy as np  # noqa: PLC0415 - as above

    sides = of.y[:at], of.y[at:]
    short, long = sorted(sides, key=len)
    level, half = float(np.median(long)), abs(effect) / 2
    off = float((np.abs(long - _medians(long)) >= half).sum() + 1) / (len(long) + 1)
    outliers = int((np.abs(short - level) >= half).sum())
    return sum(comb(len(short), k) * off**k * (1 - off) ** (len(short) - k) for k in range(outliers, len(short) + 1))


def _refined(y: Array, at: int) -> int:
    """Return the place near `at` with the least sum of distances from the medians of both sides."""
    import numpy as np  # noqa: PLC0415 - as above

    first, last = max(at - 3 * AROUND, 0), min(at + 3 * AROUND, len(y))
    low, high = np.median(y[first:at]), np.median(y[at:last])
    places = range(max(at - AROUND, SHORTEST, first + 1), min(at + AROUND, len(y) - SHORTEST, last - 1) + 1)
    return min(places, key=lambda k: float(np.abs(y[first:k] - low).sum() + np.abs(y[k:last] - high).sum()))


def autocorrelation(values: Array) -> float:
    """Return the autocorrelation of neighbours by AR1seg's robust estimate, raised by half a standard error."""
    one, two = (_spread(values[apart:] - values[:-apart], _KEPT_OF_SMOOTH) for apart in (1, 2))
    return _raised((two / one) ** 2 - 1, len(values)) if one > 0 else 0.0


def left_over(values: Array, at: int, degree: int = 1) -> float:
    """Return the autocorrelation of the residuals of a line (or a curve of another degree) with a step at a place."""
    n = len(values)
    return biased(lag_one(StepFit(values, 0.0, 1.0, degree=degree).left(at)), n, degree + 4)


def lag_one(left: Array) -> float:
    """Return the correlation of each residual with the one before it."""
    square = float(left @ left)
    return float(left[1:] @ left[:-1]) / square if square > 0 else 0.0


def biased(correlation: float, runs: int, columns: int) -> float:
    """Raise an autocorrelation of residuals by its bias, about (1 + φ) / n per fitted column and 2 φ / n, and by half a standard error.

    Source: F. H. C. Marriott, J. A. Pope, Biometrika 41, 1954. A chosen place counts as one more column.
    """
    correlation = max(correlation, 0.0)
    return _raised(correlation + (columns * (1 + correlation) + 2 * correlation) / runs, runs)


def _raised(correlation: float, runs: int) -> float:
    """Raise an estimate by half a standard error, within the limits of the model."""
    correlation = min(max(correlation, 0.0), _MOST)
    return min(correlation + sqrt((1 - correlation**2) / runs) / 2, _MOST)


def _apart(medians: Array, noise: float) -> tuple[int, ...]:
    """Return the places that are far above both neighbours, or far below both."""
    import numpy as np  # noqa: PLC0415 - as above

    steps = (medians[1:] - medians[:-1]) / (_APART * noise if noise else 1.0)
    before, after = np.concatenate([[steps[0] * -1], steps]), np.concatenate([-steps, [steps[-1]]])
    return tuple(int(n) for n in np.flatnonzero((np.minimum(before, after) > 1) | (np.maximum(before, after) < -1)))


def _medians(y: Array) -> Array:
    """Return the median of the runs around each run."""
    import numpy as np  # noqa: PLC0415 - as above

    width = 2 * AROUND + 1
    inside = range(AROUND, len(y) - AROUND)
    out = np.empty(len(y))
    for n in (*range(min(AROUND, len(y))), *range(max(len(y) - AROUND, AROUND), len(y))):
        out[n] = median(y[max(n - AROUND, 0) : n + AROUND + 1].tolist())
    if inside:
        out[AROUND : len(y) - AROUND] = np.partition(np.lib.stride_tricks.sliding_window_view(y, width), AROUND, axis=1)[:, AROUND]
    return out


def _spread(steps: Array, share: float) -> float:
    """Return a robust standard deviation of differences, from the smaller ones.

    It is their root mean square ÷ that of the same share of standard normal values.
    """
    import numpy as np  # noqa: PLC0415 - as above

    smaller = np.sort(np.abs(steps))[: min(ceil(share * len(steps)), len(steps) - 1)]
    cut = NormalDist().inv_cdf((1 + len(smaller) / len(steps)) / 2)
    return sqrt(float((smaller**2).mean()) / (1 - 2 * cut * NormalDist().pdf(cut) * len(steps) / len(smaller)))
