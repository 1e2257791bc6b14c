"""Workload `sweep`: frames of each size at each rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.rates import Rate, RateUnit
from dutlab.spec.traffic import Directions
from dutlab.spec.wire_form import NAT64, VLAN
from dutlab.spec.workloads.base import WorkloadDrive
from dutlab.spec.workloads.frames import ROUNDING, CarryingTraffic, TimedFrames, each_once
from dutlab.spec.workloads.setting import LoadSetting, Setting
from dutlab.units import RFC2544_FRAME_SIZES, Pps, line_rate, si


class SweepSetting(LoadSetting):
    """Setting of a trial: one frame size at one rate."""

    kind: Literal["sweep"] = "sweep"


class SweepWorkload(CarryingTraffic, TimedFrames):
    """Frames of each size at each rate: loss, and latency where the generator measures it (the trial of RFC 2544 section 26.3)."""

    setting: ClassVar[type[Setting]] = SweepSetting
    forms: ClassVar[frozenset[str]] = frozenset({NAT64, VLAN})
    spaced_bursts: ClassVar[bool] = True

    frame_sizes: FrameSizes = Field(default_factory=lambda: tuple(Mix.model_validate(n) for n in RFC2544_FRAME_SIZES))
    rates: tuple[Rate, ...] = (None,)
    """Rates on each link; None, written `max`, is full speed."""
    directions: Literal["forward", "both"] = "forward"
    """Directions of the frames; `both` sends at the same rate from sink to source too."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are rates without duplicates, and that each fits bursts and duration."""
        yield from super().own_faults()
        yield from each_once("rates", [str(r) for r in self.rates])
        if self.traffic.burst is not None and None in self.rates:
            yield fault(
                ("traffic", "burst"),
                "a load at full speed has no pauses between bursts; write rates other than max",
                FaultKind.CONFLICT,
            )
        few = [i for i, r in enumerate(self.rates) if r is not None and r.unit is RateUnit.PPS and r.value * self.duration < 1 - ROUNDING]
        yield from (
            fault(("rates", i), f"not one frame in {self.duration:g}s; raise the rate or the duration", FaultKind.RANGE) for i in few
        )

    @property
    def sends_back(self) -> bool:
        """True if `directions` is `both`."""
        return self.directions == "both"

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return super().count(every_link) * len(self.rates)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links, size and rate."""
        for links, mix in self.sized(every_link):
            for rate in self.rates:
                setting = SweepSetting(
                    frame_size=mix,
                    generator=self.generator,
                    rate=rate,
                    traffic=self.traffic,
                    directions=Directions(self.directions),
                    duration_s=self.duration,
                    warmup_s=self.warmup,
                    drain_s=self.drain,
                )
                yield WorkloadDrive(links, setting, self.trial_s, mix)

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield also the features for rates and directions."""
        yield from super().asks()
        for i, rate in enumerate(self.rates):
            if rate is not None:
                yield ("rates", i), GeneratorFeature.RATE
        if self.directions == "both":
            yield ("directions",), GeneratorFeature.BOTH_WAYS

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for rates above line rate, and for shares of an unknown speed."""
        yield from super().incompatibilities(bounds)
        for name in self.driven(bounds):
            speed = bounds[name].speed
            for i, rate in enumerate(self.rates):
                if rate is None:
                    continue
                means = [mean for mix in self.frame_sizes if (mean := rate.pps(mix.mean, speed)) is not None]
                if (burst := self.traffic.burst) is not None and (what := burst.too_fast(max(means, default=Pps(0.0)))):
                    yield ("traffic", "burst", "rate"), what
                if speed is None:
                    if rate.unit is RateUnit.PERCENT:
                        yield ("rates", i), f"{rate} of what? Link {name} has no speed; write it in the testbed, or frames a second here"
                    continue
                slow = [mix for mix in self.frame_sizes if (rate.pps(mix.mean, speed) or 0) > line_rate(speed, mix.mean) * (1 + ROUNDING)]
                if slow:
                    ceiling = si(line_rate(speed, slow[0].mean), "pps")
                    asked = si(rate.pps(slow[0].mean, speed) or 0, "pps")
                    yield ("rates", i), f"{asked} of frame size {slow[0].name} is more than link {name} carries ({ceiling})"
