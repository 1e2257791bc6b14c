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
"""How frames get in and out of a port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendAbility:
    """What one back end can do on one interface."""

    backend: Backend
    """The back end."""
    can_send: bool
    """Whether it can send here."""
    can_receive: bool
    """Whether it can receive here."""
    max_frame_bytes: Count | None = None
    """Longest frame in bytes with FCS."""
    reason: str | None = None
    """Why it cannot, or what it cannot do as well as elsewhere."""
    remedy: str | None = None
    """What would change that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardClock:
    """The clock of a card."""

    number: Count
    """Its device is `/dev/ptpN`."""
    ahead_ns: int | None = None
    """How far it is ahead of `CLOCK_MONOTONIC`; absent where it cannot be read."""
    error_ns: Count | None = None
    """That is true to within this."""
    reason: str | None = None
    """Why it cannot be read."""


TimeOf = Literal["software_send", "software_receive", "card_send", "card_receive", "xdp_arrival", "xdp_departure", "xdp_launch"]
"""Who can tell when a frame passes an interface."""


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
    """Who can tell when a frame passes, by what the driver says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Reply to `open`."""

    port: str
    """The port."""
    iface: str
    """The interface."""
    backend: Backend
    """The back end that was taken."""
    mac: str
    """The interface's MAC."""
    mtu_bytes: Count
    """The interface's MTU in bytes (IP)."""
    addresses: tuple[str, ...]
    """The interface's addresses with prefix length."""
    notes: tuple[str, ...]
    """What the user should know: a slower path taken, a feature absent."""


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
    """The speed that a rate in percent is a share of."""


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
    """When the trial begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReceivingSoFar:
    """What was received so far of a stream."""

    stream: Count
    """The stream."""
    received: Count
    """Frames that arrived, duplicates included."""
    duplicated: Count
    """Of these, arrivals of a frame that had arrived before."""
    reordered: Count
    """Of these, first arrivals after a frame with a higher number."""
    next_sequence: Count
    """One above the highest number that arrived; never later than `received`."""
    latency_count: Count
    """Frames whose latency is known."""
    latency_sum_ns: Count
    """The sum of their latencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivingSoFar:
    """What was received so far."""

    monotonic_ns: Count
    """When the counters were read."""
    age_ns: Count
    """Time from then to this reply."""
    streams: tuple[StreamReceivingSoFar, ...]
    """Each stream's share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSendingSoFar:
    """What was sent so far of a stream."""

    stream: Count
    """The stream."""
    sent: Count
    """Frames that the kernel took."""
    numbered: Count
    """Below this are all sequence numbers that were used; the frames of `numbered` - `sent` of them were refused."""
    backpressure: Count | None = None
    """As `backpressure` of what `wait` says of a stream, so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingSoFar:
    """What was sent so far."""

    monotonic_ns: Count
    """When the counters were read."""
    age_ns: Count
    """Time from then to this reply."""
    streams: tuple[StreamSendingSoFar, ...]
    """Each stream's share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Reply to `status`: what a port has counted since its trial began."""

    port: str
    """The port."""
    receiving: ReceivingSoFar | None = None
    """Absent where it receives nothing, or nothing yet."""
    sending: SendingSoFar | None = None
    """Absent where it sends nothing, or nothing yet."""


Ended = Literal["finished", "stopped", "failed"]
"""Why sending ended."""

