"""What `dutlab-engine` says, as types: replies and events of `agent`, what `tcp-client` and `tcp-server` print, and their parts.

Made by scripts/protocol from contracts/protocol.schema.json; `make docs` writes it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

Count = Annotated[int, range(2**64)]
"""A whole number of 64 bits without a sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Reply to `hello`."""

    version: str
    """The program's version."""
    protocol: Count
    """The number of this protocol."""
    monotonic_ns: Count
    """`CLOCK_MONOTONIC` at the moment of the reply."""
    realtime_ns: Count
    """`CLOCK_REALTIME` at the same moment."""
    kernel: str
    """Kernel release."""
    cpus: tuple[Count, ...]
    """CPUs that the agent may run on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Reply to `clock`: the middle two of the four time stamps of NTP (RFC 5905 section 8); the controller has the others."""

    received_monotonic_ns: Count
    """`CLOCK_MONOTONIC` when the request was read."""
    replied_monotonic_ns: Count
    """`CLOCK_MONOTONIC` when this reply was written."""
    realtime_ns: Count
    """`CLOCK_REALTIME` at the same moment as the second."""


Backend = Literal["auto", "xdp", "af_xdp", "af_packet", "memory", "pcap"]
"""Method by which frames leave and enter a port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAbility:
    """Abilities of one back end on one interface."""

    backend: Backend
    """The back end."""
    can_send: bool
    """True if it can send here."""
    can_receive: bool
    """True if it can receive here."""
    max_frame_bytes: Count | None = None
    """Longest frame in bytes with FCS."""
    reason: str | None = None
    """Reason why it cannot, or what it does worse here than elsewhere."""
    remedy: str | None = None
    """Remedy for `reason`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardClock:
    """The clock of a card."""

    number: Count
    """Number N of its device `/dev/ptpN`."""
    ahead_ns: int | None = None
    """How far the clock is ahead of `CLOCK_MONOTONIC`; absent where it cannot be read."""
    error_ns: Count | None = None
    """Error bound of `ahead_ns`."""
    reason: str | None = None
    """Reason why the clock cannot be read."""


