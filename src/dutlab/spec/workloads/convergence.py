"""Workload `convergence`: flows to many destinations while a path of the DUT fails and recovers.

- convergence:
    rate: 8kpps
    flows: 16
    network: 10.0.0.0/8
    events:
      next-hop: {port: far:in-1}
      daemon: {host: far, fail: [kill -9 $(cat /run/bird.pid)], recover: [bird -c /etc/bird.conf]}
    links: [[a]]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, FrameRate, Name, Network, named
from dutlab.spec.links import Port
from dutlab.spec.mixes import Mix
from dutlab.spec.model import Loc, SpecModel, did_you_mean, fault
from dutlab.spec.traffic import Spread
from dutlab.spec.workloads.base import LONGEST_TRIAL, LONGEST_WAIT, Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.frames import alone, outside
from dutlab.spec.workloads.reconf import AROUND_TRIAL_S, SHORTEST_AROUND
from dutlab.spec.workloads.setting import DrainSaid, FrameSize, Identity, Params, PositiveRate, SecondsLong, Setting, Words, identity_of
from dutlab.systems import SYSTEMS
from dutlab.units import Pps, Seconds, line_rate, si

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape

MOST_FLOWS = 64
"""Most flows; each is a stream with a separate ledger."""
LEAST_FRAMES = 10
"""Least frames a second of each flow; with fewer, a loss cannot be located in time."""
_Flows = Annotated[int, Strict(), Field(ge=1, le=MOST_FLOWS)]
_Times = Annotated[int, Strict(), Field(ge=1, le=1000)]


class ConvergenceEvent(SpecModel):
    """Failure that can be undone: a port that is set down, or commands."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name
    port: Port | None = None
    """Port that is set down, and up again with its previous addresses, neighbours and static routes."""
    host: Name | None = None
    """Host that runs the commands; None is the DUT."""
    fail: tuple[str, ...] = ()
    recover: tuple[str, ...] = ()
    """Commands that undo `fail`. They must be safe to run twice, since they also run where a run is cut."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that it is either a port or commands, and that it can be undone."""
        if self.port is None and not self.fail:
            yield fault(("fail",), "missing; write commands, or `port:` with a port that is set down", FaultKind.MISSING)
        if self.port is not None and (self.fail or self.recover or self.host):
            yield fault(("port",), "cannot be combined with commands; write two events", FaultKind.CONFLICT)
        if self.fail and not self.recover:
            yield fault(("recover",), "missing; write how the failure is taken back", FaultKind.MISSING)
        for key, commands in (("fail", self.fail), ("recover", self.recover)):
            yield from (fault((key, i), "empty command", FaultKind.MISSING) for i, text in enumerate(commands) if not text.strip())

    def words(self) -> str:
        """Return a description: `port far:in-1 down`, or the commands."""
        return f"port {self.port} down" if self.port is not None else "; ".join(self.fail)


class ConvergenceSetting(Setting):
    """Setting of a trial: flows, and the failure that affects them."""

    kind: Literal["convergence"] = "convergence"

    event: Annotated[ConvergenceEvent, Words("event {}")]
    rate_pps: Annotated[PositiveRate, Words("at {:pps} of all flows together", place=-1)]
    flow_count: Annotated[int, Field(ge=1, le=MOST_FLOWS), Words("{} flows")]
    network: Annotated[Network, Words("to addresses spread over {}")]
    frame_size: FrameSize
    times: Annotated[int, Field(ge=1), Words("{} times", {1: "once"})]
    before_s: Annotated[SecondsLong, Words("{} s before")]
    after_s: Annotated[SecondsLong, Words("{} s after")]
    drain_s: DrainSaid

    @property
    def size(self) -> str:
        """Size of all frames."""
        return str(self.frame_size.size or self.frame_size.name)

    @property
    def flows(self) -> int:
        """Number of flows, one per destination."""
        return self.flow_count

    @property
    def on_dut(self) -> tuple[str, ...]:
        """Program that sets a port down, if the event needs it."""
        return ("dutlab.hosts.programs:IP",) if self.event.port is not None else ()

    @property
    def spread(self) -> Spread:
        """Destinations of the flows."""
        return Spread.over(self.network, self.flow_count)

    @cached_property
    def params(self) -> Params:
        """Parameters, with the event by its name."""
        return {**super().params, "event": self.event.name}

    @cached_property
    def identity(self) -> Identity:
        """Identity, which also distinguishes events with the same name but different actions."""
        return identity_of({**self.params, "event_does": self.event.words()})


