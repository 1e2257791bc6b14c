"""Search for the largest whole number for which a condition holds: double until it fails, then halve the gap.

An guess answer is tried right after the first number, then the number just above it: three trials if it is correct.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Bracket:
    """Result of a search. `held`: largest number that held, 0 if none. `failed_from`: smallest number that failed, None if none."""

    held: int
    failed_from: int | None


async def bracket(
    holds: Callable[[int], Awaitable[bool]], *, first: int, most: int, resolution: float, guess: int | None = None
) -> Bracket:
    """Search between `first` and `most`, until the bounds differ by at most `resolution` of the lower one.

    `guess` is the expected answer; it may be wrong.
    """
    good, tried = 0, min(first, most)
    while await holds(tried):
        good = tried
        if tried >= most:
            return Bracket(good, None)
        tried = min(
            good * 2 if guess is None or good > guess else guess if good < guess else guess + max(1, int(guess * resolution)),
            most,
        )
    bad = tried
    while bad - good > max(1, good * resolution):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if await holds(middle) else (good, middle)
    return Bracket(good, bad)
