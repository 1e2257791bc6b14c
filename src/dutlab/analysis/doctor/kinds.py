"""Kinds of findings, each with the measurement that shows its cost on this machine (`dutlab doctor --prove KIND`).

A proof measures two levels: the hosts as found, and the hosts with the finding's cure, which is undone afterwards. If the workload is the
cause, there is no cure. Then the levels are values of one of the workload's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FindingProof:
    """A short workload that the finding slows down."""

    workload: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings as in an experiment file."""
    mode: str = ""
    """Mode of the DUT in which the finding has a cost; empty: the default mode."""
    levels: tuple[str, tuple[object, ...]] | None = None
    """If the workload is the cause: the setting and its values to compare. None: compare with and without the finding's cure."""

    @property
    def words(self) -> str:
        """The proof in words: `iperf3 before and after the fix`; `iperf3 with streams 1 and 4`."""
        if self.levels is None:
            return f"{self.workload} before and after the fix"
        setting, (*first, last) = self.levels
        return f"{self.workload} with {setting} {', '.join(map(str, first))} and {last}"


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding."""

    proof: FindingProof
    loses_frames: bool = False
    """True if it loses some frames completely: frames that are too large, or flows that a full table does not hold."""


_TIMES = {"omit": "1s", "duration": "5s"}
_STREAM = FindingProof("iperf3", {**_TIMES, "streams": 1})
_STREAMS = FindingProof("iperf3", {**_TIMES, "streams": 4})
# The engine bypasses the network stack of both ends, so these frames suit findings on cards and on the DUT.
_FRAMES = FindingProof("sweep", {"frame_sizes": [64], "rates": ["max"], "duration": "5s", "traffic": {"flows": 1024}})
_TRACKED = FindingProof("sweep", {**_FRAMES.settings, "traffic": {"flows": 60_000}}, mode="nat")
_WAITS = FindingProof("latency", {"rate": "1kpps", "shares": ["100%"], "duration": "5s"})
_SIZES = FindingProof("path-mtu")

KINDS: Mapping[str, FindingKind] = {
    "narrow-slot": FindingKind(_STREAMS),
    "small-payload": FindingKind(_STREAMS),
    "pcie-power": FindingKind(_WAITS),
    "mtu-mismatch": FindingKind(_SIZES, loses_frames=True),
    "jumbo-meaning": FindingKind(_SIZES, loses_frames=True),
    "neighbour-ageing": FindingKind(_WAITS),
    "speed-mismatch": FindingKind(_STREAMS),
    "half-duplex": FindingKind(FindingProof("iperf3", {**_STREAMS.settings, "direction": "bidir"}), loses_frames=True),
    "flow-control": FindingKind(_FRAMES),
    "weak-optics": FindingKind(_STREAMS),
    "offloads-off": FindingKind(_STREAM),
    "offloads-on-router": FindingKind(_STREAM),
    "small-ring": FindingKind(_FRAMES),
    "interrupt-moderation": FindingKind(_WAITS),
    "one-queue": FindingKind(_FRAMES),
    "irq-one-core": FindingKind(_FRAMES),
    "netisr-one-thread": FindingKind(_FRAMES),
    "far-node": FindingKind(_STREAM),
    "shared-core": FindingKind(_FRAMES),
    "driver-age": FindingKind(_STREAMS),
    "governor": FindingKind(_STREAM),
    "boost-off": FindingKind(_STREAM),
    "power-saving": FindingKind(_WAITS),
    "clock-source": FindingKind(_WAITS),
    "slow-memory": FindingKind(_STREAMS),
    "busy-cpu": FindingKind(_STREAM),
    "stolen-cpu": FindingKind(_STREAM),
    "firewall-in-the-way": FindingKind(_STREAM),
    "conntrack-full": FindingKind(_TRACKED, loses_frames=True),
    "conntrack-hash": FindingKind(_TRACKED),
    "pool-debug": FindingKind(_FRAMES),
    "kernel-relinking": FindingKind(_FRAMES),
    "iperf3-versions": FindingKind(_STREAMS),
    "iperf3-one-thread": FindingKind(_STREAMS),
    "one-stream": FindingKind(FindingProof("iperf3", _TIMES, levels=("streams", (1, 4)))),
    "both-ways": FindingKind(FindingProof("iperf3", _STREAM.settings, levels=("direction", ("forward", "reverse", "bidir")))),
}
"""Kinds of findings by name; docs/method/doctor.md describes each."""
