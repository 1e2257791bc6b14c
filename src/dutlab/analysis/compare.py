"""Two sets of repeats of the same figure, and what may be said of them in a word.

Over all pairs that are compared at once, p is adjusted (Holm): among twenty cells one at 5 % is no news. What all cells together say is
tested apart, since many cells of few repeats can prove what no single one can. "Equivalent" needs a margin that was given before anybody
looked, and an interval of the ratio that lies wholly inside it; the interval is the 95 % one, stricter than two one-sided tests at 5 %.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, prod

from dutlab.analysis.flags import Flags, flags_of
from dutlab.analysis.rank import RankTest, holm, mann_whitney, p_words, repeats_needed, stratified_p
from dutlab.analysis.ratio import Ratio, ratio_of
from dutlab.analysis.statistics import Summary, summarise

LEVEL = 0.05
_MAIN = (
    re.compile(r"goodput_bps"),
    re.compile(r"\w+_lower_pps|max_ok_pps|throughput_pps"),
    re.compile(r"received_pps"),
    re.compile(r"max_received_pps"),
    re.compile(r"\w+_iops"),
    re.compile(r"rtt_p50_ns"),
    re.compile(r"duration_s"),
)
"""What a cell is judged by: the first of these that it has."""
_LESS_IS_BETTER = ("latency_", "pdv_", "ipdv_", "loss_", "refused_", "retransmits", "lost_", "watts", "jitter_", "rtt_", "duration_")


class Verdict(enum.Enum):
    """What may be said. `better` of a figure of which less is better means less of it."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    NO_DIFFERENCE = "no difference proven"
    MISSING = "not comparable"


@dataclass(frozen=True)
class Pair:
    """Repeats of one cell on both sides, in the order of time."""

    label: str
    """The cell in words: `nat · sweep 64 · link a`."""
    figure: str
    """With unit suffix."""
    first: tuple[float, ...]
    second: tuple[float, ...]


@dataclass(frozen=True)
class Comparison:
    """The second side against the first."""

    pair: Pair
    verdict: Verdict
    words: str
    """The verdict as a phrase, with its margin where it has one: `faster`, `equivalent within ±2 %`."""
    why: str
    """What the verdict rests on, or what is missing for another, in a sentence."""
    first: Summary | None
    second: Summary | None
    ratio: Ratio | None
    """None where there is none: a side is empty, or values are not above zero."""
    test: RankTest | None
    p_adjusted: float | None
    flags: tuple[str, ...] = ()
    """What the repeats of either side look like."""


def compare(pairs: Sequence[Pair], *, margin: float | None = None) -> tuple[Comparison, ...]:
    """Each pair's comparison, in their order. `margin` is relative: 0.02 asks whether the sides are equivalent within ±2 %.

    Values that are no finite numbers are left out, and the comparison says so. Raises ValueError for a margin that is none.
    """
    if margin is not None and not 0 < margin < 1:
        raise ValueError(f"a margin lies between 0 % and 100 %, not at {margin:.0%}")
    clean = [Pair(p.label, p.figure, _finite(p.first), _finite(p.second)) for p in pairs]
    tests = [mann_whitney(p.first, p.second) if p.first and p.second else None for p in clean]
    adjusted = iter(holm([t.p for t in tests if t]))
    return tuple(
        _compared(p, test, next(adjusted), margin, sum(t is not None for t in tests)) if test else _missing(p)
        for p, test in zip(clean, tests, strict=True)
    )


@dataclass(frozen=True)
class Together:
    """What all cells say at once."""

    verdict: Verdict
    words: str
    ratio: float
    """Geometric mean of the cells' ratios."""
    p: float
    cells: int


def together(found: Sequence[Comparison]) -> Together | None:
    """One test over all cells that have a ratio, repeats only ever compared within their own cell; None for fewer than two cells.

    Of several figures of one cell only the first counts: they come from the same trials.
    Cells of which less is better count the other way round, and the ratio is that of the others turned: above 1 is better.
    """
    cells = list({c.pair.label: c for c in reversed(found) if c.ratio and c.test}.values())
    if len(cells) < 2:  # noqa: PLR2004 - one cell is its own comparison
        return None
    sides = [(c.pair.second, c.pair.first) if less_is_better(c.pair.figure) else (c.pair.first, c.pair.second) for c in cells]
    logs = [(-1 if less_is_better(c.pair.figure) else 1) * log(c.ratio.ratio) for c in cells if c.ratio]
    ratio, p = exp(sum(logs) / len(logs)), stratified_p(sides)
    if p > LEVEL:
        return Together(Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value, ratio, p, len(cells))
    rates = all(_is_speed(c.pair.figure) for c in cells)
    better = sum((c.test.delta if not less_is_better(c.pair.figure) else -c.test.delta) for c in cells if c.test) > 0
    return Together(*_side(better=better, speed=rates), ratio, p, len(cells))


