"""Designs: the order in which two sides were measured, and the least change between them that counts.

The unit of independence is the unit that was set up again: a block of one run, in which every mode has its turn, or a whole run. Some
changes between two runs are from outside the box: a reboot, cabling, heat, a neighbour's load. The spread of one run's repeats does not
show them. So each design has a least change that counts. For two single runs it is an allowance for exactly these changes.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean

from dutlab.stats.power import LEAST_IN_TURN

LEVEL = 0.05
"""Level of significance for all comparisons of one question together."""
_MIXED = 0.4
"""Mean share of neighbours in time that are of different sides, from which on sides took turns. Blocks in random order have at least
half; two sides one after the other have 1/(2n - 1)."""


class NotKnown(enum.Enum):
    """Questions that a design cannot answer, however many repeats it has."""

    SET_UP = "whether another set-up of either side shows the same"
    """Open because each side was set up once. Three runs a side or more answer it."""


class RunOrder(enum.Enum):
    """Order in which two sides were measured."""

    IN_TURN = "in turn"
    """Blocks of one run; each block has every mode once."""
    INTERLEAVED = "interleaved runs"
    """Two runs whose blocks alternated in a fixed order."""
    ROUNDS = "rounds of interleaved runs"
    """Two runs whose blocks alternated, in a random order for each round. Values with the same index are of one round."""
    ONE_AFTER_THE_OTHER = "one after the other"
    """Two runs, or two parts of one run, without a change back to the first side."""
    RUNS = "several runs a side"
    """Several runs of each side; each run counts once."""
    WITHIN_RUNS = "within each of several runs"
    """Several runs that each have both sides. Each run gives one ratio, of values that share its set-up."""

    @property
    def least(self) -> float:
        """The default of the smallest relative change that counts."""
        return _LEAST[self]

    @property
    def one_setup_a_side(self) -> bool:
        """True if each side was set up once, so that no spread shows the effect of a new set-up."""
        return self in {RunOrder.INTERLEAVED, RunOrder.ROUNDS, RunOrder.ONE_AFTER_THE_OTHER}

    @property
    def not_known(self) -> tuple[NotKnown, ...]:
        """Questions that this design leaves open."""
        return (NotKnown.SET_UP,) if self.one_setup_a_side else ()


ENOUGH_FOR_ONE = 10
"""Fewest runs of one side whose spread is enough to judge a single run of the other side. Fewer runs often all miss a state of the box
(a slow hour) that the single run was in. Then the allowance for runs one after the other counts."""

_LEAST = {
    RunOrder.IN_TURN: LEAST_IN_TURN,
    RunOrder.RUNS: 0.01,
    RunOrder.WITHIN_RUNS: 0.01,
    RunOrder.INTERLEAVED: 0.04,
    RunOrder.ROUNDS: 0.04,
    RunOrder.ONE_AFTER_THE_OTHER: 0.10,
}
"""Least relative change that counts, by design. 1 %: see LEAST_IN_TURN. 4 %: CSIT reports that 3 % is usual between equal testbeds
(CSIT-1915), different for each cell. 10 %: a machine that gets slower for minutes, as users of every benchmark tool report."""


def in_turn(cells: Sequence[tuple[Sequence[datetime], Sequence[datetime]]]) -> bool:
    """Return True if the two sides took turns, on average over all cells. `cells` has the times of the first and second side of each."""
    shares = []
    for first, second in cells:
        if min(len(first), len(second)) < 2:  # noqa: PLR2004 - one repeat a side shows no turns
            continue
        order = sorted([*((at, 0) for at in first), *((at, 1) for at in second)])
        changes = sum(a[1] != b[1] for a, b in pairwise(order))
        shares.append(changes / (2 * min(len(first), len(second)) - 1))
    return bool(shares) and fmean(shares) >= _MIXED
