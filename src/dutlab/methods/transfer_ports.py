"""What a method sees of TCP that fills a link: how long it sends which way, and how fast and how late it was meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.doubts import Doubt
from dutlab.spec.traffic import Directions


@dataclass(frozen=True)
class TransferLoad:
    """What is asked for. The source begins every connection."""

    link: str
    ways: Directions
    """Who sends."""
    streams: int
    """Connections each way."""
    seconds: int


@dataclass(frozen=True)
class TransferReading:
    """All streams of one flow together, since the reading before. `at_s` is wall clock, in seconds since the epoch."""

    at_s: float
    goodput_bps: float
    """What the receiver's program got."""


@dataclass(frozen=True)
class TransferReport:
    """What became of it. Flows are called as those of an offer: `a`, `a.back`."""

    began_s: float
    """Wall clock of the first data, to within what the program takes to start."""
    ended_s: float
    readings: Mapping[str, Sequence[TransferReading]]
    """By flow."""
    round_trips_ns: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """By flow: (wall clock, round trip) as the sender's kernel smooths it for each stream (RFC 6298): the load's own latency."""
    raw: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()


class Transfers(Protocol):
    """Sends TCP as fast as it goes between the ends of a link."""

    async def carry_out(self, load: TransferLoad) -> TransferReport:
        """Returns when it has ended. Raises ToolFailed, ToolMissing, HostError."""
