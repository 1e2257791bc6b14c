"""Tests of each pair, by the design in which its sides were measured.

Within one run the unit is the block of the plan: ranks of the repeats (Mann-Whitney), tested against the least change that counts. If there
are too few repeats for ranks, a t test with the spread of all cells replaces them (dutlab.stats.few). Only the number of repeats decides
this, not their values. For two interleaved runs the unit is the round (dutlab.stats.rounds), for several runs the run (dutlab.stats.runs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

from dutlab.analysis.comparison import Pair, SideLevel
from dutlab.analysis.design import ENOUGH_FOR_ONE, LEVEL, RunOrder
from dutlab.stats import few
from dutlab.stats.rank import RankTest, holm, mann_whitney, over_runs
from dutlab.stats.ratio import Ratio, ratio_of
from dutlab.stats.rounds import Round, changed
from dutlab.stats.runs import RunLevels, levels_of, levels_within, share_as_far, with_error_floor, with_pooled_errors
from dutlab.stats.summary import Interval, median, summarise


def tested(pairs: Sequence[Pair], least: float | None) -> list[TestedPair]:
    """Return each pair with its tests. `least` replaces the least change of the pair's design."""
    return _of_few(_judge_by_runs([TestedPair.of(p, _least(p) if least is None else least) for p in pairs]))


def _least(pair: Pair) -> float:
    """Return the least difference of the design; for one run against a few, that of runs one after the other.

    A few runs do not show the error of a single run.
    """
    few, many = sorted((len(pair.first), len(pair.second)))
    alone = pair.design is RunOrder.RUNS and few == 1 and many < ENOUGH_FOR_ONE
    return (RunOrder.ONE_AFTER_THE_OTHER if alone else pair.design).least


def _judge_by_runs(pairs: Sequence[TestedPair]) -> list[TestedPair]:
    """Judge pairs whose unit is the run. Cells of the same runs share their errors."""
    out = list(pairs)
    same: dict[object, list[int]] = {}
    for n, m in enumerate(pairs):
        if m.runs is not None:
            within = m.pair.design is RunOrder.WITHIN_RUNS
            same.setdefault(m.runs.errors[0][1] if within else (m.pair.first_at, m.pair.second_at), []).append(n)
    for places in same.values():
        shared = with_pooled_errors if pairs[places[0]].pair.design is RunOrder.WITHIN_RUNS else with_error_floor
        for n, runs in zip(places, shared([of for p in places if (of := pairs[p].runs) is not None]), strict=True):
            out[n] = replace(pairs[n], runs=runs, ratio=runs.between, p=runs.p(pairs[n].least))
        alone = [_one_and_others(pairs[n].pair) for n in places]
        for n, share in zip(places, share_as_far([of for of in alone if of]), strict=False):
            out[n] = replace(out[n], p=max(out[n].p or 0.0, share))
    return out


def _of_few(pairs: Sequence[TestedPair]) -> list[TestedPair]:
    """Judge pairs with too few repeats for ranks, by levels with the spread of all cells of that figure."""
    tests, out = sum(m.p is not None for m in pairs), list(pairs)
    places = [n for n, m in enumerate(pairs) if _is_few(m, tests)]
    for figure in {pairs[n].pair.figure for n in places}:
        same = {n: pairs[n].pair for n in places if pairs[n].pair.figure == figure}
        spread = few.shared_spread([side for _, side in sorted({(p.label, side) for p in same.values() for side in (p.first, p.second)})])
        for n, pair in same.items():
            levels = spread.levels(pair.first, pair.second)
            out[n] = replace(pairs[n], few=levels, ratio=_with_interval(pairs[n].ratio, levels), p=levels.p(pairs[n].least))
    return out


def _is_few(m: TestedPair, tests: int) -> bool:
    pair = m.pair
    return pair.design is RunOrder.IN_TURN and m.ratio is not None and few.takes_over(len(pair.first), len(pair.second), tests, LEVEL)


