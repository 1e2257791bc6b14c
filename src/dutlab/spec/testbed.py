"""The testbed file: the hosts, the ways to reach them, and the links between them.

    testbed: e302-9d
    hosts:
      source: {ssh: root@192.0.2.11, family: linux}
      dut:    {ssh: admin@192.0.2.1, family: pfsense}
      sink:   {ssh: root@192.0.2.12, family: linux}
    links:
      a: {speed: 10G, path: [source:ixl2, dut:ixl2, dut:ixl0, sink:ix0],
          addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}

Host names are free; source, dut and sink are the convention. A link is a path of two or more ports, as above, or a segment:

      lan: {segment: [pc1:eth0, pc2:eth0, pc3:eth0], addresses: [192.0.2.11/24, 192.0.2.12/24, 192.0.2.13/24]}

A testbed may have no links. Embedded labs use the same models; there, a host needs no `ssh` and a link has no speed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, Strict, ValidationError
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.about import AboutSpec
from dutlab.spec.account import AccountSpec
from dutlab.spec.cores import Cores, HostCores
from dutlab.spec.distance import Distance
from dutlab.spec.drives import ArraySpec, DriveSpec
from dutlab.spec.fields import Name, YesNo, adapter_fault, interface_fault, named, ssh_fault, vpp_interface_fault
from dutlab.spec.generators import Generator
from dutlab.spec.known import BLACK_BOX, FAMILY_MODES, MDRAID, OWN_PORTS, WITHOUT_A_WAY_IN
from dutlab.spec.links import DUT, Link, Port
from dutlab.spec.model import FILE_CONTEXT, NAME_KEY, SpecModel, did_you_mean, fault
from dutlab.spec.sensor import Sensors, host_faults
from dutlab.spec.switch import Power
from dutlab.systems import SYSTEMS


class HostSpec(SpecModel):
    """A host. Its key in the file is its name."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name
    family: str = "linux"
    ssh: str | None = None
    """`[user@]host[:port]`; None for the machine that dutlab runs on, and in an embedded lab."""
    local: YesNo = False
    """True for the machine that dutlab runs on, in place of `ssh`."""
    netns: Name | None = None
    """Network namespace of this machine (ip-netns(8)) that acts as the host; needs `local`."""
    cpus: HostCores = Cores()
    """Cores for the threads that send or receive on the host, or those of each link; if empty, the kernel chooses."""
    cpus_per_port: Annotated[int, Strict(), Field(ge=1)] = 1
    """Number of `cpus` that each port of the engine takes, in turn; one thread sends on each core."""
    backend: Literal["auto", "xdp", "af_xdp", "af_packet"] = "auto"
    """Back end of the engine at the host's ports; `dutlab-engine probe IFACE --measure` finds the fastest."""
    drives: Annotated[dict[str, DriveSpec], BeforeValidator(named), Field(default_factory=dict)]
    """Drives of the host that are measured."""
    array: ArraySpec = ArraySpec.usual()
    """Options of the arrays that modes create from the drives."""
    account: AccountSpec = AccountSpec.usual()
    """Further processes that belong to the device, so that their CPU time does not count as other work."""
    power: Power = None
    """Power switch of the host."""
    about: AboutSpec = AboutSpec.usual()
    """Specification of the host, for reports."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check the family, the ssh target and the cores, and that a black box has no way in."""
        family, ssh = data.get("family"), data.get("ssh")
        if isinstance(family, str) and family not in FAMILY_MODES:
            yield fault(
                ("family",),
                f"{family!r} is not a family {did_you_mean(family, [name for name in FAMILY_MODES if name != MDRAID])}",
                FaultKind.UNKNOWN_NAME,
            )
        if family == MDRAID:
            yield fault(
                ("family",),
                "is the family of a Linux host with drives in a testbed without links; write linux, and drives",
                FaultKind.CONFLICT,
            )
        if isinstance(family, str) and data.get("cpus") and (system := SYSTEMS.get(family)) and not system.pin:
            yield fault(
                ("cpus",), f"{system.title} has no command that keeps a program on chosen cores; leave cpus out", FaultKind.CONFLICT
            )
        each, cpus = data.get("cpus_per_port"), data.get("cpus") or ()
        lists = list(cpus.values()) if isinstance(cpus, Mapping) else [cpus]
        fewest = min((len(of) for of in lists if isinstance(of, Sequence)), default=None)
        if isinstance(each, int) and fewest is not None and each > max(1, fewest):
            yield fault(("cpus_per_port",), f"is {each}, and cpus names {fewest}; name as many cores, or leave it out", FaultKind.CONFLICT)
        if isinstance(ssh, str) and (what := ssh_fault(ssh)):
            yield fault(("ssh",), what)
        yield from _place_faults(data)
        if isinstance(family, str) and family in WITHOUT_A_WAY_IN and (ssh is not None or data.get("local") is True):
            yield fault(
                ("family",),
                f"{family} cannot be combined with a login; leave ssh and local out, or name the family",
                FaultKind.CONFLICT,
            )
        if made is not None and made.drives and made.family != "linux":
            yield fault(
                ("drives",), f"drives of {made.family} cannot be identified and inspected yet; only those of Linux", FaultKind.CONFLICT
            )
        if made is not None:
            yield from _named_twice(made.drives)


