"""The rate at which the expected loss ratio equals a target, from trials at many rates: a Bayesian estimate like PLRsearch.

The mean loss of a trial at load x follows one of two loss curves (stats.loss_curves). A constant share of all frames is lost in addition at
any load (a floor: bit errors, stalls); it is less than the target. The scatter of trials about the mean is estimated too. Frames are lost
in bursts. Each trial also has a relative error, because no curve includes other states of the DUT, other users of the machine, or effects
of overload other than overflow. So the number of lost frames is negative binomial with variance mean × (1 + burst + error² × mean); error 1
and burst 0 make it geometric. A burst is at most twice the frames of one width in the time of the trial: a DUT with a larger scatter has no
sharper knee. If a capacity that changes from trial to trial causes the mean loss of a curve, its bursts have 0.8 (`erf`) or 1 to 2 such
widths (`stretch`).

The prior is uniform for critical rates up to a little above the highest load, denser for small floors, and log-uniform for width, burst and
error. The posterior of each curve is a cloud of points (stats.cloud). Both curves have the same weight.

The model assumes independent trials. After the last one, `conclude` tests this and widens the interval. It adds the shift by losses that
are too rare to occur in the soak. It raises the upper end to the rate that the capacities of the trials allow without a curve
(capacity_interval). It doubles the width if successive trials have similar losses, or if one burst exceeds all the loss that the target
allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dutlab.stats.cloud import Cloud
from dutlab.stats.loss_curves import CURVES, LossCurve

Array = NDArray[np.float64]

_STRETCH = 5
"""Successive trials in one block of the bootstrap."""
_DRAWS = 200
_SEED = 1989


def capacity_interval(loads: Array, received: Array, target: float, highest: float) -> tuple[float, float]:
    """Return the 95 % interval of the rates, up to `highest`, at which resampled trials lose `target`.

    The arrays have one value a trial, in the order of time. No loss curve is used, only the capacity in each trial. A trial that lost
    frames shows its capacity: the received rate. A trial without loss shows that its capacity was its load or more. The product-limit
    estimate (Kaplan and Meier, J. Am. Stat. Assoc. 53, 1958) makes a distribution of capacities of both; the mean loss at a load is its
    mean excess over them. This is exact for a device that is slow in some trials and fast in others. If single frames are lost below the
    capacity, the rate is too low, never too high. Trials in one state of the device are not independent, so whole blocks of consecutive
    trials are resampled (block bootstrap: Künsch, Annals of Statistics 17, 1989).
    """
    count = len(loads)
    stretch = min(_STRETCH, count)
    starts = np.random.default_rng(_SEED).integers(0, count, (_DRAWS, -(-count // stretch)))
    drawn = ((starts[:, :, None] + np.arange(stretch)) % count).reshape(_DRAWS, -1)[:, :count]
    weights = np.stack([np.bincount(row, minlength=count) for row in drawn]).astype(float)
    low, high = np.quantile(rates_at(loads, received, target, highest, weights), [0.025, 0.975])
    return float(low), float(high)


def rates_at(loads: Array, received: Array, target: float, highest: float, weights: Array) -> Array:
    """Return for each row of `weights` the rate at which the share `target` is lost. A weight is the count of its trial."""
    order = np.lexsort((received >= loads, received))
    capacities, lossy, weights = received[order], (received < loads)[order], weights[:, order]
    at_risk = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    below = 1 - np.cumprod(1 - np.where(lossy, weights, 0.0) / np.maximum(at_risk, 1.0), axis=1)
    ends = np.maximum(np.append(capacities[1:], highest), capacities)
    lost = np.cumsum(below * (ends - capacities), axis=1) - below * (ends - capacities)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossed = np.where(below > target, (below * capacities - lost) / (below - target), np.inf)
    crossed = np.maximum(crossed, capacities)
    rates: Array = np.where(crossed <= ends, crossed, highest).min(axis=1)
    return np.minimum(rates, highest)


_MIDDLE = 0.975
"""Share of the points inside the interval, for a true coverage of 95 %.