def _with_interval(ratio: Ratio | None, levels: RunLevels) -> Ratio | None:
    """Return the ratio of the medians. If repeats are too few for its interval, it has the interval of the levels."""
    if ratio is None or ratio.interval is not None:
        return ratio
    inside = levels.interval
    interval = Interval(min(inside.low, ratio.ratio), max(inside.high, ratio.ratio), inside.confidence)
    return Ratio(ratio.ratio, interval, "ratio of medians, spread of all cells")


def _one_and_others(pair: Pair) -> tuple[tuple[float, ...], float] | None:
    """Return the runs of one side and the single run of the other; None if neither side is a single run."""
    sides = sorted((pair.first, pair.second), key=len)
    return (sides[1], sides[0][0]) if pair.design is RunOrder.RUNS and len(sides[0]) == 1 else None


def adjusted(pairs: Sequence[TestedPair]) -> list[float]:
    """Return p of each pair, adjusted for all pairs; pairs of rounds are judged together."""
    rounds = {n: m for n, m in enumerate(pairs) if m.pair.design is RunOrder.ROUNDS}
    of_rounds = iter(changed([rounds_of(m.pair) for m in rounds.values()], max(m.least for m in rounds.values())) if rounds else ())
    others = iter(holm([m.p for n, m in enumerate(pairs) if n not in rounds and m.p is not None]))
    return [next(of_rounds) if n in rounds else next(others) for n in range(len(pairs))]


def rounds_of(pair: Pair) -> dict[int, Round]:
    """Return the values of both sides in each round that both sides have."""
    first, second = (dict(zip(at, of, strict=True)) for at, of in ((pair.first_at, pair.first), (pair.second_at, pair.second)))
    return {number: (first[number], second[number]) for number in first if number in second}


def strata_of(pair: Pair) -> list[tuple[list[float], list[float]]]:
    """Return the values of both sides in each run that has both sides."""
    sides = [
        [(at, value) for at, value in zip(of_at, of, strict=True)]
        for of_at, of in ((pair.first_at, pair.first), (pair.second_at, pair.second))
    ]
    shared = sorted({at for at, _ in sides[0]} & {at for at, _ in sides[1]})
    return [([v for at, v in sides[0] if at == run], [v for at, v in sides[1] if at == run]) for run in shared]


@dataclass(frozen=True)
class TestedPair:
    """One pair with its tests, before p is adjusted for the others."""

    pair: Pair
    least: float
    left_out: int
    first: SideLevel | None
    second: SideLevel | None
    ratio: Ratio | None = None
    runs: RunLevels | None = None
    few: RunLevels | None = None
    """Levels with the spread of all cells, where repeats are too few for ranks."""
    test: RankTest | None = None
    p: float | None = None

    @classmethod
    def of(cls, given: Pair, least: float) -> TestedPair:
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
    def _within_runs(cls, of: TestedPair) -> TestedPair:
        """Compare the medians of the two sides in each run that has both; by sign where values have no logarithm."""
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
    """Return the two-sided p of a change by more than `least`, by ranks. The first side is first moved by `least` towards the second."""
    up = mann_whitney([v * (1 + least) for v in first], second)
    down = mann_whitney([v / (1 + least) for v in first], second)
    return min([t.p for t in (up if up.delta > 0 else None, down if down.delta < 0 else None) if t is not None], default=1.0)


def _finite(pair: Pair) -> Pair:
    sides = []
    for values, places in ((pair.first, pair.first_at), (pair.second, pair.second_at)):
        at = places or tuple(range(1, len(values) + 1))
        usable = [(v, place) for v, place in zip(values, at, strict=True) if isfinite(v)]
        sides.append((tuple(v for v, _ in usable), tuple(place for _, place in usable)))
    (first, first_at), (second, second_at) = sides
    return replace(pair, first=first, second=second, first_at=first_at, second_at=second_at)


def _level(values: Sequence[float]) -> SideLevel:
    summary = summarise(values)
    return SideLevel(summary.median, summary.n, summary.low, summary.high)