ErrorKind = Literal[
    "bad_request", "bad_plan", "wrong_state", "no_such_interface", "guard_refused", "permission", "unsupported", "port_lost", "syscall"
]
"""The kinds of faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a request was not carried out, or a port failed."""

    kind: ErrorKind
    """For programs."""
    message: str
    """For people: one sentence with the facts."""
    call: str | None = None
    """The system call that failed."""
    errno: int | None = None
    """Its errno."""
    remedy: str | None = None
    """What would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLost:
    """A link that went down: what was lost meanwhile says nothing of a DUT."""

    times: Count
    """How often it lost its carrier; at least once if it had none when the trial began."""
    set_down: bool
    """The port itself was set down on this host. False: it was up, and nobody knows whose end or what cable it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Gaps between the send times of consecutive frames of a stream: what was sent, as it was sent."""

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
    """The whole histogram: `[upper end of the bucket in ns, gaps in it]`, empty ones left out, rising.

    Buckets are at most 1/128 of their value wide.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SentStream:
    """What was sent of a stream. `intended` = `sent` + `refused`, always."""

    stream: Count
    """The stream."""
    intended: Count
    """Frames that were due until the end of sending (RFC 2285: intended load); at the maximum rate, those that were tried."""
    sent: Count
    """Frames that the kernel took; numbered from 0 without a gap, unless `numbered` says otherwise."""
    refused: Count
    """Frames that the kernel or card refused, or that were due and could not be sent in time."""
    sent_bytes: Count
    """Bytes sent, with FCS. Where a driver refused frames of a mix, nobody knows which: theirs are taken off at the mean."""
    seconds: float
    """Time over which the stream was sent: the plan's duration, or from first to last frame plus one mean gap."""
    achieved_pps: float
    """`sent` / `seconds`."""
    achieved_bps_l1: float
    """The same in bits per second with preamble and gap."""
    achieved_bps_l2: float
    """The same in bits per second of frames with FCS."""
    late_max_ns: Count
    """The most that a frame was sent after it was due; 0 at the maximum rate."""
    backpressure: Count | None = None
    """Of these, frames that the generator could have sent and that were not taken: a veth's peer had no room in its ring, a card none in
    its queue, because what comes behind it is slower. The rest of `refused` was not made in time. Absent: the kernel does not report what a
    driver refused; such frames are among `sent`, and will seem lost on the way.
    """
    first_monotonic_ns: Count | None = None
    """Send time of the first frame; absent when none was sent."""
    gaps: Gaps | None = None
    """Time from each frame to the next, as it was sent; absent where the back end does not keep it, or fewer than two frames left.

    Frames that left in one call share a send time, so the gaps between them are 0.
    """
    last_monotonic_ns: Count | None = None
    """Send time of the last frame."""
    numbered: Count | None = None
    """Below this are all sequence numbers that were used; absent: below `sent`. Present where a refused frame uses up its number."""
    unordered: bool = False
    """Several CPUs wrote the numbers of this stream at the same time, so its frames have no order. Tell `settle`."""


