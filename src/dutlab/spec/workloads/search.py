"""Workload `search`: the highest rates at which the DUT meets goals, for each frame size."""

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
from dutlab.spec.wire_form import NAT64, VLAN
from dutlab.spec.workloads.base import LONGEST_TRIAL, WorkloadDrive
from dutlab.spec.workloads.frames import CarryingTraffic, FramesAround, outside
from dutlab.spec.workloads.search_loads import (
    CHOICE_OF_LOADS,
    ExpectedRates,
    ExpectedSaid,
    LoadsBy,
    LoadsBySaid,
    expectation_faults,
    expected_of,
)
from dutlab.spec.workloads.setting import (
    CarryingSetting,
    DrainSaid,
    GoalsSaid,
    Identity,
    Params,
    PositiveRate,
    SecondsLong,
    Setting,
    WarmupSaid,
    Words,
    identity_of,
)
from dutlab.units import RFC2544_FRAME_SIZES, Seconds, si

AROUND_TRIAL_S = Seconds(0.5)
"""Time in which the generator begins and ends a trial."""
STEPS_TO_A_WIDTH = 12
"""Estimated number of first trials: a rate halved twelve times is less than half of a width of 0.05 %."""
TRIALS_OF_A_LOAD = 1.6
"""Estimated number of trials per load: in full at the lower bound, mostly stopped early at the upper."""


class SearchGoal(SpecModel):
    """One goal of a search (RFC 9971), as written in the file."""

    name: str
    loss: Share
    """Goal Loss Ratio: a trial that loses more is bad."""
    exceed: Share
    """Goal Exceed Ratio: share of the trial seconds that may be bad."""
    final: Duration
    """Goal Final Trial Duration: shortest duration of a trial that counts in full."""
    sum: Duration
    """Goal Duration Sum: trial seconds that decide on a load."""
    width: Share = WIDTH
    """Goal Width: distance of the bounds, as a share of the upper one, at which the search ends."""
    initial: Duration = FIRST_TRIALS
    """Goal Initial Trial Duration: duration of the first trials."""
    steps: int = 2
    """Number of coarser targets between the initial and the final duration."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check the goal for contradictions."""
        return (fault((key,), what) for key, what in goal_faults(self.goal))

    @property
    def goal(self) -> Goal:
        """The goal in the form of the methods."""
        return Goal(self.name, self.loss, self.exceed, self.final, self.sum, self.width, self.initial, self.steps)


class EarlyStop(enum.Enum):
    """Rule to stop a trial that can no longer meet any goal, in the words of the experiment file."""

    AT_ONCE = "at-once"
    NEVER = "never"


class AgainAtEnd(enum.Enum):
    """Bounds that are tried again at the end of the search, in the words of the experiment file."""

    UPPER = "upper"
    """An upper bound found only by short trials is tried in a full trial."""
    BOTH = "both"
    """The lower bound is also tried, after all other loads."""


class SearchSetting(CarryingSetting):
    """Setting of a trial: one search for all goals."""

    kind: Literal["search"] = "search"
    left_out: ClassVar[frozenset[str]] = CarryingSetting.left_out | CHOICE_OF_LOADS

    preset: Annotated[str | None, Words("search for {}", place=-1)] = None
    """Names of the presets of the goals; None for other goals."""
    goals: GoalsSaid
    lowest_pps: Annotated[PositiveRate | None, Words("from {} pps")] = None
    """Lowest rate of the search on each link; None is a thousandth of the highest."""
    highest_pps: Annotated[PositiveRate | None, Words("up to {} pps")] = None
    """Highest rate of the search on each link; None is line rate, or the generator's maximum."""
    warmup_s: WarmupSaid
    drain_s: DrainSaid
    budget_s: Annotated[SecondsLong | None, Words("{} s at most")] = None
    early_stop: Annotated[EarlyStop, Words("early stop {}", {EarlyStop.AT_ONCE.value: ""}, place=1)] = EarlyStop.AT_ONCE
    again_at_end: Annotated[AgainAtEnd, Words("again at end {}", {AgainAtEnd.UPPER.value: ""}, place=1)] = AgainAtEnd.UPPER
    loads_by: LoadsBySaid = LoadsBy.LIBRARY
    expected_pps: ExpectedSaid = None
    """Lower bound that the search expects on each link and tries first; None without one."""

    @property
    def at_limit_s(self) -> Seconds:
        """Duration of a full trial of the longest goal."""
        return Seconds(self.warmup_s + max(goal.final_s for goal in self.goals) + self.drain_s)

    @cached_property
    def identity(self) -> Identity:
        """Values that distinguish it; the expected rate only changes the order of trials, so results with different ones compare."""
        return identity_of(self.params, without={"expected_pps"})

    @cached_property
    def params(self) -> Params:
        """Parameters, without the goals where a preset names them."""
        return {**super().params, **({} if self.preset is None else {"goals": None})}


