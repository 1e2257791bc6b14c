"""Comparison of two sets of measurements of the same figure, with a verdict.

Each pair is tested by its design (dutlab.analysis.pair_tests). p is adjusted over all pairs that are compared at once (by Holm; the test of
rounds includes it). "Equivalent" needs a margin that was set in advance, and an interval of the ratio wholly inside the margin. For two
single runs that interval is widened by the difference that two runs of one box may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp
from statistics import NormalDist

from dutlab.analysis.comparison import WOULD_HAVE, Comparison, Margin, Pair
from dutlab.analysis.design import LEVEL, RunOrder
from dutlab.analysis.flags import Flags, flags_of
from dutlab.analysis.pair_tests import TestedPair, adjusted, rounds_of, strata_of, tested
from dutlab.analysis.verdict import Procedure, Reason, Verdict, side_words
from dutlab.measures import UnknownDirection, is_exact, is_speed
from dutlab.stats import few
from dutlab.stats.power import provable, spread_of
from dutlab.stats.rank import repeats_needed
from dutlab.stats.ratio import Ratio
from dutlab.stats.rounds import FEWEST as FEWEST_ROUNDS
from dutlab.stats.runs import FEWEST as FEWEST_RUNS
from dutlab.stats.runs import FEWEST_WITHIN
from dutlab.stats.summary import Interval

EXACT_LEAST = 0.001
"""The least difference that counts between figures without an error. Code that moves in memory changes counts by less."""


def compare(pairs: Sequence[Pair], *, margin: float | Margin | None = None, least: float | None = None) -> tuple[Comparison, ...]:
    """Return the comparison of each pair, in the order of `pairs`.

    `margin` 0.02 asks whether the sides are equivalent within ±2 %. `least` replaces the least change of the design.
    Values that are not finite are left out, and the comparison states their number. Raises ValueError for an invalid margin or
    least change, and UnknownDirection.
    """
    if unknown := [p.figure for p in pairs if not p.better]:
        raise UnknownDirection(unknown)
    if least is not None and not 0 <= least < 1:
        raise ValueError(f"a least change must be between 0 % and 100 %, not {least:.0%}")
    counts = {n: _of_counts(p, EXACT_LEAST if least is None else least) for n, p in enumerate(pairs) if is_exact(p.figure)}
    rest = iter(_tested([p for n, p in enumerate(pairs) if n not in counts], margin, least))
    return tuple(counts[n] if n in counts else next(rest) for n in range(len(pairs)))


def _of_counts(given: Pair, least: float) -> Comparison:
    """Compare counts, which have no error: they differ if the larger exceeds the smaller by more than the least difference."""
    m = TestedPair.of(replace(given, design=RunOrder.IN_TURN), least)
    if m.first is None or m.second is None:
        return _missing(m)
    low, high = sorted((m.first.value, m.second.value))
    apart = high > low * (1 + least)
    verdict, words = Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value
    if apart:
        verdict, words = side_words(better=(m.second.value == high) == (given.better == "higher"), speed=is_speed(given.figure))
    reason = None if apart else Reason.EQUAL if low == high else Reason.WITHIN
    grounds = ("counts need no test", f"differences above {least * 100:g} % count")
    return Comparison(
        given, verdict, words, grounds, m.first, m.second, m.ratio, 0.0 if apart else 1.0, m.test, least, None,
        could_prove=True, reason=reason,
    )  # fmt: skip


def _tested(pairs: Sequence[Pair], margin: float | Margin | None, least: float | None) -> Sequence[Comparison]:
    margins = [margin(p) if callable(margin) else margin for p in pairs]
    if bad := [m for m in margins if m is not None and not 0 < m < 1]:
        raise ValueError(f"a margin must be between 0 % and 100 %, not {bad[0]:.0%}")
    tested_pairs = tested(pairs, least)
    each = iter(adjusted([m for m in tested_pairs if m.p is not None]))
    tests = sum(m.p is not None for m in tested_pairs)
    return tuple(
        _missing(m) if m.p is None else _compared(m, next(each), of_pair, tests, sum(of is not None for of in margins))
        for m, of_pair in zip(tested_pairs, margins, strict=True)
    )


def _compared(m: TestedPair, p: float, margin: float | None, tests: int, margins: int) -> Comparison:
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


def _verdict(m: TestedPair, p: float, margin: float | None, margins: int) -> tuple[Verdict, str]:
    bounded = any(m.pair.at_least)
    if margin is not None and m.ratio is not None and not bounded and _widened(m, margins).within(margin):
        return Verdict.EQUIVALENT, f"equivalent within ±{margin * 100:g} %"
    if p > LEVEL or (m.ratio is not None and not is_apart(m.ratio)):
        return Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value
    more = m.ratio.ratio > 1 if m.ratio is not None else m.test is not None and m.test.delta > 0
    if m.pair.at_least[0 if more else 1]:  # the smaller is a lower bound: its result may be as large as the other
        return Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value
    return side_words(better=more == (m.pair.better == "higher"), speed=is_speed(m.pair.figure))


def _reason(m: TestedPair, p: float, tests: int) -> Reason:
    if any(m.pair.at_least):
        return Reason.BOUND
    if not _can(m, tests):
        return Reason.ONE_REPEAT if min(len(m.pair.first), len(m.pair.second)) == 1 else Reason.TOO_FEW
    if set(m.pair.first) == set(m.pair.second) and len(set(m.pair.first)) == 1:
        return Reason.EQUAL
    inside = m.ratio is not None and m.ratio.interval is not None and not is_apart(m.ratio)
    return Reason.INTERVAL if inside or p <= LEVEL else Reason.CHANCE


def is_apart(ratio: Ratio) -> bool:
    """Return True if the interval of the ratio is known and does not contain 1."""
    return ratio.interval is not None and (ratio.interval.low > 1 or ratio.interval.high < 1)


def _widened(m: TestedPair, margins: int) -> Ratio:
    """Return the ratio with an interval for `margins` cells at once, widened by the possible effect of either side's set-up.

    Equivalence is two one-sided tests at 5 %, divided by the number of cells (Bonferroni). An interval of 95 % suffices for two cells.
    """
    assert m.ratio is not None  # noqa: S101 -- the caller has checked
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


def _grounds(m: TestedPair, verdict: Verdict, tests: int, margin: float | None) -> tuple[str, ...]:
    among = f"among {tests} comparisons" if tests > 1 else ""
    if verdict is Verdict.EQUIVALENT:
        return (f"the whole interval of the ratio{_allowed(m)} is inside the margin",)
    if verdict is Verdict.NO_DIFFERENCE and not _can(m, tests):
        return (f"too few {_unit(m.pair)} to prove any {among}".rstrip(), _needed(m, tests))
    ground = f"{among} for a change beyond {m.least * 100:g} % ({_method(m)})".lstrip()
    if verdict is Verdict.NO_DIFFERENCE and any(m.pair.at_least):
        return (ground, "a bound is not the result, which may be larger")
    if verdict is Verdict.NO_DIFFERENCE and margin is not None and m.pair.design.one_setup_a_side and margin <= m.least:
        return (ground, f"nor can equivalence within {margin * 100:g} % be proven: runs of one box may differ by {m.least * 100:g} %")
    return (ground,)


def _allowed(m: TestedPair) -> str:
    return f", widened by the {m.least * 100:g} % by which two runs of one box may differ," if m.pair.design.one_setup_a_side else ""


def _kind(m: TestedPair) -> Procedure:
    if m.pair.design is RunOrder.WITHIN_RUNS and m.runs is None:
        return Procedure.SIGNS
    if m.pair.design is RunOrder.ROUNDS:
        return Procedure.ROUNDS
    if m.few is not None:
        return Procedure.SHARED_SPREAD
    return Procedure.RUNS if m.runs is not None else Procedure.RANKS


def _method(m: TestedPair) -> str:
    kind = _kind(m)
    return f"{len(rounds_of(m.pair))} {kind.value}" if kind is Procedure.ROUNDS else kind.value


def _unit(pair: Pair) -> str:
    return {RunOrder.RUNS: "runs", RunOrder.WITHIN_RUNS: "runs", RunOrder.ROUNDS: "rounds"}.get(pair.design, "repeats")


def _needed(m: TestedPair, tests: int) -> str:
    if m.pair.design is RunOrder.RUNS:
        return f"{FEWEST_RUNS} runs in all are enough"
    if m.pair.design is RunOrder.WITHIN_RUNS:
        return f"{FEWEST_WITHIN} with both sides are enough, more where values are 0"
    if m.pair.design is RunOrder.ROUNDS:
        return f"{FEWEST_ROUNDS} are enough"
    by_spread = m.pair.design is RunOrder.IN_TURN and m.ratio is not None
    return f"{few.FEWEST if by_spread else repeats_needed(LEVEL / tests)} a side are enough"


def _can(m: TestedPair, tests: int) -> bool:
    pair = m.pair
    if pair.design is RunOrder.WITHIN_RUNS and min(*pair.first, *pair.second) > 0:
        return len(strata_of(pair)) >= FEWEST_WITHIN
    if m.runs is not None or m.few is not None:
        return True
    if pair.design is RunOrder.ROUNDS:
        return len(rounds_of(pair)) >= FEWEST_ROUNDS
    return m.test is not None and m.test.least_p * tests <= LEVEL


def _provable(m: TestedPair, tests: int) -> float | None:
    if (levels := m.runs or m.few) is not None:
        return levels.provable(m.least, LEVEL / tests)
    if m.ratio is None or m.pair.design is RunOrder.ROUNDS:
        return None
    return provable(len(m.pair.first), len(m.pair.second), sd=spread_of(m.pair.first, m.pair.second), comparisons=tests, least=m.least)


def _missing(m: TestedPair) -> Comparison:
    sides = " and ".join(name for name, level in (("the first", m.first), ("the second", m.second)) if level is None)
    return Comparison(
        m.pair, Verdict.MISSING, Verdict.MISSING.value, (f"{sides} has no value",), m.first, m.second, None, None, None, m.least, None
    )  # fmt: skip


def _flags(pair: Pair) -> list[tuple[str, Flags]]:
    return [("first", flags_of(pair.first)), ("second", flags_of(pair.second))]
