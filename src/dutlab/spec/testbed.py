"""The testbed file: which hosts there are, how to reach them, and the way a packet takes through them.

    testbed: e302-9d
    hosts:
      source: {ssh: root@192.0.2.11, family: linux}
      dut:    {ssh: admin@192.0.2.1, family: pfsense}
      sink:   {ssh: root@192.0.2.12, family: linux}
    links:
      a: {speed: 10G, path: [source:ixl2, dut:ixl2, dut:ixl0, sink:ix0],
          addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}

The embedded labs build the same models in code; there a host needs no `ssh` and a link has no speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, Strict, ValidationError, model_serializer
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Address, BitRate, Name, interface_fault, named, ssh_fault, vpp_interface_fault
from dutlab.spec.generators import Generator
from dutlab.spec.known import FAMILY_MODES, OWN_PORTS, ROLES, WITHOUT_A_WAY_IN
from dutlab.spec.model import FILE_CONTEXT, NAME_KEY, SpecModel, did_you_mean, fault
from dutlab.spec.sensors import Sensors, host_faults
from dutlab.systems import SYSTEMS

IPV6 = 6
IPV6_LEAST_MTU = 1280  # RFC 8200 section 5
_LAST_CPU = 8191  # CONFIG_NR_CPUS of x86 at most
PATH_ROLES = ("source", "dut", "dut", "sink")


class HostSpec(SpecModel):
    """A machine. Its key in the file is its role."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name
    family: str = "linux"
    ssh: str | None = None
    """`[user@]host[:port]`; None for the machine that dutlab runs on, and in an embedded lab."""
    local: Annotated[bool, Strict()] = False
    """True for the machine that dutlab runs on, in place of `ssh`."""
    cpus: tuple[Annotated[int, Strict(), Field(ge=0, le=_LAST_CPU)], ...] = ()
    """Cores of the threads that send or receive there; none leaves them to the kernel."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether the family is known and the ssh target is one, and whether a black box is left one."""
        del made
        faults = []
        family, ssh = data.get("family"), data.get("ssh")
        if isinstance(family, str) and family not in FAMILY_MODES:
            faults.append(fault(("family",), f"{family!r} is not a family {did_you_mean(family, FAMILY_MODES)}"))
        if isinstance(family, str) and data.get("cpus") and (system := SYSTEMS.get(family)) and not system.pin:
            faults.append(fault(("cpus",), f"{system.title} has no command that keeps a program on chosen cores; leave cpus out"))
        if isinstance(ssh, str) and (what := ssh_fault(ssh)):
            faults.append(fault(("ssh",), what))
        if ssh is not None and data.get("local") is True:
            faults.append(fault(("local",), "stands beside ssh; a host is either this machine or reached over ssh"))
        if isinstance(family, str) and family in WITHOUT_A_WAY_IN and (ssh is not None or data.get("local") is True):
            faults.append(fault(("family",), f"{family} stands beside a way in; leave ssh and local out, or name the family"))
        return faults


class Port(SpecModel):
    """One interface of one host; written `host:interface`."""

    host: str
    interface: str

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """`source:ixl2` as a mapping."""
        if isinstance(data, Mapping):
            return data
        if not isinstance(data, str) or ":" not in data:
            raise ValueError(f"{data!r} is not a port; write host:interface, as in source:eth1")
        host, _, interface = data.partition(":")
        if what := vpp_interface_fault(interface):  # the longest names; a testbed knows which hosts have shorter ones
            raise ValueError(what)
        return {"host": host, "interface": interface}

    def __str__(self) -> str:
        return f"{self.host}:{self.interface}"

    @model_serializer
    def _text(self) -> str:
        return str(self)


class Link(SpecModel):
    """The path of a packet: source port → DUT in → DUT out → sink port, and the address of each."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name
    speed: BitRate | None = None
    """Bits per second on the wire; None when there is no wire (veth), so there is no ceiling."""
    path: tuple[Port, Port, Port, Port]
    addresses: tuple[Address, Address, Address, Address]
    """In the order of the path, each with its prefix length."""
    mtu: Annotated[int, Strict(), Field(ge=576, le=9216)] = 1500
    isolated: Annotated[bool, Strict()] = False
    """True asserts that nothing but the testbed is attached, which lets the generator load ports it would refuse (RFC 6815)."""
    configure: Annotated[bool, Strict()] = False
    """True lets a run put the addresses of source and sink on their ports, where they are not, and set the ports up; it undoes both."""

    @property
    def source(self) -> Port:
        """Where frames start."""
        return self.path[0]

    @property
    def dut_in(self) -> Port:
        """Where they enter the DUT."""
        return self.path[1]

    @property
    def dut_out(self) -> Port:
        """Where they leave the DUT."""
        return self.path[2]

    @property
    def sink(self) -> Port:
        """Where they end."""
        return self.path[3]

    @property
    def source_address(self) -> Address:
        """Address of the source port."""
        return self.addresses[0]

    @property
    def dut_in_address(self) -> Address:
        """Address of the DUT's port towards the source; the source's gateway."""
        return self.addresses[1]

    @property
    def dut_out_address(self) -> Address:
        """Address of the DUT's port towards the sink; the sink's gateway."""
        return self.addresses[2]

    @property
    def sink_address(self) -> Address:
        """Address of the sink port."""
        return self.addresses[3]

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Order of the path, and whether neighbours share a network."""
        del data
        if made is None:
            return []
        return [*_path_faults(made), *_address_faults(made)]