The middle 95 % of the points held the truth for 89 % of 177 simulated devices, none of which fits the model exactly
(docs/decisions/08-limits-that-move.md).
"""
_POINTS = 500
"""Points of each curve's cloud."""
_ABOVE = 1.25
"""Highest critical rate, in highest loads: a device without loss may be faster than the highest load."""
_LOWEST, _NARROWEST = 1e-6, 1e-5
"""Lowest critical rate and least width, in highest loads."""
_FLOOR = 0.95
"""Greatest floor, as a share of the target."""
_BURST = (1e-4, 2.0)
"""Least and greatest burst, in frames of one width in the time of the trial."""
_ERROR = (0.1, 2.0)
"""Least and greatest relative error of the curve."""
_BOX = np.array([(_LOWEST, _ABOVE), np.log([_NARROWEST, 1.0]), np.log(_BURST), 2 * np.log(_ERROR), (0.0, np.sqrt(_FLOOR))], dtype=float).T
"""Bounds of critical rate, logarithms of width, burst and squared error, and root of the floor as a share of the target."""
_NOTHING = 1e-30
"""Mean loss, in frames, of a trial that cannot lose a frame; above 0 for the logarithm."""
_LAGS, _FEWEST = (1, 2, 3), 20
"""Lags of the autocorrelation, in trials, and the fewest trials for it."""
_ALIKE, _NEIGHBOURS_ALIKE = 2.0, 2.5
"""Limits in standard errors, for the correlations together and for that of neighbours; above them, losses cluster.

1 to 2 % of devices with independent trials exceed them (tests/bench/critical_coverage.py).
"""
BURST_FRAMES = 4096.0
"""Frames that a stall loses: the usual greatest size of a card's ring."""
_UNMET = 3
"""Expected number of events in a soak at which one soak of twenty has none."""
_MOST_UNMET = 1 / 3
"""Greatest loss by such events, as a share of the target."""
_HALVINGS = 40
_THINNED = 5
"""Step between the points that are used to compare a trial with the expected outcomes."""


@dataclass(frozen=True)
class LoadTrial:
    """One trial: load in frames a second, its duration, and the number of lost frames."""

    load_pps: float
    seconds: float
    lost_frames: float


@dataclass(frozen=True)
class Critical:
    """The critical rate in frames a second: the median of the posterior and its 95 % interval."""

    pps: float
    low_pps: float
    high_pps: float
    by_curve: Mapping[str, float]
    """Median by each curve alone."""


@dataclass(frozen=True)
class Conclusion:
    """Result of a whole soak."""

    critical: Critical
    clustered: bool
    """True if successive trials had similar losses: the device changed its state during the soak."""
    allowed_frames: float
    """Frames that all trials together may lose by the target. Below BURST_FRAMES, one rare burst decides the result."""


class CriticalRate:
    """Estimate of the critical rate, updated trial by trial. The same trials give the same result.

    `highest_pps` is the highest load in frames a second; `target` is a share above 0.
    """

    def __init__(self, *, highest_pps: float, target: float) -> None:
        self._highest_pps, self._target = highest_pps, target
        self._trials: list[LoadTrial] = []
        self._clouds = {name: Cloud(_BOX, _POINTS) for name in CURVES}

    def add(self, trial: LoadTrial) -> Critical:
        """Return the estimate after one more trial."""
        self._trials.append(trial)
        trials = self._seen()
        for name, cloud in self._clouds.items():
            cloud.see(partial(trials.logs, curve=CURVES[name]))
        rates = {name: cloud.points[:, 0] * self._highest_pps for name, cloud in self._clouds.items()}
        tail = (1 - _MIDDLE) / 2
        low, middle, high = (float(q) for q in np.quantile(np.concatenate(list(rates.values())), [tail, 0.5, 1 - tail]))
        self._found = Critical(middle, low, high, {name: float(np.median(of)) for name, of in rates.items()})
        return self._found

    def conclude(self) -> Conclusion:
        """Return the estimate after all trials (at least one); its interval also holds if trials depend on one another."""
        estimate, trials = self._found, self._seen()
        loads, more = trials.loads[:, 0], (estimate.high_pps - estimate.low_pps) / 2
        frames = float(loads @ trials.offered[:, 0])
        unmet = min(self._target, _UNMET * BURST_FRAMES / frames)
        least, most = capacity_interval(loads, loads - (trials.lost / trials.offered)[:, 0], self._target, _ABOVE)
        low, high = min(estimate.low_pps, self._low_with(min(unmet, _MOST_UNMET * self._target))), estimate.high_pps
        clustered = _clustered(np.mean([trials.places(c.points[::_THINNED], CURVES[name]) for name, c in self._clouds.items()], axis=0))
        if clustered or frames * self._target < BURST_FRAMES:
            low, high = low - more, high + more
        if clustered:
            low = min(low, least * self._highest_pps)
        high = max(high, most * self._highest_pps)
        concluded = replace(estimate, low_pps=max(0.0, low * (1 - unmet)), high_pps=high * (1 + unmet))
        return Conclusion(concluded, clustered, frames * self._target)

    def _low_with(self, unmet: float) -> float:
        """Return the lower end if at least the share `unmet` of frames is lost in bursts, which leave less of the target to the curve."""
        rates = []
        for name, cloud in self._clouds.items():
            rate, log_width, _, _, root_floor = cloud.points.T
            width, floor = np.exp(log_width), self._target * root_floor**2
            capacity, low, high = CURVES[name].capacity(rate, width, self._target - floor), np.zeros_like(rate), rate
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                over = CURVES[name].lost(middle, capacity, width) + (np.maximum(floor, unmet) - self._target) * middle > 0
                low, high = np.where(over, low, middle), np.where(over, middle, high)
            rates.append(low)
        return float(np.quantile(np.concatenate(rates), (1 - _MIDDLE) / 2)) * self._highest_pps

    def _seen(self) -> _Seen:
        return _Seen.of(self._trials, self._highest_pps, self._target)


