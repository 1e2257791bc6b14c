"""The same figure over many runs: where its level or its spread changed, whether it drifts, and where the next run will lie.

Each run counts once, by the median of its repeats: repeats share a run's set-up, so they say nothing of what changes from run to run.
A step is proven beside everything else that runs do by themselves:

- Neighbours resemble one another. The autocorrelation is estimated from how much more runs differ that are two apart than neighbours do
  (S. Chakar, E. Lebarbier, C. Lévy-Leduc, S. Robin, Bernoulli 23, 2017: steps hardly touch it), and from what the step leaves; the larger
  counts, raised by half a standard error and by its bias. Generalised least squares take it out.
- They drift, and they bend: a drift slows down or speeds up, and there are seasons. A step is what the likeliest line leaves of all runs
  (P. Perron, T. Yabu, J. Bus. Econ. Stat. 27, 2009), and what the likeliest curves leave of the runs around it.
- Some lie far off. Values are moved to within a few standard deviations of the median of the runs around them (P. Fearnhead, G. Rigaill,
  J. Am. Stat. Assoc. 114, 2019: a loss that is bounded). A step that only the values as they are show must be one that so few runs far off
  would seldom make by chance.
- They spread more in some months. The error of a step is that of the runs around it, where it is larger than that of all (H. White,
  Econometrica 48, 1980).

p is multiplied by the number of places: looking for the best one is in it. Where a step is proven, both sides are searched in the same way.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, comb, isfinite, log, nan, pi, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from dutlab.analysis.design import LEVEL
from dutlab.stats import student
from dutlab.stats.summary import CONFIDENCE, Interval, median

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FEWEST = 6
"""Runs, below which the spread of single runs is not known well enough."""
_SHORTEST = 2
_AROUND = 7
"""Runs to either side that say what is usual at a place."""
_CLIP = 2.5
"""Standard deviations from there, beyond which a value counts as so far off and no more."""
_NEAR = 60
"""Runs to either side within which a step is told from a curve."""
_MOST_BENDS, _RUNS_A_BEND = 8, 8
"""The highest degree of such a curve, and how many runs there are for each."""
_AS_LIKELY = 3.0
"""By so much more than the least criterion: e^(3 / 2), 4.5 times less likely."""
_KEPT, _KEPT_OF_SMOOTH = 0.7, 0.85
"""Share of the steps between runs, the smaller ones, that noise is estimated from, since the others may be changes; and autocorrelation,
after outliers were taken out."""
_MOST = 0.98
"""Largest autocorrelation of the model: with more, a series has no level that a change could move."""
_WAYS = 2
"""Values as they are, and those that are moved near."""
_APART = 6.0
"""Standard deviations of the steps between neighbours, over √2."""
_RESOLUTION = 1e-6
"""Relative to the figure; where runs agree better than this, that is taken for their noise."""
_ONE_IN_TWENTY = 1.645
"""Standard errors, which one normal value in twenty is beyond on one side."""
_OF_MEDIANS = pi / 2
"""The variance of a median of normal values, by that of their mean."""
_REPEATS = 3
"""Of each run, for a spread of them."""
FEWEST_FOR_NEXT = 20
"""Runs, below which it is not known how they resemble one another, nor how many lie far off."""
_CHOSEN = 2
"""Degrees of freedom for the autocorrelation and for whether there is a drift."""
_ENOUGH_TO_RANK = 39
"""Runs from which on the smallest and the largest of them hold the next with 95 %: 2 / (n + 1) are outside."""


class Cause(enum.Enum):
    """What a change of level is of."""

    DEVICE = "the device changed"
    """The rig, measured without it, did not change with it."""
    RIG = "the rig changed"
    """So did the rig, measured without the device, by half as much or more."""
    UNKNOWN = "not known"
    """The rig was not measured on both sides, or varies too much by itself."""


class SpreadOf(enum.Enum):
    """What spreads more or less."""

    RUNS = "runs"
    """Medians, from run to run."""
    REPEATS = "repeats"
    """Repeats, within each run."""


@dataclass(frozen=True)
class HistoryPoint:
    """One run's repeats of a figure."""

    run: str
    values: tuple[float, ...]
    rig: float | None = None
    """What the rig did without the device in place, where it was measured."""

    @property
    def median(self) -> float:
        """Median of the repeats."""
        return median(self.values)


