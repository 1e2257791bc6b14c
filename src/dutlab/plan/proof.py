"""What a plan can prove about its modes, before it is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from dutlab.analysis.design import LEVEL, RunOrder
from dutlab.plan.cell import Cell
from dutlab.plan.plan import Plan
from dutlab.spec.workloads.setting import directions_of
from dutlab.stats.power import provable
from dutlab.stats.rank import repeats_needed

SPREAD = 0.01
"""From repeat to repeat, relative: what is assumed where nothing was measured yet."""


@dataclass(frozen=True)
class Proof:
    """The comparisons of a plan, and what its repeats are worth in them."""

    repeats: int
    comparisons: int
    """Pairs of modes and levels of one cell, each direction of a link and their sum by itself: what the rule for answers adjusts p for."""
    least: float | None
    """The smallest relative difference between two modes that one cell proves four times in five, at a spread of 1 %; None for none."""
    together: float | None
    """The same of all cells of two modes together, as if all of them shared what they spread by."""


def proof_of(plan: Plan) -> Proof:
    """What a plan can prove; with a rule for repeats, at the most that the rule allows."""
    repeats = max((t.cell.repeat for t in plan.trials), default=0)
    cells = [t.cell for t in plan.trials if t.cell.repeat == 1]
    base = [c for c in cells if cells and c.mode == cells[0].mode]
    alike: dict[object, list[Cell]] = {}
    for c in cells:
        alike.setdefault((c.workload, c.links, tuple(sorted(c.params.items()))), []).append(c)
    comparisons = sum(comb(len(same), 2) * _figures(same[0]) for same in alike.values())
    least = RunOrder.IN_TURN.least
    one, all_of = (provable(repeats, repeats, sd=SPREAD, comparisons=of, least=least) if comparisons else None for of in (comparisons, 1))
    return Proof(repeats, comparisons, one, all_of if len(base) > 1 else None)


def _figures(cell: Cell) -> int:
    """What of a cell is compared: each direction of each link, and the sum of several."""
    flows = len(cell.links) * len(directions_of(cell.setting).backs)
    return flows if flows == 1 else flows + 1


def proof_words(plan: Plan) -> str:
    """One line for the plan."""
    found = proof_of(plan)
    if not found.comparisons:
        return "can prove: nothing alone, since it has one mode; compare several runs of it (dutlab compare --against, dutlab check)"
    among = f"{found.comparisons} comparison{'' if found.comparisons == 1 else 's'}"
    given = f"if repeats spread by {SPREAD * 100:g} %, four times in five"
    if found.least is not None:
        return f"can prove: a difference of {found.least * 100:.2g} % or more between two modes in one cell ({among}; {given})"
    enough = repeats_needed(LEVEL / found.comparisons)
    text = f"can prove: no difference in one cell; {found.repeats} repeats are too few for {among}, {enough} would do"
    return (
        text
        if found.together is None
        else f"{text}; over all cells together, a difference of {found.together * 100:.2g} % or more ({given})"
    )
