"""Workload `quick-test`: NDR, PDR and latency at half of the NDR, in about a minute per frame size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration
from dutlab.spec.goals import PRESETS, Goal
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.workloads.base import WorkloadDrive
from dutlab.spec.workloads.frames import FrameWorkload, outside
from dutlab.spec.workloads.search import AROUND_TRIAL_S, TRIALS_OF_A_LOAD
from dutlab.spec.workloads.setting import SCALE, DrainSaid, FrameSetting, GoalsSaid, Positive, SecondsLong, Setting, WarmupSaid, Words
from dutlab.units import Seconds

SMALLEST_SCALE = 0.05
"""Smallest scale; with less, trials would be too short for a software generator to settle."""
DRAIN = Seconds(0.2)
_LONGEST_BUDGET = Seconds(3600.0)
WARMUP = Seconds(0.5)
_TRIALS = 30
"""Estimated number of trials of a search with this preset."""


class QuickTestSetting(FrameSetting):
    """Setting of a trial: a short search, and a latency trial at half of the rate without loss."""

    kind: Literal["quick-test"] = "quick-test"
    goals: GoalsSaid
    warmup_s: WarmupSaid
    drain_s: DrainSaid
    budget_s: Annotated[SecondsLong, Words("{} s at most")]
    latency_s: Annotated[SecondsLong, Words("latency over {} s")]
    """Duration of the latency trial at half load."""
    scale: Annotated[Positive, SCALE]


class QuickTestWorkload(FrameWorkload):
    """Search for the goals of the preset `quick`, then a latency trial at half of the rate without loss."""

    setting: ClassVar[type[Setting]] = QuickTestSetting

    frame_sizes: FrameSizes = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in (64, "imix", 1518)))
    budget: Duration = Seconds(55.0)
    """Time limit of the search for each frame size; `scale` does not change it."""
    latency: Duration = Seconds(5.0)
    """Duration of the latency trial at half load."""
    scale: float = 1.0
    """Factor for the durations of trials and warm-ups."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that times and scale are in range."""
        yield from super().own_faults()
        yield from outside([("budget", self.budget, 1, _LONGEST_BUDGET), ("latency", self.latency, 0.1, _LONGEST_BUDGET)])
        yield from outside([("scale", self.scale, SMALLEST_SCALE, 1)], unit="")

    @property
    def goals(self) -> tuple[Goal, ...]:
        """Goals of the preset, with scaled durations."""
        return tuple(
            replace(
                goal,
                final_s=Seconds(goal.final_s * self.scale),
                sum_s=Seconds(goal.sum_s * self.scale),
                initial_s=Seconds(goal.initial_s * self.scale),
            )
            for goal in PRESETS["quick"]
        )

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links and size."""
        for links, mix in self.sized(every_link):
            setting = QuickTestSetting(
                frame_size=mix,
                generator=self.generator,
                goals=self.goals,
                warmup_s=Seconds(WARMUP * self.scale),
                drain_s=DRAIN,
                budget_s=self.budget,
                latency_s=Seconds(self.latency * self.scale),
                scale=self.scale,
            )
            yield WorkloadDrive(links, setting, self._seconds(), mix, _TRIALS)

    def _seconds(self) -> Seconds:
        """Return the approximate time of a size; the length of a search is not known in advance."""
        trials = _TRIALS * (WARMUP * self.scale + DRAIN + AROUND_TRIAL_S) + sum(TRIALS_OF_A_LOAD * goal.sum_s for goal in self.goals)
        return Seconds(min(self.budget, trials) + self.latency * self.scale + AROUND_TRIAL_S)