def less_is_better(figure: str) -> bool:
    """Of latency, loss, what was refused and power; not of rates."""
    return figure.startswith(_LESS_IS_BETTER)


def main_figures(names: Iterable[str]) -> list[str]:
    """Of the figures of a cell those that it is judged by; several where a search had several goals."""
    held = list(dict.fromkeys(names))
    return next((found for pattern in _MAIN if (found := [n for n in held if pattern.fullmatch(n)])), [])


def could_prove(found: Sequence[Comparison]) -> bool:
    """Whether these comparisons, one by one or together, had repeats enough to prove a difference, however large."""
    of_all = [c.test.least_p for c in found if c.test]
    least = list({c.pair.label: c.test.least_p for c in found if c.test}.values())
    return any(p * len(of_all) <= LEVEL for p in of_all) or (len(least) > 1 and 2 * prod(p / 2 for p in least) <= LEVEL)


def _compared(pair: Pair, test: RankTest, p: float, margin: float | None, cells: int) -> Comparison:
    first, second, ratio = summarise(pair.first), summarise(pair.second), _ratio(pair)
    verdict, words = _verdict(pair, test, ratio, p, margin)
    flags = tuple(f"{side}: {word}" for side, flags in _flags(pair) for word in flags.words)
    return Comparison(pair, verdict, words, _why(verdict, test, p, cells, ratio), first, second, ratio, test, p, flags)


def _verdict(pair: Pair, test: RankTest, ratio: Ratio | None, p: float, margin: float | None) -> tuple[Verdict, str]:
    if margin is not None and ratio is not None and ratio.within(margin):
        return Verdict.EQUIVALENT, f"equivalent within ±{margin * 100:g} %"
    if p > LEVEL or test.delta == 0:
        return Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value
    better = (test.delta > 0) != less_is_better(pair.figure)
    return _side(better=better, speed=_is_speed(pair.figure))


def _side(*, better: bool, speed: bool) -> tuple[Verdict, str]:
    good, bad = ("faster", "slower") if speed else (Verdict.BETTER.value, Verdict.WORSE.value)
    return (Verdict.BETTER, good) if better else (Verdict.WORSE, bad)


def _is_speed(figure: str) -> bool:
    return figure.endswith(("_pps", "_bps", "_bps_l1", "_bps_l2", "_ns"))


def _why(verdict: Verdict, test: RankTest, p: float, cells: int, ratio: Ratio | None) -> str:
    among = f" among {cells} comparisons" if cells > 1 else ""
    if verdict is Verdict.EQUIVALENT:
        return "the whole 95 % interval of the ratio lies inside the margin"
    if verdict is not Verdict.NO_DIFFERENCE:
        return f"{p_words(p)}{among} (Mann-Whitney, Holm), Cliff's delta {test.delta:+.2f}"
    if test.least_p * cells > LEVEL:
        apart = "; no repeat of one side lies among the other's" if abs(test.delta) == 1 else ""
        return f"too few repeats to prove any{among}, {repeats_needed(LEVEL / cells)} a side would do{apart}"
    if ratio is None:
        return f"{p_words(p)}{among}; no ratio, because values are not above zero"
    return f"{p_words(p)}{among} (Mann-Whitney, Holm), Cliff's delta {test.delta:+.2f}"


def _missing(pair: Pair) -> Comparison:
    sides = " and ".join(name for name, values in (("the first", pair.first), ("the second", pair.second)) if not values)
    return Comparison(
        pair, Verdict.MISSING, Verdict.MISSING.value, f"{sides} has no value",
        summarise(pair.first) if pair.first else None, summarise(pair.second) if pair.second else None, None, None, None,
    )  # fmt: skip


def _ratio(pair: Pair) -> Ratio | None:
    try:
        return ratio_of(pair.first, pair.second)
    except ValueError:
        return None


def _flags(pair: Pair) -> list[tuple[str, Flags]]:
    return [("first", flags_of(pair.first)), ("second", flags_of(pair.second))]


def _finite(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(v for v in values if isfinite(v))