def _path_faults(link: Link) -> Iterator[InitErrorDetails]:
    for i, (port, role) in enumerate(zip(link.path, PATH_ROLES, strict=True)):
        if port.host != role and port.host in ROLES:
            yield fault(("path", i), f"{port} stands where a port of {role} must: the order is {' → '.join(PATH_ROLES)}")
    if link.dut_in == link.dut_out:
        yield fault(("path", 2), f"{link.dut_out} is also where packets enter the DUT; a link needs two ports of it")


def _address_faults(link: Link) -> Iterator[InitErrorDetails]:
    if len({a.version for a in link.addresses}) > 1:
        yield fault(("addresses",), "IPv4 and IPv6 are mixed; give each family a link of its own")
        return
    if link.addresses[0].version == IPV6 and link.mtu < IPV6_LEAST_MTU:
        yield fault(("mtu",), f"{link.mtu} is below {IPV6_LEAST_MTU}, the least that IPv6 can use (RFC 8200)")
    for left, right, where in ((0, 1, "source and DUT in"), (2, 3, "DUT out and sink")):
        here, there = link.addresses[left], link.addresses[right]
        if here.network != there.network:
            yield fault(("addresses", right), f"{there} is not in {here.network}, but {where} share a wire")
        elif here.ip == there.ip:
            yield fault(("addresses", right), f"{there} is the address of both {where}")
    inner, outer = link.addresses[0].network, link.addresses[2].network
    if inner.overlaps(outer):
        yield fault(("addresses", 2), f"{outer} overlaps {inner} on the other side of the DUT, so nothing would be routed")


class Testbed(SpecModel):
    """A whole testbed."""

    __test__ = False  # not a test class, whatever its name says to pytest
    only_code: ClassVar[frozenset[str]] = frozenset({"lab"})

    name: Annotated[Name, Field(alias="testbed")]
    hosts: Annotated[dict[str, HostSpec], BeforeValidator(named)]
    links: Annotated[dict[str, Link], BeforeValidator(named)]
    generator: Generator | None = None
    """What drives frames here where an experiment names none; None is the engine."""
    sensors: Annotated[Sensors, Field(default_factory=dict)]
    """What is watched in every trial, whatever an experiment asks for."""
    lab: str | None = None
    """Name of the embedded lab that this is; None for machines of your own."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """What holds between hosts and links; as far as it can be told when some of them are wrong."""
        links = made.links if made else _whole_links(data.get("links"))
        hosts = data.get("hosts")
        faults = [*_port_faults(links), *_network_faults(links)]
        if isinstance(hosts, Mapping):
            faults += _host_faults(hosts, in_lab=data.get("lab") is not None)
            faults += _reference_faults(links, hosts)
            faults += host_faults(data.get("sensors"), hosts, frozenset(n for n, h in hosts.items() if _family(h) in WITHOUT_A_WAY_IN))
        if made is not None and not made.links:
            faults.append(fault(("links",), "empty; a testbed needs a link"))
        return faults


def _whole_links(raw: object) -> dict[str, Link]:
    """The links that are right although another part of the file is wrong."""
    links = {}
    for name, link in raw.items() if isinstance(raw, Mapping) else ():
        try:
            links[str(name)] = Link.model_validate({**link, NAME_KEY: name} if isinstance(link, Mapping) else link, context=FILE_CONTEXT)
        except ValidationError:
            continue  # its faults are reported by the field itself
    return links


def _host_faults(hosts: Mapping[str, Any], *, in_lab: bool) -> Iterator[InitErrorDetails]:
    for role in ROLES:
        if role not in hosts:
            yield fault(("hosts", role), "missing; a testbed has the hosts source, dut and sink")
    for name, host in hosts.items():
        if name not in ROLES:
            yield fault(("hosts", name), f"unknown role {did_you_mean(name, ROLES)}")
        ssh, local, kind = (host.get(key) if isinstance(host, Mapping) else getattr(host, key, None) for key in ("ssh", "local", "family"))
        if isinstance(kind, str) and kind in WITHOUT_A_WAY_IN:
            if name != PATH_ROLES[1]:
                yield fault(("hosts", name, "family"), f"only the DUT may be {kind}: frames are sent and counted on the others")
        elif not (ssh or local) and not in_lab and isinstance(host, Mapping | HostSpec):
            what = "missing; write how to reach the host, as in root@192.0.2.11, or `local: true` for this machine"
            yield fault(("hosts", name, "ssh"), what)


def _family(host: object) -> str:
    """As it is written; empty where that is no text, which is a fault of its own."""
    family = host.get("family") if isinstance(host, Mapping) else getattr(host, "family", None)
    return family if isinstance(family, str) else ""


def _reference_faults(links: Mapping[str, Link], hosts: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    for name, link in links.items():
        for i, port in enumerate(link.path):
            if port.host not in hosts:
                yield fault(("links", name, "path", i), f"{port}: there is no host {port.host!r} {did_you_mean(port.host, hosts)}")
            elif _family(hosts[port.host]) not in OWN_PORTS and (what := interface_fault(port.interface)):
                yield fault(("links", name, "path", i), what)


def _port_faults(links: Mapping[str, Link]) -> Iterator[InitErrorDetails]:
    seen: dict[str, str] = {}
    for name, link in links.items():
        for i, port in enumerate(link.path):
            if (other := seen.setdefault(str(port), name)) != name:
                yield fault(("links", name, "path", i), f"{port} is already used by link {other}")


def _network_faults(links: Mapping[str, Link]) -> Iterator[InitErrorDetails]:
    for (_, first), (name, second) in combinations(links.items(), 2):
        for i in (0, 2):
            for j in (0, 2):
                here, there = second.addresses[i].network, first.addresses[j].network
                if here.version == there.version and here.overlaps(there):
                    what = f"{here} overlaps {there} of link {first.name}; each wire needs a network of its own"
                    yield fault(("links", name, "addresses", i), what)