TimedBy = Literal["card", "kernel", "engine"]
"""Who read the clock for a frame's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Reply to `wait`: what a port sent."""

    port: str
    """The port."""
    ended: Ended
    """Why sending ended."""
    streams: tuple[SentStream, ...]
    """Each stream's share."""
    err: Fault | None = None
    """Present when `ended` is `failed`."""
    link_lost: LinkLost | None = None
    """Present when the port's link went down while it was in the trial."""
    notes: tuple[str, ...] = ()
    """What the user should know: a slower back end that had to send this plan, and why."""
    timed_by: TimedBy | None = None
    """Who read the clock for the send time in each frame; absent where nobody did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ipdv:
    """Absolute difference between the latencies of frame i - 1 and frame i, in the order of sending.

    Pairs of which one frame was lost or reordered have no value. The clocks' difference falls out: true between machines too.
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
    """The whole histogram: `[upper end of the bucket in ns, frames in it]`, empty ones left out, rising.

    Buckets are at most 1/1000 of their value wide.
    """
    ipdv: Ipdv | None = None
    """Inter-packet delay variation (RFC 5481 section 4.1); absent where the back end does not keep it."""
    pdv_p999_ns: Count | None = None
    """The same for the 99.9th percentile, which ITU-T Y.1540 and Y.1541 use."""
    pdv_p99_ns: Count | None = None
    """Packet delay variation (RFC 5481 section 4.2): 99th percentile less the least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Addresses and ports that a port keeps of the frames of a stream."""

    frames: Count
    """Frames whose addresses and ports are kept, duplicates left out."""
    different: Count
    """How many of these differ from one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a frame claimed to come from."""

    address: str
    """Source address."""
    port: Count
    """Source port (ICMP echo: the identifier)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedStream:
    """What was received of a stream. `sent` + `duplicated` = `received` + `lost`, or `balances` is false."""

    stream: Count
    """The stream."""
    sent: Count
    """Frames that were sent, as `settle` said."""
    received: Count
    """Frames that arrived, duplicates included."""
    received_bytes: Count
    """Bytes that arrived, with FCS."""
    lost: Count
    """Frames that never arrived."""
    duplicated: Count
    """Arrivals of a frame that had arrived before."""
    reordered_at_least: Count
    """Arrivals after a frame with a higher number that had come on the same receive queue, or of the same flow where the back end is not
    told the queue. So many were reordered before they came here. The same as `reordered` where that is known.
    """
    guessed: Count
    """Arrivals more than 131,040 numbers behind the highest: nobody knows whether they came twice.

    They count as duplicates, so that no loss is hidden; 0 means every count is exact.
    """
    corrupted: Count
    """Frames of this stream whose checksum is wrong; they are not among `received`."""
    balances: bool
    """Whether the frames are conserved, and nothing arrived that was not sent: no number at or above `numbered`, and no more different
    frames than `sent`.
    """
    sources: tuple[Source, ...]
    """The different senders of the first 1024 frames, as the receiver saw them: 16 at most. Shows translation."""
    first_monotonic_ns: Count | None = None
    """Arrival of the first frame; absent when none came."""
    last_monotonic_ns: Count | None = None
    """Arrival of the last frame."""
    late: Count | None = None
    """Frames that arrived after `settle` was asked, within its drain: the residual frames of RFC 2544 section 23.

    They are among `received`. What comes later than that is `lost`: the drain is the waiting time of RFC 7680.
    """
    latency: Latency | None = None
    """One-way latency of the frames that arrived, duplicates left out; absent when none came.

    True only where sender and receiver share a clock.
    """
    learned: Learned | None = None
    """What was learned of the frames; present where `learn` asked for it."""
    next_sequence: Count | None = None
    """One above the highest number that arrived; absent where the back end does not keep it."""
    reorder_extent_max: Count | None = None
    """The largest reordering extent (RFC 4737 section 4.2.1) that is known: frames between the first later one and this one.

    Null with `reordered`.
    """
    reorder_extent_mean: float | None = None
    """Mean of the reordering extents that are known; absent where there are none."""
    reorder_extents_unknown: Count = 0
    """Reordered frames whose extent is not known, because more gaps opened since theirs than the back end remembers (`xdp`: 64).

    The extents of the others are exact; above 0, the largest of all may be larger than `reorder_extent_max`.
    """
    reordered: Count | None = None
    """Arrivals after a frame with a higher number (RFC 4737 section 3: Type-P-Reordered).

    Null: not known, because the frames came on several receive queues, whose frames change places inside of the receiving host, or because
    several CPUs sent them.
    """
    reordered_by_three: Count | None = None
    """Frames that are 3-reordered (RFC 4737 section 5): TCP would take them for lost.

    Absent where the back end does not keep it, or `reordered` is not known.
    """
    reordered_ratio: float | None = None
    """Reordered frames in all first arrivals (RFC 4737 section 4.1), from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalTimes:
    """Frames of a port by who read the clock as they arrived."""

    card: Count
    """The network card."""
    kernel: Count
    """The host's kernel."""
    engine: Count
    """The engine, as it took the frame."""
    card_error_ns: Count | None = None
    """The card's times are true to within this by the host's clock; absent without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Reply to `settle`: what a port received."""

    port: str
    """The port."""
    streams: tuple[ReceivedStream, ...]
    """Each stream's share."""
    foreign: Count
    """Frames without our probe, or with one of a stream that is not in the plan."""
    stale: Count
    """Probes sent before this trial began."""
    err: Fault | None = None
    """Present when the port failed during the trial."""
    kernel_dropped: Count | None = None
    """Frames that reached the host and were dropped there for want of room, before they could be counted.

    They are among `lost`, but it was not the DUT that lost them. Absent: nobody knows; then any loss may be the receiver's.
    """
    link_lost: LinkLost | None = None
    """Present when the port's link went down while it was in the trial."""
    timed_by: ArrivalTimes | None = None
    """Who read the clock as frames arrived; absent where the back end keeps no count, or none came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Reply to operations that have nothing to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpTimes:
    """Some times, in nanoseconds."""

    count: Count
    """How many there are."""
    min_ns: Count
    """The least."""
    p50_ns: Count
    """Half of them took no longer; and so on."""
    p90_ns: Count
    """90 %."""
    p99_ns: Count
    """99 %."""
    max_ns: Count
    """The longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpTls:
    """What handshakes of TLS came to."""

    full: Count
    """With a certificate and new keys."""
    resumed: Count
    """With the keys of an earlier session."""
    agreed: Mapping[str, Count]
    """How many agreed on each version, cipher suite and group, as in `TLS 1.3 TLS_AES_256_GCM_SHA384 X25519`."""
    error: str | None = None
    """Why one failed, the last time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpConnections:
    """What became of all connections: `asked` = `begun` + `not_begun`; `begun` = `completed` + all failures."""

    asked: Count
    """Connections that were to be begun."""
    begun: Count
    """A SYN was sent."""
    not_begun: Count
    """Not in time, or the system had no socket or port for them."""
    established: Count
    """The handshake was done."""
    completed: Count
    """Every request was answered, and in a trial that holds them, the last one too."""
    refused: Count
    """RST instead of a handshake."""
    unreachable: Count
    """ICMP, or no route."""
    no_handshake: Count
    """No answer to SYN in time."""
    tls_failed: Count
    """No handshake of TLS, or one that came to nothing, or bytes that were not TLS."""
    reset: Count
    """RST after the handshake."""
    closed_early: Count
    """FIN before the answer had come."""
    no_answer: Count
    """No whole answer in time."""
    malformed: Count
    """An answer that is none, or not of the length asked for."""
    error_status: Count
    """An answer with another status than 200."""
    statuses: Mapping[str, Count]
    """How many answers had each of these other statuses."""
    open_max: Count
    """The most that were established at once."""
    transactions: Count
    """Requests that were answered."""
    body_bytes: Count
    """Of bodies."""
    begun_ns: Count
    """From the first SYN to the last, and one gap."""
    answered_ns: Count
    """From the first SYN to the last byte of an answer."""
    handshake: TcpTimes
    """From SYN to the end of the handshake."""
    tls_handshake: TcpTimes
    """From the end of that to the end of the handshake of TLS."""
    first_byte: TcpTimes
    """From SYN to the first byte of the first answer (RFC 9411 section 7.4.1)."""
    response: TcpTimes
    """From a request to the last byte of its answer."""
    tls: TcpTls
    """What handshakes of TLS came to."""
    refused_by_system: str | None = None
    """Why the system had no socket or port, the last time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpClientDone:
    """What `tcp-client` prints at its end."""

    connections: TcpConnections
    """What became of its connections."""
    sockets_allowed: Count
    """Files that it may have open."""
    tcp: Mapping[str, Count]
    """How much each of the kernel's counters rose; those that it does not have are not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpFailed:
    """What `tcp-client` or `tcp-server` prints when it cannot go on."""

    error: str
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServed:
    """What the server has seen."""

    accepted: Count
    """Connections taken."""
    open: Count
    """Of them, those that are open."""
    open_max: Count
    """The most that were open at once."""
    answered: Count
    """Requests answered whole."""
    body_bytes: Count
    """Of bodies."""
    closed: Count
    """Connections that the other end closed: FIN."""
    closed_here: Count
    """Connections that this end closed, as a request asked for."""
    reset: Count
    """Connections that the other end, or something on the way, reset."""
    malformed: Count
    """Requests that were none."""
    not_taken: Count
    """Connections that could not be taken, as there were too many open files."""
    tls_failed: Count
    """Connections without a handshake of TLS, or with bytes that were not TLS."""
    tls: TcpTls
    """What handshakes of TLS came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServerReady:
    """What `tcp-server` prints once it listens."""

    ready: bool
    """Always true."""
    sockets_allowed: Count
    """Files that it may have open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpServerSeen:
    """What `tcp-server` answers a line on stdin with."""

    served: TcpServed
    """What it has served."""
    tcp: Mapping[str, Count]
    """As that of the client, since the line before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondEvent:
    """Once a second for each port whose plan asked for it."""

    event: Literal["second"]
    port: str
    """The port."""
    monotonic_ns: Count
    """When the counters were read."""
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
    """Frames that the receiver's kernel dropped for want of room."""
    latency_max_ns: Count | None = None
    """The greatest one-way latency since the last event; absent when no frame came, or the kernel counts."""
    latency_mean_ns: float | None = None
    """Mean one-way latency of the frames since the last event; absent when none came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEvent:
    """Stream by stream, once a second. An agent says it only when it is asked; commands write it where `--events` names a file."""

    event: Literal["status"]
    port: str
    """The port."""
    receiving: ReceivingSoFar | None = None
    """Absent where it receives nothing, or nothing yet."""
    sending: SendingSoFar | None = None
    """Absent where it sends nothing, or nothing yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEvent:
    """A port failed; `wait` and `settle` still reply with what was counted before."""

    event: Literal["failed"]
    port: str
    """The port."""
    err: Fault
    """Why."""


EVENTS: Mapping[str, type[SecondEvent | StatusEvent | FailedEvent]] = {"second": SecondEvent, "status": StatusEvent, "failed": FailedEvent}
"""One line from the agent that answers no request."""
