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
    left_out: ClassVar[frozenset[str]] = frozenset({"generator", "preset", "goals", "duration_s", "ipv6_network"})

    routes: Annotated[int, Field(ge=1), Words("{} routes")]
    network: Annotated[Network, Words("in {}")]
    """Network that the routes divide into equal parts."""
    ipv6_network: Annotated[Network | None, Words("and in {}")] = None
    """Network of as many routes of IPv6, for trials on links of both versions; None for one version."""
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
        """Number of flows on a link, one per route."""
        return self.routes

    @property
    def spreads(self) -> tuple[Spread, ...]:
        """Destinations of the routes of each version of IP."""
        networks = (self.network, *([self.ipv6_network] if self.ipv6_network is not None else []))
        return tuple(Spread.over(network, self.routes) for network in networks)

    def spread_of(self, version: int) -> Spread:
        """Return the destinations of a version of IP. Raises InputError for a version without a network."""
        match = next((spread for spread in self.spreads if spread.network.version == version), None)
        if match is None:
            raise InputError(f"routes: no network of IPv{version}", remedy="write ipv6_network, or links of one version")
        return match

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.goals is None) is (self.duration_s is None):
            raise ValueError("either goals of a search, or the duration of a trial at full speed")
        if self.ipv6_network is not None and {self.network.version, self.ipv6_network.version} != {4, 6}:
            raise ValueError("two networks are one of IPv4 and one of IPv6")
        Spread.over(self.network, self.routes)
        if self.ipv6_network is not None:
            Spread.over(self.ipv6_network, self.routes)
        return self

    @cached_property
    def params(self) -> Params:
        """Parameters without the goals, which the preset names."""
        return {name: value for name, value in super().params.items() if name != "goals"}


class RoutesWorkload(TimedFrames):
    """Frames to a destination behind each of a number of routes in the DUT: one trial per number.

    A set of links is one link, or one of IPv4 and one of IPv6 whose routes are in the DUT at the same time.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FRAMES, Need.TRANSIT})
    setting: ClassVar[type[Setting]] = RoutesSetting

    counts: tuple[_Count, ...] = (10, 10_000, 1_000_000)
    network: Network = IPv4Network("10.0.0.0/8")
    """Network of the routes, divided into equal parts for the largest count; each count uses the first parts, one route per part."""
    ipv6_network: Network | None = None
    """Network of as many routes of IPv6, for links of IPv6 next to those of IPv4."""
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
        for key, network in (("network", self.network), ("ipv6_network", self.ipv6_network)):
            if network is not None and most > network.num_addresses:
                yield fault((key,), f"{network} has {network.num_addresses} addresses, not {most}", FaultKind.RANGE)
        if self.ipv6_network is None:
            yield from alone(self.links, "a route leads to one sink; with ipv6_network a link of each version of IP")
        elif not (isinstance(self.network, IPv4Network) and isinstance(self.ipv6_network, IPv6Network)):
            yield fault(("ipv6_network",), "write a network of IPv4 in network, and one of IPv6 here", FaultKind.CONFLICT)
        if self.preset is not None:
            try:
                goals_named(self.preset)
            except InputError as error:
                yield fault(("preset",), str(error))

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return super().count(every_link) * len(self.counts)

    def part_of(self, network: IPv4Network | IPv6Network, count: int) -> IPv4Network | IPv6Network:
        """Return the part with `count` routes. All counts have routes of the same prefix length, so that only their number differs."""
        length = network.prefixlen + (max(self.counts) - 1).bit_length() - (count - 1).bit_length()
        return type(network)((network.network_address, length))

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for links without a router, and for a network of another IP version than the link's."""
        yield from super().incompatibilities(bounds)
        for name in self.driven(bounds):
            if bounds[name].is_transparent:
                yield (), f"loads routes into the DUT, and link {name} goes through none that routes: both of its ends are in one network"
            elif bounds[name].ipv6 not in {isinstance(n, IPv6Network) for n in (self.network, self.ipv6_network) if n is not None}:
                what = "IPv6" if bounds[name].ipv6 else "IPv4"
                yield ("network",), f"{self.network} has no way over link {name}, which is of {what}; write a network of {what}"
        for i, links in enumerate(self.links or ()):
            versions = [bounds[name].ipv6 for name in links if name in bounds]
            if self.ipv6_network is not None and len(versions) > len(set(versions)):
                yield ("links", i), "a route leads to one sink; drive at most one link of each version of IP together"

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
            both = len(links) > 1 and self.ipv6_network is not None
            for count in self.counts:
                setting = RoutesSetting(
                    frame_size=mix,
                    generator=self.generator,
                    routes=count,
                    network=self.part_of(self.network, count),
                    ipv6_network=self.part_of(self.ipv6_network, count) if self.ipv6_network is not None else None,
                    preset=self.preset,
                    goals=goals,
                    duration_s=self.duration if goals is None else None,
                    warmup_s=self.warmup,
                    drain_s=self.drain,
                )
                yield WorkloadDrive(links, setting, Seconds(seconds + count * (2 if both else 1) * _LOAD_S), mix)
