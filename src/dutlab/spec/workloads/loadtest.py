"""Workload `loadtest`: a load that rises from 0 to a share of line rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import BitRate, Duration, FrameRate, Share
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault_of_key
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.base import LONGEST_TRIAL, WorkloadDrive
from dutlab.spec.workloads.frames import ROUNDING, FramesAround, outside
from dutlab.spec.workloads.setting import (
    DirectedSetting,
    DrainSaid,
    NotNegative,
    Positive,
    SecondsLong,
    SecondsOrNone,
    Setting,
    WarmupSaid,
    Words,
)
from dutlab.units import Pps, Seconds, si

SHORTEST_RAMP = Seconds(2.0)
"""Shortest ramp: it is read once a second."""
MOST_TARGET = 10.0
AT_LIMIT_S = Seconds(10.0)
"""Time for which the load of the saturated second is offered again."""


class LoadtestSetting(DirectedSetting):
    """Setting of a trial: one ramp."""

    kind: Literal["loadtest"] = "loadtest"
    warmup_pps: Annotated[NotNegative, Words("warm-up at {} pps")]
    target_percent: Annotated[Positive, Words("to {} % of line rate")]
    """Load at the end of the ramp, in percent of line rate."""
    rampup_s: Annotated[SecondsLong, Words("ramp of {} s")]
    hold_s: Annotated[SecondsOrNone, Words("{} s hold")]
    line_rate_bps_l1: Annotated[Positive | None, Words("line rate bps l1 {}", place=1)] = None
    """Line rate in bits a second on the wire; None is the link's speed, or a reference where it has none."""
    threshold_percent: Annotated[float, Field(ge=0, lt=100), Words("saturated above {} % loss")]
    warmup_s: WarmupSaid
    drain_s: DrainSaid

    @property
    def at_limit_s(self) -> Seconds:
        """Duration of the repeated load of the saturated second, with its drain."""
        return Seconds(AT_LIMIT_S + self.drain_s)


class LoadtestWorkload(FramesAround):
    """Warm-up at a low rate, linear ramp from 0 to a target, and hold, read once a second."""

    setting: ClassVar[type[Setting]] = LoadtestSetting

    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate("imix"),))
    warmup_rate: FrameRate = Pps(1000.0)
    warmup: Duration = Seconds(30.0)
    target: Share = 1.0
    """Load at the end of the ramp in each direction, as a share of line rate."""
    rampup: Duration = Seconds(600.0)
    hold: Duration = Seconds(30.0)
    directions: Literal["both", "forward"] = "both"
    line_rate: BitRate | None = None
    """Line rate to which shares refer; None is the link's speed, or 1 Gbit/s where it has none."""
    threshold: Share = 0.001
    """Share of lost frames above which a second has failed."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that times, target and threshold are in range."""
        yield from super().own_faults()
        yield from outside(
            [
                ("rampup", self.rampup, SHORTEST_RAMP, LONGEST_TRIAL),
                ("hold", self.hold, 0, LONGEST_TRIAL),
            ]
        )
        if not 0 < self.target <= MOST_TARGET:
            yield fault_of_key("target", f"must be more than 0 and at most {MOST_TARGET * 100:g}%", FaultKind.RANGE)
        if self.threshold >= 1:
            yield fault_of_key("threshold", "must be below 100%: more than everything cannot be lost", FaultKind.RANGE)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links and frame size."""
        for links, mix in self.sized(every_link):
            setting = LoadtestSetting(
                frame_size=mix,
                generator=self.generator,
                directions=Directions(self.directions),
                warmup_pps=self.warmup_rate,
                target_percent=round(self.target * 100, 9),
                rampup_s=self.rampup,
                hold_s=self.hold,
                line_rate_bps_l1=self.line_rate,
                threshold_percent=round(self.threshold * 100, 9),
                warmup_s=self.warmup,
                drain_s=self.drain,
            )
            lasts = self.rampup + self.hold
            yield WorkloadDrive(links, setting, Seconds(self.warmup + lasts + self.drain), steps=math.ceil(lasts))

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield also the feature for a rate that changes in time."""
        yield from super().asks()
        yield (), GeneratorFeature.PROFILE
        if self.directions == "both":
            yield ("directions",), GeneratorFeature.BOTH_WAYS

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for a target above a link's speed, and for links of different speeds in one set."""
        yield from super().incompatibilities(bounds)
        for name in self.driven(bounds):
            speed = bounds[name].speed
            wanted = (self.line_rate or speed or 0.0) * self.target
            if speed is not None and wanted > speed * (1 + ROUNDING):
                yield ("target",), f"{si(wanted, 'bit/s')} is more than link {name} carries ({si(speed, 'bit/s')})"
        for i, links in enumerate(self.link_sets(bounds)):
            if self.line_rate is None and len({bounds[name].speed for name in links}) > 1:
                yield ("links", i) if self.links is not None else (), "links of different speeds; write a line_rate, or a set for each"
