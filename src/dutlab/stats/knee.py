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

    The rise begins at the least y: a device whose latency is high while it idles, as one that sleeps between frames, falls before it rises.
    From there it is the point of a convex, rising curve that lies farthest below its chord (Satopaa et al., Finding a "Kneedle" in a
    Haystack, 2011), for a curve of few points and without smoothing.
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
