"""Loss curves of PLRsearch (draft-vpolak-bmwg-plrsearch-03): frames lost a second at a load, and the capacity for a critical rate.

The mean loss at load x is the integral from 0 to x of a curve that rises from 0 to 1 around a capacity m, over a width s. `stretch` uses
the logistic curve. `erf` uses the curve of the normal distribution: the loss of a device whose capacity is normal with mean m and standard
deviation s. Loads, capacities and widths share one arbitrary unit. In widths both are I((x - m) / s) - I(-m / s), with a different integral
I for each. Values are logarithms, because far below its capacity a device loses almost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_STEP = 0.004
"""Step of the tables, in widths: interpolation errs by less than 3e-6 of a logarithm."""
_TURNS = 12
"""Most iterations for the capacity. Where the width is about as large as the rate, they may end before convergence."""


@dataclass(frozen=True)
class LossCurve:
    """One loss curve, given by the logarithm of its integral I from far below the capacity to z widths above it."""

    log_integral: Callable[[Array], Array]
    lowest: float
    """Least z of the table: I is almost 0 there."""
    highest: float
    """Greatest z of the table: from there on I(z) = z."""

    def lost(self, load: Array, capacity: Array, width: Array) -> Array:
        """Return the frames lost a second, in the unit of the load; almost nothing counts as 0."""
        return width * np.maximum(self._integral((load - capacity) / width) - self._integral(-capacity / width), 0.0)

    def capacity(self, rate: Array, width: Array, share: Array) -> Array:
        """Return the capacity at which `rate` loses `share` of its frames: z with I(z) = share × rate / width + I(z - rate / width)."""
        widths = rate / width
        wanted = share * widths
        z = self._inverse(wanted)
        for _ in range(_TURNS):
            before, z = z, self._inverse(wanted + self._integral(z - widths))
            if np.array_equal(before, z):
                break
        return rate - width * z

    @cached_property
    def _table(self) -> tuple[Array, Array, Array]:
        z = np.arange(self.lowest, self.highest + _STEP, _STEP)
        logarithms = self.log_integral(z)
        return z, logarithms, np.diff(logarithms) / np.diff(z)

    def _integral(self, z: Array) -> Array:
        """Return the integral like np.interp, to the last bit, in a fifth of its time: equal steps need no search."""
        of, logarithms, slopes = self._table
        inside = np.clip(z, of[0], of[-1])
        at = np.minimum(((inside - of[0]) / _STEP).astype(np.intp), len(slopes) - 1)
        at += inside >= of[at + 1]
        at -= inside < of[at]
        at = np.minimum(at, len(slopes) - 1)
        return np.where(z > of[-1], z, np.exp(slopes[at] * (inside - of[at]) + logarithms[at]))

    def _inverse(self, integral: Array) -> Array:
        of, logarithms, _ = self._table
        return np.where(integral > of[-1], integral, np.interp(np.log(integral), logarithms, of))


def log_softplus(z: Array) -> Array:
    """Return log(log(1 + exp(z))), the logarithm of the logistic curve's integral; z itself far below 0."""
    near = np.maximum(z, -30.0)
    return np.where(z < near, z, np.log(np.logaddexp(0.0, near)))


def log_normal_integral(z: Array) -> Array:
    """Return log(z Φ(z) + φ(z)), the logarithm of the integral of Φ.

    Below 0 it is computed as φ(z) (1 - z' M(z')), with z' = -z and Mills' ratio M; far below as φ(z) / z².
    """
    from scipy.special import erfcx, ndtr  # noqa: PLC0415 - takes 0.1 s to import, and only soaks need it

    below, far = np.clip(-z, 1e-300, 1e3), np.maximum(-z, 1e3)
    near_0 = np.maximum(z, 0.0)
    density = -0.5 * z * z - 0.5 * np.log(2 * np.pi)
    inside = np.log(np.maximum(1 - below * np.sqrt(np.pi / 2) * erfcx(below / np.sqrt(2)), 1e-300))
    above = np.log(near_0 * ndtr(near_0) + np.exp(-0.5 * near_0 * near_0) / np.sqrt(2 * np.pi))
    log_integral: Array = np.where(z >= 0, above, density + np.where(-z > below, -2 * np.log(far), inside))
    return log_integral


CURVES: Mapping[str, LossCurve] = {
    "stretch": LossCurve(log_softplus, lowest=-60.0, highest=40.0),
    "erf": LossCurve(log_normal_integral, lowest=-30.0, highest=12.0),
}
