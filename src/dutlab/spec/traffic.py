"""Properties of a workload's frames other than their size: transport, flows, VLAN tags, varied fields, bursts.

    traffic: {transport: tcp, flows: 1024, vlans: [100]}
    traffic: {flows: {count: 1000000, source_addresses: 250, seed: 1}}
    traffic: {vary: {ttl: [64, 128]}, burst: 32}
    traffic: {flows: {count: 65536, destinations: 198.18.0.0/15, destination_addresses: 65536}}

Addresses and their version (IPv4, IPv6) are those of the testbed's links, unless other networks are given.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from math import prod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import FrameRate, Network
from dutlab.spec.model import SpecModel, ValueFault, fault
from dutlab.spec.vary import ADDRESSES, DESTINATION_ADDRESS, SOURCE_ADDRESS, TELLS_FLOWS, Vary
from dutlab.units import FCS_BYTES, Pps, si

IPNetwork = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Spread:
    """One address in each of `count` equal parts of a network. Each part has a prefix of `length` bits."""

    network: IPNetwork
    count: int
    length: int

    @classmethod
    def over(cls, network: IPNetwork, count: int) -> Spread:
        """Return `count` parts of `network`, as large as possible. Raises ValueError when the network has fewer addresses."""
        length = network.prefixlen + (count - 1).bit_length()
        if not 1 <= count <= network.num_addresses:
            raise ValueFault(f"{network} has {network.num_addresses} addresses, not {count}", FaultKind.RANGE)
        return cls(network, count, length)

    @property
    def first(self) -> IPv4Address | IPv6Address:
        """Address in the first part: the part's second address, or its only one."""
        return self.network.network_address + (1 if self.length < self.network.max_prefixlen else 0)

    def part(self, n: int) -> IPNetwork:
        """Return part number `n`, from 0."""
        step = 1 << (self.network.max_prefixlen - self.length)
        return type(self.network)((int(self.network.network_address) + n * step, self.length))

    def address(self, n: int) -> IPv4Address | IPv6Address:
        """Return the address in part number `n`, from 0."""
        return self.first + n * (1 << (self.network.max_prefixlen - self.length))


MOST_FLOWS = 2_097_152
"""Most flows that the engine supports (docs/reference/engine-protocol.md)."""
MOST_IN_BURST = 1_000_000
RFC4814_SOURCE_PORTS = (1024, 64512)
"""First port and number of ports (RFC 4814)."""
RFC4814_DESTINATION_PORTS = (1, 49151)

ExtensionHeader = Literal["hop-by-hop", "routing", "fragment", "destination-options"]
EXTENSION_BYTES: Mapping[ExtensionHeader, int] = {"hop-by-hop": 8, "routing": 24, "fragment": 8, "destination-options": 8}
"""IPv6 extension header of the engine → its bytes, as in RFC 5180 section 5.3."""
MOST_EXTENSIONS = 4
NO_HEADERS = "none"
HOP_BY_HOP = "hop-by-hop"
EXTENSION_SETS: Mapping[str, tuple[ExtensionHeader, ...]] = {
    NO_HEADERS: (),
    "destination-options": ("destination-options",),
    "routing": ("routing",),
    "fragment": ("fragment",),
    "chain": ("routing", "destination-options", "fragment"),
    HOP_BY_HOP: ("hop-by-hop",),
}
"""Name → headers, by RFC 5180 section 5.3: each header alone, the recommended chain, and hop-by-hop for a separate test."""

_Range = Annotated[int, Strict(), Field(ge=1, le=MOST_FLOWS)]
_Ports = Annotated[int, Strict(), Field(ge=1, le=65535)]
_VlanId = Annotated[int, Strict(), Field(ge=0, le=4095)]


class Directions(enum.Enum):
    """Directions of frames on each link."""

    FORWARD = "forward"
    """From source to sink."""
    BOTH = "both"
    """From source to sink and from sink to source at the same time, at the same rate (RFC 2544 section 14)."""
    BACK = "back"
    """From sink to source only."""
    ANSWERS = "answers"
    """From sink to source only. Frame n has the addresses and ports of frame n of the same load forward, exchanged."""

    @property
    def backs(self) -> tuple[bool, ...]:
        """One item per direction in use: True for frames from sink to source."""
        return {Directions.FORWARD: (False,), Directions.BOTH: (False, True), Directions.BACK: (True,), Directions.ANSWERS: (True,)}[self]


