"""Names in input files that refer to other packages: embedded labs, and the systems of `systems/`.

Input files are checked without touching a host or importing the code that does. A test compares these lists with those of the packages that
build the labs and systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from dutlab.systems import SYSTEMS
from dutlab.systems.modes import FIREWALL, OWN, ROUTER, TUNNELS, USER_SPACE, WIREGUARD, DeclaredMode, ModeArray

if TYPE_CHECKING:
    from dutlab.systems.system import System

ROLES = ("source", "dut", "sink")

BLACK_BOX, MANUAL = "black-box", "manual"
LINUX, MDRAID, EXACT = "linux", "mdraid", "linux-exact"
WITHOUT_LINKS = frozenset({MDRAID, EXACT})
"""Families whose modes need no path through the DUT."""


@cache
def _modes(family: str) -> Mapping[str, DeclaredMode]:
    return MappingProxyType({mode.name: mode for mode in SYSTEMS[family].modes})


class _FamilyModes(Mapping[str, Mapping[str, DeclaredMode]]):
    """Family → its modes. Only the record of the family that is asked for is imported."""

    def __getitem__(self, family: str) -> Mapping[str, DeclaredMode]:
        return _modes(family)

    def __contains__(self, family: object) -> bool:
        return family in SYSTEMS

    def __iter__(self) -> Iterator[str]:
        return iter(SYSTEMS)

    def __len__(self) -> int:
        return len(SYSTEMS)


class _Families(AbstractSet[str]):
    """Families whose records have a property. `in` imports the record of one family, and iteration all of them."""

    def __init__(self, has: Callable[[System], bool]) -> None:
        self._has = has

    def __contains__(self, family: object) -> bool:
        return isinstance(family, str) and family in SYSTEMS and self._has(SYSTEMS[family])

    def __iter__(self) -> Iterator[str]:
        return (name for name, system in SYSTEMS.items() if self._has(system))

    def __len__(self) -> int:
        return sum(1 for _ in self)


FAMILY_MODES: Mapping[str, Mapping[str, DeclaredMode]] = _FamilyModes()
"""Family → its built-in modes, by name."""
WITHOUT_A_WAY_IN = _Families(lambda system: not system.has_way_in)
"""Families whose hosts no command can reach."""
OWN_PORTS = _Families(lambda system: not system.ports)
"""Families with their own port names, which dutlab cannot list."""
RUN_ENGINE = _Families(lambda system: system.runs_engine)
"""Families of hosts on which the engine runs."""

PROGRAM_MODES = frozenset(mode.name for mode in USER_SPACE)
"""Modes of Linux in which programs forward."""
STARTS_PROGRAMS = _Families(lambda system: system.kernel == SYSTEMS[LINUX].kernel and system.name not in WITHOUT_LINKS)
"""Families of DUTs on which dutlab can start programs that act as the device."""


def mode_of(family: str, name: str) -> DeclaredMode:
    """Return the declaration of a family's mode; for any other mode, one with only the name."""
    return FAMILY_MODES.get(family, {}).get(name) or DeclaredMode(name)


def modes_of(family: str, own: Mapping[str, str | None]) -> dict[str, DeclaredMode]:
    """Return all modes that an experiment may name: the family's and its own. `own` maps own modes to the device of their array."""
    arrays = {name: ModeArray(OWN, "", 0, device=device) if device else None for name, device in own.items()}
    return {**FAMILY_MODES.get(family, {}), **{name: DeclaredMode(name, array=array) for name, array in arrays.items()}}


@dataclass(frozen=True)
class KnownLab:
    """Properties of an embedded lab that an experiment file must fit."""

    links: Mapping[str, tuple[str, ...]]
    """Link → its hosts, in the order of its ports."""
    family: str = "linux"
    """Family of the measured host."""
    ipv6: frozenset[str] = frozenset()
    """Links with IPv6 addresses."""
    segments: frozenset[str] = frozenset()
    """Links that are segments, not paths."""
    one_sink: bool = False
    """True if all links end at one port."""
    drives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Host → its drives."""
    guests: int = 0
    """Number of hosts with their own kernel, which boots when the lab is built."""
    one_tester: bool = False
    """True if source and sink are one namespace."""
    is_transparent: bool = False
    """True if the two ends of each link are in one network."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """Mode of its family that it cannot have → reason."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Distinct hosts on links or with drives."""
        return tuple(dict.fromkeys((*(host for hosts in self.links.values() for host in hosts), *self.drives)))


