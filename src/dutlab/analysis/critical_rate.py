"""The rate at which the expected loss ratio equals a target, from trials at many rates: a Bayesian estimate in the manner of PLRsearch.

The model (draft-vpolak-bmwg-plrsearch-03): the frames lost in a second at load x are on average the integral from 0 to x of a curve that
rises from 0 to 1 around a capacity m, over a width s; `stretch` takes the logistic curve, `erf` that of the normal distribution, which is
the very loss of a device whose capacity is m, give or take s. Frames get lost together, so the number lost in a trial is taken to be
geometric about that average, where the draft has a Poisson distribution. Before any trial all critical rates up to a little above the
highest load are equally likely, and all orders of magnitude of s; m follows from both.

Real trials may scatter more than geometric ones (a DUT with several states, a machine that others use too); the posterior does not know.
So `with_scatter` leaves out each tenth of the trials in turn (a jackknife), and the interval is the wider of the two.

Critical rate and width are laid out on a grid that closes in on where the probability is: there is no chance in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LossRate = Callable[[Array, Array, Array], Array]
"""(load, capacity, width) → logarithm of the frames lost a second."""

CREDIBLE = 0.95
_RATES, _WIDTHS = 40, 24
_ROUNDS = 4
"""How often the grid closes in."""
_NEGLIGIBLE = 12.0
"""A point whose logarithm of probability is so far below the best one does not count."""
_ABOVE = 1.25
"""The highest critical rate, in highest loads: a device that lost nothing may do more."""
_WHOLE = np.array([[1e-6, np.log(1e-5)], [_ABOVE, 0.0]])
"""Least and greatest critical rate and logarithm of the width, in highest loads."""
_LOWEST, _PER_WIDTH = -10.0, 60.0
"""Bounds of a capacity: far below any load, and so many widths above it."""
_HALVINGS = 45
_TENTHS = 10
_STUDENT_9 = 2.262157
"""Student's t, two-sided 95 %, with nine degrees of freedom."""


@dataclass(frozen=True)
class LoadTrial:
    """One trial: load in frames a second, how long it was offered, and the frames that were lost."""

    load_pps: float
    seconds: float
    lost_frames: float


@dataclass(frozen=True)
class Critical:
    """The critical rate in frames a second: the middle of what is credible, and its 95 % interval."""

    pps: float
    low_pps: float
    high_pps: float
    by_curve: Mapping[str, float]
    """The middle as each curve alone has it."""


def critical_rate(trials: Sequence[LoadTrial], *, highest_pps: float, target: float) -> Critical:
    """From at least one trial at loads up to `highest_pps`; `target` is a share above 0. Both curves weigh the same."""
    seen = _Seen.of(trials, highest_pps, target)
    found = {name: _posterior(seen, curve) for name, curve in CURVES.items()}
    low, middle, high = (value * highest_pps for value in _quantiles(list(found.values()), ((1 - CREDIBLE) / 2, 0.5, (1 + CREDIBLE) / 2)))
    return Critical(middle, low, high, {name: _quantiles([of], (0.5,))[0] * highest_pps for name, of in found.items()})


def with_scatter(found: Critical, trials: Sequence[LoadTrial], *, highest_pps: float, target: float) -> Critical:
    """The same with an interval that is as wide as the trials' own scatter makes it; as it is where they are fewer than ten."""
    if len(trials) < _TENTHS:
        return found
    rest = [[t for i, t in enumerate(trials) if i % _TENTHS != n] for n in range(_TENTHS)]
    without = np.array([critical_rate(some, highest_pps=highest_pps, target=target).pps for some in rest])
    error = float(np.sqrt((_TENTHS - 1) / _TENTHS * np.sum((without - without.mean()) ** 2))) * _STUDENT_9
    return replace(found, low_pps=max(0.0, min(found.low_pps, found.pps - error)), high_pps=max(found.high_pps, found.pps + error))


def log_stretch(load: Array, capacity: Array, width: Array) -> Array:
    """The integral of 1 / (1 + exp((m - x) / s)): s (log(1 + exp((x - m) / s)) - log(1 + exp(-m / s)))."""
    return np.log(width) + _difference(_log_softplus((load - capacity) / width), _log_softplus(-capacity / width))


def log_erf(load: Array, capacity: Array, width: Array) -> Array:
    """The integral of the normal distribution's Φ((x - m) / s): s (g((x - m) / s) - g(-m / s)), with g(z) = z Φ(z) + φ(z)."""
    return np.log(width) + _difference(_log_normal_integral((load - capacity) / width), _log_normal_integral(-capacity / width))


