"""The order of several cells, as far as repeats prove it, and whether it is the same in all runs.

Repeats are compared within their own run only (dutlab.stats.rank, within_runs): what a new set-up changes for all cells alike touches no
order. p is adjusted (Holm) over all pairs that are compared at once. A cell's place is a range: behind every cell that is proven better,
before every cell that is proven worse. So cells between which no difference is proven share a place, and all ranges together are right with
95 % (M. Mogstad, J. Romano, A. Shaikh, D. Wilhelm, Review of Economic Studies 91, 2024: ranks by pairwise comparisons).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isfinite

from dutlab.analysis.design import LEVEL
from dutlab.measures import Better, UnknownDirection, direction_of
from dutlab.stats.rank import beyond_within_runs, holm, least_p_within_runs
from dutlab.stats.summary import median


@dataclass(frozen=True)
class Entrant:
    """One cell of an order."""

    label: str
    runs: tuple[tuple[float, ...], ...]
    """Its repeats in each run; empty where a run has none."""


@dataclass(frozen=True)
class Contest:
    """Cells that differ in mode and levels only, by one figure."""

    label: str
    figure: str
    entrants: tuple[Entrant, ...]
    better: Better = ""
    """Which values are the better ones; without one that of the figure's name, if it is known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "better", self.better or direction_of(self.figure) or "")


@dataclass(frozen=True)
class Placed:
    """A cell with its place, 1 for the best."""

    label: str
    first: int
    last: int
    """The place lies from `first` to `last`; equal where it is proven."""
    medians: tuple[float | None, ...]
    """In each run."""


@dataclass(frozen=True)
class PlacedPair:
    """Two cells, the better first: by what is proven, else by the mean of medians."""

    better: str
    worse: str
    p: float
    """Adjusted."""
    proven: bool
    against: tuple[int, ...]
    """Runs, from 0, in which the medians lie the other way round."""


@dataclass(frozen=True)
class Order:
    """What may be said of a contest."""

    contest: Contest
    places: tuple[Placed, ...]
    """The best first."""
    pairs: tuple[PlacedPair, ...]
    least: float
    """The least relative difference that counts."""
    tests: int
    """Pairs that p was adjusted for, of all contests together."""
    could_prove: bool
    """Whether so many repeats could tell any pair apart at all."""

    @property
    def proven(self) -> tuple[PlacedPair, ...]:
        """Pairs of which one is proven better."""
        return tuple(pair for pair in self.pairs if pair.proven)

    @property
    def ties(self) -> tuple[PlacedPair, ...]:
        """Pairs between which no difference is proven."""
        return tuple(pair for pair in self.pairs if not pair.proven)

    @property
    def exceptions(self) -> tuple[PlacedPair, ...]:
        """Proven pairs that lie the other way round in a run."""
        return tuple(pair for pair in self.proven if pair.against)


def orders(contests: Sequence[Contest], *, least: float) -> tuple[Order, ...]:
    """One a contest of two or more, for differences beyond `least`. Values that are not numbers are left out.

    Raises ValueError for a least difference that is not a share, UnknownDirection.
    """
    if unknown := [contest.figure for contest in contests if not contest.better]:
        raise UnknownDirection(unknown)
    if not 0 <= least < 1:
        raise ValueError(f"a least change lies between 0 % and 100 %, not at {least:.0%}")
    cleaned = [contest for contest in map(_finite, contests) if len(contest.entrants) > 1]
    pairs = [(n, a, b) for n, contest in enumerate(cleaned) for a, b in combinations(contest.entrants, 2)]
    adjusted = holm([beyond_within_runs(_strata(a, b), least) for _, a, b in pairs])
    return tuple(
        _order(contest, [(a, b, p) for (of, a, b), p in zip(pairs, adjusted, strict=True) if of == n], least, len(pairs))
        for n, contest in enumerate(cleaned)
    )


def _order(contest: Contest, tested: Sequence[tuple[Entrant, Entrant, float]], least: float, tests: int) -> Order:
    pairs = tuple(_pair(a, b, p, less=contest.better == "lower") for a, b, p in tested)
    proven = [pair for pair in pairs if pair.proven]
    count = len(contest.entrants)
    placed = [
        Placed(
            e.label,
            1 + sum(pair.worse == e.label for pair in proven),
            count - sum(pair.better == e.label for pair in proven),
            tuple(median(of) if of else None for of in e.runs),
        )
        for e in contest.entrants
    ]
    wins = {e.label: sum(pair.better == e.label for pair in pairs) for e in contest.entrants}
    able = any(least_p_within_runs([(len(x), len(y)) for x, y in _strata(a, b)]) * tests <= LEVEL for a, b, _ in tested)
    places = tuple(sorted(placed, key=lambda p: (p.first, p.last, -wins[p.label])))
    return Order(contest, places, pairs, least, tests, able)


def _pair(a: Entrant, b: Entrant, p: float, *, less: bool) -> PlacedPair:
    """The better is that of more pairs of repeats."""
    strata = _strata(a, b)
    lead = sum((x > y) - (x < y) for first, second in strata for x in first for y in second) * (-1 if less else 1)
    better, worse = (a, b) if lead >= 0 else (b, a)
    sign = -1 if less else 1
    against = tuple(
        n
        for n, (x, y) in enumerate(zip(better.runs, worse.runs, strict=True))
        if x and y and sign * median(x) < sign * median(y)
    )  # fmt: skip
    return PlacedPair(better.label, worse.label, p, p <= LEVEL, against)


def _strata(a: Entrant, b: Entrant) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    return [(x, y) for x, y in zip(a.runs, b.runs, strict=True) if x and y]


def _finite(contest: Contest) -> Contest:
    entrants = tuple(Entrant(e.label, tuple(tuple(v for v in of if isfinite(v)) for of in e.runs)) for e in contest.entrants)
    return replace(contest, entrants=tuple(e for e in entrants if any(e.runs)))
