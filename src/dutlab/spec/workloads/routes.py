"""Workload `routes`: forwarding by size of the DUT's routing table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, Strict, model_validator
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind, InputError
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.fields import Duration, Network
from dutlab.spec.generators import GeneratorFeature
from dutlab.spec.goals import goals_named
from dutlab.spec.mixes import FrameSizes, Mix
from dutlab.spec.model import Loc, fault
from dutlab.spec.traffic import MOST_FLOWS, Spread
from dutlab.spec.workloads.base import Need, WorkloadDrive
from dutlab.spec.workloads.frames import TimedFrames, alone, each_once
from dutlab.spec.workloads.setting import ELSEWHERE, LASTS, DrainSaid, FrameSetting, Goals, Params, SecondsLong, Setting, WarmupSaid, Words
from dutlab.units import Seconds

_LOAD_S = 40e-6
"""Estimated seconds to add and remove a route."""
_SEARCH_S = 30.0

_Count = Annotated[int, Strict(), Field(ge=1, le=MOST_FLOWS)]


class RoutesSetting(FrameSetting):
    """Setting of a trial: a number of routes, and a load at full speed or a search for goals."""

    kind: Literal["routes"] = "routes"
    left_out: ClassVar[frozenset[str]] = frozenset({"generator", "preset", "goals", "duration_s"})

    routes: Annotated[int, Field(ge=1), Words("{} routes")]
    network: Annotated[Network, Words("in {}")]
    """Network that the routes divide into equal parts."""
    preset: Annotated[str | None, Words("preset {}", place=1)] = None
    goals: Annotated[Goals | None, ELSEWHERE] = None
    """Goals of the preset; None for a load at full speed."""
    duration_s: Annotated[SecondsLong | None, LASTS] = None
    """Duration of the load at full speed; None for a search."""
    warmup_s: WarmupSaid
    drain_s: DrainSaid

    @property
    def on_dut(self) -> tuple[str, ...]:
        """Program that adds the routes."""
        return ("dutlab.hosts.programs:IP",)

    @property
    def flows(self) -> int:
        """Number of flows, one per route."""
        return self.routes

    @property
    def spread(self) -> Spread:
        """Destinations of the routes."""
        return Spread.over(self.network, self.routes)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.goals is None) is (self.duration_s is None):
            raise ValueError("either goals of a search, or the duration of a trial at full speed")
        Spread.over(self.network, self.routes)
        return self

    @cached_property
    def params(self) -> Params:
        """Parameters without the goals, which the preset names."""
        return {name: value for name, value in super().params.items() if name != "goals"}


class RoutesWorkload(TimedFrames):
    """Frames to a destination behind each of a number of routes in the DUT: one trial per number, one link at a time."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = RoutesSetting

    counts: tuple[_Count, ...] = (10, 10_000, 1_000_000)
    network: Network = IPv4Network("10.0.0.0/8")
    """Network of the routes, divided into equal parts for the largest count; each count uses the first parts, one route per part."""
    frame_sizes: FrameSizes = Field(default_factory=lambda: (Mix.model_validate(64),))
    preset: str | None = None
    """Preset of a search; None measures the forwarding rate at full speed."""
    duration: Duration = Seconds(10.0)
    """Duration of a trial at full speed; a search has its own durations."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are counts without duplicates, and that the network has enough addresses."""
        yield from super().own_faults()
        yield from each_once("counts", [str(n) for n in self.counts])
        most = max(self.counts, default=1)
        if most > self.network.num_addresses:
            yield fault(("network",), f"{self.network} has {self.network.num_addresses} addresses, not {most}", FaultKind.RANGE)
        yield from alone(self.links, "a route leads to one sink")
        if self.preset is not None:
            try:
                goals_named(self.preset)
            except InputError as error:
                yield fault(("preset",), str(error))

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return super().count(every_link) * len(self.counts)

    def part_of(self, count: int) -> IPv4Network | IPv6Network:
        """Return the network of `count` routes. All counts have routes of the same prefix length, so that only their number differs."""
        length = self.network.prefixlen + (max(self.counts) - 1).bit_length() - (count - 1).bit_length()
        return type(self.network)((self.network.network_address, length))

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for links without a router, and for a network of another IP version than the link's."""
        yield from super().incompatibilities(bounds)
        for name in self.driven(bounds):
            if bounds[name].is_transparent:
                yield (), f"loads routes into the DUT, and link {name} goes through none that routes: both of its ends are in one network"
            elif bounds[name].ipv6 != isinstance(self.network, IPv6Network):
                what = "IPv6" if bounds[name].ipv6 else "IPv4"
                yield ("network",), f"{self.network} has no way over link {name}, which is of {what}; write a network of {what}"

    def asks(self) -> Iterator[tuple[Loc, GeneratorFeature]]:
        """Yield also the features for several destinations, and for a rate if there is a preset."""
        yield from super().asks()
        yield (), GeneratorFeature.FLOWS
        if self.preset is not None:
            yield ("preset",), GeneratorFeature.RATE

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per link, size and count."""
        goals = None if self.preset is None else goals_named(self.preset)
        seconds = self.trial_s if self.preset is None else _SEARCH_S
        for links, mix in self.sized(every_link):
            for count in self.counts:
                setting = RoutesSetting(
                    frame_size=mix,
                    generator=self.generator,
                    routes=count,
                    network=self.part_of(count),
                    preset=self.preset,
                    goals=goals,
                    duration_s=self.duration if goals is None else None,
                    warmup_s=self.warmup,
                    drain_s=self.drain,
                )
                yield WorkloadDrive(links, setting, Seconds(seconds + count * _LOAD_S), mix)
