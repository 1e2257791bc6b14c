"""Profiles: stacks of functions with their samples, their sums by function, and the boxes of a flame graph (Gregg, 2016, CACM 59(6))."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Stacks = Mapping[tuple[str, ...], float]
"""Functions, outermost first → number of samples that ended there."""
SEEN = 0.003
"""Smallest share of a box that is drawn."""
DEEPEST = 50
"""Largest number of levels that are drawn; the raw file has all."""


@dataclass(frozen=True)
class FlameBox:
    """A function in its place: shares of all samples."""

    name: str
    depth: int
    begins: float
    share: float
    change: float | None = None
    """Share here minus share in the other mode; None without a comparison."""


@dataclass(frozen=True)
class Flame:
    """A flame graph."""

    slug: str
    title: str
    boxes: tuple[FlameBox, ...]
    lead: str


def folded(text: str) -> Stacks:
    """Parse folded stacks, one per line; other lines are ignored."""
    stacks = Counter[tuple[str, ...]]()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and count.isdecimal() and not line.startswith("#"):
            stacks[tuple(stack.split(";"))] += int(count)
    return stacks


def own_and_total_shares(stacks: Stacks) -> tuple[dict[str, float], dict[str, float]]:
    """Return the shares of each function itself, and with callees. A recursive function counts once per sample."""
    total = sum(stacks.values()) or 1.0
    alone, whole = defaultdict[str, float](float), defaultdict[str, float](float)
    for stack, count in stacks.items():
        alone[stack[-1]] += count / total
        for name in set(stack):
            whole[name] += count / total
    return dict(alone), dict(whole)


def boxes(stacks: Stacks, other: Stacks | None = None) -> Iterator[FlameBox]:
    """Yield every box that is large enough to draw, one level above its caller; callees are in alphabetical order."""
    of, than = _sums(stacks), {} if other is None else _sums(other)
    begins: dict[tuple[str, ...], float] = {(): 0.0}
    for path in sorted(of):
        share, parent = of[path], path[:-1]
        if path and len(path) <= DEEPEST:
            at = begins[parent]
            begins[parent] = at + share
            begins[path] = at
            if share >= SEEN:
                yield FlameBox(path[-1], len(path) - 1, at, share, None if other is None else share - than.get(path, 0.0))


def _sums(stacks: Stacks) -> dict[tuple[str, ...], float]:
    total = sum(stacks.values()) or 1.0
    shares = defaultdict[tuple[str, ...], float](float)
    for stack, count in stacks.items():
        for depth in range(len(stack) + 1):
            shares[stack[:depth]] += count / total
    return dict(shares)
