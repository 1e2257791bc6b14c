"""Bisection: find the version that changed a figure, by halving the range until two neighbours differ.

A count shows for certain on which side of the change a version is. For a figure with an error, blocks of the first version and of the
tested one are measured until a sequential test decides between "no change" and "the whole change" (dutlab.stats.sequential). That test
may be read after each run. A version that stays undecided, or has no result, is skipped, and a neighbour is measured instead.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, log2

from dutlab.analysis.design import LEVEL
from dutlab.stats.sequential import Reach, log_likelihood_ratio, mean_reach

FEWEST_OF_ENDS = 24
"""Fewest blocks of the first and last version. A change proven by fewer blocks seems larger than it is."""


class VersionSide(enum.Enum):
    """End of the row that a version equals."""

    FIRST = "as the first"
    LAST = "as the last"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Bisection:
    """Versions in order, and the known side of each. The first version is FIRST, the last LAST."""

    count: int
    known: Mapping[int, VersionSide]

    @property
    def bounds(self) -> tuple[int, int]:
        """The closest two versions that are known to be on different sides."""
        high = min((at for at, side in self.known.items() if side is VersionSide.LAST), default=self.count - 1)
        low = max((at for at, side in self.known.items() if side is VersionSide.FIRST and at < high), default=0)
        return low, high

    @property
    def next(self) -> int | None:
        """The next version to measure: the one nearest to the middle of the bounds that was not measured; None when none is left."""
        low, high = self.bounds
        open_ = [at for at in range(low + 1, high) if at not in self.known]
        return min(open_, key=lambda at: (abs(2 * at - low - high), at), default=None)

    @property
    def culprits(self) -> range:
        """The versions that may have made the change; a single one once it is found."""
        low, high = self.bounds
        return range(low + 1, high + 1)

    @property
    def contradicts(self) -> bool:
        """True if a later version equals the first again: there is more than one change."""
        _, high = self.bounds
        return any(side is VersionSide.FIRST and at > high for at, side in self.known.items())


def most_steps(count: int) -> int:
    """Return the largest number of versions to measure if each can be decided: both ends, and one for each halving."""
    return ceil(log2(max(count - 1, 1))) + 2


def side_of_count(value: float, first: float, last: float) -> VersionSide:
    """Return the end (first or last version) with the count nearer to `value`."""
    return VersionSide.LAST if abs(value - last) < abs(value - first) else VersionSide.FIRST


def side_of_rounds(changes: Sequence[float], whole: float, steps: int) -> VersionSide:
    """Return the side of a version from `changes`, one logarithm of its ratio to the first version per block.

    `whole` is that logarithm for the last version. LEVEL is the probability of any error in `steps` decisions.
    """
    for_last = log_likelihood_ratio(changes, 0.0, whole)
    if abs(for_last) < log(steps / LEVEL):
        return VersionSide.UNKNOWN
    return VersionSide.LAST if for_last > 0 else VersionSide.FIRST


def changed_by(changes: Sequence[float], cells: int) -> float | None:
    """Return the change between the ends, as a logarithm, for one of `cells` that are tested; None while chance explains it."""
    reach = _proven(changes, cells)
    return None if reach is None else reach.mean


def is_precise(changes: Sequence[float], cells: int) -> bool:
    """Return True once the change between the ends is proven, and its interval ends at half of it or closer.

    A change that is read as soon as it is proven seems too large. Later steps compare with it, so they would decide wrongly.
    """
    reach = _proven(changes, cells)
    return reach is not None and min(abs(reach.low), abs(reach.high)) >= abs(reach.mean) / 2


def _proven(changes: Sequence[float], cells: int) -> Reach | None:
    reach = mean_reach(changes, LEVEL / cells)
    return None if len(changes) < FEWEST_OF_ENDS or reach is None or reach.low <= 0 <= reach.high else reach
