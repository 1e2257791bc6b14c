"""The largest whole number for which something holds: doubled from a small one until it does not, then the gap is halved.

Where somebody says what it should be, that is tried after the first, and then what lies just above it: three trials, if it is true.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Bracket:
    """`held` is the largest that held, 0 if none did; `failed_from` the smallest that did not, None if all held."""

    held: int
    failed_from: int | None


async def bracket(holds: Callable[[int], Awaitable[bool]], *, first: int, most: int, resolution: float, said: int | None = None) -> Bracket:
    """Between `first` and `most`; ends when the two differ by at most `resolution` of the smaller. `said` may be wrong."""
    good, tried = 0, min(first, most)
    while await holds(tried):
        good = tried
        if tried >= most:
            return Bracket(good, None)
        tried = min(good * 2 if said is None or good > said else said if good < said else said + max(1, int(said * resolution)), most)
    bad = tried
    while bad - good > max(1, good * resolution):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if await holds(middle) else (good, middle)
    return Bracket(good, bad)
