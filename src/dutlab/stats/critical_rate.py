"""The rate at which the expected loss ratio equals a target, from trials at many rates: a Bayesian estimate in the manner of PLRsearch.

On average a trial at load x loses what one of two loss curves (stats.loss_curves) says, and in addition a share of all frames at any load
(a floor: bit errors, stalls), which is less than the target. The scatter of trials about that average is estimated with the rest: frames
are lost in bursts, and no trial is nearer to the curve than some relative error, because other states of the DUT, other users of the
machine and effects of an overload other than overflow are not part of any curve. So the number lost is negative binomial, of variance
mean × (1 + burst + error² × mean); error 1 and burst 0 make the geometric distribution. A burst is at most twice the frames of one width in
the time of the trial: a DUT whose losses scatter by so much has no sharper knee. Where a capacity that changes from trial to trial makes
the loss that is a curve's average, its bursts have 0.8 (`erf`) or 1 to 2 such widths (`stretch`).

Before any trial all critical rates up to a little above the highest load are equally likely, small floors more than great ones, and all
orders of magnitude of width, burst and error. Each curve's posterior is a cloud of points (stats.cloud), and both weigh the same.

The model takes trials for independent. After the last one `conclude` looks whether they are, and widens the interval: by what losses that
are too rare for the soak to meet may shift it; up to the rate that the capacities of the trials allow without any curve (stats.capacities);
and to twice its width where trials near one another lost alike, or where one burst is more than the target allows in all.
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
"""Trials that are drawn together."""
_DRAWS = 200
_SEED = 1989


def capacity_interval(loads: Array, received: Array, target: float, highest: float) -> tuple[float, float]:
    """The middle 95 % of the rates, up to `highest`, at which drawn trials lose `target`. One value a trial, in the order of time.

    By the capacity that each trial met, without a loss curve: one that lost frames met the capacity that it received at; one that lost none
    met its load or more. The product-limit estimate (Kaplan and Meier, J. Am. Stat. Assoc. 53, 1958) makes a distribution of capacities of
    both, and a load loses on average what it exceeds them by. That is exact where a device is slow in some trials and fast in others,
    whatever its states are; where frames are lost one by one below the capacity, the rate is too low, never too high. Trials of one state
    are not independent, so the spread comes from redrawn stretches of consecutive trials (block bootstrap: Künsch, Annals of Statistics 17,
    1989).
    """
    count = len(loads)
    stretch = min(_STRETCH, count)
    starts = np.random.default_rng(_SEED).integers(0, count, (_DRAWS, -(-count // stretch)))
    drawn = ((starts[:, :, None] + np.arange(stretch)) % count).reshape(_DRAWS, -1)[:, :count]
    weights = np.stack([np.bincount(row, minlength=count) for row in drawn]).astype(float)
    low, high = np.quantile(rates_at(loads, received, target, highest, weights), [0.025, 0.975])
    return float(low), float(high)


def rates_at(loads: Array, received: Array, target: float, highest: float, weights: Array) -> Array:
    """The rate that loses `target` of itself, for each row of `weights`: how often each trial counts."""
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
"""Share of the points that the 95 % interval has, so that it holds the truth so often: the middle 95 % of them did so for 89 % of 177
simulated devices, none of which is quite what the model takes it for (docs/decisions/08-limits-that-move.md)."""
_POINTS = 500
"""Points of each curve's cloud."""
_ABOVE = 1.25
"""The highest critical rate, in highest loads: a device that lost nothing may do more."""
_LOWEST, _NARROWEST = 1e-6, 1e-5
"""The lowest critical rate and the least width, in highest loads."""
_FLOOR = 0.95
"""The greatest share of the target that is lost at any load."""
_BURST = (1e-4, 2.0)
"""The least and the greatest burst, in frames of a width in the time of the trial."""
_ERROR = (0.1, 2.0)
"""The least and the greatest relative error of the curve."""
_BOX = np.array([(_LOWEST, _ABOVE), np.log([_NARROWEST, 1.0]), np.log(_BURST), 2 * np.log(_ERROR), (0.0, np.sqrt(_FLOOR))], dtype=float).T
"""Least and greatest critical rate, logarithms of width, burst and squared error, root of the floor as a share of the target."""
_NOTHING = 1e-30
"""The mean of a trial that cannot lose a frame."""
_LAGS, _FEWEST = (1, 2, 3), 20
"""Trials apart that are held against one another, and the trials it takes."""
_ALIKE, _NEIGHBOURS_ALIKE = 2.0, 2.5
"""Standard errors of their correlations together, and of neighbours' alone, from which losses cluster: of devices whose trials are
independent 1 to 2 % reach them (tests/bench/critical_coverage.py)."""
BURST_FRAMES = 4096.0
"""A stall loses what a card's ring holds, whose usual greatest size this is."""
_UNMET = 3
"""Events in the time of a soak, of a kind of which one soak of twenty meets none."""
_MOST_UNMET = 1 / 3
"""Share of the target."""
_HALVINGS = 40
_THINNED = 5
"""Every so many points say where a trial lies among what was to be expected."""


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


@dataclass(frozen=True)
class Conclusion:
    """Conclusion of a whole soak."""

    critical: Critical
    clustered: bool
    """Trials near one another lost alike: the device was not the same all the time."""
    allowed_frames: float
    """Frames that the target allows all trials together to lose. Fewer than BURST_FRAMES: one rare burst decides the answer."""


class CriticalRate:
    """The estimate, trial by trial, of loads up to `highest_pps`; `target` is a share above 0. The same trials have the same answer."""

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
        """The estimate after all trials, of which there is one at least, with the interval that holds if they hang together."""
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
        """The lower end if at least that share of the frames is lost in bursts, which leave less of the target to the curve."""
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

    def logs(self, points: Array, curve: LossCurve) -> tuple[Array, Array]:
        """Return the logarithms, as in stats.cloud; the last trial is new. Columns of `points` are those of the box."""
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
        """Frames lost of each trial (row) at each point, and by how much their variance exceeds that of single frames."""
        rate, log_width, log_burst, log_error, root_floor = points.T
        width, floor = np.exp(log_width), root_floor**2
        capacity = curve.capacity(rate, width, self.target * (1 - floor))
        mean = (curve.lost(self.loads, capacity, width) + self.target * floor * self.loads) * self.offered + _NOTHING
        return mean, np.exp(log_burst) * width * self.offered + np.exp(log_error) * mean


def _clustered(places: Array) -> bool:
    """Return whether neighbouring trials have similar places among the expected outcomes, more than chance makes them."""
    off, count = places - places.mean(), len(places)
    if count < _FEWEST or not off.any():
        return False
    alike = [float(off[lag:] @ off[:-lag] / (off @ off)) * np.sqrt(count) for lag in _LAGS]
    return bool(sum(alike) > _ALIKE * np.sqrt(len(_LAGS)) or alike[0] > _NEIGHBOURS_ALIKE)


def _log_negative_binomial(lost: Array, mean: Array, excess: Array) -> Array:
    """Return the likelihood of each trial (row), up to a term that depends on `lost` alone; the variance is mean × (1 + excess)."""
    from scipy.special import gammaln  # noqa: PLC0415 - takes 0.1 s to import, and only soaks need it

    of = mean / excess
    log: Array = -of * np.log1p(excess)
    some = lost[:, 0] > 0  # near the critical rate most trials lose nothing
    lost, of, excess = lost[some], of[some], excess[some]
    log[some] += gammaln(lost + of) - gammaln(of) - lost * np.log1p(1 / excess)
    return log
