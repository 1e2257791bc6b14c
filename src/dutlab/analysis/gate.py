"""Verdict whether a newer version is worse than an older one by more than is allowed. An alarm needs a second measurement that confirms it.

Counts need no test. Figures that have an error are measured in rounds of both versions, and looked at after each round: whether a cell is
worse by what is allowed, or by the least that counts at most (Wald's test of two hypotheses, dutlab.stats.sequential), with its errors
shared out over the cells. So measuring ends as soon as each cell passes, or one seems to be worse. Such a cell is measured again by itself,
and the new rounds alone decide. So the first measurement may suspect early (SUSPICION): chance would have to do it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import exp, expm1, log, log1p
from statistics import fmean

from dutlab.analysis.comparison import Pair
from dutlab.analysis.design import LEVEL
from dutlab.analysis.pair_tests import rounds_of
from dutlab.analysis.verdict import CheckKind
from dutlab.measures import Better, is_exact
from dutlab.stats.sequential import likelier, mean_reach

EXACT_ALLOWED = 0.001
"""Share by which moved code and data change counts at most."""
TIME_ALLOWED = 0.03
ALLOWED_BY_LEAST = 3.0
"""Allowance over the least change that counts. Between them either verdict may come."""
PASSED, SUSPICION, CONFIRMED = 0.025, 0.2, 0.05
"""Probabilities: a result that is worse by the allowance passes; one that is worse by the least that counts is suspected; is confirmed."""

CellName = tuple[str, str]
"""Label and figure."""


@dataclass(frozen=True)
class GateCell:
    """One figure of one cell, and how much worse the newer version is in it."""

    label: str
    figure: str
    kind: CheckKind
    first: float | None
    second: float | None
    worse: float | None
    """Share of the first by which it is worse; below zero it is better. None where a side has no result."""
    at_most: float | None
    """It may be worse by so much; None where nothing is known."""
    rounds: int = 1
    again: int = 0
    """Rounds of the second measurement, which decided; 0 without one."""
    why: str = ""
    """Reason for the absence of a verdict."""

    @property
    def name(self) -> CellName:
        """Name of the cell."""
        return (self.label, self.figure)


Rounds = Callable[[Collection[CellName], Callable[[Sequence[Pair]], bool]], Sequence[Pair]]
"""Measures rounds of these cells (of all, where none is named) until the callback says that they are enough, or time is over."""
Again = Callable[[Collection[CellName]], Sequence[Pair]]
"""Counts these cells again, in another way."""


def of_counts(pair: Pair, allowed: float) -> GateCell:
    """Counts that have no error."""
    if not pair.first or not pair.second:
        return _missing(pair)
    first, second = fmean(pair.first), fmean(pair.second)
    worse = _share(log(second) - log(first), pair.better) if min(first, second) > 0 else float(second != first)
    kind = CheckKind.FAIL if worse > allowed else CheckKind.PASS
    return GateCell(pair.label, pair.figure, kind, first, second, worse, max(worse, 0.0))


def of_rounds(pair: Pair, allowed: float, cells: int, alarm: float = CONFIRMED) -> GateCell:
    """Judge rounds with an error, for one of so many cells that are judged together; chance makes `alarm` of alarms."""
    rounds = [of for of in rounds_of(pair).values() if min(of) > 0]
    if not rounds:
        return _missing(pair)
    first, second = (exp(fmean(log(of[side]) for of in rounds)) for side in (0, 1))
    sign = 1 if pair.better == "lower" else -1
    changes = [sign * (log(b) - log(a)) for a, b in rounds]
    reach = mean_reach(changes, LEVEL / cells)
    worse, at_most = _share(sign * log(second / first), pair.better), None if reach is None else _share(reach.high, pair.better)
    cell = GateCell(pair.label, pair.figure, CheckKind.CANNOT_TELL, first, second, worse, at_most, len(rounds))
    is_worse = likelier(changes, *(_logarithm(of, pair.better) for of in (allowed / ALLOWED_BY_LEAST, allowed)))
    if is_worse >= log(cells / alarm):
        return replace(cell, kind=CheckKind.FAIL)
    if is_worse <= -log(cells / PASSED):
        return replace(cell, kind=CheckKind.PASS, at_most=allowed if at_most is None else min(at_most, allowed))
    return replace(cell, why=f"{len(rounds)} rounds are too few for so much spread")


def gate_counts(pairs: Sequence[Pair], again: Again, allowed: float) -> tuple[GateCell, ...]:
    """The verdict of each cell; what is worse is counted again first."""
    cells = [of_counts(pair, allowed) for pair in pairs]
    if not (alarms := [c.name for c in cells if c.kind is CheckKind.FAIL]):
        return tuple(cells)
    second = {c.name: c for c in (of_counts(pair, allowed) for pair in again(alarms))}
    return tuple(_after(c, second.get(c.name)) if c.kind is CheckKind.FAIL else c for c in cells)


def gate_rounds(measure: Rounds, allowed: float, *, begun: Sequence[Pair] = ()) -> tuple[GateCell, ...]:
    """The verdict of each cell; `begun` are rounds that there are already."""
    known = dict[CellName, GateCell]()
    undecided: Collection[CellName] = ()
    pairs = begun or measure((), lambda of: _is_enough(of, allowed))
    while True:
        cells = _decided(pairs, allowed, SUSPICION)
        known |= {c.name: c for c in cells}
        alarms = [c for c in cells if c.kind is CheckKind.FAIL]
        if not alarms:
            return tuple(known.values())
        second = {c.name: c for c in again_by_rounds(measure, [c.name for c in alarms], allowed)}
        known |= {c.name: _after(c, second.get(c.name)) for c in alarms}
        undecided = [c.name for c in known.values() if c.kind is CheckKind.CANNOT_TELL and not c.again]
        if not undecided or any(c.kind is not CheckKind.PASS for c in known.values() if c.again):
            return tuple(known.values())
        pairs = measure(undecided, lambda of: _is_enough(of, allowed))


def again_by_rounds(measure: Rounds, names: Collection[CellName], allowed: float) -> Sequence[GateCell]:
    """Judge cells that a first measurement called worse by a second one."""
    return _decided(measure(names, lambda of: _is_settled(of, allowed)), allowed, CONFIRMED)


def overall(cells: Sequence[GateCell]) -> CheckKind:
    """Return the verdict of all cells: one that is worse fails the whole; else one that is undecided makes it undecided."""
    kinds = {c.kind for c in cells}
    return next(
        (kind for kind in (CheckKind.FAIL, CheckKind.CANNOT_TELL) if kind in kinds), CheckKind.PASS if cells else CheckKind.CANNOT_TELL
    )


def seen(cells: Sequence[GateCell], allowed: float) -> float | None:
    """The smallest change that would have been seen in each cell, as a share; None where a cell could hide any."""
    reach = [allowed if is_exact(c.figure) and c.at_most is not None else c.at_most for c in cells]
    known = [max(of, 0.0) for of in reach if of is not None]
    return max(known, default=None) if len(known) == len(cells) else None


def _is_enough(pairs: Sequence[Pair], allowed: float) -> bool:
    kinds = {c.kind for c in _decided(pairs, allowed, SUSPICION)}
    return CheckKind.FAIL in kinds or kinds == {CheckKind.PASS}


def _is_settled(pairs: Sequence[Pair], allowed: float) -> bool:
    kinds = {c.kind for c in _decided(pairs, allowed, CONFIRMED)}
    return bool(kinds) and CheckKind.CANNOT_TELL not in kinds


def _decided(pairs: Sequence[Pair], allowed: float, alarm: float) -> list[GateCell]:
    return [of_rounds(pair, allowed, len(pairs), alarm) for pair in pairs]


def _after(alarm: GateCell, second: GateCell | None) -> GateCell:
    """An alarm after the cell was measured again, which decides alone."""
    if second is None or second.worse is None:
        why = "it was worse, and the second measurement has no result"
        return replace(alarm, kind=CheckKind.CANNOT_TELL, why=why)
    why = "it was worse, and the second measurement cannot tell" if second.kind is CheckKind.CANNOT_TELL else ""
    return replace(second, rounds=alarm.rounds, again=second.rounds, why=why)


def _missing(pair: Pair) -> GateCell:
    level = [fmean(of) if of else None for of in (pair.first, pair.second)]
    side = (
        "neither version has"
        if not pair.first and not pair.second
        else "the older version has no"
        if not pair.first
        else "the newer version has no"
    )
    return GateCell(
        pair.label,
        pair.figure,
        CheckKind.CANNOT_TELL,
        level[0],
        level[1],
        None,
        None,
        0,
        why=f"{side} result".replace("has result", "has a result"),
    )


def _share(change: float, better: Better) -> float:
    """Convert a logarithm towards the worse into a share of the first side."""
    return expm1(change) if better == "lower" else -expm1(-change)


def _logarithm(share: float, better: Better) -> float:
    """Convert a share of the first side into a logarithm."""
    return log1p(share) if better == "lower" else -log1p(-share)
