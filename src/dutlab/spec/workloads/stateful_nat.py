"""Workload `stateful-nat`: benchmarks of a stateful translator (RFC 9693)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, FrameRate, Share
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.traffic import MOST_FLOWS, RFC4814_SOURCE_PORTS, Directions, FlowSet, Traffic
from dutlab.spec.wire_form import NAT64, VLAN
from dutlab.spec.workloads.base import LONGEST_WAIT, Need, WorkloadDrive
from dutlab.spec.workloads.frames import FrameWorkload, alone, each_once, outside
from dutlab.spec.workloads.setting import SCALE, DirectedSetting, DrainSaid, Positive, PositiveRate, SecondsLong, Setting, Words
from dutlab.units import Seconds

_LEAST = 16
_AROUND_S = 2.0
"""Time of both phases of a trial in addition to their frames."""
_Connections = Annotated[int, Strict(), Field(ge=_LEAST, le=MOST_FLOWS)]
_Counted = Annotated[int, Field(ge=1)]


class NatTest(enum.Enum):
    """Tests in the order in which they run; the values are the words of the experiment file."""

    ESTABLISHMENT = "establishment"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    FRAME_LOSS = "frame-loss"
    TEAR_DOWN = "tear-down"
    CAPACITY = "capacity"


LOADED = (NatTest.THROUGHPUT, NatTest.LATENCY, NatTest.FRAME_LOSS)
_TRIALS = {
    NatTest.ESTABLISHMENT: 16,
    NatTest.THROUGHPUT: 14,
    NatTest.LATENCY: 1,
    NatTest.FRAME_LOSS: 6,
    NatTest.TEAR_DOWN: 1,
    NatTest.CAPACITY: 30,
}
"""Approximate number of trials of each test."""
_LOAD_S = 60.0


class StatefulNatSetting(DirectedSetting):
    """Setting of a trial of a translator, with the parameters of RFC 9693."""

    kind: Literal["stateful-nat"] = "stateful-nat"
    tests: Annotated[tuple[NatTest, ...], Words("tests: {}")]
    connections: Annotated[_Counted, Words("{} connections", place=1)]
    """N: number of connections; every connection of a first phase has a different four-tuple."""
    source_ports: Annotated[_Counted, Words("source ports {}", place=1)]
    destination_ports: Annotated[_Counted, Words("destination ports {}", place=1)]
    fill_pps: Annotated[PositiveRate | None, Words("filled at {} a second")] = None
    """R: connections a second in the first phase, where another test needs the connections."""
    highest_pps: Annotated[PositiveRate | None, Words("up to {} a second")] = None
    alpha_ratio: Annotated[Positive, Words("validated at {} of the rate")]
    beta_ratio: Annotated[Positive, Words("beta {}")]
    gamma_ratio: Annotated[Positive, Words("gamma {}")]
    first_connections: Annotated[_Counted, Words("capacity from {}")]
    """C0: number of connections with which the search for the capacity begins."""
    most_connections: Annotated[_Counted, Words("up to {} connections")]
    error_connections: Annotated[_Counted, Words("capacity to within {}")]
    """E: largest distance between the bounds of the capacity."""
    table_connections: Annotated[_Counted | None, Words("a table of {}")] = None
    width_ratio: Annotated[Positive, Words("bounds closer than {} of the upper")]
    scale: Annotated[Positive, SCALE]
    latency_repeats: Annotated[_Counted, Words("{} repeats of latency")]
    drain_s: DrainSaid
    """T: time-out of a phase; frames that arrive later are lost."""
    expires_s: Annotated[SecondsLong | None, Words("connections expire within {} s")] = None

    @property
    def on_dut(self) -> tuple[str, ...]:
        """Programs on the DUT for its connection table."""
        return ("dutlab.hosts.programs:SYSCTL", "dutlab.dut.linux_tracking:ASKS_KERNEL")

    @property
    def flows(self) -> int:
        """Largest number of connections that are begun."""
        return max(self.connections, self.most_connections if NatTest.CAPACITY in self.tests else 0)

    def traffic(self, count: int, seed: int) -> Traffic:
        """Return `count` connections, drawn by `seed` without repetition from the ranges of ports (RFC 9693 section 4.4)."""
        return Traffic(flows=FlowSet(count=count, seed=seed, source_ports=self.source_ports, destination_ports=self.destination_ports))


class StatefulNatWorkload(FrameWorkload):
    """Connections a second, throughput, loss, latency, tear-down and capacity of a stateful NAT44 or NAT66 (RFC 9693)."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = StatefulNatSetting
    forms: ClassVar[frozenset[str]] = frozenset({NAT64, VLAN})
    answers_own_flows: ClassVar[bool] = True

    tests: tuple[NatTest, ...] = tuple(NatTest)
    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate(64),))
    connections: Annotated[tuple[_Connections, ...], Field(min_length=1)] = (10_000,)
    """Numbers of connections; each gets a trial (RFC 9693 section 5.1)."""
    source_ports: Annotated[int, Strict(), Field(ge=1, le=RFC4814_SOURCE_PORTS[1])] = 40_000
    destination_ports: Annotated[int, Strict(), Field(ge=1, le=49151)] = 100
    directions: Literal["forward", "both"] = "both"
    """Directions of the measured load in the second phase."""
    fill_rate: FrameRate | None = None
    """Connections a second in a first phase for another test; None is half of the establishment rate."""
    highest: FrameRate | None = None
    """Highest rate that is tried, in connections a second; None is line rate, or the rate of a short load at full speed."""
    alpha: Share = 0.5
    """Rate of validation, as a share of the rate of the first phase (section 4.6)."""
    beta: Share = 0.1
    """Share to which the establishment rate may drop while the number of connections is doubled (section 4.9)."""
    gamma: Share = 0.4
    """Share to which the establishment rate may drop while the gap is halved."""
    capacity_from: _Connections = 1024
    """C0: a safe number of connections."""
    most_connections: _Connections = MOST_FLOWS
    error: Annotated[int, Strict(), Field(ge=1)] = 1
    """Largest distance between the bounds of the capacity, in connections."""
    table_connections: _Connections | None = None
    """Size to which the DUT's table is set; None leaves it unchanged."""
    width: Share = 0.01
    """Error of the searches for rates, as a share of the upper bound."""
    scale: float = 1.0
    """Factor for the durations that RFC 2544 prescribes for throughput, latency and frame loss."""
    latency_repeats: Annotated[int, Strict(), Field(ge=1, le=1000)] = 20
    drain: Duration = Seconds(0.5)
    """Global time-out of a phase: frames that arrive later are lost."""
    expires: Duration | None = None
    """Wait before each trial if the DUT cannot be made to forget its connections: the DUT's longest time-out."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that each test is listed once, and that the numbers fit together."""
        yield from super().own_faults()
        yield from each_once("tests", [test.value for test in self.tests])
        yield from each_once("connections", [str(n) for n in self.connections])
        yield from alone(self.links, "its connections fill the table")
        if NatTest.ESTABLISHMENT not in self.tests and self.fill_rate is None:
            why = "missing; without the test establishment no rate is known at which connections can be begun"
            yield fault(("fill_rate",), why, FaultKind.MISSING)
        if NatTest.LATENCY in self.tests and NatTest.THROUGHPUT not in self.tests:
            yield fault(("tests",), "latency: is that at the throughput; add the test throughput", FaultKind.CONFLICT)
        members = self.source_ports * self.destination_ports
        for i, count in enumerate(self.connections):
            if count > members:
                yield fault(("connections", i), f"{count}: the ranges of ports make {members} different connections", FaultKind.RANGE)
        if NatTest.CAPACITY in self.tests and self.capacity_from > min(members, self.most_connections):
            yield fault(("capacity_from",), f"more than the {min(members, self.most_connections)} that are tried", FaultKind.RANGE)
        shares = [("alpha", self.alpha), ("beta", self.beta), ("gamma", self.gamma)]
        yield from outside([*((name, value, 0.001, 1) for name, value in shares), ("scale", self.scale, 0.001, 1)], unit="")
        yield from outside([("width", self.width, 0.0005, 0.5)], unit="")
        yield from outside([("drain", self.drain, 0, LONGEST_WAIT), ("expires", self.expires, 0.1, 86400)])

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return super().count(every_link) * len(self.connections)

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield the needed generator features: flows, and a rate."""
        yield from super().asks()
        yield (), GeneratorFeature.FLOWS
        yield (), GeneratorFeature.RATE

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per link, size and number of connections. Its tests run one after another."""
        for links, mix in self.sized(every_link):
            for connections in self.connections:
                setting = StatefulNatSetting(
                    frame_size=mix,
                    generator=self.generator,
                    tests=tuple(test for test in NatTest if test in self.tests),
                    directions=Directions(self.directions),
                    connections=connections,
                    source_ports=self.source_ports,
                    destination_ports=self.destination_ports,
                    fill_pps=self.fill_rate,
                    highest_pps=self.highest,
                    alpha_ratio=self.alpha,
                    beta_ratio=self.beta,
                    gamma_ratio=self.gamma,
                    first_connections=self.capacity_from,
                    most_connections=min(self.most_connections, self.source_ports * self.destination_ports),
                    error_connections=self.error,
                    table_connections=self.table_connections,
                    width_ratio=self.width,
                    scale=self.scale,
                    latency_repeats=self.latency_repeats,
                    drain_s=self.drain,
                    expires_s=self.expires,
                )
                yield WorkloadDrive(links, setting, self._seconds(connections), mix, self._offers())

    def _seconds(self, connections: int) -> Seconds:
        """Return the approximate time of the tests. The length of a search is not known in advance."""
        fills_s = _AROUND_S + (connections / self.fill_rate if self.fill_rate else 1.0) + (self.expires or 0.0)
        loads = sum(_TRIALS[test] for test in LOADED if test in self.tests) + self.latency_repeats * (NatTest.LATENCY in self.tests)
        return Seconds(sum(_TRIALS[test] for test in self.tests) * fills_s + loads * _LOAD_S * self.scale)

    def _offers(self) -> int:
        return 2 * sum(_TRIALS[test] for test in self.tests)
