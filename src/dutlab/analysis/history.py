"""The same figure over many runs: where its level changed, and how sure that is.

Each run counts once, by the median of its repeats: repeats share a run's set-up, so they say nothing of what changes from run to run.
Nights are seldom independent either, and where each resembles the one before, any method that takes them for independent finds changes
every few weeks. So the autocorrelation is estimated first, from how much more runs differ that are two nights apart than neighbours
do (S. Chakar, E. Lebarbier, C. Lévy-Leduc, S. Robin, Bernoulli 23, 2017: steps of the level hardly touch it), and raised by its standard
error. Then each place is tested for a step by generalised least squares; p is that of Student's t times the number of places
(Bonferroni), so looking for the best place is in it. A step must be proven with the autocorrelation of what it leaves as well, where that
is larger: the first estimate scatters much among tens of runs. Where a step is proven, both sides are searched in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite, sqrt
from statistics import NormalDist, fmean

from dutlab.analysis.design import LEVEL
from dutlab.stats.summary import median

FEWEST = 6
"""Runs, below which the spread of single runs is not known well enough."""
_SHORTEST = 2
_KEPT, _KEPT_OF_SMOOTH = 0.7, 0.85
"""Share of the steps between runs, the smaller ones, that noise is estimated from, since the others may be changes; and autocorrelation,
after outliers were taken out."""
_MOST = 0.95
"""Largest autocorrelation of the model: with more, a series has no level that a change could move."""
_APART = 6.0
"""Standard deviations of the steps between neighbours, over √2."""
_RESOLUTION = 1e-6
"""Relative to the figure; where runs agree better than this, that is taken for their noise."""


@dataclass(frozen=True)
class HistoryPoint:
    """One run's repeats of a figure."""

    run: str
    values: tuple[float, ...]

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
    """Level after ÷ level before; None where that is none, around 0."""
    p: float
    """Two-sided, corrected for every place at which the level might have changed; at most 0.05."""


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


def history(points: Sequence[HistoryPoint]) -> History:
    """`points` in the order of time. Values that are not a number (or infinite), and runs without any other, are left out."""
    kept = tuple(p for p in (HistoryPoint(p.run, tuple(v for v in p.values if isfinite(v))) for p in points) if p.values)
    if len(kept) < FEWEST:
        level = (HistoryLevel(0, len(kept) - 1, median([p.median for p in kept])),) if kept else ()
        return History(
            kept, level, (), why=f"{len(kept)} run{'s' if len(kept) != 1 else ''}; to find a change of level takes at least {FEWEST}"
        )
    medians = [p.median for p in kept]
    least = _RESOLUTION * max(abs(m) for m in medians)
    apart = _apart(medians, max(_spread(_steps(medians, 1), _KEPT) / sqrt(2), least))
    smooth = [fmean(_beside(medians, n)) if n in apart else m for n, m in enumerate(medians)]
    phi = _autocorrelation(smooth)
    steps = sorted(_changes(smooth, phi, least, places=len(smooth) - 2 * _SHORTEST + 1))
    ends = [0, *(at for at, _ in steps), len(kept)]
    levels = tuple(HistoryLevel(a, b - 1, median(medians[a:b])) for a, b in pairwise(ends))
    changes = tuple(
        LevelChange(kept[a.last].run, kept[b.first].run, b.value / a.value if a.value else None, p)
        for (a, b), (_, p) in zip(pairwise(levels), steps, strict=True)
    )
    return History(kept, levels, changes, tuple(kept[n].run for n in apart), phi)


def _changes(values: Sequence[float], phi: float, least: float, *, places: int, offset: int = 0) -> list[tuple[int, float]]:
    """Where a level begins that differs from the one before, and p of that."""
    if len(values) < 2 * _SHORTEST + 1 or not least:  # too few, or all are 0
        return []
    at, p = _step(values, phi, least)
    if p * places <= LEVEL and (more := _left_over(values, at)) > phi:
        at, p = _step(values, more, least)
    if (p := min(p * places, 1.0)) > LEVEL:
        return []
    return [
        *_changes(values[:at], phi, least, places=places, offset=offset),
        (offset + at, p),
        *_changes(values[at:], phi, least, places=places, offset=offset + at),
    ]


