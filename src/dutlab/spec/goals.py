"""Search goals by RFC 9971 (MLRsearch), and the presets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from dutlab.errors import InputError
from dutlab.stats.definitions import CSIT_NDR, CSIT_PDR, RFC2544, TST009, Definition
from dutlab.units import Seconds

WIDTH = 0.005
"""Default of Goal Width, as a share of the upper bound; the value of FD.io CSIT."""
FIRST_TRIALS = Seconds(1.0)
GLANCE = Seconds(0.5)
"""Duration of first trials where the last ones take a minute. On simulated devices it was the cheapest that lets a generator settle."""


@dataclass(frozen=True)
class Goal:
    """One search goal. Ratios are shares (0.005 is 0.5 %). The figures of the result begin with `name`."""

    name: str
    loss_ratio: float
    """Goal Loss Ratio: a trial that loses more is bad. In [0, 1)."""
    exceed_ratio: float
    """Goal Exceed Ratio: share of the trial seconds that may be bad. In [0, 1)."""
    final_s: Seconds
    """Goal Final Trial Duration: shortest duration of a trial that counts in full."""
    sum_s: Seconds
    """Goal Duration Sum: trial seconds that decide on a load."""
    width: float = WIDTH
    """Goal Width: (upper - lower) / upper at which the search ends. RFC 9971 requires at least the loss ratio."""
    initial_s: Seconds = FIRST_TRIALS
    """Goal Initial Trial Duration: duration of the first trials. RFC 2544 section 24 allows shorter trials before the last."""
    steps: int = 2
    """Number of coarser targets between the initial and the final duration."""

    @property
    def definition(self) -> Definition:
        """Definition of the goal, without the settings that only control the search."""
        return Definition(self.name, self.loss_ratio, self.exceed_ratio, float(self.final_s), float(self.sum_s))


def _goal(name: str, of: Definition, initial_s: Seconds = FIRST_TRIALS) -> Goal:
    return Goal(name, of.loss_ratio, of.exceed_ratio, Seconds(of.final_s), Seconds(of.sum_s), initial_s=initial_s)


PRESETS: Mapping[str, tuple[Goal, ...]] = {
    "rfc2544": (_goal("throughput", RFC2544, GLANCE),),
    "csit": (_goal("ndr", CSIT_NDR), _goal("pdr", CSIT_PDR)),
    "tst009": (_goal("tst009", TST009, GLANCE),),
    "quick": (
        Goal("ndr", 0.0, 0.5, Seconds(1.0), Seconds(3.0), width=0.02, initial_s=GLANCE, steps=1),
        Goal("pdr", 0.005, 0.5, Seconds(1.0), Seconds(3.0), width=0.02, initial_s=GLANCE, steps=1),
    ),
}
"""Preset → goals. `rfc2544`: no loss in 60 s. `csit`: half of 21 trials of 1 s lose nothing (NDR) or at most 0.5 % (PDR). `tst009`: one of
two trials of 60 s may have loss. `quick`: NDR and PDR, roughly."""


def goals_text(goals: Sequence[Goal]) -> str:
    """Return goals as JSON, with names and units as in Goal."""
    return json.dumps([asdict(goal) for goal in goals])


def goals_named(text: str) -> tuple[Goal, ...]:
    """Return the goals of the comma-separated presets in `text`, for one search. Raises InputError."""
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in PRESETS]:
        raise InputError(f"no preset is called {' or '.join(map(repr, unknown))}", remedy=f"known are {', '.join(PRESETS)}")
    return checked([goal for name in names for goal in PRESETS[name]])


def checked(goals: Sequence[Goal]) -> tuple[Goal, ...]:
    """Return the goals, if one search can serve them all. Raises InputError with every contradiction."""
    faults = ["there is no goal"] if not goals else []
    for goal in goals:
        faults += [f"goal {goal.name}, {key}: {what}" for key, what in goal_faults(goal)]
    for i, goal in enumerate(goals):
        for other in goals[:i]:
            if other.name == goal.name:
                faults.append(f"two goals are called {goal.name}")
            elif _sense(other) == _sense(goal):
                faults.append(f"goals {other.name} and {goal.name} ask the same: one answer cannot have two widths or names")
    if faults:
        raise InputError("the goals are refused: " + "; ".join(faults), remedy="see docs/method/search.md for what goes together")
    return tuple(goals)


def _sense(goal: Goal) -> tuple[float, float, float, float]:
    return goal.loss_ratio, goal.exceed_ratio, goal.final_s, goal.sum_s


def goal_faults(goal: Goal) -> list[tuple[str, str]]:
    """Return (key in an experiment file, fault) for each contradiction in one goal (RFC 9971, search goal attributes)."""
    faults = []
    if not goal.name.replace("_", "").isalnum() or not goal.name.isascii():
        faults.append(("name", f"{goal.name!r} is not a goal's name; use letters, digits and underscores: figures begin with it"))
    for key, share in (("loss", goal.loss_ratio), ("exceed", goal.exceed_ratio)):
        if not 0 <= share < 1:
            faults.append((key, f"must be at least 0% and below 100%, not {_percent(share)}"))
    if not 0 < goal.width < 1:
        faults.append(("width", f"must be above 0% and below 100%, not {_percent(goal.width)}"))
    elif goal.width < goal.loss_ratio < 1:
        low, loss = _percent(goal.width), _percent(goal.loss_ratio)
        faults.append(("width", f"{low} is finer than the loss of {loss} lets two rates differ; write width: {loss} or more"))
    endless = {key for key, s in (("initial", goal.initial_s), ("final", goal.final_s), ("sum", goal.sum_s)) if not 0 < s < float("inf")}
    faults += [(key, "a duration must be above 0 and finite") for key in sorted(endless)]
    if not endless & {"initial", "final"} and goal.initial_s > goal.final_s:
        faults.append(("initial", f"the first trials ({goal.initial_s:g} s) would be longer than the last ({goal.final_s:g} s)"))
    if not endless & {"final", "sum"} and goal.final_s > goal.sum_s:
        faults.append(("sum", f"{goal.sum_s:g} s of trials in all cannot hold one of {goal.final_s:g} s"))
    if goal.steps != int(goal.steps) or goal.steps < 0 or (goal.steps == 0 and goal.initial_s < goal.sum_s):
        faults.append(("steps", f"{goal.steps} steps do not lead from {goal.initial_s:g} s to {goal.sum_s:g} s"))
    return faults


def _percent(share: float) -> str:
    return f"{share * 100:.12g}%"
