"""Where a rising curve bends: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_RISE = 2.0
"""A curve that does not even double has no knee: what it does then is noise."""
LEAST_DEPTH = 0.1
"""So far below its chord, as a share of its height, a bend must lie: the noise of an almost straight line lies nearer."""
LEAST_POINTS = 3


def knee(points: Sequence[tuple[float, float]], least_rise: float = LEAST_RISE, least_depth: float = LEAST_DEPTH) -> float | None:
    """The x after which y rises steeply; None for too few points, or where y does not rise.

    It is the point of a convex, rising curve that lies farthest below its chord (Satopaa et al., Finding a "Kneedle" in a Haystack, 2011),
    for a curve of few points and without smoothing.
    """
    ordered = sorted(points)
    if len(ordered) < LEAST_POINTS:
        return None
    (x0, y0), (x1, y1) = ordered[0], ordered[-1]
    if x1 <= x0 or y0 <= 0 or y1 < y0 * least_rise:
        return None
    below = [((x - x0) / (x1 - x0) - (y - y0) / (y1 - y0), x) for x, y in ordered]
    most, at = max(below)
    return at if most >= least_depth else None
