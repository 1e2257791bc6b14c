"""Effect of a factor that was present in one measurement of each pair and absent in the other.

Each pair gives one difference. With six pairs or more, their median has the exact interval of order statistics (summary.py). The
measurements of a pair follow one another, so drift from pair to pair cancels out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dutlab.stats.summary import Summary, summarise

FEWEST_PAIRS = 6
"""Fewest pairs: with five values no interval of order statistics holds the median with 95 %."""


@dataclass(frozen=True)
class PairedChange:
    """Differences, second less first; shares of the first if `relative`."""

    of: Summary
    relative: bool

    @property
    def proven(self) -> bool:
        """True if the whole interval is on one side of 0."""
        return self.of.interval is not None and (self.of.interval.low > 0 or self.of.interval.high < 0)


def change_of(pairs: Iterable[tuple[float, float]], *, relative: bool) -> PairedChange | None:
    """Return the change over all pairs; None without pairs. Where `relative`, pairs whose first value is 0 are left out."""
    usable = [(a, b) for a, b in pairs if not relative or a]
    changes = [(b - a) / a if relative else b - a for a, b in usable]
    return PairedChange(summarise(changes), relative) if changes else None
