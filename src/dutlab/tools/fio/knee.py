"""Search for the depth beyond which a drive gives no more IOPS.

The depth is doubled until two doublings in a row gain nothing. Then bisection finds the least depth with nearly the peak IOPS.

The knee is the depth at which IOPS ÷ latency is greatest (Kleinrock, "Power and deterministic rules of thumb for probabilistic
problems", 1979). By Little's law latency is depth ÷ IOPS, so at the knee IOPS² ÷ depth is greatest. A drive that serves requests one after
another up to its limit has its knee at the depth at which it reaches that limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

GAIN = 0.05
"""Least gain of a doubling, as a share. A smaller gain counts as none."""
NEAR = 0.95
"""Share of the peak IOPS that counts as nearly the peak."""
_NOTHING_TWICE = 2
_FINE = 16
"""Resolution of the least depth: 1/16 of it."""


@dataclass(frozen=True)
class Sweep:
    """Depth → IOPS, of every depth that was tried."""

    iops: Mapping[int, float]
    still_rising: bool
    """True if the deepest allowed depth gave more IOPS than the depth before it."""

    @property
    def peak(self) -> int:
        """Depth with the most IOPS; the least of several such depths."""
        return max(sorted(self.iops), key=lambda depth: self.iops[depth])

    @property
    def knee(self) -> int:
        """Depth with the most IOPS for its latency."""
        return max(sorted(self.iops), key=lambda depth: self.iops[depth] ** 2 / depth)

    @property
    def least(self) -> int:
        """Least depth that reaches NEAR of the peak."""
        return min(depth for depth, iops in self.iops.items() if iops >= NEAR * self.iops[self.peak])


async def sweep(measure: Callable[[int], Awaitable[float]], deepest: int) -> Sweep:
    """Sweep the depths from 1 to `deepest`. `measure` takes a depth and returns IOPS. Raises what `measure` raises."""
    iops: dict[int, float] = {}
    depth, without, before = 1, 0, 0.0
    while True:
        iops[depth] = await measure(depth)
        without = without + 1 if iops[depth] < (1 + GAIN) * before else 0
        before = iops[depth]
        if without == _NOTHING_TWICE or depth == deepest:
            break
        depth = min(2 * depth, deepest)
    result = Sweep(iops, still_rising=without == 0 and deepest > 1)
    high = result.least
    low = max((d for d in iops if d < high), default=0)
    while high - low > max(1, low // _FINE):
        middle = (low + high) // 2
        iops[middle] = await measure(middle)
        low, high = (low, middle) if iops[middle] >= NEAR * iops[result.peak] else (middle, high)
    return result
