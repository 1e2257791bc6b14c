"""The same figure over many runs: where its level changed, and how sure that is.

Each run counts once, by the median of its repeats: repeats share a run's set-up, so they say nothing of what changes from run to run.
Levels are found by PELT (R. Killick, P. Fearnhead, I. A. Eckley, J. Am. Stat. Assoc. 107, 2012; library ruptures) on squared error, with
the noise estimated from neighbouring runs and a penalty of 4 ln n a change; then each change is tested by ranks over both sides' runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite, log, sqrt
from statistics import NormalDist, fmean

from dutlab.analysis.compare import LEVEL
from dutlab.analysis.rank import holm, mann_whitney
from dutlab.analysis.statistics import median

FEWEST = 4
"""Runs: two on each side of a change."""
_SHORTEST = 2
_PENALTY = 4.0
"""Of twenty runs of mere normal noise one in twenty then shows a change, of ten one in ten; steps of four deviations are hardly missed."""
_KEPT = 0.7
"""Share of the steps between neighbours, the smaller ones, that noise is estimated from: the others may be changes."""
_APART = 6.0
"""Standard deviations of single runs; neighbours differ by √2 of them as it is."""
_RESOLUTION = 1e-6
"""Relative to the figure; where runs agree better than this, that is taken for their noise."""


@dataclass(frozen=True)
class Point:
    """One run's repeats of a figure."""

    run: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of the repeats."""
        return median(self.values)


@dataclass(frozen=True)
class Level:
    """Runs from `first` up to and with `last` (places among the points) that do not differ from one another."""

    first: int
    last: int
    value: float
    """The median of the runs."""


@dataclass(frozen=True)
class Change:
    """Between two levels."""

    before: str
    after: str
    """The last run of the one level and the first of the next."""
    ratio: float | None
    """Level after ÷ level before; None where that is none, around 0."""
    p: float
    """Two-sided, Mann-Whitney over runs, corrected for all changes of this history (Holm)."""

    @property
    def proven(self) -> bool:
        """Chance alone would show it in fewer than one of twenty."""
        return self.p <= LEVEL


@dataclass(frozen=True)
class History:
    """A figure over runs."""

    points: tuple[Point, ...]
    levels: tuple[Level, ...]
    changes: tuple[Change, ...]
    apart: tuple[str, ...] = ()
    """Runs that differ from those before and after them alike, by more than noise: no level of their own. If the newest is among them, one
    more run will tell whether that is a change."""
    why: str = ""
    """Why nothing was looked for."""


def history(points: Sequence[Point]) -> History:
    """`points` in the order of time. Values that are no finite numbers, and runs without any other, are left out."""
    kept = tuple(p for p in (Point(p.run, tuple(v for v in p.values if isfinite(v))) for p in points) if p.values)
    if len(kept) < FEWEST:
        level = (Level(0, len(kept) - 1, median([p.median for p in kept])),) if kept else ()
        return History(kept, level, (), why=f"{len(kept)} of at least {FEWEST} runs that a change of level needs")
    medians = [p.median for p in kept]
    noise = max(_noise([b - a for a, b in pairwise(medians)]), _RESOLUTION * max(abs(m) for m in medians))
    apart = _apart(medians, noise)
    levels = tuple(Level(a, b - 1, median(medians[a:b])) for a, b in pairwise([0, *_ends(medians, noise, apart)]))
    sides = [(medians[a.first : a.last + 1], medians[b.first : b.last + 1]) for a, b in pairwise(levels)]
    adjusted = holm([mann_whitney(a, b).p for a, b in sides])
    changes = tuple(
        Change(kept[a.last].run, kept[b.first].run, b.value / a.value if a.value else None, p)
        for (a, b), p in zip(pairwise(levels), adjusted, strict=True)
    )
    return History(kept, levels, changes, tuple(kept[n].run for n in apart))


def _ends(medians: Sequence[float], noise: float, apart: Sequence[int]) -> list[int]:
    """Where each level ends, the last at the number of runs. What lies apart counts as its neighbours do."""
    import numpy as np  # noqa: PLC0415 -- with ruptures a second that only this needs
    import ruptures  # noqa: PLC0415 -- as above

    if not noise:
        return [len(medians)]  # all are 0
    smooth = [fmean(_beside(medians, n)) if n in apart else m for n, m in enumerate(medians)]
    signal = (np.array(smooth) - median(smooth)) / noise
    found: list[int] = ruptures.Pelt(model="l2", min_size=_SHORTEST, jump=1).fit(signal).predict(pen=_PENALTY * log(len(medians)))
    return found


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


def _noise(steps: Sequence[float]) -> float:
    """Standard deviation of single runs: root mean square of the smaller steps, over what it would be of normal ones, cut alike."""
    kept = sorted(abs(s) for s in steps)[: min(ceil(_KEPT * len(steps)), len(steps) - 1)]
    cut = NormalDist().inv_cdf((1 + len(kept) / len(steps)) / 2)
    return sqrt(fmean(s * s for s in kept) / 2 / (1 - 2 * cut * NormalDist().pdf(cut) * len(steps) / len(kept)))
