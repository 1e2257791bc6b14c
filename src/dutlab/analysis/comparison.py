"""A figure of two sides, and what may be said of it: data that every answer shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dutlab.analysis.design import RunOrder
from dutlab.analysis.verdict import Procedure, Reason, Verdict, side_words
from dutlab.measures import Better, direction_of, is_speed
from dutlab.stats.rank import RankTest, p_words
from dutlab.stats.ratio import Ratio
from dutlab.stats.summary import Interval

Margin = Callable[["Pair"], float | None]
"""The margin of one pair, as a share; None asks for no equivalence."""


@dataclass(frozen=True)
class Pair:
    """One figure of one cell on both sides, in the order of time: of each repeat, or with several runs a side of each run."""

    label: str
    """The cell in words: `nat · sweep 64 · link a`."""
    figure: str
    """With unit suffix."""
    first: tuple[float, ...]
    second: tuple[float, ...]
    design: RunOrder = RunOrder.IN_TURN
    first_at: tuple[int, ...] = ()
    second_at: tuple[int, ...] = ()
    """The block or round of each value; with several runs a side its run's place in time among all of them. Empty: 1, 2, 3 and so on."""
    whole: bool = True
    """All links and directions of the cell together, not one of several."""
    better: Better = ""
    """The better direction of values; by default that of the figure, if it is declared."""
    at_least: tuple[bool, bool] = (False, False)
    """True where the values of a side are lower bounds."""
    disturbed: tuple[int, int] = (0, 0)
    """Values of either side that other work disturbed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "better", self.better or direction_of(self.figure) or "")


@dataclass(frozen=True)
class SideLevel:
    """Level of one side as it is printed."""

    value: float
    """The median over repeats; with several runs a side the geometric mean over the medians of the runs."""
    n: int
    low: float
    high: float


WOULD_HAVE = "would have been proven four times in five"


@dataclass(frozen=True)
class Comparison:
    """The second side against the first."""

    pair: Pair
    verdict: Verdict
    words: str
    """The verdict as a phrase, with its margin where it has one: `faster`, `equivalent within ±2 %`."""
    grounds: tuple[str, ...]
    """Clauses: what the verdict rests on, or what is missing for another; without p and without what could have been proven."""
    first: SideLevel | None
    second: SideLevel | None
    ratio: Ratio | None
    """Ratio of the two levels; None where there is none: a side is empty, or values are not above zero."""
    p: float | None
    """Two-sided, of a change beyond the least that counts, adjusted for all comparisons."""
    test: RankTest | None
    """Test of the values as they are, by ranks; None with several runs a side."""
    least: float
    """The least relative change that counts here."""
    provable: float | None
    """The smallest relative change that these values would have proven four times in five; None for none, or where it is not known."""
    could_prove: bool = False
    """True if so many values can prove any difference at all."""
    reason: Reason | None = None
    """Why no difference is proven, where none is and both sides have values."""
    flags: tuple[str, ...] = ()
    """Shape of the repeats of either side."""
    by_p: bool = False
    """The first of the grounds says what p is of."""
    kind: Procedure = Procedure.NONE
    would: str = ""
    """Statement that these values would have proven, where they could have; empty where they prove something, or are bounds."""

    @property
    def clauses(self) -> tuple[str, ...]:
        """The grounds, the first of them with p."""
        first, *rest = self.grounds
        return tuple(filter(None, (f"{p_words(self.p)} {first}" if self.by_p and self.p is not None else first, self.would, *rest)))

    @property
    def why(self) -> str:
        """Reason in a sentence."""
        return "; ".join(self.clauses)


def turned(c: Comparison) -> Comparison:
    """Return the comparison of the first side against the second."""
    of = c.pair
    pair = replace(
        of, first=of.second, second=of.first, first_at=of.second_at, second_at=of.first_at, at_least=of.at_least[::-1],
        disturbed=of.disturbed[::-1],
    )  # fmt: skip
    inside = None if c.ratio is None else c.ratio.interval
    interval = None if inside is None else Interval(1 / inside.high, 1 / inside.low, inside.confidence)
    ratio = None if c.ratio is None else Ratio(1 / c.ratio.ratio, interval, c.ratio.method)
    verdict, words = c.verdict, c.words
    if verdict in {Verdict.BETTER, Verdict.WORSE}:
        verdict, words = side_words(better=verdict is Verdict.WORSE, speed=is_speed(of.figure))
    test = None if c.test is None else replace(c.test, u=len(of.first) * len(of.second) - c.test.u, delta=-c.test.delta)
    return replace(c, pair=pair, verdict=verdict, words=words, first=c.second, second=c.first, ratio=ratio, test=test)
