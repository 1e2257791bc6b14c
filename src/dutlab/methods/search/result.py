"""Result of a search: for every goal both bounds and the conditional throughput, or its irregularities (RFC 9971, goal result)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.methods.search.mlrsearch import Bounds
from dutlab.methods.search.trial import Mark, Role, SearchTrial
from dutlab.spec.goals import Goal
from dutlab.stats.rescore import LoadVerdict, RescoredBounds, TrialPoint, answer, by_load, classify
from dutlab.units import Pps, Seconds, si


class Irregular(enum.Enum):
    """Reason why a goal has no regular result."""

    ENDED = "the search ended before it was done"
    NO_LOWER = "the loss exceeds the goal even at the lowest rate of the search"
    SILENT = "no frame came back at any rate: is the path through the DUT open?"
    NO_UPPER = "the DUT met the goal even at the highest rate of the search: its limit is at or above that rate"
    GENERATOR = "the generator did not reach the rates above the lower bound: this is the generator's limit; the DUT's limit is higher"
    UNLIKE = "the trials contradict the result of the search"

    @property
    def mark(self) -> str:
        """Short form for tables."""
        return _MARKS[self]


_MARKS = {
    Irregular.ENDED: "ended early",
    Irregular.NO_LOWER: "no lower bound",
    Irregular.SILENT: "no frame came back",
    Irregular.NO_UPPER: "no upper bound",
    Irregular.GENERATOR: "the generator's limit",
    Irregular.UNLIKE: "contradicted",
}


@dataclass(frozen=True)
class GoalResult:
    """One goal's result. Rates are in frames a second of each link. If regular, it has both bounds, at most the width apart."""

    goal: Goal
    lower_pps: Pps | None
    """Relevant lower bound: the highest load below the upper bound at which the goal is met."""
    upper_pps: Pps | None
    """Relevant upper bound: the lowest load at which the DUT misses the goal."""
    conditional_pps: Pps | None
    """Conditional throughput: the lower bound less its loss."""
    irregular: tuple[Irregular, ...] = ()
    disagreements: tuple[str, ...] = ()
    """Bounds that were not confirmed, or could not be tried again, at the end."""
    inversions: int = 0
    """Number of loads above the upper bound at which the goal was met: by chance, or because the DUT has several states."""

    @property
    def width(self) -> float | None:
        """Distance of the bounds, as a share of the upper one; None without both."""
        return None if self.lower_pps is None or self.upper_pps is None else (self.upper_pps - self.lower_pps) / self.upper_pps

    @property
    def regular(self) -> bool:
        """True if there are no irregularities."""
        return not self.irregular


@dataclass(frozen=True)
class SearchResult:
    """Result of a search: the results by name of the goal, and every trial."""

    results: Mapping[str, GoalResult]
    trials: tuple[SearchTrial, ...]
    lowest_pps: Pps
    highest_pps: Pps
    highest_is: str
    """Description of the highest rate."""
    ended: str = ""
    """Reason why the search ended early; empty if it was complete."""
    tolerance: float = 0.0
    """Missing share of a rate above which a trial has another rate than asked."""

    @property
    def sent_s(self) -> float:
        """Seconds of sending in all trials."""
        return sum(t.sent_s for t in self.trials)

    @property
    def saved_s(self) -> float:
        """Seconds of sending that early stops saved."""
        return sum(t.saved_s for t in self.trials)

    @property
    def points(self) -> tuple[TrialPoint, ...]:
        """Trials that count, for `stats.rescore`."""
        return tuple(t.point(self.tolerance) for t in self.trials if t.counts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader, in sentences."""
        notes = [f"{name}: {why.value}" for name, result in self.results.items() for why in result.irregular]
        notes += [f"{name}: {what}" for name, result in self.results.items() for what in result.disagreements]
        notes += [f"the search ended early: {self.ended}"] if self.ended else []
        notes += [
            f"{name}: the goal was met at {result.inversions} rates above its upper bound"
            for name, result in self.results.items()
            if result.inversions
        ]
        return (*notes, *([self.reach] if self.reach else []))

    @property
    def reach(self) -> str:
        """Note on the highest rate of the generator, if it set the limit of any goal; else empty."""
        if not any(Irregular.GENERATOR in r.irregular for r in self.results.values()):
            return ""
        reach = max(t.made_pps for t in self.trials if Mark.STARVED in t.marks or t.role is Role.REACH)
        return f"the generator reached {si(reach, 'pps')} at most where it was asked for more"


def result_of(goal: Goal, trials: Sequence[SearchTrial], tolerance: float, bounds: Bounds | None) -> GoalResult:
    """Return the goal's result from its trials; `bounds` are those of the search, None if it ended early.

    The search treats a rate that the generator did not reach as lost frames, so that it tries lower rates. Here such a trial shows nothing
    about the DUT: a bound that depends on one is dropped, and the goal is marked.
    """
    counted = [t for t in trials if t.counts]
    points = [t.point(tolerance) for t in counted]
    trial_bounds = answer(points, goal.definition)
    irregular = [] if bounds is not None else [Irregular.ENDED]
    if bounds is not None:
        irregular += _irregular(trial_bounds, bounds, counted)
    inversions = 0
    if trial_bounds.upper_pps is not None:
        above = {load: at for load, at in by_load(points).items() if load > trial_bounds.upper_pps}
        inversions = sum(classify(at, goal.definition) is LoadVerdict.LOWER for at in above.values())
    return GoalResult(
        goal=goal,
        lower_pps=None if trial_bounds.lower_pps is None else Pps(trial_bounds.lower_pps),
        upper_pps=None if trial_bounds.upper_pps is None else Pps(trial_bounds.upper_pps),
        conditional_pps=None if trial_bounds.conditional_pps is None else Pps(trial_bounds.conditional_pps),
        irregular=tuple(irregular),
        inversions=inversions,
    )


def _irregular(rescored: RescoredBounds, bounds: Bounds, counted: Sequence[SearchTrial]) -> list[Irregular]:
    if (rescored.lower_pps, rescored.upper_pps) != (bounds.lower, bounds.upper):  # a bound of the search that the DUT did not set
        return [Irregular.GENERATOR if any(Mark.STARVED in t.marks for t in counted) else Irregular.UNLIKE]
    if rescored.lower_pps is None:
        silent = all(t.received_frames == 0 for t in counted)
        return [Irregular.SILENT if silent else Irregular.NO_LOWER]
    return [Irregular.NO_UPPER] if rescored.upper_pps is None else []


def seconds_of(goals: Sequence[Goal]) -> Seconds:
    """Return the time limit of a search for these goals: many times its usual duration."""
    return Seconds(600.0 + 40.0 * sum(g.sum_s for g in goals))
