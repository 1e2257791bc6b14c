"""Two sets of measurements of the same figure, and what may be said of them in a word.

Within one run the blocks of the plan are the unit: ranks of the repeats (Mann-Whitney), tested against the least change that counts. Where
repeats are too few for ranks, a t test with the spread of all cells takes their place (dutlab.stats.few): how many there are decides, not
what they say. Of two runs that took turns the rounds are the unit (dutlab.stats.rounds), of several runs the runs
(dutlab.stats.runs). Over all pairs that are compared at once, p is adjusted (Holm; rounds do it themselves). "Equivalent" needs a margin
that was given before anybody looked, and an interval of the ratio that lies wholly inside it; of two single runs that interval is widened
by what runs of one box may differ by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite
from statistics import NormalDist

from dutlab.analysis.design import ENOUGH_FOR_ONE, LEVEL, RunOrder
from dutlab.analysis.flags import Flags, flags_of
from dutlab.analysis.verdict import Procedure, Reason, Verdict, side_words
from dutlab.measures import Better, UnknownDirection, direction_of, is_exact, is_speed
from dutlab.stats import few
from dutlab.stats.power import provable, spread_of
from dutlab.stats.rank import (
    RankTest,
    holm,
    mann_whitney,
    over_runs,
    p_words,
    repeats_needed,
)  # fmt: skip
from dutlab.stats.ratio import Ratio, ratio_of
from dutlab.stats.rounds import FEWEST as FEWEST_ROUNDS
from dutlab.stats.rounds import Round, changed
from dutlab.stats.runs import FEWEST as FEWEST_RUNS
from dutlab.stats.runs import FEWEST_WITHIN, RunLevels, levels_of, levels_within, of_one_box, of_one_contest, share_as_far
from dutlab.stats.summary import Interval, median, summarise

__all__ = ["Comparison", "Pair", "SideLevel", "Verdict", "compare", "turned"]

EXACT_LEAST = 0.001
"""The least difference that counts between figures that have no error: what moves code in memory moves counts by less."""

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
    """Which values are the better ones; without one that of the figure's name, if it is known."""
    at_least: tuple[bool, bool] = (False, False)
    """Whether the values of either side are bounds: the figure is so much or more."""
    disturbed: tuple[int, int] = (0, 0)
    """Values of either side that other work disturbed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "better", self.better or direction_of(self.figure) or "")


@dataclass(frozen=True)
class SideLevel:
    """What is shown of one side."""

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
    """Of the two levels; None where there is none: a side is empty, or values are not above zero."""
    p: float | None
    """Two-sided, of a change beyond the least that counts, adjusted for all comparisons."""
    test: RankTest | None
    """Test of the values as they are, by ranks; None with several runs a side."""
    least: float
    """The least relative change that counts here."""
    provable: float | None
    """The smallest relative change that these values would have proven four times in five; None for none, or where it is not known."""
    could_prove: bool = False
    """Whether so many values can prove a difference at all, however large."""
    reason: Reason | None = None
    """Why no difference is proven, where none is and both sides have values."""
    flags: tuple[str, ...] = ()
    """What the repeats of either side look like."""
    by_p: bool = False
    """The first of the grounds says what p is of."""
    kind: Procedure = Procedure.NONE
    would: str = ""
    """What these values would have proven, where they could have; empty where they prove something, or are bounds."""

    @property
    def why(self) -> str:
        """The grounds with p, in a sentence."""
        first, *rest = self.grounds
        return "; ".join(filter(None, (f"{p_words(self.p)} {first}" if self.by_p and self.p is not None else first, self.would, *rest)))


def compare(pairs: Sequence[Pair], *, margin: float | Margin | None = None, least: float | None = None) -> tuple[Comparison, ...]:
    """Each pair's comparison, in their order.

    `margin` 0.02 asks whether the sides are equivalent within ±2 %; `least` replaces that of the design.
    Values that are not a number (or infinite) are left out, and the comparison says so. Raises ValueError for a margin or a
    least change that is none, UnknownDirection.
    """
    if unknown := [p.figure for p in pairs if not p.better]:
        raise UnknownDirection(unknown)
    if least is not None and not 0 <= least < 1:
        raise ValueError(f"a least change lies between 0 % and 100 %, not at {least:.0%}")
    counts = {n: _of_counts(p, EXACT_LEAST if least is None else least) for n, p in enumerate(pairs) if is_exact(p.figure)}
    rest = iter(_tested([p for n, p in enumerate(pairs) if n not in counts], margin, least))
    return tuple(counts[n] if n in counts else next(rest) for n in range(len(pairs)))


def _of_counts(given: Pair, least: float) -> Comparison:
    """Of figures that are counted and have no error: what is larger than the other by more than the least difference is."""
    m = _Measured.of(replace(given, design=RunOrder.IN_TURN), least)
    if m.first is None or m.second is None:
        return _missing(m)
    low, high = sorted((m.first.value, m.second.value))
    apart = high > low * (1 + least)
    verdict, words = Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value
    if apart:
        verdict, words = side_words(better=(m.second.value == high) == (given.better == "higher"), speed=is_speed(given.figure))
    reason = None if apart else Reason.EQUAL if low == high else Reason.WITHIN
    grounds = ("counts need no test", f"what differs by more than {least * 100:g} % differs")
    return Comparison(
        given, verdict, words, grounds, m.first, m.second, m.ratio, 0.0 if apart else 1.0, m.test, least, None,
        could_prove=True, reason=reason,
    )  # fmt: skip


def _tested(pairs: Sequence[Pair], margin: float | Margin | None, least: float | None) -> Sequence[Comparison]:
    margins = [margin(p) if callable(margin) else margin for p in pairs]
    if bad := [m for m in margins if m is not None and not 0 < m < 1]:
        raise ValueError(f"a margin lies between 0 % and 100 %, not at {bad[0]:.0%}")
    found = _of_few(_of_one_box([_Measured.of(p, _least(p) if least is None else least) for p in pairs]))
    adjusted = iter(_adjusted([m for m in found if m.p is not None]))
    tests = sum(m.p is not None for m in found)
    return tuple(
        _missing(m) if m.p is None else _compared(m, next(adjusted), of_pair, tests, sum(of is not None for of in margins))
        for m, of_pair in zip(found, margins, strict=True)
    )


def turned(c: Comparison) -> Comparison:
    """The same comparison, of the first side against the second."""
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


def _least(pair: Pair) -> float:
    """That of the design; a single run against a few has nothing that shows what a run by itself can be off by."""
    few, many = sorted((len(pair.first), len(pair.second)))
    alone = pair.design is RunOrder.RUNS and few == 1 and many < ENOUGH_FOR_ONE
    return (RunOrder.ONE_AFTER_THE_OTHER if alone else pair.design).least


def _of_one_box(found: Sequence[_Measured]) -> list[_Measured]:
    """Where runs are the unit, with errors that are shared among the cells of the same runs."""
    out = list(found)
    same: dict[object, list[int]] = {}
    for n, m in enumerate(found):
        if m.runs is not None:
            within = m.pair.design is RunOrder.WITHIN_RUNS
            same.setdefault(m.runs.errors[0][1] if within else (m.pair.first_at, m.pair.second_at), []).append(n)
    for places in same.values():
        shared = of_one_contest if found[places[0]].pair.design is RunOrder.WITHIN_RUNS else of_one_box
        for n, runs in zip(places, shared([of for p in places if (of := found[p].runs) is not None]), strict=True):
            out[n] = replace(found[n], runs=runs, ratio=runs.between, p=runs.p(found[n].least))
        alone = [_one_and_others(found[n].pair) for n in places]
        for n, share in zip(places, share_as_far([of for of in alone if of]), strict=False):
            out[n] = replace(out[n], p=max(out[n].p or 0.0, share))
    return out


def _of_few(found: Sequence[_Measured]) -> list[_Measured]:
    """Where the repeats of one run are too few for ranks among so many pairs: the levels by the spread of all cells of that figure."""
    tests, out = sum(m.p is not None for m in found), list(found)
    places = [n for n, m in enumerate(found) if _is_few(m, tests)]
    for figure in {found[n].pair.figure for n in places}:
        same = {n: found[n].pair for n in places if found[n].pair.figure == figure}
        spread = few.shared_spread([side for _, side in sorted({(p.label, side) for p in same.values() for side in (p.first, p.second)})])
        for n, pair in same.items():
            levels = spread.levels(pair.first, pair.second)
            out[n] = replace(found[n], few=levels, ratio=_with_interval(found[n].ratio, levels), p=levels.p(found[n].least))
    return out


def _is_few(m: _Measured, tests: int) -> bool:
    pair = m.pair
    return pair.design is RunOrder.IN_TURN and m.ratio is not None and few.takes_over(len(pair.first), len(pair.second), tests, LEVEL)


def _with_interval(ratio: Ratio | None, levels: RunLevels) -> Ratio | None:
    """That of the medians with the interval of the levels, where the medians are too few for one of their own."""
    if ratio is None or ratio.interval is not None:
        return ratio
    inside = levels.interval
    interval = Interval(min(inside.low, ratio.ratio), max(inside.high, ratio.ratio), inside.confidence)
    return Ratio(ratio.ratio, interval, "ratio of medians, spread of all cells")


def _one_and_others(pair: Pair) -> tuple[tuple[float, ...], float] | None:
    """The runs of one side and the single run of the other; None where there is none."""
    sides = sorted((pair.first, pair.second), key=len)
    return (sides[1], sides[0][0]) if pair.design is RunOrder.RUNS and len(sides[0]) == 1 else None


def _adjusted(found: Sequence[_Measured]) -> list[float]:
    """What p comes to for each, adjusted for all; rounds are judged together."""
    rounds = {n: m for n, m in enumerate(found) if m.pair.design is RunOrder.ROUNDS}
    of_rounds = iter(changed([rounds_of(m.pair) for m in rounds.values()], max(m.least for m in rounds.values())) if rounds else ())
    others = iter(holm([m.p for n, m in enumerate(found) if n not in rounds and m.p is not None]))
    return [next(of_rounds) if n in rounds else next(others) for n in range(len(found))]


def rounds_of(pair: Pair) -> dict[int, Round]:
    """What both sides measured in each round that both have."""
    first, second = (dict(zip(at, of, strict=True)) for at, of in ((pair.first_at, pair.first), (pair.second_at, pair.second)))
    return {number: (first[number], second[number]) for number in first if number in second}


def strata_of(pair: Pair) -> list[tuple[list[float], list[float]]]:
    """The values of both sides in each run that has both."""
    sides = [
        [(at, value) for at, value in zip(of_at, of, strict=True)]
        for of_at, of in ((pair.first_at, pair.first), (pair.second_at, pair.second))
    ]
    shared = sorted({at for at, _ in sides[0]} & {at for at, _ in sides[1]})
    return [([v for at, v in sides[0] if at == run], [v for at, v in sides[1] if at == run]) for run in shared]


@dataclass(frozen=True)
class _Measured:
    """One pair with its tests, before p is adjusted for the others."""

    pair: Pair
    least: float
    left_out: int
    first: SideLevel | None
    second: SideLevel | None
    ratio: Ratio | None = None
    runs: RunLevels | None = None
    few: RunLevels | None = None
    """By the spread of all cells, where repeats are too few for ranks."""
    test: RankTest | None = None
    p: float | None = None

    @classmethod
    def of(cls, given: Pair, least: float) -> _Measured:
        pair = _finite(given)
        left_out = len(given.first) + len(given.second) - len(pair.first) - len(pair.second)
        if pair.design is RunOrder.RUNS and (runs := levels_of(pair.first, pair.second, pair.first_at, pair.second_at)) is not None:
            levels = [SideLevel(v, len(of), min(of), max(of)) for v, of in ((runs.first, pair.first), (runs.second, pair.second))]
            return cls(pair, least, left_out, levels[0], levels[1], runs.between, runs, None, None, runs.p(least))
        first, second = (_level(of) if of else None for of in (pair.first, pair.second))
        if first is None or second is None:
            return cls(pair, least, left_out, first, second)
        if pair.design is RunOrder.WITHIN_RUNS:
            return cls._within_runs(cls(pair, least, left_out, first, second, p=1.0))
        p = changed([rounds_of(pair)], least)[0] if pair.design is RunOrder.ROUNDS else beyond(pair.first, pair.second, least)
        return cls(pair, least, left_out, first, second, _ratio(pair), None, None, mann_whitney(pair.first, pair.second), p)

    @classmethod
    def _within_runs(cls, of: _Measured) -> _Measured:
        """By the medians of either side in each run that has both; of values that have no logarithm by their signs."""
        if not (strata := strata_of(of.pair)):
            return of
        test = over_runs(strata, of.least)
        runs = levels_within([(median(first), median(second)) for first, second in strata])
        if runs is None:
            return replace(of, test=test, p=test.p)
        return replace(of, test=test, runs=runs, ratio=runs.between, p=runs.p(of.least))


def _ratio(pair: Pair) -> Ratio | None:
    try:
        return ratio_of(pair.first, pair.second)
    except ValueError:
        return None


def beyond(first: Sequence[float], second: Sequence[float], least: float) -> float:
    """Two-sided p of a change by more than `least`, by ranks: the first side is moved by that much towards the second beforehand."""
    up = mann_whitney([v * (1 + least) for v in first], second)
    down = mann_whitney([v / (1 + least) for v in first], second)
    return min([t.p for t in (up if up.delta > 0 else None, down if down.delta < 0 else None) if t is not None], default=1.0)


def _finite(pair: Pair) -> Pair:
    sides = []
    for values, given in ((pair.first, pair.first_at), (pair.second, pair.second_at)):
        at = given or tuple(range(1, len(values) + 1))
        kept = [(v, place) for v, place in zip(values, at, strict=True) if isfinite(v)]
        sides.append((tuple(v for v, _ in kept), tuple(place for _, place in kept)))
    (first, first_at), (second, second_at) = sides
    return replace(pair, first=first, second=second, first_at=first_at, second_at=second_at)


def _level(values: Sequence[float]) -> SideLevel:
    found = summarise(values)
    return SideLevel(found.median, found.n, found.low, found.high)


def _compared(m: _Measured, p: float, margin: float | None, tests: int, margins: int) -> Comparison:
    verdict, words = _verdict(m, p, margin, margins)
    would = _provable(m, tests)
    flags = tuple(f"{side}: {word}" for side, of in _flags(m.pair) for word in of.words)
    for side, count, values in zip(("first", "second"), m.pair.disturbed, (m.pair.first, m.pair.second), strict=True):
        if count:
            flags = (f"{side}: other work disturbed {count} of {len(values)} repeats", *flags)
    if m.left_out:
        number = "1 value is not a number and was" if m.left_out == 1 else f"{m.left_out} values are not a number and were"
        flags = (f"{number} left out", *flags)
    if m.ratio is None and min(*m.pair.first, *m.pair.second) <= 0:
        zeros = sum(v <= 0 for v in (*m.pair.first, *m.pair.second))
        flags = (f"{zeros} of {len(m.pair.first) + len(m.pair.second)} values are not above zero, so there is no ratio", *flags)
    unproven = verdict is Verdict.NO_DIFFERENCE and _can(m, tests)
    by_p = unproven or verdict not in {Verdict.NO_DIFFERENCE, Verdict.EQUIVALENT}
    return Comparison(
        m.pair, verdict, words, _grounds(m, verdict, tests, margin), m.first, m.second, m.ratio, p, m.test, m.least, would,
        could_prove=_can(m, tests),
        by_p=by_p,
        kind=_kind(m),
        would="" if would is None or not unproven or any(m.pair.at_least) else f"{would * 100:.2g} % {WOULD_HAVE}",
        reason=_reason(m, p, tests) if verdict is Verdict.NO_DIFFERENCE else None,
        flags=flags,
    )  # fmt: skip


def _verdict(m: _Measured, p: float, margin: float | None, margins: int) -> tuple[Verdict, str]:
    bounded = any(m.pair.at_least)
    if margin is not None and m.ratio is not None and not bounded and _widened(m, margins).within(margin):
        return Verdict.EQUIVALENT, f"equivalent within ±{margin * 100:g} %"
    if p > LEVEL or (m.ratio is not None and not is_apart(m.ratio)):
        return Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value
    more = m.ratio.ratio > 1 if m.ratio is not None else m.test is not None and m.test.delta > 0
    if m.pair.at_least[0 if more else 1]:  # the smaller is a bound: it may be as large as the other
        return Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value
    return side_words(better=more == (m.pair.better == "higher"), speed=is_speed(m.pair.figure))


def _reason(m: _Measured, p: float, tests: int) -> Reason:
    if any(m.pair.at_least):
        return Reason.BOUND
    if not _can(m, tests):
        return Reason.ONE_REPEAT if min(len(m.pair.first), len(m.pair.second)) == 1 else Reason.TOO_FEW
    if set(m.pair.first) == set(m.pair.second) and len(set(m.pair.first)) == 1:
        return Reason.EQUAL
    inside = m.ratio is not None and m.ratio.interval is not None and not is_apart(m.ratio)
    return Reason.INTERVAL if inside or p <= LEVEL else Reason.CHANCE


def is_apart(ratio: Ratio) -> bool:
    """The interval of the ratio is known and leaves 1 out."""
    return ratio.interval is not None and (ratio.interval.low > 1 or ratio.interval.high < 1)


def _widened(m: _Measured, margins: int) -> Ratio:
    """The ratio with an interval that holds it in all of so many cells at once, and what the set-up of either side may have done.

    Equivalence is two one-sided tests at 5 %, shared out over the cells (Bonferroni); an interval of 95 % does that for two of them.
    """
    assert m.ratio is not None  # noqa: S101 -- the caller looked
    interval = m.ratio.interval
    if interval is None:
        return m.ratio
    normal = NormalDist()
    if (levels := m.runs or m.few) is not None:
        away = exp(max(levels.reach(LEVEL / margins), levels.reach(LEVEL / 2)))
        return Ratio(m.ratio.ratio, Interval(m.ratio.ratio / away, m.ratio.ratio * away, interval.confidence), m.ratio.method)
    wider = max(normal.inv_cdf(1 - LEVEL / margins) / normal.inv_cdf((1 + interval.confidence) / 2), 1.0)
    by = 1 + m.least if m.pair.design.one_setup_a_side else 1.0
    low = m.ratio.ratio * (interval.low / m.ratio.ratio) ** wider / by
    high = m.ratio.ratio * (interval.high / m.ratio.ratio) ** wider * by
    return Ratio(m.ratio.ratio, Interval(low, high, interval.confidence), m.ratio.method)


def _grounds(m: _Measured, verdict: Verdict, tests: int, margin: float | None) -> tuple[str, ...]:
    among = f"among {tests} comparisons" if tests > 1 else ""
    if verdict is Verdict.EQUIVALENT:
        return (f"the whole interval of the ratio{_allowed(m)} lies inside the margin",)
    if verdict is Verdict.NO_DIFFERENCE and not _can(m, tests):
        return (f"too few {_unit(m.pair)} to prove any {among}".rstrip(), _needed(m, tests))
    said = f"{among} for a change beyond {m.least * 100:g} % ({_method(m)})".lstrip()
    if verdict is Verdict.NO_DIFFERENCE and any(m.pair.at_least):
        return (said, "a bound is not the result, which may be larger")
    if verdict is Verdict.NO_DIFFERENCE and margin is not None and m.pair.design.one_setup_a_side and margin <= m.least:
        return (said, f"nor can equivalence within {margin * 100:g} %: runs of one box may differ by {m.least * 100:g} %")
    return (said,)


def _allowed(m: _Measured) -> str:
    return f", widened by the {m.least * 100:g} % by which two runs of one box may differ," if m.pair.design.one_setup_a_side else ""


def _kind(m: _Measured) -> Procedure:
    if m.pair.design is RunOrder.WITHIN_RUNS and m.runs is None:
        return Procedure.SIGNS
    if m.pair.design is RunOrder.ROUNDS:
        return Procedure.ROUNDS
    if m.few is not None:
        return Procedure.SHARED_SPREAD
    return Procedure.RUNS if m.runs is not None else Procedure.RANKS


def _method(m: _Measured) -> str:
    kind = _kind(m)
    return f"{len(rounds_of(m.pair))} {kind.value}" if kind is Procedure.ROUNDS else kind.value


def _unit(pair: Pair) -> str:
    return {RunOrder.RUNS: "runs", RunOrder.WITHIN_RUNS: "runs", RunOrder.ROUNDS: "rounds"}.get(pair.design, "repeats")


def _needed(m: _Measured, tests: int) -> str:
    if m.pair.design is RunOrder.RUNS:
        return f"{FEWEST_RUNS} runs in all would do"
    if m.pair.design is RunOrder.WITHIN_RUNS:
        return f"{FEWEST_WITHIN} that have both sides would do, more where values are 0"
    if m.pair.design is RunOrder.ROUNDS:
        return f"{FEWEST_ROUNDS} would do"
    by_spread = m.pair.design is RunOrder.IN_TURN and m.ratio is not None
    return f"{few.FEWEST if by_spread else repeats_needed(LEVEL / tests)} a side would do"


def _can(m: _Measured, tests: int) -> bool:
    pair = m.pair
    if pair.design is RunOrder.WITHIN_RUNS and min(*pair.first, *pair.second) > 0:
        return len(strata_of(pair)) >= FEWEST_WITHIN
    if m.runs is not None or m.few is not None:
        return True
    if pair.design is RunOrder.ROUNDS:
        return len(rounds_of(pair)) >= FEWEST_ROUNDS
    return m.test is not None and m.test.least_p * tests <= LEVEL


def _provable(m: _Measured, tests: int) -> float | None:
    if (levels := m.runs or m.few) is not None:
        return levels.provable(m.least, LEVEL / tests)
    if m.ratio is None or m.pair.design is RunOrder.ROUNDS:
        return None
    return provable(len(m.pair.first), len(m.pair.second), sd=spread_of(m.pair.first, m.pair.second), comparisons=tests, least=m.least)


def _missing(m: _Measured) -> Comparison:
    sides = " and ".join(name for name, level in (("the first", m.first), ("the second", m.second)) if level is None)
    return Comparison(
        m.pair, Verdict.MISSING, Verdict.MISSING.value, (f"{sides} has no value",), m.first, m.second, None, None, None, m.least, None
    )  # fmt: skip


def _flags(pair: Pair) -> list[tuple[str, Flags]]:
    return [("first", flags_of(pair.first)), ("second", flags_of(pair.second))]
