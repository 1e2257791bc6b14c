"""The rule for answers about competing cells: which is the fastest, which is slower, and where no difference is proven.

All such answers of dutlab come from `decide`. Cells that differ in mode and levels only are a contest. Every two of them are compared
(dutlab.analysis.compare). p is adjusted (Holm) over all pairs of all contests that are decided at once: those of one run, or of several.

Each of several runs counts once, by the ratio of the two cells in it. An effect of a new set-up on all cells cancels in that ratio. An
effect on one cell is part of the spread from run to run. The place of a cell is a range: after every cell that is proven better, before
every cell that is proven worse. So cells without a proven difference share places. All ranges together are right with 95 % (M. Mogstad,
J. Romano, A. Shaikh, D. Wilhelm, Review of Economic Studies 91, 2024: ranks by pairwise comparisons).
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isfinite, isnan

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Comparison, Margin, Pair, turned
from dutlab.analysis.design import RunOrder
from dutlab.analysis.verdict import Reason, Verdict
from dutlab.measures import Better, UnknownDirection, direction_of
from dutlab.stats.summary import median


class AnswerKind(enum.Enum):
    """Kinds of answer about a contest."""

    FASTEST = "fastest"
    """One cell is proven better than every other cell."""
    SHARED = "shared"
    """Some cells are proven worse than others, but several share the first place."""
    EQUIVALENT = "equivalent"
    """All cells are equivalent within the requested margin."""
    NOT_PROVEN = "not proven"
    """No difference between any two cells is proven."""
    ALONE = "alone"
    """Fewer than two cells have a value."""


@dataclass(frozen=True)
class Entrant:
    """One cell of a contest."""

    label: str
    runs: tuple[tuple[float, ...], ...]
    """Repeats of the cell in each run; empty where a run has none."""
    blocks: tuple[tuple[int, ...], ...] = ()
    """Block of each value; empty: 1, 2, 3 and so on."""
    levels: tuple[str, ...] = ()
    """Levels of factors other than the mode, in words."""
    at_least: bool = False
    """True if a value is a lower bound of the figure."""
    disturbed: int = 0
    """Number of values that other work disturbed."""

    @property
    def values(self) -> tuple[float, ...]:
        """All repeats, run by run."""
        return tuple(value for of in self.runs for value in of)


@dataclass(frozen=True)
class Contest:
    """Comparison of cells that differ in mode and levels only, by one figure."""

    label: str
    figure: str
    entrants: tuple[Entrant, ...]
    better: Better = ""
    """Better direction of values; by default the one declared for the figure, if any."""
    whole: bool = True
    """True if the figure is of all links and directions of the cells, False if of one among several."""
    stretches: frozenset[tuple[str, str]] = frozenset()
    """Pairs of labels of cells that were measured one after the other, not in turn."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "better", self.better or direction_of(self.figure) or "")

    def design(self, first: str, second: str) -> RunOrder:
        """Return the order in which two of the cells were measured."""
        if max(len(e.runs) for e in self.entrants) > 1:
            return RunOrder.WITHIN_RUNS
        alone = {(first, second), (second, first)} & self.stretches
        return RunOrder.ONE_AFTER_THE_OTHER if alone else RunOrder.IN_TURN


@dataclass(frozen=True)
class RankedCell:
    """A cell with its place. Place 1 is the best."""

    label: str
    first: int
    last: int
    """The place is between `first` and `last`, which are equal where it is proven."""
    medians: tuple[float | None, ...]
    """Median of the repeats in each run; None where a run has none."""


@dataclass(frozen=True)
class RankedPair:
    """Two cells, the better first. If no difference is proven, the better is the one that wins more pairs of repeats."""

    better: str
    worse: str
    comparison: Comparison
    """Comparison of the two, in the order of the contest."""
    against: tuple[int, ...]
    """Indices of runs in which the median of `worse` is the better one."""

    @property
    def p(self) -> float:
        """p, adjusted for all pairs that were decided at once."""
        return 1.0 if self.comparison.p is None else self.comparison.p

    @property
    def proven(self) -> bool:
        """True if a difference is proven."""
        return self.comparison.verdict in {Verdict.BETTER, Verdict.WORSE}


