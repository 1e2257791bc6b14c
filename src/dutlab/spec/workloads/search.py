"""Workload `search`: the rates at which the DUT stops meeting goals, for each frame size."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.choices import PRESET
from dutlab.errors import FaultKind, InputError
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, FrameRate, Share
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.goals import FIRST_TRIALS, WIDTH, Goal, checked, goal_faults, goals_named
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, SpecModel, fault
from dutlab.spec.workloads.base import LONGEST_TRIAL, WorkloadDrive
from dutlab.spec.workloads.frames import CarryingTraffic, FramesAround, outside
from dutlab.spec.workloads.setting import (
    CarryingSetting,
    DrainSaid,
    GoalsSaid,
    Params,
    PositiveRate,
    SecondsLong,
    Setting,
    WarmupSaid,
    Words,
)
from dutlab.units import RFC2544_FRAME_SIZES, Seconds, si

AROUND_TRIAL_S = Seconds(0.5)
"""Time for the generator to begin and end a trial."""
STEPS_TO_A_WIDTH = 12
"""First trials of a search, to count with: halving 100 % of a rate twelve times is less than half of a width of 0.05 %."""
TRIALS_OF_A_LOAD = 1.6
"""Trials of a load, for estimates: at the lower bound in full, at the upper mostly stopped early."""


class SearchGoal(SpecModel):
    """One goal of a search (RFC 9971), as it is written."""

    name: str
    loss: Share
    """Goal Loss Ratio: a trial that loses more is bad."""
    exceed: Share
    """Goal Exceed Ratio: share of the seconds that may be bad."""
    final: Duration
    """Goal Final Trial Duration."""
    sum: Duration
    """Goal Duration Sum."""
    width: Share = WIDTH
    """Goal Width."""
    initial: Duration = FIRST_TRIALS
    """Goal Initial Trial Duration."""
    steps: int = 2
    """Coarser targets on the way from the initial to the final duration."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check the goal for contradictions."""
        return (fault((key,), what) for key, what in goal_faults(self.goal))

    @property
    def goal(self) -> Goal:
        """Return it as methods know it."""
        return Goal(self.name, self.loss, self.exceed, self.final, self.sum, self.width, self.initial, self.steps)


class EarlyStop(enum.Enum):
    """Rule whether a trial that is lost for every goal is stopped; in the words of the experiment file."""

    AT_ONCE = "at-once"
    NEVER = "never"


class AgainAtEnd(enum.Enum):
    """Bounds that are tried once more when the search is done; in the words of the experiment file."""

    UPPER = "upper"
    """An upper bound that rests on trials shorter than the full one, in a full trial."""
    BOTH = "both"
    """And the lower bound, after everything else was offered."""


class SearchSetting(CarryingSetting):
    """A search for every goal at once."""

    kind: Literal["search"] = "search"
    preset: Annotated[str | None, Words("search for {}", place=-1)] = None
    """Name of the goals, if they are of presets."""
    goals: GoalsSaid
    lowest_pps: Annotated[PositiveRate | None, Words("from {} pps")] = None
    """Lowest rate of each link; None is a thousandth of the highest."""
    highest_pps: Annotated[PositiveRate | None, Words("up to {} pps")] = None
    """Highest rate of each link; None is the line rate, or as far as the generator reaches."""
    warmup_s: WarmupSaid
    drain_s: DrainSaid
    budget_s: Annotated[SecondsLong | None, Words("{} s at most")] = None
    early_stop: Annotated[EarlyStop, Words("early stop {}", {EarlyStop.AT_ONCE.value: ""}, place=1)] = EarlyStop.AT_ONCE
    again_at_end: Annotated[AgainAtEnd, Words("again at end {}", {AgainAtEnd.UPPER.value: ""}, place=1)] = AgainAtEnd.UPPER

    @property
    def at_limit_s(self) -> Seconds:
        """A full trial of the longest goal."""
        return Seconds(self.warmup_s + max(goal.final_s for goal in self.goals) + self.drain_s)

    @cached_property
    def params(self) -> Params:
        """Goals of a preset have its name."""
        return {**super().params, **({} if self.preset is None else {"goals": None})}