@dataclass(frozen=True)
class _Seen:
    """The trials as columns; rates in units of the highest load."""

    loads: Array
    lost: Array
    offered: Array
    """Frames that the highest load sends in the time of the trial."""
    target: float

    @classmethod
    def of(cls, trials: Sequence[LoadTrial], highest_pps: float, target: float) -> _Seen:
        columns = np.array([(t.load_pps / highest_pps, t.lost_frames, t.seconds * highest_pps) for t in trials], dtype=float)
        return cls(columns[:, :1], columns[:, 1:2], columns[:, 2:], target)

    def logs(self, points: Array, curve: LossCurve) -> tuple[Array, Array]:
        """Return the log-likelihoods for stats.cloud: of all trials but the last, and of the last. `points` has the columns of the box."""
        likely = _log_negative_binomial(self.lost, *self._expected(points, curve))
        return likely[:-1].sum(axis=0), likely[-1]

    def places(self, points: Array, curve: LossCurve) -> Array:
        """Return, for each trial, the share of expected outcomes that lost less than it did, plus half of those that lost as much."""
        from scipy.special import betainc  # noqa: PLC0415 - takes 0.1 s to import, and only soaks need it

        mean, excess = self._expected(points, curve)
        of, share = mean / excess, 1 / (1 + excess)
        fewer = np.where(self.lost > 0, betainc(of, np.maximum(self.lost, 1.0), share), 0.0)
        places: Array = ((fewer + betainc(of, self.lost + 1, share)) / 2).mean(axis=1)
        return places

    def _expected(self, points: Array, curve: LossCurve) -> tuple[Array, Array]:
        """Return the mean loss of each trial (row) at each point in frames, and the excess of its variance over that of single frames."""
        rate, log_width, log_burst, log_error, root_floor = points.T
        width, floor = np.exp(log_width), root_floor**2
        capacity = curve.capacity(rate, width, self.target * (1 - floor))
        mean = (curve.lost(self.loads, capacity, width) + self.target * floor * self.loads) * self.offered + _NOTHING
        return mean, np.exp(log_burst) * width * self.offered + np.exp(log_error) * mean


def _clustered(places: Array) -> bool:
    """Return True if successive trials have more similar places among the expected outcomes than chance explains."""
    off, count = places - places.mean(), len(places)
    if count < _FEWEST or not off.any():
        return False
    alike = [float(off[lag:] @ off[:-lag] / (off @ off)) * np.sqrt(count) for lag in _LAGS]
    return bool(sum(alike) > _ALIKE * np.sqrt(len(_LAGS)) or alike[0] > _NEIGHBOURS_ALIKE)


def _log_negative_binomial(lost: Array, mean: Array, excess: Array) -> Array:
    """Return the log-likelihood of each trial (row), up to a term that depends on `lost` alone; the variance is mean × (1 + excess)."""
    from scipy.special import gammaln  # noqa: PLC0415 - takes 0.1 s to import, and only soaks need it

    of = mean / excess
    log: Array = -of * np.log1p(excess)
    some = lost[:, 0] > 0  # near the critical rate most trials lose nothing
    lost, of, excess = lost[some], of[some], excess[some]
    log[some] += gammaln(lost + of) - gammaln(of) - lost * np.log1p(1 / excess)
    return log