class ConvergenceWorkload(WorkloadModel):
    """Loss of each flow while a path fails and recovers (RFC 6412, RFC 6413)."""

    tool: ClassVar[str] = "engine"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = ConvergenceSetting
    goes_to_sink: ClassVar[bool] = True
    own_frames: ClassVar[bool] = True

    rate: FrameRate
    """Rate of all flows together; the DUT must lose nothing at this rate."""
    events: Annotated[dict[Name, ConvergenceEvent], BeforeValidator(named), Field(min_length=1)]
    """Failures by name; each is a separate trial."""
    flows: _Flows = 16
    network: Network = IPv4Network("10.0.0.0/8")
    """Network of the destinations, divided into equal parts with one flow each. The DUT must have routes to it."""
    frame_size: Mix = Field(default_factory=lambda: Mix.model_validate(64))
    times: _Times = 3
    """Number of times that the path fails and recovers."""
    before: Duration = Seconds(1.0)
    after: Duration = Seconds(5.0)
    """Time of load after an event; flows that have not recovered by its end are reported."""
    drain: Duration = Seconds(0.5)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that the times are in range, and that each flow has enough frames and a destination."""
        yield from super().own_faults()
        yield from outside(
            [
                ("before", self.before, SHORTEST_AROUND, LONGEST_TRIAL),
                ("after", self.after, SHORTEST_AROUND, LONGEST_TRIAL),
                ("drain", self.drain, 0.0, LONGEST_WAIT),
            ]
        )
        yield from alone(self.links, "a route leads to one sink")
        if self.rate < (least := Pps(LEAST_FRAMES * self.flows)):
            what = f"{si(self.rate, 'pps')} for {self.flows} flows; each needs {LEAST_FRAMES} frames a second, {si(least, 'pps')} in all"
            yield fault(("rate",), what, FaultKind.RANGE)
        if self.flows > self.network.num_addresses:
            what = f"{self.network} has {self.network.num_addresses} addresses, not {self.flows}"
            yield fault(("network",), what, FaultKind.RANGE)

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return super().count(every_link) * len(self.events)

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links and event."""
        each = self.before + self.after + self.drain + AROUND_TRIAL_S
        for links in self.link_sets(every_link):
            for event in self.events.values():
                setting = ConvergenceSetting(
                    event=event,
                    rate_pps=self.rate,
                    flow_count=self.flows,
                    network=self.network,
                    frame_size=self.frame_size,
                    times=self.times,
                    before_s=self.before,
                    after_s=self.after,
                    drain_s=self.drain,
                )
                yield WorkloadDrive(links, setting, Seconds((1 + 2 * self.times) * each), self.frame_size)

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield faults: frames longer than an MTU, a rate above line rate, or a network of another IP version than the link's."""
        for name in sorted({name for links in self.link_sets(bounds) for name in links}):
            bound = bounds[name]
            if self.frame_size.longest > bound.longest_frame:
                what = f"its MTU of {bound.mtu} carries {bound.longest_frame}"
                yield ("frame_size",), f"{self.frame_size.longest} bytes with FCS do not pass link {name}: {what}"
            if bound.speed is not None and self.rate > (most := line_rate(bound.speed, self.frame_size.mean)):
                yield ("rate",), f"{si(self.rate, 'pps')} is more than link {name} carries ({si(most, 'pps')})"
            if bound.ipv6 != isinstance(self.network, IPv6Network):
                yield ("network",), f"{self.network} has no way over link {name}: its IP is of another version"

    def unfit(self, written: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield faults: hosts that do not exist or take no commands, and ports that are on no link or that dutlab cannot set down."""
        known = {str(port) for link in bed.find().links.values() for port in link.ports} if bed.find is not None else set[str]()
        for name, event in self.events.items():
            at = ("events", name)
            host = event.port.host if event.port is not None else event.host
            key = "port" if event.port is not None else "host"
            if host is not None and host not in bed.hosts:
                yield (*at, key), f"no host {host!r} in {bed.title} that takes commands {did_you_mean(host, bed.hosts)}"
            elif host is None and not bed.has_dut:
                yield (*at, "host"), f"no command reaches the DUT of {bed.title}; name another host"
            elif event.port is not None and known and str(event.port) not in known:
                yield (*at, key), f"no port {event.port} on the links of {bed.title} {did_you_mean(str(event.port), known)}"
            elif event.port is not None and not SYSTEMS[bed.hosts[event.port.host]].kernel_tables:
                yield (
                    (*at, key),
                    f"{event.port.host} is of family {bed.hosts[event.port.host]}, whose ports dutlab cannot set: write commands",
                )
