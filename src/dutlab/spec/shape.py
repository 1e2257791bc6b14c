"""Properties of a testbed that an experiment must fit: links, drives, hosts and DUT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from dutlab.spec.address_blocks import most_sources
from dutlab.spec.bounds import LinkBounds, TestbedBounds
from dutlab.spec.drives import DriveSpec
from dutlab.spec.generators import ENGINE, GeneratorModel
from dutlab.spec.known import BLACK_BOX, FAMILY_MODES, LABS, MDRAID, WITHOUT_A_WAY_IN, WITHOUT_LINKS
from dutlab.spec.lab_files import lab_testbed
from dutlab.spec.links import DUT, IPV6, Port
from dutlab.spec.model import Loc, did_you_mean
from dutlab.spec.testbed import HostSpec, Testbed


@dataclass(frozen=True)
class TestbedShape:
    """Properties of a testbed that an experiment must fit."""

    title: str
    family: str
    """Family of the DUT; without a DUT, the family of a black box."""
    bounds: TestbedBounds
    hosts: Mapping[str, str]
    """Name → family of each host that accepts commands."""
    generator: GeneratorModel = ENGINE
    """Default generator."""
    machines: Mapping[str, str] = field(default_factory=dict)
    """Host → identity of its machine. Hosts with the same identity share a kernel; a host that is not listed has its own."""
    has_dut: bool = True
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Modes of the family that this DUT cannot have → why."""
    no_switch: str = "the DUT of this lab cannot be switched; that of uml-router can"
    """Reason why the DUT cannot be switched off; empty if it may be."""
    sensors: frozenset[str] | None = None
    """Names of the testbed's sensors; None where the experiment names them."""
    find: Callable[[], Testbed] | None = None
    """Function that returns the whole testbed."""

    @property
    def one_machine(self) -> frozenset[str]:
        """Links with two ends on the same machine, whose kernel would deliver packets locally."""
        return frozenset(name for name, bound in self.bounds.items() if len(self.testers([name])) < len(bound.ends))

    def testers(self, links: Iterable[str]) -> set[str]:
        """Return the machines at the ends of these links."""
        return {self.machines.get(end, end) for name in links for end in self.bounds[name].ends}

    def end_ports(self, links: Iterable[str]) -> Iterator[Port]:
        """Return the source port and the sink port of each of these links."""
        of = self.find().links if self.find is not None else {}
        return (port for name in links if name in of for port in (of[name].source, of[name].sink))

    @classmethod
    def of_lab(cls, name: str) -> Self | None:
        """Return the shape of an embedded lab; None if there is no such lab."""
        if name not in LABS:
            return None
        lab = LABS[name]
        links = {
            link: LinkBounds(
                ipv6=link in lab.ipv6,
                ends=hosts if link in lab.segments else (hosts[0], hosts[-1]),
                hosts=hosts,
                is_segment=link in lab.segments,
                is_transparent=lab.is_transparent,
                shares_with=frozenset(lab.links) - {link} if lab.one_sink else frozenset(),
                through_dut=DUT in hosts[1:-1],
            )
            for link, hosts in lab.links.items()
        }
        drives = {f"{host}:{d}": DriveSpec(name=d, by_id=d, destroy=True, purge=True) for host, of in lab.drives.items() for d in of}
        family = lab.family if lab.family == MDRAID or any(bound.through_dut for bound in links.values()) else BLACK_BOX
        has_dut = DUT in lab.hosts or family == MDRAID
        shape = cls(
            f"lab {name}",
            family,
            TestbedBounds(links, drives),
            dict.fromkeys(lab.hosts, "linux"),
            machines=dict.fromkeys(("source", "sink"), "tester") if lab.one_tester else {},
            has_dut=has_dut,
            lacking={**_modes_unfit_for_paths(family, links.values()), **lab.lacking},
            find=lambda: lab_testbed(name),
        )
        return replace(shape, no_switch="") if lab.guests else shape

    @classmethod
    def of_testbed(cls, testbed: Testbed) -> Self:
        """Return the shape of a testbed file."""
        bounds = bounds_of(testbed)
        reached = {name: host.family for name, host in testbed.hosts.items() if host.family not in WITHOUT_A_WAY_IN}
        through = any(bound.through_dut for bound in bounds.values())
        family = testbed.dut_family if through or testbed.dut_family in WITHOUT_LINKS else BLACK_BOX
        ways = {name: _machine(host) for name, host in testbed.hosts.items()}
        return cls(
            f"testbed {testbed.name}",
            family,
            bounds,
            reached,
            testbed.generator or ENGINE,
            {name: way for name, way in ways.items() if way is not None},
            has_dut=testbed.dut in reached,
            lacking=_modes_unfit_for_paths(family, bounds.values()),
            no_switch=_no_switch(testbed),
            sensors=frozenset(testbed.sensors),
            find=lambda: testbed,
        )

    def unknown_modes(self, named: Iterable[tuple[Loc, str]], own: object, *also: str) -> Iterator[tuple[Loc, str]]:
        """Yield (place, fault) for each of `named` that is neither a mode of the DUT's family nor one of the experiment's own modes."""
        of_family = [name for name in FAMILY_MODES.get(self.family, ()) if name not in self.lacking]
        known = [*of_family, *(own if isinstance(own, Mapping) else ()), *also]
        for at, name in named:
            if name in self.lacking and name not in (own if isinstance(own, Mapping) else ()):
                yield (
                    at,
                    f"{self.title} cannot have mode {name}: {self.lacking[name]} (it has {', '.join(of_family)}, and modes of your own)",
                )
            elif name not in known:
                yield at, f"no mode {name!r} for the DUT of {self.title}, of family {self.family} {did_you_mean(name, known)}"


