"""Time at which a stream lost frames, by their numbers, from the counts of both ends during the load.

Numbers are consecutive and frames are sent evenly, so a number gives an instant. While nothing arrives, the highest received number does
not change, and the next number is the first lost one. An outage that no look falls into is known only to be between two looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_REAL = 1
"""Index of the first real look; the look before it is made up and says that nothing had arrived at the beginning."""
SILENT_FRAMES = 3
"""Frames that must be due between two looks, with none received, to prove silence."""
Between = tuple[int, int]
"""Two frame numbers; the true number is between them, both included."""


@dataclass(frozen=True)
class Look:
    """Counts of a stream's receiver at one instant of its clock."""

    at_ns: int
    next_sequence: int
    """One above the highest received number."""
    unique: int
    """Number of different received frames."""

    @property
    def missing(self) -> int:
        """Numbers below the highest that were not received."""
        return self.next_sequence - self.unique


@dataclass(frozen=True)
class LostNumbers:
    """Begin and end of a stream's lost frames, as numbers."""

    first_lost: Between
    back: Between | None
    """First received frame after the last lost one; None if no look saw one."""


def lost_numbers(looks: Sequence[Look], *, sent: int, lost: int, pps: float) -> LostNumbers | None:
    """Return the lost numbers of a stream of `sent` frames at `pps`, of which `lost` never arrived; None if none was lost.

    While frames overtake one another, a look may count a frame as missing that arrives later. Such a look has no effect once a later look
    has the frame.
    """
    if lost <= 0:
        return None
    all_looks = [Look(0, 0, 0), *looks, Look(0, sent, sent - lost)]  # the first and the last have no time
    some = _since(all_looks, 1)
    begins = _between(all_looks, some, pps, skipped=0)
    every = _since(all_looks, lost)
    if every == len(all_looks) - 1:
        return LostNumbers(begins, None)
    return LostNumbers(begins, _between(all_looks, every, pps, skipped=all_looks[every].missing - all_looks[every - 1].missing))


def _since(looks: Sequence[Look], missing: int) -> int:
    """Return the index of the first look from which on every look lacks at least `missing` numbers."""
    short = [i for i, look in enumerate(looks) if look.missing < missing]
    return short[-1] + 1


def _between(looks: Sequence[Look], at: int, pps: float, *, skipped: int) -> Between:
    """Return bounds of the number of a frame: at least `skipped` above the next number at the look before `at`.

    The bounds are equal if nothing arrived between the two looks before `at`.
    """
    before, now = looks[at - 1], looks[at]
    first = before.next_sequence + skipped
    if at - 2 >= _REAL and _silent(looks[at - 2], before, pps):
        return first, first
    return first, max(first, now.next_sequence - (now.missing - before.missing - skipped))


def _silent(earlier: Look, later: Look, pps: float) -> bool:
    """Return whether nothing arrived between two looks although frames were due."""
    return earlier.next_sequence == later.next_sequence and (later.at_ns - earlier.at_ns) * pps >= SILENT_FRAMES * 1e9