TimeOf = Literal["software_send", "software_receive", "card_send", "card_receive", "xdp_arrival", "xdp_departure", "xdp_launch"]
"""A time stamp that an interface can offer, by the part that makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Reply to `probe`."""

    iface: str
    """The interface."""
    backends: tuple[BackendAbility, ...]
    """Every back end, best first."""
    card_clock: CardClock | None = None
    """The card's clock."""
    times: tuple[TimeOf, ...] = ()
    """Time stamps that the interface offers, as its driver reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Reply to `open`."""

    port: str
    """The port."""
    iface: str
    """The interface."""
    backend: Backend
    """Back end in use."""
    mac: str
    """The interface's MAC."""
    mtu_bytes: Count
    """The interface's MTU in bytes (IP)."""
    addresses: tuple[str, ...]
    """The interface's addresses with prefix length."""
    notes: tuple[str, ...]
    """Notes for the user, such as a slower path or an absent feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmedSize:
    """A frame size as different tools count it."""

    with_fcs_bytes: Count
    """From destination MAC to FCS."""
    without_fcs_bytes: Count
    """Without the FCS."""
    count: Count
    """Frames of this size in one round."""
    ip_bytes: Count | None = None
    """The IP datagram, behind all tags; absent where the frame has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmedStream:
    """A stream as understood."""

    stream: Count
    """The stream."""
    mean_frame_bytes: float
    """Mean frame size in bytes with FCS."""
    frame_sizes: tuple[ArmedSize, ...] = ()
    """Its frame sizes, each stated in all three ways."""
    intended: Count | None = None
    """Frames that are due until its end (RFC 2285: intended load); absent at the maximum rate."""
    link_bps: float | None = None
    """Speed of the link that a rate in percent refers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """Reply to `arm`."""

    armed: str
    """The port."""
    streams: tuple[ArmedStream, ...]
    """Per stream that is sent: the mean frame size, in bytes with FCS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Reply to `start`."""

    at_monotonic_ns: Count
    """Start of the trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReceivingSoFar:
    """Frames of a stream that were received so far."""

    stream: Count
    """The stream."""
    received: Count
    """Frames that arrived, duplicates included."""
    duplicated: Count
    """Arrivals among these of a frame that had arrived before."""
    reordered: Count
    """First arrivals among these after a frame with a higher number."""
    next_sequence: Count
    """One above the highest number that arrived; never later than `received`."""
    latency_count: Count
    """Frames whose latency is known."""
    latency_sum_ns: Count
    """The sum of their latencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivingSoFar:
    """Frames received so far."""

    monotonic_ns: Count
    """Time at which the counters were read."""
    age_ns: Count
    """Time from the reading to this reply."""
    streams: tuple[StreamReceivingSoFar, ...]
    """Counters of each stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSendingSoFar:
    """Frames of a stream that were sent so far."""

    stream: Count
    """The stream."""
    sent: Count
    """Frames that the kernel took."""
    numbered: Count
    """Exclusive upper bound of the sequence numbers used. Of these frames, `numbered` - `sent` were refused."""
    backpressure: Count | None = None
    """`backpressure` so far, as in the reply to `wait`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingSoFar:
    """Frames sent so far."""

    monotonic_ns: Count
    """Time at which the counters were read."""
    age_ns: Count
    """Time from the reading to this reply."""
    streams: tuple[StreamSendingSoFar, ...]
    """Counters of each stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Reply to `status`: counters of a port since its trial began."""

    port: str
    """The port."""
    receiving: ReceivingSoFar | None = None
    """Counters of receiving; absent where the port receives nothing, or nothing yet."""
    sending: SendingSoFar | None = None
    """Counters of sending; absent where the port sends nothing, or nothing yet."""


Ended = Literal["finished", "stopped", "failed"]
"""Reason why sending ended."""

ErrorKind = Literal[
    "bad_request", "bad_plan", "wrong_state", "no_such_interface", "guard_refused", "permission", "unsupported", "port_lost", "syscall"
]
"""The kinds of faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Reason why a request was not carried out or a port failed."""

    kind: ErrorKind
    """Kind of fault, for programs."""
    message: str
    """One sentence with the facts, for people."""
    call: str | None = None
    """The system call that failed."""
    errno: int | None = None
    """Its errno."""
    remedy: str | None = None
    """Suggested remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLost:
    """Loss of a port's link. Frames that were lost meanwhile say nothing about a DUT."""

    times: Count
    """Number of carrier losses; at least 1 if the link had no carrier when the trial began."""
    set_down: bool
    """The port itself was set down on this host. False: it was up, and it is unknown which end or cable failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Gaps between the send times of consecutive frames of a stream."""

    count: Count
    """Gaps measured: one fewer than frames."""
    min_ns: Count
    """Least."""
    p50_ns: Count
    """Median."""
    p99_ns: Count
    """99th percentile."""
    max_ns: Count
    """Greatest."""
    mean_ns: float
    """Arithmetic mean."""
    histogram: tuple[tuple[Count, Count], ...]
    """Histogram: `[upper end of the bucket in ns, gaps in it]`, ascending, without empty buckets.

    Buckets are at most 1/128 of their value wide.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SentStream:
    """Frames of a stream that were sent. `intended` = `sent` + `refused`, always."""

    stream: Count
    """The stream."""
    intended: Count
    """Frames that were due until the end of sending (RFC 2285: intended load); at the maximum rate, those that were tried."""
    sent: Count
    """Frames that the kernel took; numbered from 0 without a gap, unless `numbered` says otherwise."""
    refused: Count
    """Frames that the kernel or card refused, or that were due and could not be sent in time."""
    sent_bytes: Count
    """Bytes sent, with FCS. Where a driver refused frames of a mix, their sizes are unknown; they are subtracted at the mean size."""
    seconds: float
    """Time over which the stream was sent: the plan's duration, or from first to last frame plus one mean gap."""
    achieved_pps: float
    """`sent` / `seconds`."""
    achieved_bps_l1: float
    """Achieved rate in bits per second with preamble and gap."""
    achieved_bps_l2: float
    """Achieved rate in bits per second of frames with FCS."""
    late_max_ns: Count
    """Longest delay of a frame after it was due; 0 at the maximum rate."""
    backpressure: Count | None = None
    """Refused frames that the generator could have sent and that were not taken.

    A veth's peer had no room in its ring, or a card had none in its queue, because the next device is slower. The rest of `refused` was not
    made in time. Absent: the kernel does not report frames that a driver refused; they are among `sent`, and will seem lost on the way.
    """
    first_monotonic_ns: Count | None = None
    """Send time of the first frame; absent when none was sent."""
    gaps: Gaps | None = None
    """Gaps between consecutive send times; absent where the back end does not keep them, or fewer than two frames left.

    Frames that left in one call share a send time, so the gaps between them are 0.
    """
    last_monotonic_ns: Count | None = None
    """Send time of the last frame."""
    numbered: Count | None = None
    """Exclusive upper bound of the sequence numbers used; absent: `sent`. Present if a refused frame uses up its number."""
    unordered: bool = False
    """Several CPUs numbered the frames of this stream at the same time, so they have no order. Pass this on to `settle`."""


