"""Profiles: stacks of functions with their samples, their sums by function, and the boxes of a flame graph (Gregg, 2016, CACM 59(6))."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Stacks = Mapping[tuple[str, ...], float]
"""Functions from the outermost inwards → samples that ended there."""
SEEN = 0.003
"""Boxes of a smaller share are left out of a drawing."""
DEEPEST = 50
"""So many levels are drawn; the raw file has all."""


@dataclass(frozen=True)
class FlameBox:
    """A function in its place: shares of all samples."""

    name: str
    depth: int
    begins: float
    share: float
    change: float | None = None
    """Its share here less its share in the other mode; None where nothing is compared."""


@dataclass(frozen=True)
class Flame:
    """A flame graph."""

    slug: str
    title: str
    boxes: tuple[FlameBox, ...]
    lead: str


def folded(text: str) -> Stacks:
    """Stacks of a file with a line each; lines that are not stacks are left out."""
    stacks = Counter[tuple[str, ...]]()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and count.isdecimal() and not line.startswith("#"):
            stacks[tuple(stack.split(";"))] += int(count)
    return stacks


def alone_and_whole(stacks: Stacks) -> tuple[dict[str, float], dict[str, float]]:
    """Share of each function by itself, and with what it called. A function that calls itself counts once a sample."""
    total = sum(stacks.values()) or 1.0
    alone, whole = defaultdict[str, float](float), defaultdict[str, float](float)
    for stack, count in stacks.items():
        alone[stack[-1]] += count / total
        for name in set(stack):
            whole[name] += count / total
    return dict(alone), dict(whole)


def boxes(stacks: Stacks, other: Stacks | None = None) -> Iterator[FlameBox]:
    """Every box that can be seen, a level below the one that it was called from; names in alphabetical order."""
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
