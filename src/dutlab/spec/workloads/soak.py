"""Workload `soak`: one rate for a long time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, FrameRate, Share
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault, fault_of_key
from dutlab.spec.wire_form import NAT64, VLAN
from dutlab.spec.workloads.base import WorkloadDrive
from dutlab.spec.workloads.frames import HELD_AND_WATCHED, CarryingTraffic, TimedFrames
from dutlab.spec.workloads.setting import (
    AT_RATE,
    CarryingSetting,
    DrainSaid,
    DurationSaid,
    Positive,
    PositiveRate,
    Setting,
    WarmupSaid,
    Words,
)
from dutlab.units import Pps, Seconds

SMALLEST_TARGET, LARGEST_TARGET = 1e-9, 0.1
AROUND_TRIALS = 0.2
"""Share that the begin and end of trials add to the sending time of a search, for the estimate."""


class SoakSetting(CarryingSetting):
    """Setting of a trial: a share of a rate for a long time. With `target_loss_percent`, it finds the rate with this loss instead."""

    kind: Literal["soak"] = "soak"
    left_out: ClassVar[frozenset[str]] = CarryingSetting.left_out | {"target_loss_percent"}

    rate_pps: Annotated[PositiveRate, AT_RATE]
    """Rate of each link."""
    share_percent: Annotated[Positive, Words("{} % of it")]
    threshold_percent: Annotated[float, Field(ge=0, lt=100), Words("saturated above {} % loss")]
    target_loss_percent: Annotated[Positive | None, Words("for a loss of {} %")] = None
    duration_s: DurationSaid
    warmup_s: WarmupSaid
    drain_s: DrainSaid


class SoakWorkload(CarryingTraffic, TimedFrames):
    """Load at a share of a rate for hours, with a list of the seconds that lost frames."""

    features: ClassVar[tuple[tuple[Loc, GeneratorFeature], ...]] = HELD_AND_WATCHED
    setting: ClassVar[type[Setting]] = SoakSetting
    forms: ClassVar[frozenset[str]] = frozenset({NAT64, VLAN})
    spaced_bursts: ClassVar[bool] = True
    shortest: ClassVar[Seconds] = Seconds(3.0)
    """Shortest duration: counters are read once a second, and fewer readings cannot locate a loss in time."""

    rate: FrameRate
    """Rate of each link, usually the result of a search."""
    share: Share = 0.9
    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate(64),))
    duration: Duration = Seconds(4 * 3600.0)
    threshold: Share = 0.0
    """Share of lost frames above which a second counts as one with loss."""
    target: Share | None = None
    """Target loss ratio. If given, trials find the rate at which this share is lost, up to `rate` times `share`, in place of one load."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that load and times are in range."""
        yield from super().own_faults()
        if self.share <= 0:
            yield fault_of_key("share", "must be more than 0", FaultKind.RANGE)
        if not 0 <= self.threshold < 1:
            yield fault_of_key("threshold", "must be 0% to less than 100%", FaultKind.RANGE)
        if self.target is not None and not SMALLEST_TARGET <= self.target <= LARGEST_TARGET:
            yield fault_of_key("target", f"must be {SMALLEST_TARGET:.7%} to {LARGEST_TARGET:.0%}", FaultKind.RANGE)
        if self.target is not None and self.threshold:
            yield fault(("threshold",), "does not apply to trials that search a rate; leave it or `target` out", FaultKind.CONFLICT)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links and frame size."""
        seconds = self.trial_s if self.target is None else self.duration * (1 + AROUND_TRIALS)
        for links, mix in self.sized(every_link):
            setting = SoakSetting(
                frame_size=mix,
                generator=self.generator,
                traffic=self.traffic,
                rate_pps=self.rate,
                share_percent=round(self.share * 100, 9),
                threshold_percent=round(self.threshold * 100, 9),
                target_loss_percent=None if self.target is None else round(self.target * 100, 12),
                duration_s=self.duration,
                warmup_s=self.warmup,
                drain_s=self.drain,
            )
            yield WorkloadDrive(links, setting, Seconds(seconds), mix)

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for a load above line rate, and for bursts that are too slow for the load."""
        yield from super().incompatibilities(bounds)
        yield from self.above_line_rate(("rate",), Pps(self.rate * self.share), bounds)
        if (burst := self.traffic.burst) is not None and (what := burst.too_fast(Pps(self.rate * self.share))):
            yield ("traffic", "burst", "rate"), what
