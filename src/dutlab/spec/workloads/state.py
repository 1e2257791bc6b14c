"""Workload `state`: new flows a second, and concurrent flows, of the DUT."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind, InputError
from dutlab.spec.fields import Duration, FrameRate, Share
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.traffic import MOST_FLOWS, RFC4814_DESTINATION_PORTS, RFC4814_SOURCE_PORTS, FlowSet, Traffic
from dutlab.spec.workloads.base import LONGEST_TRIAL, LONGEST_WAIT, Need, WorkloadDrive
from dutlab.spec.workloads.frames import FrameWorkload, alone, each_once, outside
from dutlab.spec.workloads.setting import DrainSaid, FrameSetting, NotNegative, Params, Positive, PositiveRate, SecondsLong, Setting, Words
from dutlab.units import Seconds

_LEAST_FLOWS = 1024
_RATE_S, _CONCURRENT_S = 60.0, 180.0
"""Estimated seconds of each test; both are searches."""

_Flows = Annotated[int, Strict(), Field(ge=_LEAST_FLOWS, le=MOST_FLOWS)]
_Port = Annotated[int, Strict(), Field(ge=1, le=65535)]


class StateTest(enum.Enum):
    """Test of the state table; the value is the word of the experiment file."""

    RATE = "rate"
    CONCURRENT = "concurrent"


ALL_TESTS = tuple(StateTest)


class StateSetting(FrameSetting):
    """Setting of a trial of the state table."""

    kind: Literal["state"] = "state"
    tests: Annotated[tuple[StateTest, ...], Words("tests: {}")]
    trial_s: Annotated[SecondsLong, Words("trials of {} s")]
    loss_ratio: Annotated[NotNegative, Words("loss ratio {}", place=1)]
    width_ratio: Annotated[Positive, Words("bounds closer than {} of the upper")]
    fill_pps: Annotated[PositiveRate | None, Words("filled at {} flows a second")] = None
    most_flows: Annotated[int, Field(ge=1), Words("up to {} flows")]
    """Most flows that are tried; all can be distinguished."""
    destination_ports: Annotated[int, Field(ge=1), Words("destination ports {}", place=1)]
    table_flows: Annotated[Annotated[int, Field(ge=1)] | None, Words("a table of {} flows")] = None
    nat_ports: Annotated[tuple[int, int] | None, Words("translated to ports {}")] = None
    drain_s: DrainSaid
    budget_s: Annotated[SecondsLong, Words("{} s at most")]
    """Limit of the sending time for the concurrent flows."""

    @property
    def on_dut(self) -> tuple[str, ...]:
        """Programs for the state table."""
        return ("dutlab.hosts.programs:SYSCTL", "dutlab.hosts.programs:NFT", "dutlab.dut.linux_tracking:ASKS_KERNEL")

    @property
    def flows(self) -> int:
        """Most flows that are tried, or the size of the table if it is larger."""
        return max(self.most_flows, self.table_flows or 0)

    def traffic(self, count: int, seed: int) -> Traffic:
        """Return `count` different flows; another seed gives other flows. Raises InputError for too many."""
        if count > self.most_flows:
            what = f"{count} flows: {self.most_flows} can be distinguished"
            raise InputError(what, remedy="shorten the trial, or take more destination_ports")
        ports = {"source_ports": RFC4814_SOURCE_PORTS[1], "destination_ports": self.destination_ports}
        return Traffic(flows=FlowSet(count=count, seed=seed, **ports))

    @cached_property
    def params(self) -> Params:
        """Parameters, with the ports as a range."""
        return {**super().params, "nat_ports": None if self.nat_ports is None else "{}-{}".format(*self.nat_ports)}


class StateWorkload(FrameWorkload):
    """New UDP flows a second, and most concurrent UDP flows (RFC 2647 sections 3.7 and 3.8; RFC 9411 sections 7.2 and 7.5)."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = StateSetting
    features: ClassVar[tuple[tuple[Loc, GeneratorFeature], ...]] = (((), GeneratorFeature.FLOWS), ((), GeneratorFeature.RATE))

    tests: tuple[StateTest, ...] = ALL_TESTS
    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate(64),))
    trial: Duration = Seconds(0.5)
    """Duration of a trial of the rate search, in which every frame begins a flow."""
    loss: Share = 0.001
    """Share of flows that may fail."""
    width: Share = 0.05
    """Largest width of the bounds of both results, as a share of the upper one."""
    fill_rate: FrameRate | None = None
    """New flows a second while the table is filled; None is half of the rate that was found."""
    most_flows: _Flows = MOST_FLOWS
    """Most flows that are tried."""
    destination_ports: _Port = RFC4814_DESTINATION_PORTS[1]
    """Number of destination ports. Flows also differ in source port. With 1, a translator needs a separate port for each flow."""
    table_flows: _Flows | None = None
    """Size to which the DUT's table is set; None leaves it unchanged."""
    nat_ports: tuple[_Port, _Port] | None = None
    """First and last port that a translating DUT may use; None leaves its setting unchanged."""
    drain: Duration = Seconds(0.5)
    budget: Duration = Seconds(600.0)
    """Limit of the sending time of the search for concurrent flows."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are tests without duplicates, and that the numbers are in range and fit together."""
        yield from super().own_faults()
        yield from each_once("tests", [test.value for test in self.tests])
        yield from alone(self.links, "its flows fill the table")
        if StateTest.RATE not in self.tests and self.fill_rate is None:
            yield fault(
                ("fill_rate",), "missing; without the test rate it is not known how fast the table may be filled", FaultKind.MISSING
            )
        if self.nat_ports is not None and self.nat_ports[0] > self.nat_ports[1]:
            yield fault(("nat_ports",), f"{self.nat_ports[0]} is above {self.nat_ports[1]}", FaultKind.RANGE)
        yield from outside(
            [("trial", self.trial, 0.05, 60), ("drain", self.drain, 0, LONGEST_WAIT), ("budget", self.budget, 1, LONGEST_TRIAL)]
        )
        yield from outside([("loss", self.loss, 0, 0.5), ("width", self.width, 0.001, 0.5)], unit="")

    @property
    def flows(self) -> int:
        """Most flows that are tried and can be distinguished."""
        return min(self.most_flows, RFC4814_SOURCE_PORTS[1] * self.destination_ports)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per link and size, in which the tests run one after another."""
        seconds = (_RATE_S if StateTest.RATE in self.tests else 0.0) + (_CONCURRENT_S if StateTest.CONCURRENT in self.tests else 0.0)
        for links, mix in self.sized(every_link):
            setting = StateSetting(
                frame_size=mix,
                generator=self.generator,
                tests=tuple(test for test in ALL_TESTS if test in self.tests),
                trial_s=self.trial,
                loss_ratio=self.loss,
                width_ratio=self.width,
                fill_pps=self.fill_rate,
                most_flows=self.flows,
                destination_ports=self.destination_ports,
                table_flows=self.table_flows,
                nat_ports=self.nat_ports,
                drain_s=self.drain,
                budget_s=self.budget,
            )
            yield WorkloadDrive(links, setting, Seconds(seconds), mix)
