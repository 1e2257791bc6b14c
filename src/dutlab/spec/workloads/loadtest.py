"""Workload `loadtest`: a load that rises from 0 to a share of line rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import BitRate, Duration, FrameRate, Share, YesNo
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault_of_key
from dutlab.spec.traffic import MOST_FLOWS, Directions, FlowSet, Traffic
from dutlab.spec.wire_form import NAT64, VLAN
from dutlab.spec.workloads.base import LONGEST_TRIAL, WorkloadDrive
from dutlab.spec.workloads.frames import ROUNDING, CarryingTraffic, FramesAround, each_once, outside
from dutlab.spec.workloads.setting import (
    ELSEWHERE,
    DirectedSetting,
    DrainSaid,
    FrameSetting,
    NotNegative,
    Params,
    Positive,
    SecondsLong,
    SecondsOrNone,
    Setting,
    TrafficSaid,
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

    left_out: ClassVar[frozenset[str]] = FrameSetting.left_out | {"traffic"}

    kind: Literal["loadtest"] = "loadtest"
    traffic: TrafficSaid = Field(default_factory=Traffic.usual)
    warmup_pps: Annotated[NotNegative, Words("warm-up at {} pps")]
    target_percent: Annotated[Positive, Words("to {} % of line rate")]
    """Load at the end of the ramp, in percent of line rate."""
    rampup_s: Annotated[SecondsLong, Words("ramp of {} s")]
    hold_s: Annotated[SecondsOrNone, Words("{} s hold")]
    line_rate_bps_l1: Annotated[Positive | None, Words("line rate {:bps}", place=1)] = None
    """Line rate in bits a second on the wire; None is the link's speed, or a reference where it has none."""
    threshold_percent: Annotated[float, Field(ge=0, lt=100), Words("saturated above {} % loss")]
    warmup_s: WarmupSaid
    drain_s: DrainSaid
    verify_traffic: Annotated[bool, ELSEWHERE] = False
    """True to send at the rate of the warm-up, before the ramp, until a person has looked at the traffic."""

    @cached_property
    def params(self) -> Params:
        """Parameters without `verify_traffic`, which does not change what is measured."""
        return {name: value for name, value in super().params.items() if name != "verify_traffic"}

    @property
    def flows(self) -> int:
        """Flows of the traffic in all directions."""
        return self.traffic.flow_count * len(self.directions.backs)

    @property
    def by_person(self) -> str:
        """Action of a person during the trial."""
        return f"look at the traffic of loadtest {self.size}" if self.verify_traffic else ""

    @property
    def at_limit_s(self) -> Seconds:
        """Duration of the repeated load of the saturated second, with its drain."""
        return Seconds(AT_LIMIT_S + self.drain_s)


_Flows = Annotated[int, Strict(), Field(ge=1, le=MOST_FLOWS)]
_MOST_PORTS = 65535


def _flows_of(count: int) -> FlowSet:
    """Return flows that differ in the source port; more than there are ports, also in the destination port."""
    if count <= _MOST_PORTS:
        return FlowSet(count=count, source_ports=count)
    ports = math.ceil(math.sqrt(count))
    return FlowSet(count=count, source_ports=ports, destination_ports=ports)


class LoadtestWorkload(CarryingTraffic, FramesAround):
    """Warm-up at a low rate, linear ramp from 0 to a target, and hold, read once a second."""

    setting: ClassVar[type[Setting]] = LoadtestSetting
    forms: ClassVar[frozenset[str]] = frozenset({NAT64, VLAN})

    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate("imix"),))
    flows: tuple[_Flows, ...] | None = None
    """Numbers of flows in each direction, with a ramp for each; None are those of `traffic`."""
    verify_traffic: YesNo = False
    """Send at `warmup_rate` before each ramp until a person has looked at the traffic."""
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
        if self.traffic.burst is not None:
            yield fault_of_key("traffic", "a ramp has no bursts: its frames are sent evenly; leave burst out", FaultKind.CONFLICT)
        if self.flows is not None:
            yield from each_once("flows", [str(count) for count in self.flows])
            if self.traffic.flows != FlowSet.usual():
                yield fault_of_key("flows", "cannot be combined with flows in traffic; write one of them", FaultKind.CONFLICT)
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

    @property
    def sends_back(self) -> bool:
        """True if `directions` is `both`."""
        return self.directions == "both"

    @property
    def _traffics(self) -> list[Traffic]:
        if self.flows is None:
            return [self.traffic]
        return [self.traffic.model_copy(update={"flows": _flows_of(count)}) for count in self.flows]

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return super().count(every_link) * len(self._traffics)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links, frame size and number of flows."""
        for (links, mix), traffic in product(self.sized(every_link), self._traffics):
            setting = LoadtestSetting(
                frame_size=mix,
                generator=self.generator,
                traffic=traffic,
                verify_traffic=self.verify_traffic,
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
        if max(self.flows or (1,)) > 1:
            yield ("flows",), GeneratorFeature.FLOWS
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
