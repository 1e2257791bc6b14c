"""What an input file may name although it is built elsewhere: DUT families with their modes, embedded labs.

The files are checked without touching a host or importing what does, so the names stand here; a test of each room that builds
them compares its own list with this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

ROLES = ("source", "dut", "sink")

BLACK_BOX = "black-box"
"""The family of a DUT that is measured as it is found."""
MANUAL = "manual"
"""The family of a DUT that a person sets."""
WITHOUT_A_WAY_IN = frozenset({BLACK_BOX, MANUAL})
"""Families that no command reaches."""

_FIREWALL_AND_FILTERS = ("router", "filter-empty", "filter-1", "filter-25", "filter-default", "nat")
"""With the filters of RFC 2544 section 11.4."""

_PF = ("router", "filter-empty", "filter-1", "filter-25", "filter-default", "filter-own", "nat", "nat-open")
"""`filter-own` keeps the ruleset that the system loads by itself, `nat-open` translates and filters nothing."""

IPSEC = ("ipsec", "ipsec-cbc")
"""Modes in which only what a host's own kernel sends is encrypted, and nothing else passes."""

INSIDE_ONLY = ("filter-default", "nat")
"""Modes that admit no flow from outside: frames from the sink pass as answers only, so what is generated there is dropped by rule."""

FAMILY_MODES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        BLACK_BOX: ("as-found",),
        "linux": (*_FIREWALL_AND_FILTERS, *IPSEC),
        "freebsd-pf": (*_PF, *IPSEC),
        "pfsense": (*_PF, *IPSEC),
        "openbsd-pf": (*_PF, "ipsec-cbc"),  # ipsecctl(8) takes no fixed keys for AES-GCM
        "vyos": (*_FIREWALL_AND_FILTERS, *IPSEC),
        "vpp": (*_FIREWALL_AND_FILTERS, *IPSEC),
        MANUAL: _FIREWALL_AND_FILTERS,
        # Can be described; every mode has to be written out in the experiment.
        "freebsd": (),
        "openbsd": (),
        "windows": (),
    }
)
"""Family → the modes that it brings along."""


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
