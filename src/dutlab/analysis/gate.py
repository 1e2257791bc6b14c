"""Gate: a verdict on whether a newer version is worse than an older one by more than is allowed. A second measurement confirms each alarm.

Counts need no test. Figures with an error are measured in rounds of both versions. After each round a test decides for each cell between
two hypotheses: worse by the allowance, or worse by at most the least change that counts (Wald, dutlab.stats.sequential). The error
probabilities are divided by the number of cells. Measuring ends as soon as every cell passes, or one seems worse. That cell is measured
again without the others, and only the new rounds decide. So the first measurement may suspect early (SUSPICION): a false alarm needs two
errors by chance.
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
from dutlab.stats.sequential import log_likelihood_ratio, mean_reach

EXACT_ALLOWED = 0.001
"""Largest share by which counts change when code and data move in memory."""
TIME_ALLOWED = 0.03
ALLOWED_BY_LEAST = 3.0
"""Allowance ÷ the least change that counts. Between the two, either verdict is possible."""
PASSED, SUSPICION, CONFIRMED = 0.025, 0.2, 0.05
"""Error probabilities: a result worse by the allowance passes; one worse by the least change that counts is suspected; is confirmed."""

CellName = tuple[str, str]
"""Label and figure of a cell."""


@dataclass(frozen=True)
class GateCell:
    """One figure of one cell, with the change by the newer version."""

    label: str
    figure: str
    kind: CheckKind
    first: float | None
    second: float | None
    worse: float | None
    """Change for the worse as a share of the first; below zero the newer version is better. None where a side has no result."""
    at_most: float | None
    """Upper limit of `worse`; None where it is not known."""
    rounds: int = 1
    again: int = 0
    """Rounds of the deciding second measurement; 0 without one."""
    why: str = ""
    """Reason for the absence of a verdict."""

    @property
    def name(self) -> CellName:
        """Name of the cell."""
        return (self.label, self.figure)


Rounds = Callable[[Collection[CellName], Callable[[Sequence[Pair]], bool]], Sequence[Pair]]
"""Function that measures rounds of these cells (of all, if none is named) until the callback returns True or the time limit ends."""
Again = Callable[[Collection[CellName]], Sequence[Pair]]
"""Function that counts these cells again, by another method."""


def of_counts(pair: Pair, allowed: float) -> GateCell:
    """Judge counts, which have no error."""
    if not pair.first or not pair.second:
        return _missing(pair)
    first, second = fmean(pair.first), fmean(pair.second)
    worse = _share(log(second) - log(first), pair.better) if min(first, second) > 0 else float(second != first)
    kind = CheckKind.FAIL if worse > allowed else CheckKind.PASS
    return GateCell(pair.label, pair.figure, kind, first, second, worse, max(worse, 0.0))


def of_rounds(pair: Pair, allowed: float, cells: int, alarm: float = CONFIRMED) -> GateCell:
    """Judge rounds of one cell out of `cells` that are judged together. `alarm` is the probability of any false alarm."""
    rounds = [of for of in rounds_of(pair).values() if min(of) > 0]
    if not rounds:
        return _missing(pair)
    first, second = (exp(fmean(log(of[side]) for of in rounds)) for side in (0, 1))
    sign = 1 if pair.better == "lower" else -1
    changes = [sign * (log(b) - log(a)) for a, b in rounds]
    reach = mean_reach(changes, LEVEL / cells)
    worse, at_most = _share(sign * log(second / first), pair.better), None if reach is None else _share(reach.high, pair.better)
    cell = GateCell(pair.label, pair.figure, CheckKind.CANNOT_TELL, first, second, worse, at_most, len(rounds))
    is_worse = log_likelihood_ratio(changes, *(_logarithm(of, pair.better) for of in (allowed / ALLOWED_BY_LEAST, allowed)))
    if is_worse >= log(cells / alarm):
        return replace(cell, kind=CheckKind.FAIL)
    if is_worse <= -log(cells / PASSED):
        return replace(cell, kind=CheckKind.PASS, at_most=allowed if at_most is None else min(at_most, allowed))
    return replace(cell, why=f"{len(rounds)} rounds are too few for so much spread")


def gate_counts(pairs: Sequence[Pair], again: Again, allowed: float) -> tuple[GateCell, ...]:
    """Return the verdict of each cell. Worse cells are counted again, and the second count decides."""
    cells = [of_counts(pair, allowed) for pair in pairs]
    if not (alarms := [c.name for c in cells if c.kind is CheckKind.FAIL]):
        return tuple(cells)
    second = {c.name: c for c in (of_counts(pair, allowed) for pair in again(alarms))}
    return tuple(_after(c, second.get(c.name)) if c.kind is CheckKind.FAIL else c for c in cells)


def gate_rounds(measure: Rounds, allowed: float, *, begun: Sequence[Pair] = ()) -> tuple[GateCell, ...]:
    """Return the verdict of each cell. `begun` has rounds that are already measured."""
    known = dict[CellName, GateCell]()
    undecided: Collection[CellName] = ()
    pairs = begun or measure((), lambda of: _is_enough(of, allowed))
    while True:
        cells = _decided(pairs, allowed, SUSPICION)
        known |= {c.name: c for c in cells}
        alarms = [c for c in cells if c.kind is CheckKind.FAIL]
        if not alarms:
            return tuple(known.values())
        second = {c.name: c for c in remeasure_by_rounds(measure, [c.name for c in alarms], allowed)}
        known |= {c.name: _after(c, second.get(c.name)) for c in alarms}
        undecided = [c.name for c in known.values() if c.kind is CheckKind.CANNOT_TELL and not c.again]
        if not undecided or any(c.kind is not CheckKind.PASS for c in known.values() if c.again):
            return tuple(known.values())
        pairs = measure(undecided, lambda of: _is_enough(of, allowed))


def remeasure_by_rounds(measure: Rounds, names: Collection[CellName], allowed: float) -> Sequence[GateCell]:
    """Judge cells that the first measurement found worse, by a second measurement."""
    return _decided(measure(names, lambda of: _is_settled(of, allowed)), allowed, CONFIRMED)


def overall(cells: Sequence[GateCell]) -> CheckKind:
    """Return the verdict of all cells: FAIL if one is worse, else CANNOT_TELL if one is undecided or there are none, else PASS."""
    kinds = {c.kind for c in cells}
    return next(
        (kind for kind in (CheckKind.FAIL, CheckKind.CANNOT_TELL) if kind in kinds), CheckKind.PASS if cells else CheckKind.CANNOT_TELL
    )


def seen(cells: Sequence[GateCell], allowed: float) -> float | None:
    """Return the smallest change for the worse that every cell would show, as a share; None where a cell has no limit."""
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
    """Return the verdict after an alarm. Only the second measurement decides."""
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
    """Convert a change for the worse from a logarithm into a share of the first side."""
    return expm1(change) if better == "lower" else -expm1(-change)


def _logarithm(share: float, better: Better) -> float:
    """Convert a change for the worse from a share of the first side into a logarithm."""
    return log1p(share) if better == "lower" else -log1p(-share)
