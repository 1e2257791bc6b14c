"""A figure of two sides, and its comparison: data types of all answers."""

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
"""Function that returns the margin of one pair as a share, or None to skip the test of equivalence."""


@dataclass(frozen=True)
class Pair:
    """One figure of one cell on both sides, in time order: one value per repeat, or per run with several runs a side."""

    label: str
    """The cell in words: `nat · sweep 64 · link a`."""
    figure: str
    """Name of the figure, with unit suffix."""
    first: tuple[float, ...]
    second: tuple[float, ...]
    design: RunOrder = RunOrder.IN_TURN
    first_at: tuple[int, ...] = ()
    second_at: tuple[int, ...] = ()
    """Block or round of each value; with several runs a side, the place in time of its run among all runs. Empty: 1, 2, 3 and so on."""
    whole: bool = True
    """True if the figure is of all links and directions of the cell, False if of one among several."""
    better: Better = ""
    """Better direction of values; by default the one declared for the figure, if any."""
    at_least: tuple[bool, bool] = (False, False)
    """True where the values of a side are lower bounds."""
    disturbed: tuple[int, int] = (0, 0)
    """Number of values of either side that other work disturbed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "better", self.better or direction_of(self.figure) or "")


@dataclass(frozen=True)
class SideLevel:
    """Printed level of one side, with the number, minimum and maximum of its values."""

    value: float
    """Median of the repeats; with several runs a side, the geometric mean of the runs' medians."""
    n: int
    low: float
    high: float


WOULD_HAVE = "would have been proven four times in five"


@dataclass(frozen=True)
class Comparison:
    """Comparison of the second side against the first."""

    pair: Pair
    verdict: Verdict
    words: str
    """Verdict as a phrase, with its margin if any: `faster`, `equivalent within ±2 %`."""
    grounds: tuple[str, ...]
    """Clauses with the basis of the verdict, or with the need for another verdict. p and `would` are not included."""
    first: SideLevel | None
    second: SideLevel | None
    ratio: Ratio | None
    """Ratio of the two levels; None if a side is empty, or if values are not above zero."""
    p: float | None
    """Two-sided p of a change beyond the least change that counts, adjusted for all comparisons."""
    test: RankTest | None
    """Rank test of the raw values; None with several runs a side."""
    least: float
    """Least relative change that counts."""
    provable: float | None
    """Smallest relative change that these values would prove four times in five; None if there is none or it is not known."""
    could_prove: bool = False
    """True if the number of values is enough to prove some difference."""
    reason: Reason | None = None
    """Reason why no difference is proven; None where one is proven, or where a side has no value."""
    flags: tuple[str, ...] = ()
    """Sentences on the shape of the repeats of either side."""
    by_p: bool = False
    """True if the first of the grounds is a statement on p."""
    kind: Procedure = Procedure.NONE
    would: str = ""
    """Smallest provable change in words; empty where a verdict is proven, or where values are bounds."""

    @property
    def clauses(self) -> tuple[str, ...]:
        """The grounds with p and the smallest provable change."""
        first, *rest = self.grounds
        return tuple(filter(None, (f"{p_words(self.p)} {first}" if self.by_p and self.p is not None else first, self.would, *rest)))

    @property
    def why(self) -> str:
        """The clauses as one sentence."""
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
