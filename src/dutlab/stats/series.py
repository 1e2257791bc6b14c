"""Rates that were read at irregular instants. Pure functions."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True)
class Piece:
    """A mean rate between two instants, in seconds of any clock."""

    from_s: float
    to_s: float
    rate: float

    def amount(self, from_s: float, to_s: float) -> float:
        """Return the amount between two instants."""
        return max(min(self.to_s, to_s) - max(self.from_s, from_s), 0.0) * self.rate


def pieces(points: Iterable[tuple[float, float]], begin_s: float) -> tuple[Piece, ...]:
    """Return readings (instant, rate since the previous reading) as pieces, from `begin_s` on."""
    ordered = [p for p in sorted(points) if p[0] > begin_s]
    starts = [begin_s, *(at for at, _ in ordered)]
    return tuple(Piece(start, at, rate) for start, (at, rate) in zip(starts, ordered, strict=False))


def mean_rate(of: Sequence[Piece], from_s: float, to_s: float) -> float | None:
    """Return the mean rate between two instants; None if the pieces do not cover all the time between."""
    if not of or to_s <= from_s or from_s < of[0].from_s - _SLACK_S or to_s > of[-1].to_s + _SLACK_S:
        return None
    inside = max(min(to_s, of[-1].to_s) - max(from_s, of[0].from_s), 0.0)
    return sum(p.amount(from_s, to_s) for p in between(of, from_s, to_s)) / inside if inside > 0 else None


def between(of: Sequence[Piece], from_s: float, to_s: float) -> Sequence[Piece]:
    """Return the pieces that overlap the time between two instants; `of` follow one another."""
    return of[bisect_right(of, from_s, key=lambda p: p.to_s) : bisect_left(of, to_s, key=lambda p: p.from_s)]


def ramp_mean(stretches: Sequence[tuple[float, float, float]], from_s: float, to_s: float) -> float:
    """Return the mean rate of a ramp between two instants from its beginning; its last rate continues.

    `stretches` are (seconds, first rate, last rate).
    """
    if to_s <= from_s or not stretches:
        return 0.0
    ends = list(itertools.accumulate(seconds for seconds, _, _ in stretches))
    total = max(to_s - max(from_s, ends[-1]), 0.0) * stretches[-1][2]
    for end, (seconds, low, high) in zip(ends, stretches, strict=True):
        first, last = max(from_s, end - seconds), min(to_s, end)
        if last > first:
            middle = ((first + last) / 2 - (end - seconds)) / seconds
            total += (last - first) * (low + (high - low) * middle)
    return total / (to_s - from_s)


_SLACK_S = 0.25
"""Largest difference in seconds between the instants at which two counters of one second are read."""


LEAST_RISE = 2.0
"""Least rise of a curve with a knee, as a ratio: a smaller one is noise."""
LEAST_DEPTH = 0.1
"""Least distance of a knee below the chord, as a share of the curve's height: noise of an almost straight line is smaller."""
LEAST_POINTS = 3


def knee(points: Sequence[tuple[float, float]], least_rise: float = LEAST_RISE, least_depth: float = LEAST_DEPTH) -> float | None:
    """Return the x after which y rises steeply; None for too few points, or if y does not rise.

    The rise begins at the least y, because y may fall first: a device that sleeps between frames has a high latency at low load. The knee
    is the point of the convex, rising curve that is farthest below its chord (Satopaa et al., Finding a "Kneedle" in a Haystack, 2011),
    without smoothing.
    """
    ordered = sorted(points)
    if len(ordered) < LEAST_POINTS:
        return None
    least = min(range(len(ordered)), key=lambda i: (ordered[i][1], -i))
    rising = ordered[least:]
    (x0, y0), (x1, y1) = rising[0], rising[-1]
    if x1 <= x0 or y0 <= 0 or y1 < y0 * least_rise:
        return None
    if len(rising) < LEAST_POINTS:
        return x0  # it fell until the last point but one
    below = [((x - x0) / (x1 - x0) - (y - y0) / (y1 - y0), x) for x, y in rising]
    most, at = max(below)
    return at if most >= least_depth else None


def stands_still(points: Sequence[tuple[float, float]], *, from_s: float, to_s: float, within: Callable[[float], float]) -> bool:
    """Return True if the means of the halves of a span differ by at most `within` of their mean. Each half needs two points."""
    middle = (from_s + to_s) / 2
    first, last = [v for t, v in points if from_s <= t < middle], [v for t, v in points if middle <= t <= to_s]
    if min(len(first), len(last)) < 2:  # noqa: PLR2004 - one reading has no mean
        return False
    before, after = fmean(first), fmean(last)
    return abs(after - before) <= within(fmean((before, after)))


def settled_after(points: Sequence[tuple[float, float]], from_s: float, to_s: float, *, within: float) -> float | None:
    """Return the time from `from_s` to the last point that is more than `within` from the mean of the last tenth of the span.

    0 if there is no such point. None if the last quarter still changes by more than half of `within`, or has too few points.
    """
    inside = [(t, v) for t, v in points if from_s <= t <= to_s]
    level = [v for t, v in inside if t >= to_s - (to_s - from_s) / 10]
    before = [v for t, v in inside if to_s - (to_s - from_s) / 4 <= t < to_s - (to_s - from_s) / 10]
    if not level or not before or abs(fmean(level) - fmean(before)) > within / 2:
        return None
    end = fmean(level)
    away = [t for t, v in inside if abs(v - end) > within]
    return max(away) - from_s if away else 0.0