@dataclass(frozen=True)
class HistoryLevel:
    """Runs from `first` up to and with `last` (places among the points) that do not differ from one another."""

    first: int
    last: int
    value: float
    """The median of the runs."""


@dataclass(frozen=True)
class LevelChange:
    """Between two levels."""

    before: str
    after: str
    """The last run of the one level and the first of the next."""
    ratio: float | None
    """Level after ÷ level before, without the drift if there is one; None where that is none, around 0."""
    p: float
    """Two-sided, corrected for every place at which the level might have changed; at most 0.05."""
    cause: Cause = Cause.UNKNOWN


@dataclass(frozen=True)
class SpreadChange:
    """Runs, or their repeats, spread by another amount from some run on."""

    of: SpreadOf
    before: str
    after: str
    ratio: float
    """Spread after ÷ spread before."""
    p: float


@dataclass(frozen=True)
class LevelDrift:
    """The figure moves little by little, beside its steps."""

    ratio: float | None
    """From the first run to the last; None around 0."""
    p: float


@dataclass(frozen=True)
class History:
    """A figure over runs."""

    points: tuple[HistoryPoint, ...]
    levels: tuple[HistoryLevel, ...]
    changes: tuple[LevelChange, ...]
    apart: tuple[str, ...] = ()
    """Runs that differ from those before and after them alike, by more than noise: no level of their own. If the newest is among them, one
    more run will tell whether that is a change."""
    autocorrelation: float = 0.0
    """Correlation of one run with the next, as assumed by the analysis."""
    why: str = ""
    """Why nothing was looked for."""
    drift: LevelDrift | None = None
    spreads: tuple[SpreadChange, ...] = ()
    rig: tuple[LevelChange, ...] = ()
    """Changes of the rig, measured without the device."""
    next_run: Interval | None = None
    """Where the median of one more run of the same experiment will lie, with 95 %, if nothing changes."""


def history(points: Sequence[HistoryPoint]) -> History:
    """`points` in the order of time. Values that are not a number (or infinite), and runs without any other, are left out."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need

    kept, rows = _finite(points)
    if len(kept) < FEWEST:
        level = (HistoryLevel(0, len(kept) - 1, median([p.median for p in kept])),) if kept else ()
        return History(
            kept, level, (), why=f"{len(kept)} run{'s' if len(kept) != 1 else ''}; to find a change of level takes at least {FEWEST}"
        )
    y = np.nanmedian(rows, axis=1) if np.isnan(rows).any() else np.median(rows, axis=1)
    series = _Series.of(y)
    steps = sorted(_changes(series, places=_WAYS * (len(y) - 2 * _SHORTEST + 1)))
    ends = [0, *(at for at, _ in steps), len(kept)]
    levels = tuple(HistoryLevel(a, b - 1, float(np.median(y[a:b]))) for a, b in pairwise(ends))
    model = _Model.of(series, ends)
    straight = y - model.slope * (np.arange(len(y)) - (len(y) - 1) / 2) if model.drifts else y
    values = [float(np.median(straight[a:b])) for a, b in pairwise(ends)]
    sides = [kept[of.first : of.last + 1] for of in levels]
    changes = tuple(
        LevelChange(a[-1].run, b[0].run, after / before if before else None, p, _cause(a, b, before, after))
        for (a, b), (before, after), (_, p) in zip(pairwise(sides), pairwise(values), steps, strict=True)
    )
    return History(
        kept, levels, changes,
        apart=tuple(kept[n].run for n in series.apart),
        autocorrelation=series.phi,
        drift=model.drift,
        spreads=tuple(_spreads(kept, rows, series, model.left)),
        rig=_rig_changes(kept),
        next_run=model.next_run,
    )  # fmt: skip


def _finite(points: Sequence[HistoryPoint]) -> tuple[tuple[HistoryPoint, ...], Array]:
    """Runs with their numbers alone, and these: a row a run, filled up with NaN where others have more."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need

    def rows(of: Sequence[HistoryPoint]) -> Array:
        try:
            return np.array([p.values for p in of], dtype=float)
        except ValueError:  # not as many each
            most = max(len(p.values) for p in of)
        return np.array([p.values if len(p.values) == most else (*p.values, *[nan] * (most - len(p.values))) for p in of], dtype=float)

    if (found := rows(points)).size and np.isfinite(found).all():
        return tuple(points), found
    numbers = (replace(p, values=tuple(v for v in p.values if isfinite(v))) for p in points)
    kept = tuple(p for p in numbers if p.values)
    return kept, rows(kept)