def _modes_unfit_for_paths(family: str, links: Iterable[LinkBounds]) -> dict[str, str]:
    """Return modes that do not fit the paths through the DUT → why. A router joins two networks; a bridge is inside one network."""
    kinds = set() if family in WITHOUT_LINKS else {link.is_transparent for link in links if link.through_dut}
    why = {
        "ethernet": "it forwards below IP, within one network; of each link write the addresses of its two ends alone, or use lab bridge",
        "ip": "it forwards by IP, and both ends of a link are in one network",
    }
    bound = [mode for mode in FAMILY_MODES.get(family, {}).values() if mode.forwards in why]
    return {mode.name: why[mode.forwards] for mode in bound if kinds - {mode.forwards == "ethernet"}}


def _machine(host: HostSpec) -> str | None:
    """Return the identity of the host's machine. It is the same for two hosts if one kernel has the addresses of both."""
    return (f"namespace {host.netns}" if host.netns else "this machine") if host.local else host.ssh


def _no_switch(testbed: Testbed) -> str:
    if testbed.dut is None or (switch := testbed.hosts[testbed.dut].power) is None:
        return f"testbed {testbed.name} does not state what switches its DUT; write `power:` below the host"
    return (
        ""
        if switch.may_switch
        else f"testbed {testbed.name} does not allow to switch {testbed.dut}; write `may-switch: yes` below its `power:`"
    )


def bounds_of(testbed: Testbed) -> TestbedBounds:
    """Return the limits of each link by name, and the drives."""
    links = {
        name: LinkBounds(
            link.mtu,
            link.speed,
            ipv6=link.source_address.version == IPV6,
            ends=link.ends,
            hosts=link.hosts,
            is_segment=bool(link.segment),
            is_transparent=link.is_transparent,
            shares_with=frozenset(other.name for other in testbed.links.values() if other.name != name and {*other.ports} & {*link.ports}),
            through_dut=testbed.dut in link.forwarders,
            isolated=testbed.isolates(link),
            most_sources=most_sources(link.source_address, [address.ip for address in link.addresses]),
        )
        for name, link in testbed.links.items()
    }
    return TestbedBounds(links, testbed.drives)
