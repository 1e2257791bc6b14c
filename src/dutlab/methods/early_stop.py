"""When a trial of a search may be stopped: as soon as no goal that it matters to could still call it good.

Stopping changes no answer, because the search sees nothing of it. Of a trial it uses the asked duration, whether the loss ratio is above
each goal's, and (of the first two trials) the loss ratio itself as a hint where to look next. A stopped trial is reported with its asked
duration and a loss ratio that is above every goal's, as its own would have been; the first two trials are never stopped. What is proved in
docs/method/search.md rests on `allowance` and on `Matters`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dutlab.spec.goals import Goal

HINTS = 2
"""So many trials at the start of a search steer by their loss ratio itself (MLRsearch 1.2.1, run_initial_trials), so they run in full."""

ROUNDING_FRAMES = 8  # a generator may send one more than rate times time on each link


def most_frames(asked: int, tolerance: float) -> int:
    """Frames that a trial may send at most and still be the one that was asked for."""
    return math.ceil(asked * (1 + tolerance)) + ROUNDING_FRAMES


def allowance(frames: int, loss_ratio: float) -> int:
    """The most frames n with n / frames <= loss_ratio, as floating-point division has it: one more lost, and the ratio is above.

    Shapes: `frames` at least 1, `loss_ratio` in [0, 1). For any number of frames up to `frames` the same holds all the more.
    """
    n = math.floor(loss_ratio * frames)
    while n > 0 and n / frames > loss_ratio:
        n -= 1
    while (n + 1) / frames <= loss_ratio:
        n += 1
    return n


@dataclass
class Matters:
    """Goals to which a trial at some load still matters."""

    goals: Sequence[Goal]
    _closed: dict[str, float] = field(default_factory=dict)
    """Goals that allow no bad second: the lowest load with a bad trial. It is an upper bound for good, whatever else is tried there."""

    def learn(self, load: float, loss_ratio: float) -> None:
        """Store what is known about a trial at `load`."""
        for goal in self.goals:
            if goal.exceed_ratio == 0 and loss_ratio > goal.loss_ratio:
                self._closed[goal.name] = min(load, self._closed.get(goal.name, load))

    def loss_ratio_at(self, load: float) -> float:
        """The highest loss ratio among goals that a trial at `load` can still matter to; among all goals if to none."""
        open_goals = [g for g in self.goals if load < self._closed.get(g.name, math.inf)]
        return max(g.loss_ratio for g in open_goals or self.goals)