@dataclass(frozen=True)
class _Series:
    """Runs in the order of time, and what is usual around each of them."""

    y: Array
    near: Array
    """The same with what lies far off moved to within what is usual around it."""
    least: float
    phi: float
    apart: tuple[int, ...] = ()

    @classmethod
    def of(cls, y: Array) -> _Series:
        import numpy as np  # noqa: PLC0415 - as above

        least = _RESOLUTION * float(np.abs(y).max())
        noise = max(_spread(y[1:] - y[:-1], _KEPT) / sqrt(2), least)
        around = _medians(y)
        usual = max(float(np.median(np.abs(y - around))) * 1.4826, noise)
        near = around + np.clip(y - around, -_CLIP * usual, _CLIP * usual)
        return cls(y, near, least, _autocorrelation(near), _apart(y, noise))

    def part(self, first: int, last: int) -> _Series:
        """Some of the runs, with what is known of all."""
        return replace(self, y=self.y[first:last], near=self.near[first:last])


def _changes(of: _Series, *, places: int, offset: int = 0) -> list[tuple[int, float]]:
    """Where a level begins that differs from the one before, and p of that."""
    if len(of.y) < FEWEST or not of.least:  # too few, or all are 0
        return []
    found = _proven(of, places)
    if found is None:
        return []
    at, p = found
    return [
        *_changes(of.part(0, at), places=places, offset=offset),
        (offset + at, p),
        *_changes(of.part(at, len(of.y)), places=places, offset=offset + at),
    ]


def _proven(of: _Series, places: int) -> tuple[int, float] | None:
    """The clearest step and its p, if it is proven: by the values as they are, where few lie so far off by chance, or by the near ones."""
    step = _step(of.y, of, places)
    if step is not None:
        at, effect, p = step
        if (p := max(p, min(_by_chance(of, at, effect) * places, 1.0))) <= LEVEL:
            return at, p
    step = _step(of.near, of, places)
    return None if step is None else (_refined(of.y, step[0]), step[2])


