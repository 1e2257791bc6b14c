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
"""What it takes to begin and to end the three probes, about."""
SPARE_S = 4
"""The load goes on for about so long after the time that counts, until the last probe has begun."""


class LoadWay(Enum):
    """Which way TCP sends, seen from a client at the source."""

    UP = "up"
    """From source to sink."""
    DOWN = "down"
    """From sink to source."""
    BOTH = "both"

    @property
    def directions(self) -> Directions:
        """The same in the words of links."""
        return {LoadWay.UP: Directions.FORWARD, LoadWay.DOWN: Directions.BACK, LoadWay.BOTH: Directions.BOTH}[self]


class BloatSetting(Setting):
    """A load of TCP one way or both, and probes before, meanwhile and after it."""

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
        """Who sends the load."""
        return self.load.directions

    @property
    def flows(self) -> int:
        """Streams of the load, the probe each way, and connections."""
        connections = self.connections_per_s * (self.idle_s + self.duration_s)
        return self.streams * len(self.ways.backs) + 2 + int(connections)


class BloatWorkload(WorkloadModel):
    """Latency without load and under TCP up, down and both at once; goodput, responsiveness, and how soon the queues empty."""

    tool: ClassVar[str] = "iperf3"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.IPERF3})
    setting: ClassVar[type[Setting]] = BloatSetting
    goes_to_sink: ClassVar[bool] = True
    own_frames: ClassVar[bool] = True

    loads: tuple[LoadWay, ...] = tuple(LoadWay)
    """Each is a trial."""
    streams: Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)] = 4
    """TCP connections of the load, each way."""
    probe: FrameRate = Pps(200.0)
    """Frames of the latency probe a second, each way."""
    connections: Annotated[int, Strict(), Field(ge=0, le=1000)] = 20
    """New TCP connections a second, each with one request: their times make the responsiveness. 0 is none."""
    idle: Duration = Seconds(3.0)
    """Probed without load before."""
    ramp: Duration = Seconds(3.0)
    """Load that does not count, while TCP finds its rate."""
    duration: Duration = Seconds(10.0)
    settle: Duration = Seconds(5.0)
    """Wait after the load, at most: a queue that is not empty by then is reported."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Whether loads are there, each once, and the times can be kept."""
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
        """One a link and a way of the load."""
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
        """How many drives there are."""
        return len(self.link_sets(every_link)) * len(self.loads)
