"""What an input file may name although it is built elsewhere: embedded labs, and the systems of `systems/`.

The files are checked without touching a host or importing what does; a test of each room that builds them compares its own list with
this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dutlab.systems import SYSTEMS, closed

ROLES = ("source", "dut", "sink")

BLACK_BOX, MANUAL = closed.BLACK_BOX.name, closed.MANUAL.name
FAMILY_MODES: Mapping[str, tuple[str, ...]] = MappingProxyType({name: system.modes for name, system in SYSTEMS.items()})
"""Family → the modes that it brings along."""
WITHOUT_A_WAY_IN = frozenset(name for name, system in SYSTEMS.items() if not system.has_way_in)
"""Families that no command reaches."""
OWN_PORTS = frozenset(name for name, system in SYSTEMS.items() if not system.ports)
"""Families whose ports have names of their own, which no command of ours lists."""

INSIDE_ONLY = ("filter-default", "nat")
"""Modes that admit no flow from outside: frames from the sink pass as answers only, so what is generated there is dropped by rule."""


@dataclass(frozen=True)
class KnownLab:
    """What an experiment file may ask of an embedded lab."""

    family: str
    links: tuple[str, ...]
    ipv6: bool = False
    """Whether its links' addresses are."""


LABS: Mapping[str, KnownLab] = MappingProxyType(
    {name: KnownLab(family="linux", links=("a", "b")) for name in ("three-node", "three-node-rfc2544", "three-node-ssh")}
    | {"three-node-rfc5180": KnownLab(family="linux", links=("a", "b"), ipv6=True)}
)
"""Embedded labs by name."""
