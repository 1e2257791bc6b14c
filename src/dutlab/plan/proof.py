"""Smallest difference between its modes that a plan can prove, before the run."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from dutlab.plan.cell import Cell
from dutlab.plan.plan import Plan
from dutlab.spec.workloads.setting import identity_of
from dutlab.stats.power import LEAST_IN_TURN, provable, smallest_provable_difference

SPREAD = 0.01
"""Assumed relative spread between repeats before anything is measured."""


@dataclass(frozen=True)
class Proof:
    """The comparisons of a plan, and the smallest differences that its repeats prove."""

    repeats: int
    comparisons: int
    """Pairs of modes and levels of one cell, for each direction of a link and for their sum: p is adjusted for this number."""
    least: float | None
    """Smallest relative difference between two modes that one cell proves four times in five, at a spread of 1 %; None if none."""
    together: float | None
    """Smallest provable difference of all cells of two modes together, if all have the same spread."""


def proof_of(plan: Plan) -> Proof:
    """Return what a plan can prove; with a rule for repeats, for the most repeats that the rule allows."""
    repeats = max((t.cell.repeat for t in plan.trials), default=0)
    cells = [t.cell for t in plan.trials if t.cell.repeat == 1]
    base = [c for c in cells if cells and c.mode == cells[0].mode]
    alike: dict[object, list[Cell]] = {}
    for c in cells:
        alike.setdefault((c.workload, c.links, identity_of(c.params)), []).append(c)
    comparisons = sum(comb(len(same), 2) * _figures(same[0]) for same in alike.values())
    if not comparisons:
        return Proof(repeats, 0, None, None)
    one, all_of = (_provable(repeats, of_spread, tests) for of_spread, tests in ((len(cells), comparisons), (2, 1)))
    return Proof(repeats, comparisons, one, all_of if len(base) > 1 else None)


def _provable(repeats: int, cells: int, comparisons: int) -> float | None:
    """Return the least provable difference: by ranks for enough repeats, else by the spread of all cells; at least that of the interval."""
    by_ranks = provable(repeats, repeats, sd=SPREAD, comparisons=comparisons, least=LEAST_IN_TURN)
    if by_ranks is not None:
        return by_ranks
    by_spread = smallest_provable_difference(repeats, cells, sd=SPREAD, comparisons=comparisons, least=LEAST_IN_TURN)
    of_interval = provable(repeats, repeats, sd=SPREAD, comparisons=1, least=LEAST_IN_TURN)
    return by_spread if by_spread is None or of_interval is None else max(by_spread, of_interval)


def _figures(cell: Cell) -> int:
    """Return the number of compared figures of a cell: each direction of each link, and the sum of several."""
    flows = len(cell.links) * len(cell.setting.ways.backs)
    return flows if flows == 1 else flows + 1


def proof_words(plan: Plan) -> str:
    """Return one line for the plan."""
    proof = proof_of(plan)
    if not proof.comparisons:
        return "can prove: nothing alone, since it has one mode; compare several runs of it (dutlab compare --against, dutlab check)"
    among = f"{proof.comparisons} comparison{'' if proof.comparisons == 1 else 's'}"
    condition = f"if repeats spread by {SPREAD * 100:g} %, four times in five"
    if proof.least is not None:
        return f"can prove: a difference of {proof.least * 100:.2g} % or more between two modes in one cell ({among}; {condition})"
    repeats = f"{proof.repeats} repeat{'' if proof.repeats == 1 else 's'} of each cell"
    from dutlab.stats import few  # noqa: PLC0415 -- few plans have as few repeats

    return f"can prove: no difference; {repeats} show too little of the spread, {few.FEWEST} are enough"
