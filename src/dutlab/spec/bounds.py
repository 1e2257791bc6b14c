"""Bounds from the links and drives of a testbed: all of it that most workloads need."""

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
    """Bounds of a link for the frames on it."""

    mtu: int = 1500
    speed: BpsL1 | None = None
    ipv6: bool = False
    ends: tuple[str, ...] = ("source", "sink")
    """The hosts where traffic starts and ends."""
    hosts: tuple[str, ...] = ("source", "dut", "sink")
    is_segment: bool = False
    shares_with: frozenset[str] = frozenset()
    """Links that are on the same port at one of its ends."""
    is_transparent: bool = False
    """Its ends are in one network, and what is between them forwards below IP."""
    through_dut: bool = True
    isolated: bool = True
    """Nothing but the testbed is on it, as in every embedded lab."""
    most_sources: int = MOST_SOURCES
    """Addresses that its source's port can have."""

    @property
    def longest_frame(self) -> int:
        """Bytes with FCS."""
        return self.mtu + ETH_FRAME_OVERHEAD


class TestbedBounds(dict[str, LinkBounds]):
    """Every link of a testbed, and its drives by `host:name`."""

    __test__ = False  # not a test class, whatever its name says to pytest

    def __init__(self, links: Mapping[str, LinkBounds], drives: Mapping[str, DriveSpec]) -> None:
        super().__init__(links)
        self.drives = drives
