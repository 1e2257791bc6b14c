"""Effect of something that was present in one measurement of each pair and absent in the other.

Each pair gives one difference; their median has the exact interval of order statistics (summary.py), from six pairs on. Measurements of a
pair follow one another, so what drifts from pair to pair cancels out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dutlab.stats.summary import Summary, summarise

FEWEST_PAIRS = 6
"""Fewest pairs: of five values no interval of order statistics holds the median with 95 %."""


@dataclass(frozen=True)
class PairedChange:
    """The differences, second less first: as shares of the first where `relative`."""

    of: Summary
    relative: bool

    @property
    def proven(self) -> bool:
        """The whole interval lies on one side of nothing."""
        return self.of.interval is not None and (self.of.interval.low > 0 or self.of.interval.high < 0)


def change_of(pairs: Iterable[tuple[float, float]], *, relative: bool) -> PairedChange | None:
    """None without pairs; a pair whose first is 0 has no share and is left out."""
    usable = [(a, b) for a, b in pairs if not relative or a]
    changes = [(b - a) / a if relative else b - a for a, b in usable]
    return PairedChange(summarise(changes), relative) if changes else None