class FlowSet(SpecModel):
    """Flows of one stream; frame n belongs to flow n mod `count`. Written as a number, each flow has its own source port."""

    count: _Range = 1
    source_addresses: _Range = 1
    """Number of source addresses, from the link's source address upwards."""
    destination_addresses: _Range = 1
    """Number of destination addresses. The DUT must know a route or neighbour for each."""
    sources: Network | None = None
    """Network over which the source addresses are spread evenly. A DUT that checks reverse paths needs a route to it through the source."""
    destinations: Network | None = None
    """Network over which the destination addresses are spread evenly. The DUT needs a route to it through the sink."""
    source_ports: _Ports = 1
    destination_ports: _Ports = 1
    seed: Annotated[int, Strict(), Field(ge=0, le=2**53 - 1)] | None = None
    """Seed that draws flows from the ranges, the same in every trial. Ports that are not given are those of RFC 4814."""

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "integer", "minimum": 1},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Accept a number alone, and add the port ranges of RFC 4814 to random flows."""
        if isinstance(data, int) and not isinstance(data, bool):
            return {"count": data, "source_ports": data}
        if isinstance(data, Mapping) and data.get("seed") is not None and not {"source_ports", "destination_ports"} & data.keys():
            return {**data, "source_ports": RFC4814_SOURCE_PORTS[1], "destination_ports": RFC4814_DESTINATION_PORTS[1]}
        return data

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that the ranges have enough different flows, and the networks enough addresses."""
        if self.count > self.members:
            what = f"the ranges make {self.members} different flows, not {self.count}; widen one, as in source_ports: 1024"
            yield fault(("count",), what, FaultKind.RANGE)
        if self.sources and self.destinations and self.sources.version != self.destinations.version:
            yield fault(("sources",), f"{self.sources} and {self.destinations} are of different versions of IP", FaultKind.CONFLICT)
        for key, network, count in (
            ("sources", self.sources, self.source_addresses),
            ("destinations", self.destinations, self.destination_addresses),
        ):
            if network is not None and count > network.num_addresses:
                yield fault((key,), f"{network} has {network.num_addresses} addresses, not {count}", FaultKind.RANGE)

    def words(self) -> str:
        """Return a description: `1024 flows (source ports 1024)`."""
        usual = FlowSet.usual()
        ranges = [
            f"{name.replace('_', ' ')} {value}"
            for name in type(self).model_fields
            if name != "count" and (value := getattr(self, name)) != getattr(usual, name)
        ]
        return f"{self.count} flow{'s' if self.count > 1 else ''}" + (f" ({', '.join(ranges)})" if ranges else "")

    @property
    def spread_sources(self) -> Spread | None:
        """Source addresses that are spread over a network; None for those of the link."""
        return None if self.sources is None else Spread.over(self.sources, self.source_addresses)

    @property
    def spread_destinations(self) -> Spread | None:
        """Destination addresses that are spread over a network; None for those of the link."""
        return None if self.destinations is None else Spread.over(self.destinations, self.destination_addresses)

    @property
    def varied(self) -> frozenset[str]:
        """Fields that differ between flows, by their names in `vary`."""
        ranges = {
            SOURCE_ADDRESS: self.source_addresses > 1 or self.sources is not None,
            DESTINATION_ADDRESS: self.destination_addresses > 1 or self.destinations is not None,
            "source-port": self.source_ports > 1,
            "destination-port": self.destination_ports > 1,
        }
        return frozenset(name for name, changes in ranges.items() if changes)

    @property
    def members(self) -> int:
        """Number of flows in the ranges."""
        return self.source_addresses * self.destination_addresses * self.source_ports * self.destination_ports