TimedBy = Literal["card", "kernel", "engine"]
"""Source of a frame's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Reply to `wait`: frames that a port sent."""

    port: str
    """The port."""
    ended: Ended
    """Reason why sending ended."""
    streams: tuple[SentStream, ...]
    """Counters of each stream."""
    err: Fault | None = None
    """Present when `ended` is `failed`."""
    link_lost: LinkLost | None = None
    """Present when the port's link went down while it was in the trial."""
    notes: tuple[str, ...] = ()
    """Notes for the user, such as the reason why a slower back end had to send this plan."""
    timed_by: TimedBy | None = None
    """Source of the send time in each frame; absent where frames have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ipdv:
    """Absolute difference between the latencies of frame i - 1 and frame i, in the order of sending.

    Pairs of which one frame was lost or reordered have no value. The clocks' difference cancels out, so this is valid between machines too.
    """

    count: Count
    """Pairs measured."""
    max_ns: Count
    """Greatest."""
    mean_ns: float
    """Arithmetic mean."""
    p50_ns: Count | None = None
    """Median; absent where the back end keeps no distribution."""
    p99_ns: Count | None = None
    """99th percentile; absent where the back end keeps no distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One-way latency."""

    count: Count
    """Frames measured."""
    negative: Count
    """Frames whose latency came out negative: the clocks differ. They are not in the figures below."""
    min_ns: Count
    """Least."""
    p50_ns: Count
    """Median."""
    p90_ns: Count
    """90th percentile."""
    p99_ns: Count
    """99th percentile."""
    p999_ns: Count
    """99.9th percentile."""
    max_ns: Count
    """Greatest."""
    mean_ns: float
    """Arithmetic mean."""
    histogram: tuple[tuple[Count, Count], ...]
    """Histogram: `[upper end of the bucket in ns, frames in it]`, ascending, without empty buckets.

    Buckets are at most 1/1000 of their value wide.
    """
    ipdv: Ipdv | None = None
    """Inter-packet delay variation (RFC 5481 section 4.1); absent where the back end does not keep it."""
    pdv_p999_ns: Count | None = None
    """Packet delay variation at the 99.9th percentile, which ITU-T Y.1540 and Y.1541 use."""
    pdv_p99_ns: Count | None = None
    """Packet delay variation (RFC 5481 section 4.2): 99th percentile less the least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Addresses and ports that a port keeps of the frames of a stream."""

    frames: Count
    """Frames whose addresses and ports are kept, duplicates left out."""
    different: Count
    """Number of different ones among these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Source address and port of a frame as it arrived."""

    address: str
    """Source address."""
    port: Count
    """Source port (ICMP echo: the identifier)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedStream:
    """Frames of a stream that were received. `sent` + `duplicated` = `received` + `lost`, or `balances` is false."""

    stream: Count
    """The stream."""
    sent: Count
    """Frames that were sent, as `settle` was given."""
    received: Count
    """Frames that arrived, duplicates included."""
    received_bytes: Count
    """Bytes that arrived, with FCS."""
    lost: Count
    """Frames that never arrived."""
    duplicated: Count
    """Arrivals of a frame that had arrived before."""
    reordered_at_least: Count
    """Lower bound of `reordered`.

    It counts arrivals after a frame with a higher number on the same receive queue, or of the same flow where the back end does not know
    the queue. These were reordered before they reached the host. Equal to `reordered` where that is known.
    """
    guessed: Count
    """Arrivals more than 131,040 numbers behind the highest: it is unknown whether they are duplicates.

    They count as duplicates, so that no loss is hidden. 0 means that every count is exact.
    """
    corrupted: Count
    """Frames of this stream whose checksum is wrong; they are not among `received`."""
    balances: bool
    """True if the frames are conserved and nothing arrived that was not sent.

    No number is at or above `numbered`, and there are no more different frames than `sent`.
    """
    sources: tuple[Source, ...]
    """Source addresses and ports of the first 1024 frames, each once, as the receiver saw them: at most 16. They show translation."""
    first_monotonic_ns: Count | None = None
    """Arrival of the first frame; absent when none came."""
    last_monotonic_ns: Count | None = None
    """Arrival of the last frame."""
    late: Count | None = None
    """Frames that arrived after the request `settle`, within its drain: the residual frames of RFC 2544 section 23.

    They are among `received`. Later frames are `lost`: the drain is the waiting time of RFC 7680.
    """
    latency: Latency | None = None
    """One-way latency of the frames that arrived, without duplicates; absent when none came.

    Valid only where sender and receiver share a clock.
    """
    learned: Learned | None = None
    """Learned addresses and ports; present where `learn` is set."""
    next_sequence: Count | None = None
    """One above the highest number that arrived; absent where the back end does not keep it."""
    reorder_extent_max: Count | None = None
    """Largest known reordering extent (RFC 4737 section 4.2.1): frames between the first later one and this one. Null with `reordered`."""
    reorder_extent_mean: float | None = None
    """Mean of the known reordering extents; absent where there are none."""
    reorder_extents_unknown: Count = 0
    """Reordered frames of unknown extent: more gaps opened since theirs than the back end remembers (`xdp`: 64).

    The extents of the others are exact. Above 0, the largest of all may be larger than `reorder_extent_max`.
    """
    reordered: Count | None = None
    """Arrivals after a frame with a higher number (RFC 4737 section 3: Type-P-Reordered).

    Null: unknown, because the frames came on several receive queues, whose frames change places inside of the receiving host, or because
    several CPUs sent them.
    """
    reordered_by_three: Count | None = None
    """Frames that are 3-reordered (RFC 4737 section 5): TCP would consider them lost.

    Absent where the back end does not count them, or `reordered` is unknown.
    """
    reordered_ratio: float | None = None
    """Share of reordered frames in all first arrivals (RFC 4737 section 4.1), from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalTimes:
    """Frames of a port, by the source of their arrival times."""

    card: Count
    """The network card."""
    kernel: Count
    """The host's kernel."""
    engine: Count
    """The engine, as it took the frame."""
    card_error_ns: Count | None = None
    """Error bound of the card's times by the host's clock; absent without such times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Reply to `settle`: frames that a port received."""

    port: str
    """The port."""
    streams: tuple[ReceivedStream, ...]
    """Counters of each stream."""
    foreign: Count
    """Frames without our probe, or with one of a stream that is not in the plan."""
    stale: Count
    """Probes sent before this trial began."""
    err: Fault | None = None
    """Present when the port failed during the trial."""
    kernel_dropped: Count | None = None
    """Frames that reached the host and were dropped there for lack of room before they could be counted.

    They are among `lost`, but the DUT did not lose them. Absent: unknown; any loss may then be the receiver's.
    """
    link_lost: LinkLost | None = None
    """Present when the port's link went down while it was in the trial."""
    timed_by: ArrivalTimes | None = None
    """Sources of the arrival times; absent where the back end keeps no count, or no frame came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Reply to operations that have no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpTimes:
    """Distribution of some times, in nanoseconds."""

    count: Count
    """Number of times."""
    min_ns: Count
    """The least."""
    p50_ns: Count
    """Median."""
    p90_ns: Count
    """90th percentile."""
    p99_ns: Count
    """99th percentile."""
    max_ns: Count
    """The longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpTls:
    """Results of TLS handshakes."""

    full: Count
    """Handshakes with a certificate and new keys."""
    resumed: Count
    """Handshakes with the keys of an earlier session."""
    agreed: Mapping[str, Count]
    """Number of handshakes for each version, cipher suite and group, such as `TLS 1.3 TLS_AES_256_GCM_SHA384 X25519`."""
    error: str | None = None
    """Reason of the last failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpConnections:
    """Results of all connections: `asked` = `begun` + `not_begun`; `begun` = `completed` + all failures."""

    asked: Count
    """Connections that the plan asks for."""
    begun: Count
    """Connections for which a SYN was sent."""
    not_begun: Count
    """Connections that were not begun in time, or for which the system had no socket or port."""
    established: Count
    """Connections with a completed handshake."""
    completed: Count
    """Connections whose requests were all answered; in a trial that holds them, the last one too."""
    refused: Count
    """Connections that got RST instead of a handshake."""
    unreachable: Count
    """Connections that failed with ICMP, or without a route."""
    no_handshake: Count
    """Connections without an answer to SYN in time."""
    tls_failed: Count
    """Connections without a TLS handshake, with a failed one, or with bytes that were not TLS."""
    reset: Count
    """Connections that got RST after the handshake."""
    closed_early: Count
    """Connections that got FIN before the answer."""
    no_answer: Count
    """Connections without a complete answer in time."""
    malformed: Count
    """Connections with an answer that is malformed, or not of the requested length."""
    error_status: Count
    """Connections with an answer whose status is not 200."""
    statuses: Mapping[str, Count]
    """Number of answers with each of these other statuses."""
    open_max: Count
    """Largest number of connections that were established at the same time."""
    transactions: Count
    """Requests that were answered."""
    body_bytes: Count
    """Bytes of bodies that were received."""
    begun_ns: Count
    """Time from the first SYN to the last, plus one gap."""
    answered_ns: Count
    """Time from the first SYN to the last byte of an answer."""
    handshake: TcpTimes
    """Times from SYN to the end of the handshake."""
    tls_handshake: TcpTimes
    """Times from the end of the TCP handshake to the end of the TLS handshake."""
    first_byte: TcpTimes
    """Times from SYN to the first byte of the first answer (RFC 9411 section 7.4.1)."""
    response: TcpTimes
    """Times from a request to the last byte of its answer."""
    tls: TcpTls
    """Results of the TLS handshakes."""
    refused_by_system: str | None = None
    """Last reason why the system had no socket or port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpClientDone:
    """Output of `tcp-client` at its end."""

    connections: TcpConnections
    """Results of its connections."""
    sockets_allowed: Count
    """Number of files that it may have open."""
    tcp: Mapping[str, Count]
    """Increase of each of the kernel's counters; counters that the kernel does not have are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpFailed:
    """Output of `tcp-client` or `tcp-server` when it cannot continue."""

    error: str
    """Reason of the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServed:
    """Counters of a server."""

    accepted: Count
    """Accepted connections."""
    open: Count
    """Accepted connections that are open."""
    open_max: Count
    """Largest number of connections that were open at the same time."""
    answered: Count
    """Requests with a complete answer."""
    body_bytes: Count
    """Bytes of bodies that were sent."""
    closed: Count
    """Connections that the other end closed: FIN."""
    closed_here: Count
    """Connections that this end closed, as a request demanded."""
    reset: Count
    """Connections that the other end, or something on the way, reset."""
    malformed: Count
    """Malformed requests."""
    not_taken: Count
    """Connections that could not be accepted, because too many files were open."""
    tls_failed: Count
    """Connections without a TLS handshake, or with bytes that were not TLS."""
    tls: TcpTls
    """Results of the TLS handshakes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServerReady:
    """Output of `tcp-server` once it listens."""

    ready: bool
    """Always true."""
    sockets_allowed: Count
    """Number of files that it may have open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServerSeen:
    """Answer of `tcp-server` to a line on stdin."""

    served: TcpServed
    """Counters of the server."""
    tcp: Mapping[str, Count]
    """Increase of the kernel's counters since the previous line, as in the client's output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondEvent:
    """Once a second for each port whose plan asked for it."""

    event: Literal["second"]
    port: str
    """The port."""
    monotonic_ns: Count
    """Time at which the counters were read."""
    sent: Count
    """Frames sent."""
    sent_bytes: Count
    """Bytes sent, with FCS."""
    received: Count
    """Frames received, duplicates included."""
    received_bytes: Count
    """Bytes received, with FCS."""
    duplicated: Count
    """Frames that arrived once too often."""
    reordered: Count
    """Frames that arrived after a later one."""
    kernel_dropped: Count
    """Frames that the receiver's kernel dropped for lack of room."""
    latency_max_ns: Count | None = None
    """The greatest one-way latency since the last event; absent when no frame came, or the kernel counts."""
    latency_mean_ns: float | None = None
    """Mean one-way latency of the frames since the last event; absent when none came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEvent:
    """Counters stream by stream, once a second. The agent sends them only on request; commands write them to the file of `--events`."""

    event: Literal["status"]
    port: str
    """The port."""
    receiving: ReceivingSoFar | None = None
    """Counters of receiving; absent where the port receives nothing, or nothing yet."""
    sending: SendingSoFar | None = None
    """Counters of sending; absent where the port sends nothing, or nothing yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEvent:
    """A port failed; `wait` and `settle` still reply with what was counted before."""

    event: Literal["failed"]
    port: str
    """The port."""
    err: Fault
    """Reason for the failure."""


EVENTS: Mapping[str, type[SecondEvent | StatusEvent | FailedEvent]] = {"second": SecondEvent, "status": StatusEvent, "failed": FailedEvent}
"""One line from the agent that answers no request."""