class SearchWorkload(CarryingTraffic, FramesAround):
    """Highest rates at which the DUT meets goals, with one search for all goals (RFC 9971; RFC 2544 section 26.1)."""

    setting: ClassVar[type[Setting]] = SearchSetting
    forms: ClassVar[frozenset[str]] = frozenset({NAT64, VLAN})

    preset: str | None = None
    """Names of presets, separated by commas."""
    goals: tuple[SearchGoal, ...] | None = None
    frame_sizes: FrameSizes = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in RFC2544_FRAME_SIZES))
    lowest: FrameRate | None = None
    """Lowest rate of the search on each link; None is a thousandth of the highest."""
    highest: FrameRate | None = None
    """Highest rate of the search on each link; None is line rate, or the generator's maximum."""
    warmup: Duration = Seconds(0.5)
    budget: Duration | None = None
    """Time limit of the search; None is many times the time that the goals need."""
    early_stop: EarlyStop = EarlyStop.AT_ONCE
    again_at_end: AgainAtEnd = AgainAtEnd.UPPER
    """Bounds that are tried again at the end of the search, for goals with an exceed ratio of 0."""
    loads_by: LoadsBy = LoadsBy.LIBRARY
    """Rule that chooses the loads; `fit` is for goals with an exceed ratio of 0."""
    expected: ExpectedRates | None = None
    """Expected lower bound on each link, which is tried first; only for loads by a fit."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are goals that one search can serve, and a range of rates."""
        yield from super().own_faults()
        yield from self.faults_of_goals()
        if self.lowest is not None and self.highest is not None and self.lowest >= self.highest:
            yield fault(("lowest",), f"{si(self.lowest, 'pps')} is not below highest, {si(self.highest, 'pps')}", FaultKind.RANGE)
        yield from outside([("budget", self.budget, 1, LONGEST_TRIAL)])
        yield from expectation_faults(self.expected, self.frame_sizes, self.loads_by)

    def faults_of_goals(self) -> list[InitErrorDetails]:
        """Return faults: goals together with a preset, or goals that one search cannot serve."""
        if self.preset is not None and self.goals is not None:
            return [fault(("goals",), "cannot be combined with a preset; write either", FaultKind.CONFLICT)]
        try:
            wanted = self.wanted
        except InputError as error:
            return [fault(("preset",) if self.goals is None else ("goals",), str(error))]
        if self.loads_by is LoadsBy.FIT and (lenient := [goal.name for goal in wanted if goal.exceed_ratio > 0]):
            return [fault(("loads_by",), f"a fit is for goals with exceed: 0, and {', '.join(lenient)} has more", FaultKind.CONFLICT)]
        return []

    @property
    def wanted(self) -> tuple[Goal, ...]:
        """Goals of the search. Raises InputError."""
        if self.goals is not None:
            return checked([entry.goal for entry in self.goals])
        return goals_named(self.preset or PRESET)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links and size."""
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
                loads_by=self.loads_by,
                expected_pps=expected_of(self.expected, mix),
            )
            yield WorkloadDrive(links, setting, self._seconds(), mix, self._offers())

    def _seconds(self) -> Seconds:
        """Return the approximate time of a search, which is not known in advance."""
        goals = self.wanted
        around, initial = self.warmup + self.drain + AROUND_TRIAL_S, min(goal.initial_s for goal in goals)
        at_limit = sum(TRIALS_OF_A_LOAD * (goal.sum_s + goal.sum_s / goal.final_s * around) for goal in goals)
        likely = STEPS_TO_A_WIDTH * (initial + around) + at_limit
        return Seconds(likely if self.budget is None else min(likely, self.budget))

    def _offers(self) -> int:
        """Return the approximate number of trials of a search."""
        return round(STEPS_TO_A_WIDTH + sum(TRIALS_OF_A_LOAD * goal.sum_s / goal.final_s for goal in self.wanted))

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield also the feature for a rate."""
        yield from super().asks()
        yield (), GeneratorFeature.RATE

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for rates above line rate."""
        yield from super().incompatibilities(bounds)
        for key, rate in (("lowest", self.lowest), ("highest", self.highest)):
            yield from self.above_line_rate((key,), rate, bounds)
