"""Find which version in a row changed a figure: halve what is left until two neighbours differ.

A count decides for certain on which side a version is. A figure with an error is measured in blocks of the first version and the one in
question, until "no change" is so much likelier or less likely than "the whole change" that chance would seldom explain it
(dutlab.stats.sequential). That test may be read after each run. A version that stays undecided, or has no result, is skipped, and a
neighbour is measured instead.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, log2

from dutlab.analysis.design import LEVEL
from dutlab.stats.sequential import likelier, mean_reach

FEWEST_OF_ENDS = 24
"""Blocks of the two ends: what is proven by fewer seems larger than it is."""


class VersionSide(enum.Enum):
    """End of the row that a version equals."""

    FIRST = "as the first"
    LAST = "as the last"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Bisection:
    """A row of versions, and what is known of them: the first is FIRST, the last LAST."""

    count: int
    known: Mapping[int, VersionSide]

    @property
    def bounds(self) -> tuple[int, int]:
        """The nearest two versions that are known to be on different sides."""
        high = min((at for at, side in self.known.items() if side is VersionSide.LAST), default=self.count - 1)
        low = max((at for at, side in self.known.items() if side is VersionSide.FIRST and at < high), default=0)
        return low, high

    @property
    def next(self) -> int | None:
        """The version to ask now: the nearest to the middle that may still tell; None when there is none."""
        low, high = self.bounds
        open_ = [at for at in range(low + 1, high) if at not in self.known]
        return min(open_, key=lambda at: (abs(2 * at - low - high), at), default=None)

    @property
    def culprits(self) -> range:
        """The versions of which one made the change; one alone where it is found."""
        low, high = self.bounds
        return range(low + 1, high + 1)

    @property
    def contradicts(self) -> bool:
        """True if a later version equals the first again: there is more than one change."""
        _, high = self.bounds
        return any(side is VersionSide.FIRST and at > high for at, side in self.known.items())


def most_steps(count: int) -> int:
    """Return the most versions that are measured where each can be decided: both ends, the halves, and the change itself."""
    return ceil(log2(max(count - 1, 1))) + 2


def side_of_count(value: float, first: float, last: float) -> VersionSide:
    """Return the nearer end for a count."""
    return VersionSide.LAST if abs(value - last) < abs(value - first) else VersionSide.FIRST


def side_of_rounds(changes: Sequence[float], whole: float, steps: int) -> VersionSide:
    """Return the side by logarithms of ratios to the first version, one a block; `whole` is the last's. One error in `steps` is LEVEL."""
    for_last = likelier(changes, 0.0, whole)
    if abs(for_last) < log(steps / LEVEL):
        return VersionSide.UNKNOWN
    return VersionSide.LAST if for_last > 0 else VersionSide.FIRST


def changed_by(changes: Sequence[float], cells: int) -> float | None:
    """The change between the ends, as a logarithm, in one of so many cells; None while chance could have made it."""
    reach = mean_reach(changes, LEVEL / cells)
    return None if len(changes) < FEWEST_OF_ENDS or reach is None or reach.low <= 0 <= reach.high else reach.mean
