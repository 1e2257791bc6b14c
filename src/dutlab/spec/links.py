"""A link of a testbed: a path of ports that packets take between hosts, or a segment that ports share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, Strict, model_serializer
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.distance import Distance
from dutlab.spec.fields import Address, BitRate, Name, YesNo, adapter_fault, vpp_interface_fault
from dutlab.spec.known import ROLES
from dutlab.spec.model import SpecModel, fault

IPV6 = 6
IPV6_LEAST_MTU = 1280  # RFC 8200 section 5
DUT = "dut"
"""Conventional name of the measured host."""
PATH_ROLES = ("source", DUT, DUT, "sink")


class Port(SpecModel):
    """One interface of one host; written `host:interface`."""

    host: str
    interface: str

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "string", "pattern": ":"},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Return `source:ixl2` as a mapping."""
        if isinstance(data, Mapping):
            return data
        if not isinstance(data, str) or ":" not in data:
            raise ValueError(f"{data!r} is not a port; write host:interface, as in source:eth1")
        host, _, interface = data.partition(":")
        if (what := vpp_interface_fault(interface)) and adapter_fault(interface):  # the testbed checks which kind of names the host has
            raise ValueError(what)
        return {"host": host, "interface": interface}

    def __str__(self) -> str:
        return f"{self.host}:{self.interface}"

    @model_serializer
    def _text(self) -> str:
        return str(self)


@dataclass(frozen=True)
class EndCable:
    """Cable at the source's or the sink's end of a path: its two ports with their addresses."""

    end: str
    near: tuple[Port, Address]
    far: tuple[Port, Address]


