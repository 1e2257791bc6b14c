"""Designs: the way two sides were measured, and what a difference between them can mean.

The unit of independence is whatever was set up again: the blocks of one run, in which every mode has its turn, or whole runs. Changes
between two runs that come from outside the box (a reboot, cabling, heat, a neighbour's load) do not show in the spread of one run's
repeats. So each design has a least change that counts. For two single runs it is an allowance for exactly these changes.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean

from dutlab.stats.power import LEAST_IN_TURN

LEVEL = 0.05
"""Level of significance, for all comparisons of one question together."""
_MIXED = 0.4
"""Mean share of neighbours in time that are of different sides: blocks in random order have at least half, stretches 1/(2n - 1)."""


class NotKnown(enum.Enum):
    """Questions that no number of repeats of a design answers."""

    SET_UP = "whether another set-up of either side shows the same"
    """Each side was set up once; three runs a side or more tell."""


class RunOrder(enum.Enum):
    """Order in time of the two sides."""

    IN_TURN = "in turn"
    """Blocks of one run: each has every mode once."""
    INTERLEAVED = "interleaved runs"
    """Two runs whose blocks were measured in turn, in a fixed order."""
    ROUNDS = "rounds of interleaved runs"
    """Two runs whose blocks were measured in turn, in an order drawn for each round: values at one place are of one round."""
    ONE_AFTER_THE_OTHER = "one after the other"
    """Two runs, or two stretches of one, without a change back."""
    RUNS = "several runs a side"
    """Each run counts once."""
    WITHIN_RUNS = "within each of several runs"
    """Both sides are in each of several runs: each run gives one ratio, of values that share its set-up."""

    @property
    def least(self) -> float:
        """The smallest relative change that counts unless the user says another."""
        return _LEAST[self]

    @property
    def one_setup_a_side(self) -> bool:
        """No spread here shows what a new set-up changes."""
        return self in {RunOrder.INTERLEAVED, RunOrder.ROUNDS, RunOrder.ONE_AFTER_THE_OTHER}

    @property
    def not_known(self) -> tuple[NotKnown, ...]:
        """Questions that it leaves open, whatever is proven."""
        return (NotKnown.SET_UP,) if self.one_setup_a_side else ()


ENOUGH_FOR_ONE = 10
"""Runs of the other side from which on a single run is held against what they spread by. With fewer, all of them have too often missed a
state of the box (a slow hour) that it alone was in, so the allowance for runs one after the other counts."""

_LEAST = {
    RunOrder.IN_TURN: LEAST_IN_TURN,
    RunOrder.RUNS: 0.01,
    RunOrder.WITHIN_RUNS: 0.01,
    RunOrder.INTERLEAVED: 0.04,
    RunOrder.ROUNDS: 0.04,
    RunOrder.ONE_AFTER_THE_OTHER: 0.10,
}
"""1 %: see LEAST_IN_TURN. 4 %: between equal testbeds 3 % is usual, as CSIT reports it (CSIT-1915), and
each cell has its own. 10 %: a machine that grows slower for minutes, as users of every benchmark tool report it."""


def in_turn(cells: Sequence[tuple[Sequence[datetime], Sequence[datetime]]]) -> bool:
    """Return whether the sides took turns in time, over all cells; `cells` holds the times of the first and second side of each."""
    shares = []
    for first, second in cells:
        if min(len(first), len(second)) < 2:  # noqa: PLR2004 - one repeat a side takes no turns
            continue
        order = sorted([*((at, 0) for at in first), *((at, 1) for at in second)])
        changes = sum(a[1] != b[1] for a, b in pairwise(order))
        shares.append(changes / (2 * min(len(first), len(second)) - 1))
    return bool(shares) and fmean(shares) >= _MIXED
