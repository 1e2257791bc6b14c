"""Addresses of the guest of family `linux-exact`, and the commands that set its mode."""

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
    """Commands that set the guest's mode."""

    commands: tuple[str, ...]
    """Lines for `sh -e` in the router's namespace."""
    to_mac: str = IN_MAC
    """Destination MAC of frames."""
    outside: tuple[str, ...] = ()
    """Lines for the guest's first namespace, run before `commands`."""
    hop: str = f"via {SINK_IP}"
    """Next hop of the router's routes to the sink's networks, for ip-route(8)."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Kernel module → kernel option; the mode needs these modules."""
    programs: tuple[Program, ...] = ()
    """Programs that the mode needs in addition to those of every guest."""


def destination(number: int) -> str:
    """Return one of many destination addresses, for settings with several."""
    return str(IPv4Address("10.1.16.0") + number)
