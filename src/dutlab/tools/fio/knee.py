"""Depth beyond which nothing is gained: depths are doubled until two in a row win nothing; then the least near the peak is sought.

The knee is the depth at which IOPS ÷ latency is greatest (Kleinrock, "Power and deterministic rules of thumb for probabilistic
problems", 1979). By Little's law latency is depth ÷ IOPS, so it is IOPS² ÷ depth: of a drive that serves one request after the other up to
its limit it is the depth at which the limit is reached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

GAIN = 0.05
"""A doubling that gives less than this share more has given nothing."""
NEAR = 0.95
"""Share of the peak."""
_NOTHING_TWICE = 2
_FINE = 16
"""The least depth is known to this part of it."""


@dataclass(frozen=True)
class Sweep:
    """Depth → IOPS, of every depth that was tried."""

    iops: Mapping[int, float]
    still_rising: bool
    """The deepest that was allowed gave more than the one before."""

    @property
    def peak(self) -> int:
        """The depth with the most IOPS; of several the least."""
        return max(sorted(self.iops), key=lambda depth: self.iops[depth])

    @property
    def knee(self) -> int:
        """The depth with the most IOPS for its latency."""
        return max(sorted(self.iops), key=lambda depth: self.iops[depth] ** 2 / depth)

    @property
    def least(self) -> int:
        """The least depth that reaches NEAR of the peak."""
        return min(depth for depth, iops in self.iops.items() if iops >= NEAR * self.iops[self.peak])


async def sweep(measure: Callable[[int], Awaitable[float]], deepest: int) -> Sweep:
    """`measure` takes a depth and returns IOPS. Raises what it raises."""
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