class Burst(SpecModel):
    """Bursts of frames at an intended mean rate. Written as a number, the frames of a burst are sent as fast as possible."""

    frames: Annotated[int, Strict(), Field(ge=2, le=MOST_IN_BURST)]
    rate: FrameRate | None = None
    """Frame rate within a burst; None is as fast as the port takes frames."""

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "integer", "minimum": 2},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Accept a number alone."""
        return {"frames": data} if isinstance(data, int) and not isinstance(data, bool) else data

    def text(self) -> str:
        """Return a description."""
        return f"bursts of {self.frames} frames" + ("" if self.rate is None else f" at {si(self.rate, 'pps')}")

    def too_fast(self, mean: Pps) -> str:
        """Return the reason why the bursts cannot have this mean rate, or ""."""
        if self.rate is None or mean < self.rate:
            return ""
        return f"bursts at {si(self.rate, 'pps')} leave no pause at {si(mean, 'pps')} in the mean; write a higher rate, or the frames alone"


class Traffic(SpecModel):
    """Properties of a workload's frames other than their size."""

    transport: Literal["udp", "tcp", "tcp-syn", "icmp-echo"] = "udp"
    flows: FlowSet = Field(default_factory=FlowSet.usual)
    vlans: Annotated[tuple[_VlanId, ...], Field(max_length=2)] = ()
    """VLAN IDs of the tags, the outer one first."""
    extension_headers: Annotated[tuple[ExtensionHeader, ...], Field(max_length=MOST_EXTENSIONS)] = ()
    """IPv6 extension headers before the transport, in this order."""
    vary: Vary = ()
    """Fields with a different value in each frame."""
    burst: Burst | None = None
    """Bursts of loads with a constant rate; None spaces single frames evenly."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that a hop-by-hop header is first (RFC 8200 section 4.1), and that each field is varied once and exists."""
        headers = self.extension_headers
        yield from (
            fault(("extension_headers", i), f"{h} can only be the first", FaultKind.CONFLICT)
            for i, h in enumerate(headers)
            if i and h == HOP_BY_HOP
        )
        for i, rule in enumerate(self.vary):
            if what := rule.lacks(tags=len(self.vlans), transport=self.transport):
                yield fault(("vary", rule.name), what, FaultKind.CONFLICT)
            if rule.name in self.flows.varied:
                yield fault(("vary", rule.name), "`flows` changes it already; take it out of one of the two", FaultKind.DUPLICATE)
            if earlier := next((other.name for other in self.vary[:i] if rule.overlaps(other)), None):
                yield fault(("vary", rule.name), f"has bits in common with {earlier}", FaultKind.CONFLICT)

    def text(self) -> str | None:
        """Return the differences from one evenly sent UDP flow without tags, as JSON; None if there are none."""
        return None if self == Traffic.usual() else self.model_dump_json(exclude_defaults=True)

    def words(self) -> str:
        """Return the differences for people: `tcp, 1024 flows, VLAN 100, ttl 64, 128 in turn`; empty if there are none."""
        parts: list[str] = [] if self.transport == "udp" else [self.transport]
        if self.flows != FlowSet.usual():
            parts.append(self.flows.words())
        parts += [f"VLAN {number}" for number in self.vlans]
        parts += [f"extension header {header}" for header in self.extension_headers]
        parts += [rule.words() for rule in self.vary]
        return ", ".join([*parts, *([] if self.burst is None else [self.burst.text()])])

    @property
    def elsewhere(self) -> bool:
        """True if frames have addresses other than the link's."""
        return self.flows.sources is not None or self.flows.destinations is not None or self.varied_addresses

    @property
    def varied_addresses(self) -> bool:
        """True if `vary` changes addresses."""
        return any(rule.name in ADDRESSES for rule in self.vary)

    @property
    def flow_count(self) -> int:
        """Most flows that a state table can see."""
        return self.flows.count * prod(rule.members for rule in self.vary if rule.name in TELLS_FLOWS)

    def misfits(self, frame_bytes: int, *, ipv6: bool) -> Iterator[tuple[str, str]]:
        """Yield (field, reason) for fields that frames of this size, with FCS, do not have or must not vary."""
        least = self.shortest(ipv6=ipv6) - FCS_BYTES
        for rule in self.vary:
            if what := rule.misfit(ipv6=ipv6):
                yield rule.name, what
            elif (bits := rule.bits) is not None and bits[0] < 8 * least:
                yield rule.name, f"headers and the probe end at byte {least} of a frame; before that, vary a field by its name"
            elif bits is not None and bits[1] > 8 * (end := (frame_bytes - FCS_BYTES) & ~1):
                yield rule.name, f"reaches past byte {end} of a frame of {frame_bytes} bytes with FCS"

    def shortest(self, *, ipv6: bool) -> int:
        """Return the bytes with FCS of the shortest frame that fits headers and probe (docs/reference/engine-protocol.md)."""
        of_ip = 20 + sum(EXTENSION_BYTES[header] for header in self.extension_headers) if ipv6 else 0
        return 64 + 4 * len(self.vlans) + (12 if self.transport in {"tcp", "tcp-syn"} else 0) + of_ip
