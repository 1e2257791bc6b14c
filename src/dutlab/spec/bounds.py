"""Limits of a testbed's links and drives: all that most workloads need to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dutlab.spec.address_blocks import MOST_SOURCES
from dutlab.spec.mixes import ETH_FRAME_OVERHEAD
from dutlab.units import BpsL1

if TYPE_CHECKING:
    from dutlab.spec.drives import DriveSpec


@dataclass(frozen=True)
class LinkBounds:
    """Limits that a link sets for the frames on it."""

    mtu: int = 1500
    speed: BpsL1 | None = None
    ipv6: bool = False
    translated: bool = False
    """True if a level of the experiment sends its frames as IPv6, although its addresses are of IPv4."""
    tag_bytes: int = 0
    """Length of the tags of VLANs that a level of the experiment adds to frames."""
    ends: tuple[str, ...] = ("source", "sink")
    """Hosts where traffic starts and ends."""
    hosts: tuple[str, ...] = ("source", "dut", "sink")
    is_segment: bool = False
    shares_with: frozenset[str] = frozenset()
    """Other links that share a port with this one."""
    is_transparent: bool = False
    """True if its ends are in one network, and the machines between them forward below IP."""
    through_dut: bool = True
    isolated: bool = True
    """True if nothing but the testbed is on the link, as in every embedded lab."""
    most_sources: int = MOST_SOURCES
    """Most addresses that the source's port can have."""

    @property
    def ip_versions(self) -> frozenset[bool]:
        """Versions of IP of the frames that are sent on it; True is IPv6."""
        return frozenset({self.ipv6, self.ipv6 or self.translated})

    @property
    def longest_frame(self) -> int:
        """Longest frame, in bytes with FCS."""
        return self.mtu + ETH_FRAME_OVERHEAD


class TestbedBounds(dict[str, LinkBounds]):
    """Limits of every link of a testbed, by name, and its drives by `host:name`."""

    __test__ = False  # pytest would take it for a test class by its name

    def __init__(self, links: Mapping[str, LinkBounds], drives: Mapping[str, DriveSpec]) -> None:
        super().__init__(links)
        self.drives = drives
