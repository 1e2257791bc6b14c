"""Workload `bloat`: latency while TCP fills the queues of a link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import Duration, FrameRate
from dutlab.spec.model import fault_of_key
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.base import Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.frames import alone, each_once, outside
from dutlab.spec.workloads.iperf3 import MOST_STREAMS
from dutlab.spec.workloads.setting import LASTS, STREAMS, NotNegative, PositiveRate, SecondsLong, Setting, Words
from dutlab.units import Pps, Seconds

AROUND_S = Seconds(6.0)
"""Approximate time to start and stop the three probes."""
SPARE_S = 4
"""Approximate seconds for which the load continues after the measured time, until the last probe has begun."""


class LoadWay(Enum):
    """Direction in which TCP sends, seen from a client at the source."""

    UP = "up"
    """From source to sink."""
    DOWN = "down"
    """From sink to source."""
    BOTH = "both"

    @property
    def directions(self) -> Directions:
        """Directions of the load on the link."""
        return {LoadWay.UP: Directions.FORWARD, LoadWay.DOWN: Directions.BACK, LoadWay.BOTH: Directions.BOTH}[self]


class BloatSetting(Setting):
    """Setting of a trial: a TCP load in one direction or both, and probes before, during and after it."""

    kind: Literal["bloat"] = "bloat"
    load: Annotated[LoadWay, Words("load: {}", place=-1)]
    streams: Annotated[int, Field(ge=1, le=MOST_STREAMS), STREAMS]
    probe_pps: Annotated[PositiveRate, Words("probe of {:pps} each way")]
    connections_per_s: Annotated[NotNegative, Words("{} connections a second", {0: "no connections"})]
    idle_s: Annotated[SecondsLong, Words("{} s without load")]
    ramp_s: Annotated[int, Field(ge=1), Words("load begins {} s before it counts")]
    duration_s: Annotated[int, Field(ge=1), LASTS]
    settle_s: Annotated[SecondsLong, Words("up to {} s for queues to empty")]

    @property
    def ways(self) -> Directions:
        """Directions of the load."""
        return self.load.directions

    @property
    def flows(self) -> int:
        """Streams of the load, the probe in each direction, and connections."""
        connections = self.connections_per_s * (self.idle_s + self.duration_s)
        return self.streams * len(self.ways.backs) + 2 + int(connections)


class BloatWorkload(WorkloadModel):
    """Latency without load and under TCP load up, down and both at once; goodput, responsiveness, and time until the queues are empty."""

    tool: ClassVar[str] = "iperf3"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.IPERF3})
    setting: ClassVar[type[Setting]] = BloatSetting
    goes_to_sink: ClassVar[bool] = True
    own_frames: ClassVar[bool] = True

    loads: tuple[LoadWay, ...] = tuple(LoadWay)
    """Directions of the load; each is a trial."""
    streams: Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)] = 4
    """TCP connections of the load in each direction."""
    probe: FrameRate = Pps(200.0)
    """Frames a second of the latency probe, in each direction."""
    connections: Annotated[int, Strict(), Field(ge=0, le=1000)] = 20
    """New TCP connections a second, each with one request. Their times give the responsiveness. 0 makes none."""
    idle: Duration = Seconds(3.0)
    """Time of probing without load, before the load."""
    ramp: Duration = Seconds(3.0)
    """Time of load that does not count, while TCP finds its rate."""
    duration: Duration = Seconds(10.0)
    settle: Duration = Seconds(5.0)
    """Longest wait after the load; a queue that is not empty by then is reported."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are loads without duplicates, and that the times and rates are in range."""
        yield from super().own_faults()
        yield from each_once("loads", [way.value for way in self.loads])
        yield from alone(self.links, "its load fills the queues of one path")
        yield from outside([("idle", self.idle, 1, 600), ("settle", self.settle, 1, 600)])
        yield from outside([("ramp", self.ramp, 1, 600), ("duration", self.duration, 1, 3600)])
        for key, value in (("ramp", self.ramp), ("duration", self.duration)):
            if not float(value).is_integer():
                yield fault_of_key(key, f"iperf3 takes whole seconds, not {value:g}s", FaultKind.RANGE)
        yield from outside([("probe", self.probe, 10, 100_000)], unit=" pps")

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per link and direction of the load."""
        for links in self.link_sets(every_link):
            for way in self.loads:
                setting = BloatSetting(
                    load=way,
                    streams=self.streams,
                    probe_pps=self.probe,
                    connections_per_s=float(self.connections),
                    idle_s=self.idle,
                    ramp_s=int(self.ramp),
                    duration_s=int(self.duration),
                    settle_s=self.settle,
                )
                yield WorkloadDrive(
                    links, setting, Seconds(self.idle + self.ramp + self.duration + SPARE_S + self.settle + AROUND_S), "tcp"
                )

    def count(self, every_link: Iterable[str]) -> int:
        """Return the number of drives."""
        return len(self.link_sets(every_link)) * len(self.loads)
