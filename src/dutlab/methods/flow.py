"""Account of the frames of one flow, with its latencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

Histogram = tuple[tuple[int, int], ...]
"""(Upper end of the bucket in ns, number of values), rising, without empty buckets. A bucket is at most 1/128 of its value wide."""


@dataclass(frozen=True)
class Gaps:
    """Time from each sent frame to the next: the generator's real pacing at the asked rate."""

    count: int
    min_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    mean_ns: float


@dataclass(frozen=True)
class Latency:
    """One-way latency of the frames that arrived."""

    count: int
    min_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    mean_ns: float
    pdv_p99_ns: int | None = None
    """Packet delay variation (RFC 5481 section 4.2): the 99th percentile less the least."""
    pdv_p999_ns: int | None = None
    ipdv_p50_ns: int | None = None
    """Inter-packet delay variation (RFC 5481 section 4.1), absolute: of consecutive frames that both arrived in order."""
    ipdv_p99_ns: int | None = None
    ipdv_max_ns: int | None = None


@dataclass(frozen=True)
class Flow:
    """Account of one link's frames in one trial: intended = sent + refused; sent + duplicated = received + lost."""

    link: str
    """Name of the link, with the suffix `.back` for frames from sink to source."""
    intended_frames: int
    sent_frames: int
    refused_frames: int
    received_frames: int
    lost_frames: int
    duplicated_frames: int
    reordered_frames: int | None
    """Arrivals after a later frame (RFC 4737 section 3); None if not known.

    It is not known if the receiving host's own queues may have changed the order, if several CPUs sent the stream, or if the generator does
    not check.
    """
    foreign_frames: int
    sent_seconds: float
    mean_frame_bytes: float
    received_bytes: int
    """Bytes of the received frames, FCS included."""
    latency: Latency | None = None
    latency_error_ns: int | None = None
    """Largest error of the latencies; 0 if sender and receiver read one clock, None without latencies."""
    sent_timed_by: str = ""
    """Clock of a frame's send time: `card`, `kernel` or `engine`; empty if not known."""
    arrivals_timed_by: Mapping[str, int] = field(default_factory=dict)
    """Number of frames by the clock of their receive time (`card`, `kernel`, `engine`). Counted for the port, not for a flow."""
    gaps: Gaps | None = None
    late_frames: int | None = None
    """Frames that arrived during the drain (residual frames in RFC 2544 section 23); included in the received."""
    stale_frames: int = 0
    """Own frames of an earlier trial; not included in the received."""
    corrupted_frames: int = 0
    """Own frames that were altered on the way; not included in the received, so they are also lost."""
    reordered_at_least_frames: int = 0
    """Arrivals after a later frame of the same receive queue or flow: the part of the reordering that the path certainly caused."""
    reorder_extent_max: int | None = 0
    """Greatest reordering extent, in frames (RFC 4737 section 4.2); None if reordering is not known."""
    backpressure_frames: int = 0
    """Refused frames that were made in time but not taken by the next port: backpressure of the DUT.

    Either the ring of a veth's peer (the DUT of the embedded lab) was full, or the queue of a card was, because the link is full or the DUT
    asked for a pause. The generator did not make the other refused frames in time.
    """
    sources: tuple[str, ...] = ()
    """Source addresses of the first frames at the receiver, if the generator reports them; translated if the DUT translates."""
    arrived_beyond_sent: bool = False
    """True if frames arrived that were not sent: an unused sequence number, or more different frames than were sent."""
    places: Mapping[str, int] = field(default_factory=dict)
    """Lost frames by the place of their loss between sender and receiver, from counters on the path (tools.path_counters)."""

    @classmethod
    def counted(cls, link: str, *, asked: int, sent: int, received: int, seconds: float, frame_bytes: float, **more: Any) -> Self:  # noqa: ANN401
        """Return the account of frames counted once at each end: those not sent were refused, those not received lost.

        `more` has other fields; without `reordered_frames` the order is not known.
        """
        counts = (asked, sent, asked - sent, received, sent - received)
        return replace(cls(link, *counts, 0, None, 0, seconds, frame_bytes, round(received * frame_bytes)), **more)

    @property
    def balances(self) -> bool:
        """True if the frames are conserved: both equations of the account hold."""
        return (
            not self.arrived_beyond_sent
            and self.intended_frames == self.sent_frames + self.refused_frames
            and self.sent_frames + self.duplicated_frames == self.received_frames + self.lost_frames
        )

    @property
    def timed_by(self) -> str:
        """Clocks of its latencies, as part of a sentence; empty if not known."""
        arrived = " or ".join(f"the {by}'s" for by, frames in self.arrivals_timed_by.items() if frames)
        return f"the {self.sent_timed_by}'s when sent, {arrived} when received" if self.latency and self.sent_timed_by and arrived else ""

    @property
    def loss_ratio(self) -> float:
        """Frame loss ratio (RFC 1242 section 3.6) of the frames that were sent; 0 if none were sent."""
        return self.lost_frames / self.sent_frames if self.sent_frames else 0.0


@dataclass(frozen=True)
class TimedFlow(Flow):
    """A flow with its histograms of times, which a record keeps in a separate file (store/details.py)."""

    latency_histogram: Histogram = ()
    gap_histogram: Histogram = ()
