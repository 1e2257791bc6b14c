"""History of a figure over many runs: changes of its level and spread, drift, and the range of the next run.

Each run counts once, by the median of its repeats. Repeats share the set-up of a run, so they do not show what changes from run to run.
dutlab.analysis.level_steps finds the steps.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, log, nan, pi, sqrt
from typing import TYPE_CHECKING

from dutlab.analysis.design import LEVEL
from dutlab.analysis.level_steps import (
    AROUND,
    FEWEST,
    SHORTEST,
    LevelSeries,
    StepFit,
    alone,
    autocorrelation,
    biased,
    lag_one,
    left_over,
    level_steps,
)
from dutlab.stats import student
from dutlab.stats.summary import CONFIDENCE, Interval, median

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_WAYS = 2
"""Tests of each place: of the raw values, and of the clipped ones (LevelSeries.near)."""
_ONE_IN_TWENTY = 1.645
"""Standard errors that one normal value in twenty exceeds, one-sided."""
_OF_MEDIANS = pi / 2
"""Variance of the median of normal values ÷ variance of their mean."""
_REPEATS = 3
"""Fewest repeats of a run for a spread."""
FEWEST_FOR_NEXT = 20
"""Fewest runs for a range of the next run. Fewer show neither the autocorrelation nor the share of outliers."""
_CHOSEN = 2
"""Degrees of freedom used by the autocorrelation and by the choice of a drift."""
_ENOUGH_TO_RANK = 39
"""Fewest errors whose smallest and largest contain the next one with 95 %: it is outside with probability 2 / (n + 1)."""


class Cause(enum.Enum):
    """Cause of a change of level."""

    DEVICE = "the device changed"
    """The rig, measured without the device, did not change with the device."""
    RIG = "the rig changed"
    """The rig, measured without the device, changed the same way by half as much or more."""
    UNKNOWN = "not known"
    """The rig was not measured on both sides of the change, or its own results vary too much."""


class SpreadOf(enum.Enum):
    """Subject of a change of spread."""

    RUNS = "runs"
    """Spread of the medians from run to run."""
    REPEATS = "repeats"
    """Spread of the repeats within each run."""


@dataclass(frozen=True)
class HistoryPoint:
    """Repeats of a figure in one run."""

    run: str
    values: tuple[float, ...]
    rig: float | None = None
    """Rate of the rig without the device, where it was measured."""
    started: str = ""
    """Start of the run in UTC, as ISO 8601 text; empty if it is not known."""

    @property
    def median(self) -> float:
        """Median of the repeats."""
        return median(self.values)


@dataclass(frozen=True)
class HistoryLevel:
    """Runs `first` to `last`, inclusive, between which no change is proven. Both are indices of points."""

    first: int
    last: int
    value: float
    """The median of the runs."""


@dataclass(frozen=True)
class LevelChange:
    """Change from one level to the next."""

    before: str
    after: str
    """`before` is the last run of one level, `after` the first of the next."""
    ratio: float | None
    """Level after ÷ level before, without any drift; None for a level of 0."""
    p: float
    """Two-sided, corrected for all places at which the level could change; at most 0.05."""
    cause: Cause = Cause.UNKNOWN


@dataclass(frozen=True)
class SpreadChange:
    """Change of the spread of runs, or of their repeats."""

    of: SpreadOf
    before: str
    after: str
    ratio: float
    """Spread after ÷ spread before."""
    p: float


@dataclass(frozen=True)
class LevelDrift:
    """Slow movement of a figure from run to run, without steps."""

    ratio: float | None
    """Factor of the drift alone, from the first run to the last; None where the model's values there differ in sign or one is 0."""
    p: float


@dataclass(frozen=True)
class History:
    """Result of the analysis of a figure over runs."""

    points: tuple[HistoryPoint, ...]
    levels: tuple[HistoryLevel, ...]
    changes: tuple[LevelChange, ...]
    apart: tuple[str, ...] = ()
    """Names of runs that differ from the runs before and after by more than noise, without a new level. If the newest run is
    among them, one more run will show whether it is a change."""
    autocorrelation: float = 0.0
    """Correlation of neighbouring runs that the analysis assumes."""
    why: str = ""
    """Reason for skipping the search for changes; empty if it was made."""
    drift: LevelDrift | None = None
    spreads: tuple[SpreadChange, ...] = ()
    rig: tuple[LevelChange, ...] = ()
    """Changes of the rig, measured without the device."""
    next_run: Interval | None = None
    """95 % range of the median of the next run of the same experiment, if nothing changes."""