class SearchWorkload(CarryingTraffic, FramesAround):
    """The highest rates at which the DUT meets goals, all goals in one search (RFC 9971; RFC 2544 section 26.1)."""

    setting: ClassVar[type[Setting]] = SearchSetting

    preset: str | None = None
    """Names of presets, by commas."""
    goals: tuple[SearchGoal, ...] | None = None
    frame_sizes: FrameSizes = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in RFC2544_FRAME_SIZES))
    lowest: FrameRate | None = None
    """Lowest rate of each link; None is a thousandth of the highest."""
    highest: FrameRate | None = None
    """Highest rate of each link; None is the line rate, or as far as the generator reaches."""
    warmup: Duration = Seconds(0.5)
    budget: Duration | None = None
    """Time limit of the search; None is many times what the goals need."""
    early_stop: EarlyStop = EarlyStop.AT_ONCE
    again_at_end: AgainAtEnd = AgainAtEnd.UPPER
    """Bounds of goals without a bad trial that are tried again when the search is done."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are goals that one search can serve, and a range of rates."""
        yield from super().own_faults()
        yield from self.faults_of_goals()
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            yield fault(("lowest",), f"{si(self.lowest, 'pps')} is not below highest, {si(self.highest, 'pps')}", FaultKind.RANGE)
        yield from outside([("budget", self.budget, 1, LONGEST_TRIAL)])

    def faults_of_goals(self) -> list[InitErrorDetails]:
        """Goals and preset that exclude one another, and goals that no one search can serve."""
        if self.preset is not None and self.goals is not None:
            return [fault(("goals",), "cannot be combined with a preset; write either", FaultKind.CONFLICT)]
        try:
            self.wanted  # noqa: B018 -- found out by asking
        except InputError as error:
            return [fault(("preset",) if self.goals is None else ("goals",), str(error))]
        return []

    @property
    def wanted(self) -> tuple[Goal, ...]:
        """The goals. Raises InputError."""
        if self.goals is not None:
            return checked([entry.goal for entry in self.goals])
        return goals_named(self.preset or PRESET)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """One a set of links and size."""
        preset = (self.preset or PRESET) if self.goals is None else None
        for links, mix in self.sized(every_link):
            setting = SearchSetting(
                frame_size=mix,
                generator=self.generator,
                traffic=self.traffic,
                preset=preset,
                goals=self.wanted,
                lowest_pps=self.lowest,
                highest_pps=self.highest,
                warmup_s=self.warmup,
                drain_s=self.drain,
                budget_s=self.budget,
                early_stop=self.early_stop,
                again_at_end=self.again_at_end,
            )
            yield WorkloadDrive(links, setting, self._seconds(), mix, self._offers())

    def _seconds(self) -> Seconds:
        """About what a search takes; it cannot be known before."""
        goals = self.wanted
        around, initial = self.warmup + self.drain + AROUND_TRIAL_S, min(goal.initial_s for goal in goals)
        at_limit = sum(TRIALS_OF_A_LOAD * (goal.sum_s + goal.sum_s / goal.final_s * around) for goal in goals)
        likely = STEPS_TO_A_WIDTH * (initial + around) + at_limit
        return Seconds(likely if self.budget is None else min(likely, self.budget))

    def _offers(self) -> int:
        """About how many trials a search makes."""
        return round(STEPS_TO_A_WIDTH + sum(TRIALS_OF_A_LOAD * goal.sum_s / goal.final_s for goal in self.wanted))

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """It chooses its rates."""
        yield from super().asks()
        yield (), GeneratorFeature.RATE

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Frames longer than an MTU, and rates above a line rate."""
        yield from super().incompatibilities(bounds)
        for key, rate in (("lowest", self.lowest), ("highest", self.highest)):
            yield from self.above_line_rate((key,), rate, bounds)
