"""Protocol and data types for TCP transfers that fill a link: their load, and their goodput and latency over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.doubts import Doubt
from dutlab.spec.traffic import Directions


@dataclass(frozen=True)
class TransferLoad:
    """TCP transfers to make. The source begins every connection."""

    link: str
    ways: Directions
    """Directions of the data."""
    streams: int
    """Connections in each direction."""
    seconds: int


@dataclass(frozen=True)
class TransferReading:
    """All streams of one flow together, since the previous reading. `at_s` is wall clock, in seconds since the epoch."""

    at_s: float
    goodput_bps: float
    """Goodput at the receiving program."""


@dataclass(frozen=True)
class TransferReport:
    """Result of the transfers. Flows have the names of those of an offer: `a`, `a.back`."""

    began_s: float
    """Wall clock of the first data; its error is at most the program's time to start."""
    ended_s: float
    readings: Mapping[str, Sequence[TransferReading]]
    """Readings by flow."""
    round_trips_ns: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """(Wall clock, round trip) by flow, smoothed by the sender's kernel for each stream (RFC 6298): the latency of the load itself."""
    raw: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()


class Transfers(Protocol):
    """Sends TCP at full speed between the ends of a link."""

    async def carry_out(self, load: TransferLoad) -> TransferReport:
        """Make the transfers; return when they have ended. Raises ToolFailed, ToolMissing, HostError."""
