"""When a stream lost its frames, by their numbers, from what both ends counted during the load.

Numbers are consecutive and frames are sent evenly, so a number is an instant. While nothing comes, the highest number that came does not
change: the next one is the first that was lost. An outage that no look falls into is known to lie between two looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_REAL = 1
"""Index of the first look that somebody took: the one before says that nothing had come in the beginning."""
SILENT_FRAMES = 3
"""So many frames were due between two looks and none came: nothing comes."""
Between = tuple[int, int]
"""Two numbers of frames; the one that is meant lies between them, both ends counted."""


@dataclass(frozen=True)
class Look:
    """What the receiver had counted of a stream at one instant of its clock."""

    at_ns: int
    next_sequence: int
    """One above the highest number that had come."""
    unique: int
    """Different frames that had come."""

    @property
    def missing(self) -> int:
        """Numbers below the highest that had not come."""
        return self.next_sequence - self.unique


@dataclass(frozen=True)
class LostNumbers:
    """Where the lost frames of a stream begin and end."""

    first_lost: Between
    back: Between | None
    """The first that came after the last lost one; None where no look saw one."""


def lost_numbers(looks: Sequence[Look], *, sent: int, lost: int, pps: float) -> LostNumbers | None:
    """Of a stream of which so many frames were sent, at such a rate, and so many never came; None where none was lost.

    A look while frames overtake one another may count one as missing that comes later; such a look moves nothing once a later one has it.
    """
    if lost <= 0:
        return None
    all_looks = [Look(0, 0, 0), *looks, Look(0, sent, sent - lost)]  # the ends have no instant
    some = _since(all_looks, 1)
    begins = _between(all_looks, some, pps, skipped=0)
    every = _since(all_looks, lost)
    if every == len(all_looks) - 1:
        return LostNumbers(begins, None)
    return LostNumbers(begins, _between(all_looks, every, pps, skipped=all_looks[every].missing - all_looks[every - 1].missing))


def _since(looks: Sequence[Look], missing: int) -> int:
    """The first look from which on so many numbers are missing in every look."""
    short = [i for i, look in enumerate(looks) if look.missing < missing]
    return short[-1] + 1


def _between(looks: Sequence[Look], at: int, pps: float, *, skipped: int) -> Between:
    """The number `skipped` above the one that was next at the look before: exactly it if nothing came then, else it or a later one."""
    before, now = looks[at - 1], looks[at]
    first = before.next_sequence + skipped
    if at - 2 >= _REAL and _silent(looks[at - 2], before, pps):
        return first, first
    return first, max(first, now.next_sequence - (now.missing - before.missing - skipped))


def _silent(earlier: Look, later: Look, pps: float) -> bool:
    """Whether nothing came between two looks although frames were due."""
    return earlier.next_sequence == later.next_sequence and (later.at_ns - earlier.at_ns) * pps >= SILENT_FRAMES * 1e9