def _step(values: Sequence[float], phi: float, least: float) -> tuple[int, float]:
    """The place at which a step explains most, by generalised least squares under an autocorrelation of `phi`, and its two-sided p."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need
    from scipy.stats import t  # noqa: PLC0415 - 1 s, as above

    y, n = np.asarray(values, dtype=float), len(values)
    y = y - median(values)
    first, rest = sqrt(1 - phi**2), 1 - phi  # what is left of a constant after its part that neighbours share is taken out
    z = np.concatenate([[first * y[0]], y[1:] - phi * y[:-1]])
    places = np.arange(_SHORTEST, n - _SHORTEST + 1)
    after = n - 1 - places
    sums = np.concatenate([np.cumsum(z[::-1])[::-1], [0.0]])
    cc, cz = first**2 + (n - 1) * rest**2, first * z[0] + rest * float(z[1:].sum())
    xx, cx, xz = 1 + after * rest**2, rest + after * rest**2, z[places] + rest * sums[places + 1]
    own = xx - cx**2 / cc
    effect = (xz - cx * cz / cc) / own
    left = np.maximum(float(z @ z) - cz**2 / cc - effect**2 * own, n * least**2)
    freedom = n - 3
    size = np.abs(effect) * np.sqrt(own / (left / freedom))
    best = int(size.argmax())
    return int(places[best]), float(2 * t.sf(size[best], freedom))


def _autocorrelation(values: Sequence[float]) -> float:
    """Of neighbours, by AR1seg's robust estimate, raised by one standard error and at most 0.95."""
    one, two = (_spread(_steps(values, apart), _KEPT_OF_SMOOTH) for apart in (1, 2))
    return _raised((two / one) ** 2 - 1, len(values)) if one > 0 else 0.0


def _left_over(values: Sequence[float], at: int) -> float:
    """The autocorrelation of what a step at a place leaves.

    It is raised by twice the bias that two levels have at places that were not chosen, (2 + 4φ) / n: the place is where least is left.
    """
    left = [v - fmean(side) for side in (values[:at], values[at:]) for v in side]
    square = sum(v * v for v in left)
    found = max(sum(a * b for a, b in pairwise(left)) / square, 0.0) if square > 0 else 0.0
    return _raised(found + 2 * (2 + 4 * found) / len(values), len(values))


def _raised(found: float, runs: int) -> float:
    """By one standard error, within what the model has."""
    found = min(max(found, 0.0), _MOST)
    return min(found + sqrt((1 - found**2) / runs), _MOST)


def _apart(medians: Sequence[float], noise: float) -> list[int]:
    """Places that differ from their neighbours, on the same side of both, by more than single runs do."""
    out = []
    for n, m in enumerate(medians):
        away = [m - other for other in _beside(medians, n)]
        if min(away) > _APART * noise or max(away) < -_APART * noise:
            out.append(n)
    return out


def _beside(medians: Sequence[float], n: int) -> list[float]:
    return [medians[i] for i in (n - 1, n + 1) if 0 <= i < len(medians)]


def _steps(values: Sequence[float], apart: int) -> list[float]:
    """Differences of values so many places apart."""
    return [b - a for a, b in zip(values, values[apart:], strict=False)]


def _spread(steps: Sequence[float], share: float) -> float:
    """Standard deviation of normal steps: root mean square of the smaller ones, over what it would be of normal ones, cut alike."""
    kept = sorted(abs(s) for s in steps)[: min(ceil(share * len(steps)), len(steps) - 1)]
    cut = NormalDist().inv_cdf((1 + len(kept) / len(steps)) / 2)
    return sqrt(fmean(s * s for s in kept) / (1 - 2 * cut * NormalDist().pdf(cut) * len(steps) / len(kept)))