def _place_faults(data: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    if data.get("ssh") is not None and data.get("local") is True:
        yield fault(("local",), "cannot be combined with ssh; a host is either this machine or reached over ssh", FaultKind.CONFLICT)
    if data.get("netns") is not None and data.get("local") is not True:
        yield fault(("netns",), "is a namespace of this machine: write local: true with it", FaultKind.CONFLICT)


def _named_twice(drives: Mapping[str, DriveSpec]) -> Iterator[InitErrorDetails]:
    name_by_key: dict[tuple[str | None, ...], str] = {}
    for name, drive in drives.items():
        key = (drive.by_id, drive.serial, drive.file)
        if (first := name_by_key.setdefault(key, name)) != name:
            yield fault(("drives", name), f"is the same drive as {first}", FaultKind.DUPLICATE)


class Testbed(SpecModel):
    """A testbed file."""

    __test__ = False  # pytest would take it for a test class by its name
    only_code: ClassVar[frozenset[str]] = frozenset({"lab"})

    name: Annotated[Name, Field(alias="testbed")]
    hosts: Annotated[dict[str, HostSpec], BeforeValidator(named)]
    links: Annotated[dict[str, Link], BeforeValidator(named), Field(default_factory=dict)]
    generator: Generator | None = None
    """Generator for experiments that name none; None is the engine."""
    sensors: Annotated[Sensors, Field(default_factory=dict)]
    """Sensors of every trial, in addition to those that an experiment requests."""
    lab: str | None = None
    """Name of the embedded lab; None for a testbed of real machines."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check rules between hosts and links, as far as possible where some of them are wrong."""
        links = made.links if made else _whole_links(data.get("links"))
        hosts = data.get("hosts")
        yield from _port_faults(links)
        yield from _distance_faults(links)
        yield from _network_faults(links)
        if isinstance(hosts, Mapping):
            yield from _host_faults(hosts, links, in_lab=data.get("lab") is not None)
            yield from _reference_faults(links, hosts)
            yield from host_faults(data.get("sensors"), hosts, frozenset(n for n, h in hosts.items() if _family(h) in WITHOUT_A_WAY_IN))
        if made is not None:
            yield from _power_faults(made.hosts)
            yield from _core_faults(made.hosts, links)
        if made is not None and not made.hosts:
            yield fault(("hosts",), "empty; a testbed needs a host", FaultKind.MISSING)

    @property
    def drives(self) -> dict[str, DriveSpec]:
        """Drives of every host, by `host:name`."""
        return {f"{host}:{name}": drive for host, spec in self.hosts.items() for name, drive in spec.drives.items()}

    @property
    def dut(self) -> str | None:
        """Measured host: the one called `dut`, else the one on the paths, or without links the one with drives."""
        with_drives = [name for name, host in self.hosts.items() if host.drives]
        storage = with_drives[0] if len(with_drives) == 1 and not self.links else None
        return _dut_of(self.hosts, self.links.values()) or storage

    @property
    def dut_family(self) -> str:
        """Family of the DUT: that of arrays for a host with drives and no links, and that of a black box without a DUT."""
        if self.dut is not None and self.hosts[self.dut].drives and not self.links:
            return MDRAID
        return BLACK_BOX if self.dut is None else self.hosts[self.dut].family

    def through_dut(self) -> Self:
        """Return the testbed with only the links through the DUT, which are those that a mode affects."""
        return self.model_copy(update={"links": {name: link for name, link in self.links.items() if self.dut in link.forwarders}})

    def at_distances(self, distances: Mapping[str, Distance]) -> Self:
        """Return the testbed with these distances on its links, by name; other links are unchanged."""
        keys = tuple(Distance.model_fields)
        far = {name: {key: getattr(of, key) for key in keys} for name, of in distances.items() if of.is_distant}
        links = {name: link.model_copy(update=far.get(name, {})) for name, link in self.links.items()}
        return self.model_copy(update={"links": links})

    def isolates(self, link: Link) -> bool:
        """Return whether only the testbed is on a link, by the file or because the testbed is a lab."""
        return link.isolated or self.lab is not None

    def ports_of(self, host: str) -> list[str]:
        """Return the interfaces of a host on all links, in the order of links and ports."""
        return list(dict.fromkeys(port.interface for link in self.links.values() for port in link.ports if port.host == host))

    @property
    def ends(self) -> tuple[str, ...]:
        """Hosts where traffic of any link starts or ends."""
        return tuple(dict.fromkeys(host for link in self.links.values() for host in link.ends))


def _dut_of(hosts: Collection[str], links: Iterable[Link]) -> str | None:
    """Return the host called `dut`, else the first one that forwards on a path."""
    return DUT if DUT in hosts else next((host for link in links for host in link.forwarders), None)


def _whole_links(raw: object) -> dict[str, Link]:
    """Return the valid links of a file of which another part is wrong."""
    links = {}
    for name, link in raw.items() if isinstance(raw, Mapping) else ():
        try:
            links[str(name)] = Link.model_validate({**link, NAME_KEY: name} if isinstance(link, Mapping) else link, context=FILE_CONTEXT)
        except ValidationError:
            continue  # its faults are reported by the field itself
    return links


def _host_faults(hosts: Mapping[str, Any], links: Mapping[str, Link], *, in_lab: bool) -> Iterator[InitErrorDetails]:
    dut = _dut_of(hosts, links.values())
    for name, other in ((name, host) for name, link in links.items() for host in link.forwarders if dut not in link.forwarders):
        what = f"goes through {other}, but the measured host is {dut}; every path goes through it, or call the measured host dut"
        if dut != DUT:
            yield fault(("links", name, "path"), what, FaultKind.CONFLICT)
    for name, host in hosts.items():
        ssh, local, kind = (host.get(key) if isinstance(host, Mapping) else getattr(host, key, None) for key in ("ssh", "local", "family"))
        if isinstance(kind, str) and kind in WITHOUT_A_WAY_IN:
            if name != dut:
                yield fault(("hosts", name, "family"), f"only the DUT may be {kind}: the others run commands", FaultKind.CONFLICT)
        elif not (ssh or local) and not in_lab and isinstance(host, Mapping | HostSpec):
            what = "missing; write how to reach the host, as in root@192.0.2.11, or `local: true` for this machine"
            yield fault(("hosts", name, "ssh"), what, FaultKind.MISSING)


def _core_faults(hosts: Mapping[str, HostSpec], links: Mapping[str, Link]) -> Iterator[InitErrorDetails]:
    """Check that each link with cores exists, and has a port of the host."""
    for name, host in hosts.items():
        for link in host.cpus.by_link:
            at = ("hosts", name, "cpus", link)
            if link not in links:
                yield fault(at, f"there is no link {link!r} {did_you_mean(link, links)}", FaultKind.UNKNOWN_NAME)
            elif name not in links[link].hosts:
                yield fault(at, f"link {link} has no port of {name}", FaultKind.CONFLICT)


def _power_faults(hosts: Mapping[str, HostSpec]) -> Iterator[InitErrorDetails]:
    """Check that switching a host does not cut the power of this machine, or of a host that must not be switched."""
    for name, host in hosts.items():
        if host.power is None or not host.power.may_switch:
            continue
        outlet = host.power.outlet
        cut = {other: spec for other, spec in hosts.items() if spec.power is not None and spec.power.outlet == outlet}
        if here := [other for other, spec in cut.items() if spec.local]:
            what = f"switching it would cut {', '.join(here)}, the machine that dutlab runs on"
            yield fault(("hosts", name, "power"), f"{what}; leave may-switch out, and switch it by hand", FaultKind.CONFLICT)
        elif protected := [other for other, spec in cut.items() if spec.power is not None and not spec.power.may_switch]:
            what = f"switching it would also cut {', '.join(protected)}, which must not be switched"
            yield fault(("hosts", name, "power"), f"{what}; name each host's own outlet, or allow it there too", FaultKind.CONFLICT)


def _family(host: object) -> str:
    """Return the family as written; empty where it is not text, which is reported separately."""
    family = host.get("family") if isinstance(host, Mapping) else getattr(host, "family", None)
    return family if isinstance(family, str) else ""


def _port_fault(family: str, interface: str) -> str:
    """Return the fault of a port's name on a system of this family, or ""."""
    system = SYSTEMS.get(family)
    if system is not None and system.spaced_ports:
        return adapter_fault(interface)
    return vpp_interface_fault(interface) if family in OWN_PORTS else interface_fault(interface)


def _reference_faults(links: Mapping[str, Link], hosts: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    for name, link in links.items():
        for i, port in enumerate(link.ports):
            at = ("links", name, "path" if link.path else "segment", i)
            if port.host not in hosts:
                yield fault(at, f"{port}: there is no host {port.host!r} {did_you_mean(port.host, hosts)}", FaultKind.UNKNOWN_NAME)
            elif what := _port_fault(_family(hosts[port.host]), port.interface):
                yield fault(at, what)
        for end in link.ends if link.configure else ():
            system = SYSTEMS.get(_family(hosts.get(end)))
            if system is not None and system.has_way_in and not system.kernel_tables:
                what = (
                    f"{end} is a {system.title}; a run configures ports of Linux only: set the port's address there and leave configure out"
                )
                yield fault(("links", name, "configure"), what, FaultKind.CONFLICT)


def _port_faults(links: Mapping[str, Link]) -> Iterator[InitErrorDetails]:
    link_by_port: dict[str, str] = {}
    for name, link in links.items():
        for i, port in enumerate(link.ports):
            if (other := link_by_port.setdefault(str(port), name)) != name and not _shared(links[other], link, i):
                what = f"{port} is already used by link {other}{_how_to_share(links[other], link, port)}"
                yield fault(("links", name, "path" if link.path else "segment", i), what, FaultKind.DUPLICATE)


def _how_to_share(first: Link, second: Link, port: Port) -> str:
    """Return advice on how the second link can share the first one's port; empty if its cable cannot be shared."""
    cables = [cable for cable in first.end_cables if port in {of for of, _ in (cable.near, cable.far)}]
    if not cables or not second.path:
        return ""
    if len([cable for cable in second.end_cables if cable in first.end_cables]) > 1:
        return "; these two are one path: links share the cable at one end alone, unless one is of IPv4 and the other of IPv6"
    near, far = (f"{of} {address}" for of, address in (cables[0].near, cables[0].far))
    return f"; to share its cable, write both of its ports as link {first.name} has them, at the {cables[0].end}'s end alone: {near}, {far}"


def _dual_stack(first: Link, second: Link) -> bool:
    """Return whether the two links are the same path, one with IPv4 addresses and one with IPv6 addresses."""
    versions = [{address.version for address in link.addresses} for link in (first, second)]
    return bool(first.path) and first.ports == second.ports and versions[0].isdisjoint(versions[1])


def _shared(first: Link, second: Link, at: int) -> bool:
    """Return whether both links may use the second's port `at`: it is on their only common end cable, or both are the same path."""
    if _dual_stack(first, second):
        return True
    common = [cable for cable in second.end_cables if cable in first.end_cables]
    return len(common) == 1 and second.ports[at] in {port for port, _ in (common[0].near, common[0].far)}


def _distance_faults(links: Mapping[str, Link]) -> Iterator[InitErrorDetails]:
    """Check that links on the same port have the same distance, since a port has one queue."""
    link_by_port: dict[str, Link] = {}
    for name, link in links.items():
        for port in link.distance_ports if link.path and link.forwarders else ():
            first = link_by_port.setdefault(str(port), link)
            if first.distance_words != link.distance_words:
                what = f"{port} is also of link {first.name}, whose distance is {first.distance_words or 'none'}; write the same for both"
                yield fault(("links", name), what, FaultKind.CONFLICT)


def _network_faults(links: Mapping[str, Link]) -> Iterator[InitErrorDetails]:
    for (_, first), (name, second) in combinations(links.items(), 2):
        for i, here in second.networks:
            if _shared(first, second, i):
                continue
            for _, there in first.networks:
                if here.version == there.version and here.overlaps(there):
                    what = f"{here} overlaps {there} of link {first.name}; each cable needs its own network"
                    yield fault(("links", name, "addresses", i), what, FaultKind.CONFLICT)