def history(points: Sequence[HistoryPoint]) -> History:
    """Analyse `points`, which are in time order. Values that are not finite are left out, and so are runs without any finite value."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need

    usable, rows = _finite(points)
    if len(usable) < FEWEST:
        level = (HistoryLevel(0, len(usable) - 1, median([p.median for p in usable])),) if usable else ()
        return History(
            usable, level, (), why=f"{len(usable)} run{'s' if len(usable) != 1 else ''}; to find a change of level takes at least {FEWEST}"
        )
    y = np.nanmedian(rows, axis=1) if np.isnan(rows).any() else np.median(rows, axis=1)
    series = LevelSeries.of(y)
    steps = sorted(level_steps(series, places=_WAYS * (len(y) - 2 * SHORTEST + 1)))
    ends = [0, *(at for at, _ in steps), len(usable)]
    levels = tuple(HistoryLevel(a, b - 1, float(np.median(y[a:b]))) for a, b in pairwise(ends))
    model = _Model.of(series, ends)
    straight = y - model.slope * (np.arange(len(y)) - (len(y) - 1) / 2) if model.drifts else y
    values = [float(np.median(straight[a:b])) for a, b in pairwise(ends)]
    sides = [usable[of.first : of.last + 1] for of in levels]
    changes = tuple(
        LevelChange(a[-1].run, b[0].run, after / before if before else None, p, _cause(a, b, before, after))
        for (a, b), (before, after), (_, p) in zip(pairwise(sides), pairwise(values), steps, strict=True)
    )
    return History(
        usable, levels, changes,
        apart=tuple(usable[n].run for n in series.apart),
        autocorrelation=series.phi,
        drift=model.drift,
        spreads=tuple(_spreads(usable, rows, series, model.left)),
        rig=_rig_changes(usable),
        next_run=model.next_run,
    )  # fmt: skip


def _finite(points: Sequence[HistoryPoint]) -> tuple[tuple[HistoryPoint, ...], Array]:
    """Return the runs with their finite values only, and a matrix of these: one row per run, padded with NaN."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need

    def rows(of: Sequence[HistoryPoint]) -> Array:
        try:
            return np.array([p.values for p in of], dtype=float)
        except ValueError:  # runs differ in their number of values
            most = max(len(p.values) for p in of)
        return np.array([p.values if len(p.values) == most else (*p.values, *[nan] * (most - len(p.values))) for p in of], dtype=float)

    if (matrix := rows(points)).size and np.isfinite(matrix).all():
        return tuple(points), matrix
    numbers = (replace(p, values=tuple(v for v in p.values if isfinite(v))) for p in points)
    usable = tuple(p for p in numbers if p.values)
    return usable, rows(usable)


@dataclass(frozen=True)
class _Model:
    """Model of the runs: levels, and one slope for all of them."""

    slope: float
    """Change per run."""
    drift: LevelDrift | None
    left: Array
    """Residual of each run."""
    next_run: Interval | None

    @property
    def drifts(self) -> bool:
        return self.drift is not None

    @classmethod
    def of(cls, series: LevelSeries, ends: Sequence[int]) -> _Model:
        import numpy as np  # noqa: PLC0415 - as above

        n = len(series.y)
        levels = np.column_stack([(np.arange(n) >= a) & (np.arange(n) < b) for a, b in pairwise(ends)]).astype(float)
        both = np.column_stack([np.linspace(-0.5, 0.5, n), levels])
        phi = max(series.phi, biased(lag_one(_without(series.near, both)), n, both.shape[1] + 1))
        filtered, z = np.column_stack([alone(c, phi) for c in both.T]), alone(series.near, phi)
        inverse = np.linalg.pinv(filtered.T @ filtered)
        of = inverse @ (filtered.T @ z)
        freedom = n - both.shape[1]
        left = max(float(((z - filtered @ of) ** 2).sum()), n * series.least**2)
        slope, p = float(of[0]), 1.0
        if freedom > 0 and series.least:
            p = student.two_sided(slope / sqrt(left / freedom * inverse[0, 0]), freedom)
        first, last = (float(both[k] @ of) for k in (0, n - 1))
        drift = LevelDrift(1 + slope / first if first * last > 0 else None, p) if p <= LEVEL else None
        used = both if drift else levels
        fitted = used @ (np.linalg.pinv(used) @ series.near)
        line = float(slope / (n - 1)) if drift else 0.0
        return cls(line, drift, series.y - fitted, _next_run(series, fitted, line, n - ends[-2], used.shape[1]))