@dataclass(frozen=True)
class ContestResult:
    """Answer about a contest."""

    contest: Contest
    kind: AnswerKind
    places: tuple[RankedCell, ...]
    """Cells with their places, the best first."""
    pairs: tuple[RankedPair, ...]
    unranked: tuple[tuple[str, str, Comparison], ...]
    """Labels and comparison of each pair with a side that has no value."""
    least: float
    """Least relative difference that counts."""
    tests: int
    """Number of pairs for which p was adjusted, of all contests together."""

    @property
    def could_prove(self) -> bool:
        """True if the number of repeats is enough to prove a difference of at least one pair."""
        return any(pair.comparison.could_prove for pair in self.pairs)

    @property
    def proven(self) -> tuple[RankedPair, ...]:
        """Pairs with a proven difference."""
        return tuple(pair for pair in self.pairs if pair.proven)

    @property
    def ties(self) -> tuple[RankedPair, ...]:
        """Pairs without a proven difference."""
        return tuple(pair for pair in self.pairs if not pair.proven)

    @property
    def exceptions(self) -> tuple[RankedPair, ...]:
        """Pairs with a proven difference whose medians are in reverse order in some run."""
        return tuple(pair for pair in self.proven if pair.against)

    @property
    def best(self) -> tuple[str, ...]:
        """Cells that are not proven worse than any other cell."""
        return tuple(p.label for p in self.places if p.first == 1)

    @property
    def reason(self) -> Reason | None:
        """Reason why no difference between the first and the last cell is proven; None where it is, or without such a pair."""
        ends = {self.places[0].label, self.places[-1].label} if self.places else set()
        return next((pair.comparison.reason for pair in self.pairs if {pair.better, pair.worse} == ends), None)

    def between(self, first: str, second: str) -> Comparison | None:
        """Return the comparison of two cells, in the order of the contest; None where they were not compared."""
        every = [*((pair.better, pair.worse, pair.comparison) for pair in self.pairs), *self.unranked]
        return next((answer for a, b, answer in every if {a, b} == {first, second}), None)

    def against(self, first: str, second: str) -> Comparison | None:
        """Return the comparison of cell `second` against cell `first`, in this order; None where they were not compared."""
        comparison = self.between(first, second)
        order = [e.label for e in self.contest.entrants]
        return comparison if comparison is None or order.index(first) < order.index(second) else turned(comparison)

    def among(self, labels: Collection[str]) -> ContestResult:
        """Return the answer about some of the cells, from the same comparisons."""
        kept = tuple(e for e in self.contest.entrants if e.label in labels)
        pairs = tuple(pair for pair in self.pairs if pair.better in labels and pair.worse in labels)
        unranked = tuple(of for of in self.unranked if of[0] in labels and of[1] in labels)
        return _standing(replace(self.contest, entrants=kept), pairs, unranked, self.least, self.tests)


def decide(contests: Sequence[Contest], *, least: float | None = None, margin: float | Margin | None = None) -> tuple[ContestResult, ...]:
    """Return the answer about each contest, in their order. `least` and `margin` are as in `compare`.

    Values that are not finite are left out. Raises ValueError for an invalid least difference or margin, and UnknownDirection.
    """
    if unknown := [contest.figure for contest in contests if not contest.better]:
        raise UnknownDirection(unknown)
    couples = [(n, a, b) for n, contest in enumerate(contests) for a, b in combinations(contest.entrants, 2)]
    comparisons = compare([_pair(contests[n], a, b) for n, a, b in couples], margin=margin, least=least)
    tests = sum(c.p is not None for c in comparisons)
    ranked: list[list[RankedPair]] = [[] for _ in contests]
    unranked: list[list[tuple[str, str, Comparison]]] = [[] for _ in contests]
    for (n, a, b), comparison in zip(couples, comparisons, strict=True):
        if comparison.p is None:
            unranked[n].append((a.label, b.label, comparison))
        else:
            ranked[n].append(_placed(a, b, comparison, less=contests[n].better == "lower"))
    return tuple(
        _standing(contest, tuple(ranked[n]), tuple(unranked[n]), _least(ranked[n], least), tests) for n, contest in enumerate(contests)
    )


