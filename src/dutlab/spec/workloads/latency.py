"""Workload `latency`: one-way latency at shares of one rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import FrameRate, Share
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.wire_form import NAT64
from dutlab.spec.workloads.base import WorkloadDrive
from dutlab.spec.workloads.frames import CarryingTraffic, TimedFrames, each_once
from dutlab.spec.workloads.setting import CarryingSetting, DrainSaid, DurationSaid, NotNegative, PositiveRate, Setting, WarmupSaid, Words
from dutlab.units import Pps, Seconds, si

SEARCH_S = Seconds(30.0)
"""Estimated time of the short search."""
AROUND_TRIAL_S = Seconds(1.0)
MOST_SHARE = 10.0


class LatencySetting(CarryingSetting):
    """Setting of a trial: loads that are shares of one rate, one after another."""

    kind: Literal["latency"] = "latency"
    rate_pps: Annotated[PositiveRate | None, Words("of {:pps} a link", {None: "of a rate that a search finds"}, place=-1)] = None
    """Rate of each link, of which the loads are shares; None finds it by a short search."""
    shares_percent: Annotated[tuple[NotNegative, ...], Field(min_length=1), Words("loads of {} %")]
    idle_pps: Annotated[PositiveRate, Words("{} pps at 0 %")]
    """Rate for a share of 0."""
    duration_s: DurationSaid
    warmup_s: WarmupSaid
    drain_s: DrainSaid


class LatencyWorkload(CarryingTraffic, TimedFrames):
    """Latency at several loads (RFC 8219 section 7): one load per share of a rate."""

    features: ClassVar[tuple[tuple[Loc, GeneratorFeature], ...]] = (((), GeneratorFeature.RATE), ((), GeneratorFeature.LATENCY))
    setting: ClassVar[type[Setting]] = LatencySetting
    forms: ClassVar[frozenset[str]] = frozenset({NAT64})

    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate(64),))
    rate: FrameRate | None = None
    """Rate of each link, of which the loads are shares; None finds one without loss by a short search."""
    shares: tuple[Share, ...] = (0.0, 0.1, 0.5, 0.9, 1.0, 1.1)
    idle_rate: FrameRate = Pps(1000.0)
    """Rate for a share of 0."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that there are shares without duplicates, and that shares and rates are in range."""
        yield from super().cross_faults(data, made)
        if made is None:
            return
        yield from each_once("shares", [f"{s:g}" for s in made.shares])
        yield from (
            fault(("shares", i), f"must be 0% to {MOST_SHARE:.0%}", FaultKind.RANGE)
            for i, s in enumerate(made.shares)
            if not 0 <= s <= MOST_SHARE
        )
        if made.rate is not None and made.idle_rate > made.rate and "idle_rate" in data:
            yield fault(
                ("idle_rate",),
                f"{si(made.idle_rate, 'pps')} is above rate, {si(made.rate, 'pps')}: the load at 0% is the lowest",
                FaultKind.RANGE,
            )

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one load (WorkloadDrive) per set of links and frame size."""
        each = self.trial_s + AROUND_TRIAL_S
        seconds = Seconds(len(self.shares) * each + (SEARCH_S if self.rate is None else 0.0))
        shares = tuple(round(s * 100, 9) for s in self.shares)
        for links, mix in self.sized(every_link):
            setting = LatencySetting(
                frame_size=mix,
                generator=self.generator,
                traffic=self.traffic,
                rate_pps=self.rate,
                shares_percent=shares,
                idle_pps=min(self.idle_rate, self.rate or self.idle_rate),
                duration_s=self.duration,
                warmup_s=self.warmup,
                drain_s=self.drain,
            )
            yield WorkloadDrive(links, setting, seconds)

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also a fault for a rate above line rate."""
        yield from super().incompatibilities(bounds)
        yield from self.above_line_rate(("rate",), self.rate, bounds)