def _next_run(series: LevelSeries, fitted: Array, line: float, of_level: int, columns: int) -> Interval | None:
    """Return the range of the next run, from the errors of the same forecast for each known run; None for too few runs."""
    import numpy as np  # noqa: PLC0415 - as above

    n = len(series.y)
    freedom = n - 1 - columns - _CHOSEN
    if n < FEWEST_FOR_NEXT:
        return None
    left, phi = series.y - fitted, max(lag_one(series.near - fitted), 0.0)
    errors = left[1:] - phi * left[:-1]
    at = float(fitted[-1] + line + phi * left[-1])
    wider = sqrt((1 + 1 / of_level) * (n - 1) / freedom)
    ends = np.array([1 - CONFIDENCE, 1 + CONFIDENCE]) / 2
    low, high = (float(v) for v in np.quantile(errors, ends, method="weibull"))
    if len(errors) < _ENOUGH_TO_RANK:
        away = student.quantile((1 + CONFIDENCE) / 2, freedom) * sqrt(float((errors**2).mean()))
        low, high = min(low, -away), max(high, away)
    return Interval(at + wider * low, at + wider * high, CONFIDENCE)


def _spreads(kept: Sequence[HistoryPoint], rows: Array, series: LevelSeries, left: Array) -> Iterator[SpreadChange]:
    """Find changes in the spread of runs, or of the repeats of each: steps in the square roots of deviations.

    These roots are about normally distributed.
    """
    import numpy as np  # noqa: PLC0415 - as above

    spreads = [(SpreadOf.RUNS, np.abs(left))]
    if (np.isfinite(rows).sum(axis=1) >= _REPEATS).all():
        spreads.append((SpreadOf.REPEATS, np.nanstd(rows, axis=1, ddof=1)))
    for of, sizes in spreads if series.least else ():
        roots = np.sqrt(sizes)
        at, _, p = StepFit(roots, phi := autocorrelation(roots), sqrt(series.least), degree=0).best()
        if p <= LEVEL and (more := left_over(roots, at, degree=0)) > phi:
            at, _, p = StepFit(roots, more, sqrt(series.least), degree=0).best()
        before, after = (float(np.mean(roots[a:b])) ** 2 for a, b in ((0, at), (at, len(roots))))
        if (p := p * (len(roots) - 2 * SHORTEST + 1)) <= LEVEL and min(at, len(roots) - at) >= FEWEST and before and after:
            yield SpreadChange(of, kept[at - 1].run, kept[at].run, after / before, p)


def _cause(before: Sequence[HistoryPoint], after: Sequence[HistoryPoint], level: float, then: float) -> Cause:
    """Return the cause of a step: the rig, if it changed the same way by half as much or more in the runs next to the step."""
    ends = before[-AROUND:], after[:AROUND]
    rigs = [[log(p.rig) for p in end if p.rig is not None and p.rig > 0] for end in ends]
    if not all(rigs) or min(level, then) <= 0 or level == then:
        return Cause.UNKNOWN
    first, second = (median(of) for of in rigs)
    of_device = log(then / level)
    beyond = (second - first) / of_device - 0.5
    noise = sum((v - middle) ** 2 for of, middle in zip(rigs, (first, second), strict=True) for v in of)
    noise /= max(sum(map(len, rigs)) - len(rigs), 1)
    if abs(beyond) < _ONE_IN_TWENTY * sqrt(_OF_MEDIANS * noise * sum(1 / len(of) for of in rigs)) / abs(of_device):
        return Cause.UNKNOWN
    return Cause.RIG if beyond >= 0 else Cause.DEVICE


def _rig_changes(kept: Sequence[HistoryPoint]) -> tuple[LevelChange, ...]:
    """Return the changes of level of the rig. A calibration counts once, even if several runs use it."""
    measured = [p for p in kept if p.rig is not None]
    once = [p for n, p in enumerate(measured) if n == 0 or p.rig != measured[n - 1].rig]
    return history([HistoryPoint(p.run, (p.rig,)) for p in once if p.rig is not None]).changes if len(once) >= FEWEST else ()


def _without(values: Array, columns: Array) -> Array:
    """Return the residuals of least squares."""
    import numpy as np  # noqa: PLC0415 - as above

    return np.asarray(values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0])