CURVES: Mapping[str, LossRate] = {"stretch": log_stretch, "erf": log_erf}


def _log_softplus(z: Array) -> Array:
    """Of log(1 + exp(z)), which is exp(z) far below 0."""
    near = np.maximum(z, -30.0)
    return np.where(z < near, z, np.log(np.logaddexp(0.0, near)))


def _log_normal_integral(z: Array) -> Array:
    """Of z Φ(z) + φ(z). Below 0 as φ(z) (1 - z' M(z')), z' = -z, with Mills' ratio M; far below that is φ(z) / z²."""
    from scipy.special import erfcx, ndtr  # noqa: PLC0415 - takes 0.1 s to import, and only soaks need it

    below, far = np.clip(-z, 1e-300, 1e3), np.maximum(-z, 1e3)
    near_0 = np.maximum(z, 0.0)
    density = -0.5 * z * z - 0.5 * np.log(2 * np.pi)
    inside = np.log(np.maximum(1 - below * np.sqrt(np.pi / 2) * erfcx(below / np.sqrt(2)), 1e-300))
    above = np.log(near_0 * ndtr(near_0) + np.exp(-0.5 * near_0 * near_0) / np.sqrt(2 * np.pi))
    log_integral: Array = np.where(z >= 0, above, density + np.where(-z > below, -2 * np.log(far), inside))
    return log_integral


def _difference(log_a: Array, log_b: Array) -> Array:
    """log(a - b) for a > b; a load of next to nothing loses next to nothing."""
    return log_a + np.log(np.maximum(-np.expm1(np.minimum(log_b - log_a, 0.0)), 1e-300))


@dataclass(frozen=True)
class _Seen:
    """The trials as columns, in highest loads."""

    loads: Array
    lost: Array
    offered: Array
    """Frames of the highest load in the time of the trial."""
    target: float

    @classmethod
    def of(cls, trials: Sequence[LoadTrial], highest_pps: float, target: float) -> _Seen:
        columns = np.array([(t.load_pps / highest_pps, t.lost_frames, t.seconds * highest_pps) for t in trials], dtype=float)
        return cls(columns[:, :1], columns[:, 1:2], columns[:, 2:], target)


def _posterior(seen: _Seen, curve: LossRate) -> tuple[Array, Array]:
    """Critical rates in highest loads, and how likely each is."""
    box = _WHOLE
    for _ in range(_ROUNDS):
        rates, widths = np.linspace(box[0, 0], box[1, 0], _RATES), np.linspace(box[0, 1], box[1, 1], _WIDTHS)
        rate, log_width = (a.ravel() for a in np.meshgrid(rates, widths, indexing="ij"))
        width = np.exp(log_width)
        log_mean = curve(seen.loads + np.zeros_like(rate), _capacity(curve, rate, width, seen.target), width) + np.log(seen.offered)
        log_likely = np.sum(seen.lost * log_mean - (seen.lost + 1) * np.logaddexp(0.0, log_mean), axis=0)
        likely = log_likely >= log_likely.max() - _NEGLIGIBLE
        step = np.array([rates[1] - rates[0], widths[1] - widths[0]])
        points = np.stack([rate[likely], log_width[likely]], axis=1)
        box = np.clip([points.min(axis=0) - step, points.max(axis=0) + step], _WHOLE[0], _WHOLE[1])
    weights = np.exp(log_likely - log_likely.max()).reshape(_RATES, _WIDTHS).sum(axis=1)
    return rates, weights / weights.sum()


def _capacity(curve: LossRate, rate: Array, width: Array, target: float) -> Array:
    """What makes `rate` lose `target` of itself: the more capacity, the less is lost."""
    low, high = np.full_like(rate, _LOWEST), rate + _PER_WIDTH * width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        too_much = curve(rate, middle, width) > np.log(target * rate)
        low, high = np.where(too_much, middle, low), np.where(too_much, high, middle)
    return low


def _quantiles(of: Sequence[tuple[Array, Array]], shares: Sequence[float]) -> list[float]:
    """Of several distributions that weigh the same, each values in even steps and their weights."""
    values = np.concatenate([v for v, _ in of])
    order = np.argsort(values)
    weights = np.concatenate([w for _, w in of])[order] / len(of)
    below = np.cumsum(weights) - weights / 2
    return [float(np.interp(share, below, values[order])) for share in shares]