def _least(pairs: Sequence[RankedPair], asked: float | None) -> float:
    return max((pair.comparison.least for pair in pairs), default=asked or 0.0)


def _pair(contest: Contest, a: Entrant, b: Entrant) -> Pair:
    design = contest.design(a.label, b.label)
    first_at, second_at = (_at(e, design) for e in (a, b))
    levels = a.levels if a.levels == b.levels else ()
    label = " · ".join([*levels, *filter(None, [contest.label])])
    return Pair(
        label, contest.figure, a.values, b.values, design, first_at, second_at, contest.whole, contest.better,
        at_least=(a.at_least, b.at_least), disturbed=(a.disturbed, b.disturbed),
    )  # fmt: skip


def _at(entrant: Entrant, design: RunOrder) -> tuple[int, ...]:
    """Return the run of each value, or its block within one run."""
    if design is RunOrder.WITHIN_RUNS:
        return tuple(run for run, of in enumerate(entrant.runs) for _ in of)
    return tuple(n for of in entrant.blocks for n in of)


def _placed(a: Entrant, b: Entrant, comparison: Comparison, *, less: bool) -> RankedPair:
    """Return the pair with the better cell first: the one proven better, else the one that wins more pairs of repeats."""
    sign = -1 if less else 1
    strata = [(x, y) for x, y in zip(a.runs, b.runs, strict=True) if x and y]
    lead = sign * sum(_pairs_above(first, second) for first, second in strata)
    if comparison.verdict in {Verdict.BETTER, Verdict.WORSE}:
        lead = 1 if comparison.verdict is Verdict.WORSE else -1
    better, worse = (a, b) if lead >= 0 else (b, a)
    against = tuple(
        n
        for n, (x, y) in enumerate(zip(better.runs, worse.runs, strict=True))
        if x and y and sign * median(x) < sign * median(y)
    )  # fmt: skip
    return RankedPair(better.label, worse.label, comparison, against)


def _pairs_above(first: Sequence[float], second: Sequence[float]) -> int:
    """Return the number of pairs in which the value of `first` is greater, less the number in which it is smaller."""
    ordered = sorted(y for y in second if not isnan(y))
    return sum(bisect_left(ordered, x) + bisect_right(ordered, x) - len(ordered) for x in first if not isnan(x))


def _standing(
    contest: Contest, pairs: tuple[RankedPair, ...], unranked: tuple[tuple[str, str, Comparison], ...], least: float, tests: int
) -> ContestResult:
    ranked = [e for e in contest.entrants if any(isfinite(v) for v in e.values)]
    proven = [pair for pair in pairs if pair.proven]
    wins = {e.label: sum(pair.better == e.label for pair in pairs) for e in ranked}
    places = [
        RankedCell(
            e.label,
            1 + sum(pair.worse == e.label for pair in proven),
            len(ranked) - sum(pair.better == e.label for pair in proven),
            tuple(median(of) if of else None for of in e.runs),
        )
        for e in ranked
    ]
    ordered = tuple(sorted(places, key=lambda p: (p.first, p.last, -wins[p.label])))
    return ContestResult(contest, _kind(ordered, pairs), ordered, pairs, unranked, least, tests)


def _kind(places: Sequence[RankedCell], pairs: Sequence[RankedPair]) -> AnswerKind:
    if len(places) < 2 or not pairs:  # noqa: PLR2004 -- one cell has no pair
        return AnswerKind.ALONE
    if all(pair.comparison.verdict is Verdict.EQUIVALENT for pair in pairs):
        return AnswerKind.EQUIVALENT
    if not any(pair.proven for pair in pairs):
        return AnswerKind.NOT_PROVEN
    return AnswerKind.FASTEST if places[0].last == 1 else AnswerKind.SHARED