class Link(Distance):
    """Link between hosts: a path through machines that forward, or ports within one network.

    On a path, ports 0 and 1 share a cable, so do 2 and 3, and so on. Ports 1 and 2 belong to the machine that forwards between them. A path
    on which only the two ends have addresses is one network: the machines between forward below IP, as a bridge or a switch does.
    """

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name
    speed: BitRate | None = None
    """Bits per second on the wire; None without a cable (veth), where no ceiling exists."""
    path: tuple[Port, ...] = ()
    segment: tuple[Port, ...] = ()
    """Ports of different hosts in one network, as on a switch, in place of a path."""
    addresses: tuple[Address, ...]
    """Address of each port, with prefix length, in the order of the ports; on a transparent path only those of its two ends."""
    mtu: Annotated[int, Strict(), Field(ge=576, le=9216)] = 1500
    isolated: YesNo = False
    """True asserts that only the testbed is attached. The generator then loads ports that it would otherwise refuse (RFC 6815)."""
    configure: YesNo = False
    """True lets a run add missing addresses to the ports of the link's ends and set these ports up. The run undoes both."""

    @property
    def ports(self) -> tuple[Port, ...]:
        """Ports of the path or of the segment."""
        return self.path or self.segment

    @property
    def is_transparent(self) -> bool:
        """True if source and sink share a network, and the machines between them forward below IP."""
        return len(self.path) > len(self.addresses) == len(("source", "sink"))

    @property
    def addressed(self) -> tuple[tuple[Port, Address], ...]:
        """Ports with their addresses, in order; ports without an address are left out."""
        return tuple(zip((self.source, self.sink) if self.is_transparent else self.ports, self.addresses, strict=True))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Distinct hosts, in the order of the ports."""
        return tuple(dict.fromkeys(port.host for port in self.ports))

    @property
    def ends(self) -> tuple[str, ...]:
        """Hosts where traffic starts and ends: the two ends of a path, all hosts of a segment."""
        return self.hosts if self.segment else (self.source.host, self.sink.host)

    @property
    def networks(self) -> Iterator[tuple[int, IPv4Network | IPv6Network]]:
        """Network of each cable, with the index of its first address."""
        for i in range(0, len(self.addresses) if self.path else 1, 2):
            yield i, self.addresses[i].network

    @property
    def end_cables(self) -> tuple[EndCable, ...]:
        """First and last cable of a path, which other links may share at the same end; none for a segment."""
        if not self.path or len(self.path) % 2 or len(self.addresses) != len(self.path):
            return ()
        cables = [tuple(zip(self.path[at : at + 2], self.addresses[at : at + 2], strict=True)) for at in (0, len(self.path) - 2)]
        return tuple(EndCable(end, *ports) for end, ports in zip(("source", "sink"), cables, strict=True))

    @property
    def source(self) -> Port:
        """Port where frames start."""
        return self.ports[0]

    @property
    def sink(self) -> Port:
        """Port where frames end."""
        return self.ports[-1]

    @property
    def forwarders(self) -> tuple[str, ...]:
        """Hosts between the two ends of a path."""
        return tuple(port.host for port in self.path[1:-1:2])

    @property
    def dut_in(self) -> Port:
        """Port where frames enter the DUT; valid only for links of Testbed.through_dut()."""
        return self.path[self._dut_at]

    @property
    def dut_out(self) -> Port:
        """Port where frames leave the DUT."""
        return self.path[self._dut_at + 1]

    @property
    def dut_ports(self) -> tuple[Port, Port]:
        """Both ports of the DUT."""
        return self.dut_in, self.dut_out

    @property
    def facing_dut(self) -> tuple[Port, Port]:
        """Ports at the other ends of the DUT's cables."""
        return self.path[self._dut_at - 1], self.path[self._dut_at + 2]

    @property
    def source_address(self) -> Address:
        """Address of the source port."""
        return self.addresses[0]

    @property
    def sink_address(self) -> Address:
        """Address of the sink port."""
        return self.addresses[-1]

    @property
    def source_gateway(self) -> Address:
        """Address at the other end of the source's cable: the source's next hop."""
        return self.addresses[1]

    @property
    def sink_gateway(self) -> Address:
        """Address at the other end of the sink's cable: the sink's next hop."""
        return self.addresses[-2]

    @property
    def dut_in_address(self) -> Address:
        """Address of the DUT's port towards the source."""
        return self.addresses[self._dut_at]

    @property
    def dut_out_address(self) -> Address:
        """Address of the DUT's port towards the sink."""
        return self.addresses[self._dut_at + 1]

    @property
    def dut_in_peer(self) -> Address:
        """Address at the other end of the cable on which frames enter the DUT."""
        return self.addresses[self._dut_at - 1]

    @property
    def dut_out_peer(self) -> Address:
        """Address at the other end of the cable on which frames leave the DUT."""
        return self.addresses[self._dut_at + 2]

    @property
    def distance_ports(self) -> tuple[Port, ...]:
        """Ports, one per direction, at which a distance is added: of the last forwarder that is not the DUT, else of the DUT."""
        own = self.path[self._dut_at].host if self.forwarders else ""
        far = [at for at in range(1, len(self.path) - 1, 2) if self.path[at].host != own] or [self._dut_at]
        return self.path[far[-1] : far[-1] + 2]

    def between(self, near: str, far: str) -> tuple[Address, Address]:
        """Return the address of host `near` to bind to, and the address of host `far` to send to.

        A machine that forwards has an address on each side; the nearest pair is used. Raises KeyError for a host without an address here.
        """
        at = {name: [i for i, (port, _) in enumerate(self.addressed) if port.host == name] for name in (near, far)}
        if not at[near] or not at[far]:
            raise KeyError(near if not at[near] else far)
        here, there = min(((i, j) for i in at[near] for j in at[far]), key=lambda pair: abs(pair[0] - pair[1]))
        return self.addresses[here], self.addresses[there]

    @property
    def _dut_at(self) -> int:
        """Index on the path of the port where frames enter the DUT, which is the forwarder called `dut`, or the first one."""
        return 1 + 2 * (self.forwarders.index(DUT) if DUT in self.forwarders else 0)

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check the order of the ports, and which ports share a network."""
        yield from super().cross_faults(data, made)
        if bool(data.get("path")) == bool(data.get("segment")):
            missing = "missing; write the ports of the link, as in [source:eth1, sink:eth1]"
            twice = ("cannot be combined with segment", FaultKind.CONFLICT)
            yield fault(("path",), *(twice if data.get("path") else (missing, FaultKind.MISSING)))
        elif made is not None and made.segment:
            yield from _segment_faults(made)
        elif made is not None:
            yield from _path_faults(made)
            yield from _address_faults(made)
        if made is not None and made.is_distant and not made.forwarders:
            key = next(key for key in Distance.model_fields if getattr(made, key) is not None)
            yield fault(
                (key,),
                "no machine on this link forwards, so none can add a distance; it takes a path of four ports or more",
                FaultKind.CONFLICT,
            )


def _path_faults(link: Link) -> Iterator[InitErrorDetails]:
    if len(link.path) % 2:
        yield fault(
            ("path",),
            f"{len(link.path)} ports; a path has an even number, two a cable: 2 back to back, 4 through one machine",
            FaultKind.CONFLICT,
        )
        return
    for i, port in enumerate(link.path):
        role = PATH_ROLES[i] if len(link.path) == len(PATH_ROLES) else port.host
        first = next(j for j, other in enumerate(link.path) if other.host == port.host)
        if port in link.path[:i]:
            what = "is also where packets enter it; a machine that forwards needs two ports" if i % 2 == 0 else "is a duplicate"
            yield fault(("path", i), f"{port} {what}")
        elif port.host != role and port.host in ROLES:
            yield fault(("path", i), f"{port} where a port of {role} must be: the order is {' → '.join(PATH_ROLES)}", FaultKind.CONFLICT)
        elif i % 2 == 0 and i and port.host != link.path[i - 1].host:
            yield fault(
                ("path", i),
                f"{port} and {link.path[i - 1]} are of two hosts; ports 2 and 3 are of one machine, and so on",
                FaultKind.CONFLICT,
            )
        elif first != i and not (i % 2 == 0 and first == i - 1):
            yield fault(("path", i), f"the path returns to {port.host}, where it has been at {link.path[first]}", FaultKind.CONFLICT)


def _count_faults(link: Link) -> Iterator[InitErrorDetails]:
    if len(link.addresses) != len(link.ports) and not link.is_transparent:
        ends = ", or the two of its ends where all between forward below IP" if len(link.path) >= len(PATH_ROLES) else ""
        what = f"{len(link.addresses)} for {len(link.ports)} ports; write one a port, in the same order{ends}"
        yield fault(("addresses",), what, FaultKind.CONFLICT)
    elif len({a.version for a in link.addresses}) > 1:
        yield fault(("addresses",), "IPv4 and IPv6 are mixed; give each family a separate link", FaultKind.CONFLICT)
    elif link.addresses and link.addresses[0].version == IPV6 and link.mtu < IPV6_LEAST_MTU:
        yield fault(("mtu",), f"{link.mtu} is below {IPV6_LEAST_MTU}, the least that IPv6 can use (RFC 8200)", FaultKind.RANGE)


def _address_faults(link: Link) -> Iterator[InitErrorDetails]:
    if len(link.path) % 2:
        return
    if faults := list(_count_faults(link)):
        yield from faults
        return
    for i in range(0, len(link.addresses), 2):
        here, there = link.addresses[i], link.addresses[i + 1]
        where = " and ".join(str(port) for port, _ in link.addressed[i : i + 2])
        if here.network != there.network:
            share = "are the ends of one network" if link.is_transparent else "share a cable"
            yield fault(("addresses", i + 1), f"{there} is not in {here.network}, but {where} {share}", FaultKind.CONFLICT)
        elif here.ip == there.ip:
            yield fault(("addresses", i + 1), f"{there} is the address of both {where}", FaultKind.DUPLICATE)
        for j in range(0, i, 2):
            if here.network.overlaps(other := link.addresses[j].network):
                what = f"{here.network} overlaps {other} on another cable of the path, so nothing would be routed"
                what += "; of a bridge or a switch write the addresses of the two ends alone" if here.network == other else ""
                yield fault(("addresses", i), what, FaultKind.CONFLICT)


def _segment_faults(link: Link) -> Iterator[InitErrorDetails]:
    hosts = [port.host for port in link.segment]
    if len(link.segment) < 2:  # noqa: PLR2004 -- a segment joins at least two
        yield fault(("segment",), "a single port; a segment joins two or more hosts", FaultKind.MISSING)
    for i, port in enumerate(link.segment):
        if port.host in hosts[:i]:
            yield fault(("segment", i), f"{port.host} is on it twice; a host has one port on a segment", FaultKind.DUPLICATE)
    if faults := list(_count_faults(link)):
        yield from faults
        return
    for i, address in enumerate(link.addresses):
        if address.network != (network := link.addresses[0].network):
            yield fault(
                ("addresses", i),
                f"{address} is not in {network}, the network of {link.segment[0]}; a segment is one network",
                FaultKind.CONFLICT,
            )
        elif address.ip in {a.ip for a in link.addresses[:i]}:
            yield fault(("addresses", i), f"{address} is the address of another port too", FaultKind.DUPLICATE)