_NO_FILTER = dict.fromkeys((mode.name for mode in FIREWALL if mode != ROUTER), "the guest's kernel has no nf_tables for IP")
"""Debian's user-mode Linux 6.1: `# CONFIG_NF_TABLES_IPV4 is not set` in its config.gz; the same for INET and IPV6."""
_NO_WIREGUARD = {WIREGUARD.name: "the guest's kernel has no WireGuard: use lab qemu-two-sites"}
_NO_TUNNEL, _NO_TUNNEL_OF_QEMU = (
    dict.fromkeys((mode.name for mode in TUNNELS), f"a tunnel ends on the source too, whose kernel is this machine's: use lab {other}")
    for other in ("uml-two-sites", "qemu-two-sites")
)
_NO_PROGRAMS = dict.fromkeys((mode.name for mode in USER_SPACE), "never tried on a guest: use lab three-node")
_ONE_KERNEL = dict.fromkeys((mode.name for mode in TUNNELS), "source and sink are one namespace, whose kernel reaches both: use three-node")
LABS: Mapping[str, KnownLab] = MappingProxyType(
    {name: KnownLab({"a": ROLES, "b": ROLES}) for name in ("three-node", "four-queues", "three-node-rfc2544", "three-node-ssh")}
    | {
        "three-node-rfc5180": KnownLab({"a": ROLES, "b": ROLES}, ipv6=frozenset({"a", "b"})),
        "uml-router": KnownLab({"a": ROLES, "b": ROLES}, guests=1, lacking=_NO_FILTER | _NO_TUNNEL | _NO_WIREGUARD | _NO_PROGRAMS),
        "uml-home": KnownLab({"a": ("source", "dut", "isp", "sink")}, guests=2, lacking=_NO_FILTER | _NO_TUNNEL | _NO_WIREGUARD),
        "uml-two-sites": KnownLab({"a": ROLES}, guests=2, lacking=_NO_FILTER | _NO_WIREGUARD | _NO_PROGRAMS),
        "qemu-router": KnownLab({"a": ROLES, "b": ROLES}, guests=1, lacking=_NO_TUNNEL_OF_QEMU | _NO_PROGRAMS),
        "qemu-router-vmxnet3": KnownLab({"a": ROLES, "b": ROLES}, guests=1, lacking=_NO_TUNNEL_OF_QEMU | _NO_PROGRAMS),
        "qemu-two-sites": KnownLab({"a": ROLES}, guests=2, lacking=_NO_PROGRAMS),
        "four-hosts": KnownLab({"a": ("s1", "dut", "t1"), "b": ("s2", "dut", "t2")}),
        "fan-in": KnownLab({link: (f"s{n}", "dut", "sink") for n, link in enumerate("abcd", start=1)}, one_sink=True),
        "dual-stack": KnownLab({"ipv4": ROLES, "ipv6": ROLES}, ipv6=frozenset({"ipv6"}), one_sink=True),
        "two-routers": KnownLab({"a": ("source", "dut", "router", "sink")}),
        "two-paths": KnownLab({"a": ("source", "dut", "far", "sink"), "second": ("dut", "far")}),
        "two-port": KnownLab({"a": ROLES}, one_tester=True, lacking=_ONE_KERNEL),
        "two-port-ipv6": KnownLab({"a": ROLES}, ipv6=frozenset({"a"}), one_tester=True, lacking=_ONE_KERNEL),
        "bridge": KnownLab({"a": ROLES, "b": ROLES}, is_transparent=True),
        "two-port-bridge": KnownLab({"a": ROLES}, one_tester=True, is_transparent=True),
        "back-to-back": KnownLab({"a": ("source", "sink")}),
        "flat": KnownLab({"lan": ("pc1", "pc2", "pc3")}, segments=frozenset({"lan"})),
        "jbod": KnownLab({}, MDRAID, drives={"server": ("d1", "d2", "d3", "d4")}),
        "raid": KnownLab({}, MDRAID, drives={"server": ("d1", "d2", "d3", "d4", "d5", "d6")}, guests=1),
    }
)
"""Embedded labs by name."""