def _step(y: Array, of: _Series, places: int) -> tuple[int, float, float] | None:
    """The place at which a step explains most, its size, and p for all places; None where it is not proven.

    It is proven beside a line, and beside a curve of the runs around it.
    """
    at, effect, p = _beside_curves(y, of, degrees=2)
    if p * places > LEVEL:
        return None
    first, last = max(at - _NEAR, 0), min(at + _NEAR, len(y))
    here, _, also = _beside_curves(y[first:last], of.part(first, last), degrees=1 + min(_MOST_BENDS, (last - first) // _RUNS_A_BEND))
    p = max(p, also) * places
    return (at, effect, p) if p <= LEVEL and abs(first + here - at) <= _AROUND else None


def _beside_curves(y: Array, of: _Series, *, degrees: int) -> tuple[int, float, float]:
    """The place and size of a step beside the likeliest curve of a degree below `degrees`, and p.

    p is the largest beside any curve that is nearly as likely. How likely one is, the values say that are moved near: by what it and a step
    leave of them, and by what its numbers cost (G. Schwarz, Ann. Stat. 6, 1978).
    """
    curves = sorted((_cost(of, degree), degree) for degree in range(degrees))
    steps = []
    for cost, degree in curves:
        if cost > curves[0][0] + _AS_LIKELY:
            break
        step = _Fit(y, of.phi, of.least, degree=degree).best()
        if (more := _left_over(y, step[0], degree)) > of.phi:
            step = _Fit(y, more, of.least, degree=degree).best()
        steps.append(step)
    (at, effect, _), *_ = steps
    return at, effect, max(p for _, _, p in steps)


def _cost(of: _Series, degree: int) -> float:
    """Schwarz's criterion of a curve with a step in it: the least is the likeliest."""
    fit, n = _Fit(of.near, of.phi, of.least, degree=degree), len(of.near)
    left = fit.left(fit.best()[0])
    return n * log(max(float(left @ left), n * of.least**2)) + degree * log(n)


class _Fit:
    """Values as a level and a line (or a bend, of a higher degree), under an autocorrelation of neighbours by `phi`.

    What neighbours share is taken out of each.
    """

    def __init__(self, y: Array, phi: float, least: float, *, degree: int = 1) -> None:
        import numpy as np  # noqa: PLC0415 - as above

        self.n, self.phi, self.least = len(y), phi, least
        self.basis: list[Array] = []
        for power in range(degree + 1):
            column = self._rest(_alone(np.linspace(-1, 1, self.n) ** power, phi))
            self.basis.append(column / sqrt(float(column @ column)))
        self.z = self._rest(_alone(y - y.mean(), phi))
        self.freedom = self.n - len(self.basis) - 1

    def _rest(self, column: Array) -> Array:
        """Without what the level and the line have of it."""
        for of in self.basis:
            column = column - (of @ column) * of
        return column

    def best(self) -> tuple[int, float, float]:
        """The place, size and two-sided p of the step that explains most."""
        import numpy as np  # noqa: PLC0415 - as above

        rest = 1 - self.phi
        places = np.arange(_SHORTEST, self.n - _SHORTEST + 1)
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
        """A step by 1."""
        import numpy as np  # noqa: PLC0415 - as above

        return self._rest(_alone((np.arange(self.n) >= at).astype(float), self.phi))

    def left(self, at: int) -> Array:
        """What a step at a place leaves."""
        step = self._size_of(at)
        return self.z - (step @ self.z) / (step @ step) * step

    def _error_around(self, at: int, effect: float) -> float:
        """The standard error of a step, each run with the spread of those around it."""
        import numpy as np  # noqa: PLC0415 - as above

        step = self._size_of(at)
        squares = (self.z - effect * step) ** 2 * self.n / self.freedom
        width = min(2 * _AROUND + 1, self.n)
        sums = np.concatenate([[0.0], np.cumsum(squares)])
        first = np.clip(np.arange(self.n) - width // 2, 0, self.n - width)
        around = (sums[first + width] - sums[first]) / width
        return sqrt(float((step**2 * around).sum())) / float(step @ step)


def _alone(y: Array, phi: float) -> Array:
    """What is left of each value after the part that it shares with the one before it."""
    import numpy as np  # noqa: PLC0415 - as above

    return np.concatenate([[sqrt(1 - phi**2) * y[0]], y[1:] - phi * y[:-1]])


def _by_chance(of: _Series, at: int, effect: float) -> float:
    """How likely runs that lie far off by themselves make the shorter side of a step, by how many of the other side do."""
    import numpy as np  # noqa: PLC0415 - as above

    sides = of.y[:at], of.y[at:]
    short, long = sorted(sides, key=len)
    level, half = float(np.median(long)), abs(effect) / 2
    off = float((np.abs(long - _medians(long)) >= half).sum() + 1) / (len(long) + 1)
    found = int((np.abs(short - level) >= half).sum())
    return sum(comb(len(short), k) * off**k * (1 - off) ** (len(short) - k) for k in range(found, len(short) + 1))


def _refined(y: Array, at: int) -> int:
    """The place near `at` where the distances from the medians of both sides are least."""
    import numpy as np  # noqa: PLC0415 - as above

    first, last = max(at - 3 * _AROUND, 0), min(at + 3 * _AROUND, len(y))
    low, high = np.median(y[first:at]), np.median(y[at:last])
    places = range(max(at - _AROUND, _SHORTEST, first + 1), min(at + _AROUND, len(y) - _SHORTEST, last - 1) + 1)
    return min(places, key=lambda k: float(np.abs(y[first:k] - low).sum() + np.abs(y[k:last] - high).sum()))


@dataclass(frozen=True)
class _Model:
    """The levels and one line through all of them."""

    slope: float
    """A run."""
    drift: LevelDrift | None
    left: Array
    """What they leave of each run."""
    next_run: Interval | None

    @property
    def drifts(self) -> bool:
        return self.drift is not None

    @classmethod
    def of(cls, series: _Series, ends: Sequence[int]) -> _Model:
        import numpy as np  # noqa: PLC0415 - as above

        n = len(series.y)
        levels = np.column_stack([(np.arange(n) >= a) & (np.arange(n) < b) for a, b in pairwise(ends)]).astype(float)
        both = np.column_stack([np.linspace(-0.5, 0.5, n), levels])
        phi = max(series.phi, _biased(_lag_one(_without(series.near, both)), n, both.shape[1] + 1))
        filtered, z = np.column_stack([_alone(c, phi) for c in both.T]), _alone(series.near, phi)
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


def _next_run(series: _Series, fitted: Array, line: float, of_level: int, columns: int) -> Interval | None:
    """From the errors that the same forecast made of each run that is there."""
    import numpy as np  # noqa: PLC0415 - as above

    n = len(series.y)
    freedom = n - 1 - columns - _CHOSEN
    if n < FEWEST_FOR_NEXT:
        return None
    left, phi = series.y - fitted, max(_lag_one(series.near - fitted), 0.0)
    errors = left[1:] - phi * left[:-1]
    at = float(fitted[-1] + line + phi * left[-1])
    wider = sqrt((1 + 1 / of_level) * (n - 1) / freedom)
    ends = np.array([1 - CONFIDENCE, 1 + CONFIDENCE]) / 2
    low, high = (float(v) for v in np.quantile(errors, ends, method="weibull"))
    if len(errors) < _ENOUGH_TO_RANK:
        away = student.quantile((1 + CONFIDENCE) / 2, freedom) * sqrt(float((errors**2).mean()))
        low, high = min(low, -away), max(high, away)
    return Interval(at + wider * low, at + wider * high, CONFIDENCE)


def _spreads(kept: Sequence[HistoryPoint], rows: Array, series: _Series, left: Array) -> Iterator[SpreadChange]:
    """Where runs, or the repeats of each, begin to spread by another amount: steps of the roots of distances, which are about normal."""
    import numpy as np  # noqa: PLC0415 - as above

    found = [(SpreadOf.RUNS, np.abs(left))]
    if (np.isfinite(rows).sum(axis=1) >= _REPEATS).all():
        found.append((SpreadOf.REPEATS, np.nanstd(rows, axis=1, ddof=1)))
    for of, sizes in found if series.least else ():
        roots = np.sqrt(sizes)
        at, _, p = _Fit(roots, phi := _autocorrelation(roots), sqrt(series.least), degree=0).best()
        if p <= LEVEL and (more := _left_over(roots, at, degree=0)) > phi:
            at, _, p = _Fit(roots, more, sqrt(series.least), degree=0).best()
        before, after = (float(np.mean(roots[a:b])) ** 2 for a, b in ((0, at), (at, len(roots))))
        if (p := p * (len(roots) - 2 * _SHORTEST + 1)) <= LEVEL and min(at, len(roots) - at) >= FEWEST and before and after:
            yield SpreadChange(of, kept[at - 1].run, kept[at].run, after / before, p)


def _cause(before: Sequence[HistoryPoint], after: Sequence[HistoryPoint], level: float, then: float) -> Cause:
    """The rig's, where the rig changed the same way by half as much or more in the runs next to the step."""
    ends = before[-_AROUND:], after[:_AROUND]
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
    """A calibration counts once, however many runs use it."""
    measured = [p for p in kept if p.rig is not None]
    once = [p for n, p in enumerate(measured) if n == 0 or p.rig != measured[n - 1].rig]
    return history([HistoryPoint(p.run, (p.rig,)) for p in once if p.rig is not None]).changes if len(once) >= FEWEST else ()


def _autocorrelation(values: Array) -> float:
    """Of neighbours, by AR1seg's robust estimate, raised by half a standard error."""
    one, two = (_spread(values[apart:] - values[:-apart], _KEPT_OF_SMOOTH) for apart in (1, 2))
    return _raised((two / one) ** 2 - 1, len(values)) if one > 0 else 0.0


def _left_over(values: Array, at: int, degree: int = 1) -> float:
    """The autocorrelation of what a step at a place and a line (or a curve of another degree) leave."""
    n = len(values)
    return _biased(_lag_one(_Fit(values, 0.0, 1.0, degree=degree).left(at)), n, degree + 4)


def _without(values: Array, columns: Array) -> Array:
    """What least squares leave."""
    import numpy as np  # noqa: PLC0415 - as above

    return np.asarray(values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0])


def _lag_one(left: Array) -> float:
    square = float(left @ left)
    return float(left[1:] @ left[:-1]) / square if square > 0 else 0.0


def _biased(found: float, runs: int, columns: int) -> float:
    """Raised by the bias of what so many columns leave, about (1 + φ) / n for each and 2 φ / n more, and by half a standard error.

    (F. H. C. Marriott, J. A. Pope, Biometrika 41, 1954; a place that was chosen counts as a column more.)
    """
    found = max(found, 0.0)
    return _raised(found + (columns * (1 + found) + 2 * found) / runs, runs)


def _raised(found: float, runs: int) -> float:
    """By half a standard error, within what the model has."""
    found = min(max(found, 0.0), _MOST)
    return min(found + sqrt((1 - found**2) / runs) / 2, _MOST)


def _apart(medians: Array, noise: float) -> tuple[int, ...]:
    """Places that differ from their neighbours, on the same side of both, by more than single runs do."""
    import numpy as np  # noqa: PLC0415 - as above

    steps = (medians[1:] - medians[:-1]) / (_APART * noise if noise else 1.0)
    before, after = np.concatenate([[steps[0] * -1], steps]), np.concatenate([-steps, [steps[-1]]])
    return tuple(int(n) for n in np.flatnonzero((np.minimum(before, after) > 1) | (np.maximum(before, after) < -1)))


def _medians(y: Array) -> Array:
    """Of the runs around each."""
    import numpy as np  # noqa: PLC0415 - as above

    width = 2 * _AROUND + 1
    inside = range(_AROUND, len(y) - _AROUND)
    out = np.empty(len(y))
    for n in (*range(min(_AROUND, len(y))), *range(max(len(y) - _AROUND, _AROUND), len(y))):
        out[n] = median(y[max(n - _AROUND, 0) : n + _AROUND + 1].tolist())
    if inside:
        out[_AROUND : len(y) - _AROUND] = np.partition(np.lib.stride_tricks.sliding_window_view(y, width), _AROUND, axis=1)[:, _AROUND]
    return out


def _spread(steps: Array, share: float) -> float:
    """Standard deviation of normal steps: root mean square of the smaller ones, over what it would be of normal ones, cut alike."""
    import numpy as np  # noqa: PLC0415 - as above

    kept = np.sort(np.abs(steps))[: min(ceil(share * len(steps)), len(steps) - 1)]
    cut = NormalDist().inv_cdf((1 + len(kept) / len(steps)) / 2)
    return sqrt(float((kept**2).mean()) / (1 - 2 * cut * NormalDist().pdf(cut) * len(steps) / len(kept)))
