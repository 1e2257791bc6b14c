"""Rule for when a trial of a search may be stopped: as soon as it can no longer meet any goal that it still matters to.

Stopping changes no result, because the search cannot see it. The search uses the asked duration of a trial, and whether its loss ratio is
above that of each goal. It also uses the loss ratio of the first two trials, to choose the next load. So these two are never stopped. A
stopped trial is reported with its asked duration and a loss ratio above that of every goal, as its own would have been. The proof in
docs/method/search.md depends on `allowance` and on `Matters`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dutlab.spec.goals import Goal

HINTS = 2
"""Number of first trials whose loss ratio steers the search (MLRsearch 1.2.1, run_initial_trials), so they run in full."""

ROUNDING_FRAMES = 8  # a generator may send one more than rate times time on each link


def most_frames(asked: int, tolerance: float) -> int:
    """Return the most frames that a trial may send and still count as the asked one."""
    return math.ceil(asked * (1 + tolerance)) + ROUNDING_FRAMES


def allowance(frames: int, loss_ratio: float) -> int:
    """Return the most lost frames n with n / frames <= loss_ratio in floating-point division: one more, and the ratio is above.

    `frames` is at least 1, `loss_ratio` in [0, 1). For fewer frames than `frames`, n + 1 lost frames are above the ratio too.
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
    """Lowest load with a bad trial, for goals that allow no bad second. It remains an upper bound, independent of other trials."""

    def learn(self, load: float, loss_ratio: float) -> None:
        """Store the result of a trial at `load`."""
        for goal in self.goals:
            if goal.exceed_ratio == 0 and loss_ratio > goal.loss_ratio:
                self._closed[goal.name] = min(load, self._closed.get(goal.name, load))

    def loss_ratio_at(self, load: float) -> float:
        """Return the highest loss ratio among goals that a trial at `load` can still affect; among all goals if there is none."""
        open_goals = [g for g in self.goals if load < self._closed.get(g.name, math.inf)]
        return max(g.loss_ratio for g in open_goals or self.goals)
