"""Addresses of the guest of family `linux-exact`, and how it is put into a mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from dutlab.hosts.programs import Program

SOURCE_IP, SINK_IP = "10.0.0.1", "10.1.0.1"
SOURCE_MAC, IN_MAC, OUT_MAC, SINK_MAC = (f"02:00:00:00:00:{n:02x}" for n in range(4))
"""MACs of v0, v1, v2 and v3."""


@dataclass(frozen=True)
class GuestWords:
    """Commands that put the guest into a mode."""

    commands: tuple[str, ...]
    """For `sh -e` in the router's namespace."""
    to_mac: str = IN_MAC
    """Destination MAC of frames."""
    outside: tuple[str, ...] = ()
    """For the guest's first namespace, before them."""
    hop: str = f"via {SINK_IP}"
    """Way of the router to the sink's networks, for ip-route(8)."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Module → option of the kernel's configuration, without which the guest cannot be put into it."""
    programs: tuple[Program, ...] = ()
    """Beyond those of every guest."""


def destination(number: int) -> str:
    """One of many that frames are sent to, where a setting asks for several."""
    return str(IPv4Address("10.1.16.0") + number)
