"""What an input file may name although it is built elsewhere: embedded labs, and the systems of `systems/`.

The files are checked without touching a host or importing what does; a test of each room that builds them compares its own list with
this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dutlab.systems import SYSTEMS, closed, linux
from dutlab.systems.modes import FIREWALL, OWN, ROUTER, TUNNELS, WIREGUARD, DeclaredMode, ModeArray

ROLES = ("source", "dut", "sink")

BLACK_BOX, MANUAL = closed.BLACK_BOX.name, closed.MANUAL.name
LINUX, MDRAID = linux.LINUX.name, linux.MDRAID.name
EXACT = linux.EXACT.name
WITHOUT_LINKS = frozenset({MDRAID, EXACT})
"""Families whose modes need no path through the DUT."""
FAMILY_MODES: Mapping[str, Mapping[str, DeclaredMode]] = MappingProxyType(
    {name: {mode.name: mode for mode in system.modes} for name, system in SYSTEMS.items()}
)
"""Family → the modes that it brings along, by name."""
WITHOUT_A_WAY_IN = frozenset(name for name, system in SYSTEMS.items() if not system.has_way_in)
"""Families that no command reaches."""
OWN_PORTS = frozenset(name for name, system in SYSTEMS.items() if not system.ports)
"""Families whose ports have names of their own, which no command of ours lists."""
RUN_ENGINE = frozenset(name for name, system in SYSTEMS.items() if system.runs_engine)
"""Families of hosts on which the engine runs."""


def mode_of(family: str, name: str) -> DeclaredMode:
    """The record of a family's mode; of any other, one that says nothing but its name."""
    return FAMILY_MODES.get(family, {}).get(name) or DeclaredMode(name)


def modes_of(family: str, own: Mapping[str, str | None]) -> dict[str, DeclaredMode]:
    """All modes that an experiment may name: the family's, and its own, of which `own` says the device of the array that each makes."""
    arrays = {name: ModeArray(OWN, "", 0, device=device) if device else None for name, device in own.items()}
    return {**FAMILY_MODES.get(family, {}), **{name: DeclaredMode(name, array=array) for name, array in arrays.items()}}


@dataclass(frozen=True)
class KnownLab:
    """What an experiment file may ask of an embedded lab."""

    links: Mapping[str, tuple[str, ...]]
    """Link → the hosts on it, in the order of its ports."""
    family: str = "linux"
    """Family of the measured host."""
    ipv6: bool = False
    """Whether its links' addresses are."""
    segments: frozenset[str] = frozenset()
    """Those of its links that are not paths."""
    one_sink: bool = False
    """Whether all its links end at one port."""
    drives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Host → its drives."""
    guests: int = 0
    """Hosts with a kernel of their own, which boots when the lab is built."""
    one_tester: bool = False
    """Whether source and sink are one namespace."""

    lacking: Mapping[str, str] = field(default_factory=dict)
    """Modes of its family that it cannot have → why."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(dict.fromkeys((*(host for hosts in self.links.values() for host in hosts), *self.drives)))


_NO_FILTER = dict.fromkeys((mode.name for mode in FIREWALL if mode != ROUTER), "the guest's kernel has no nf_tables for IP")
"""Debian's user-mode Linux 6.1: `# CONFIG_NF_TABLES_IPV4 is not set` in its config.gz, and INET, IPV6 likewise."""
_NO_WIREGUARD = {WIREGUARD.name: "the guest's kernel has no WireGuard: use lab qemu-two-sites"}
_NO_TUNNEL, _NO_TUNNEL_OF_QEMU = (
    dict.fromkeys((mode.name for mode in TUNNELS), f"a tunnel ends on the source too, whose kernel is this machine's: use lab {other}")
    for other in ("uml-two-sites", "qemu-two-sites")
)
_ONE_KERNEL = dict.fromkeys((mode.name for mode in TUNNELS), "source and sink are one namespace, whose kernel reaches both: use three-node")
LABS: Mapping[str, KnownLab] = MappingProxyType(
    {name: KnownLab({"a": ROLES, "b": ROLES}) for name in ("three-node", "four-queues", "three-node-rfc2544", "three-node-ssh")}
    | {
        "three-node-rfc5180": KnownLab({"a": ROLES, "b": ROLES}, ipv6=True),
        "uml-router": KnownLab({"a": ROLES, "b": ROLES}, guests=1, lacking=_NO_FILTER | _NO_TUNNEL | _NO_WIREGUARD),
        "uml-two-sites": KnownLab({"a": ROLES}, guests=2, lacking=_NO_FILTER | _NO_WIREGUARD),
        "qemu-router": KnownLab({"a": ROLES, "b": ROLES}, guests=1, lacking=_NO_TUNNEL_OF_QEMU),
        "qemu-router-vmxnet3": KnownLab({"a": ROLES, "b": ROLES}, guests=1, lacking=_NO_TUNNEL_OF_QEMU),
        "qemu-two-sites": KnownLab({"a": ROLES}, guests=2),
        "four-hosts": KnownLab({"a": ("s1", "dut", "t1"), "b": ("s2", "dut", "t2")}),
        "fan-in": KnownLab({link: (f"s{n}", "dut", "sink") for n, link in enumerate("abcd", start=1)}, one_sink=True),
        "two-routers": KnownLab({"a": ("source", "dut", "router", "sink")}),
        "two-port": KnownLab({"a": ROLES}, one_tester=True, lacking=_ONE_KERNEL),
        "two-port-ipv6": KnownLab({"a": ROLES}, ipv6=True, one_tester=True, lacking=_ONE_KERNEL),
        "back-to-back": KnownLab({"a": ("source", "sink")}),
        "flat": KnownLab({"lan": ("pc1", "pc2", "pc3")}, segments=frozenset({"lan"})),
        "jbod": KnownLab({}, MDRAID, drives={"server": ("d1", "d2", "d3", "d4")}),
        "raid": KnownLab({}, MDRAID, drives={"server": ("d1", "d2", "d3", "d4", "d5", "d6")}, guests=1),
    }
)
"""Embedded labs by name."""
