"""The world as a method sees it: something that sends and receives frames, and nothing else.

Each method runs against a simulated DUT in a unit test, because these protocols are all that it can reach.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from dutlab.doubts import Doubt
from dutlab.events import Tell, nobody
from dutlab.methods.connection_ports import Connections
from dutlab.methods.dut_ports import Beside, DutControl, PowerControl, Readings
from dutlab.methods.dut_tables import RouteTable, StateTable
from dutlab.methods.transfer_ports import Transfers
from dutlab.physics.interference import CpuAccount
from dutlab.plan.cell import Cell
from dutlab.spec.mixes import Mix
from dutlab.spec.traffic import Directions, Traffic
from dutlab.subject import back_of
from dutlab.units import BpsL1, Pps, Seconds

IPAddress = IPv4Address | IPv6Address
NO_TIME = Seconds(0.0)
DRAIN = Seconds(0.5)
"""Enough for what a software router buffers; RFC 2544 section 23 waits 2 s."""


@dataclass(frozen=True)
class Stretch:
    """A while of linearly changing rate; of constant rate if it begins as it ends."""

    duration: Seconds
    from_rate: Pps
    to_rate: Pps


@dataclass(frozen=True)
class OfferedStream:
    """One of several streams of an offer. `rate` is per link; None is as fast as the generator can."""

    name: str
    mix: Mix
    rate: Pps | None
    frames: int | None = None
    """It ends after so many, in a chain in each round; None is with the offer."""
    traffic: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True)
class OfferedChain:
    """Streams one after another, each so long after the last frame of the one before."""

    steps: tuple[tuple[str, Seconds], ...]
    rounds: int = 1


@dataclass(frozen=True)
class Offer:
    """One trial's load: what is asked of the generator. `rate` is per link and direction; None is as fast as it can."""

    links: tuple[str, ...]
    mix: Mix
    rate: Pps | None
    duration: Seconds
    warmup: Seconds = NO_TIME
    drain: Seconds = DRAIN
    stop_after_lost: int | None = None
    """The trial may be stopped at once when more frames than this, of all links together, are certainly lost or were refused by the peer
    (`Flow.backpressure_frames`). Frames in flight are not lost; the drain is waited for as ever. A generator that cannot look
    meanwhile sends to the end: that costs time, nothing else."""

    profile: tuple[Stretch, ...] = ()
    """Instead of `rate`, which is None then: the rate over time from the first frame on, for a ramp or steps. After the last stretch its
    `to_rate` goes on until `duration` is over. `warmup` is sent at the rate that the profile begins with."""
    directions: Directions = Directions.FORWARD
    back_answers: bool = False
    """Frames of both directions at once: those that go back have the addresses and ports of answers, which a filter lets through."""
    answered: IPAddress | None = None
    """Destination of answers, if not the source's own address: the address to which the DUT translates it."""
    traffic: Traffic = field(default_factory=Traffic)
    traffic_of: Mapping[str, Traffic] = field(default_factory=dict, hash=False)
    """Traffic by flow name, in place of `traffic`, where each way has its own destinations."""
    burst_frames: int = 1
    """So many frames leave back to back at each due time, at the same mean rate (RFC 2544 section 21). Of a constant rate only."""
    streams: tuple[OfferedStream, ...] = ()
    """Instead of `mix`, `rate`, `traffic` and bursts: several streams on each link, forward only, each a separate flow."""
    chains: tuple[OfferedChain, ...] = ()
    """Chains of these streams; all others begin with the offer."""
    burst_rate: Pps | None = None
    """At which the frames of one burst follow each other, above the mean rate; None is as fast as the port takes them."""
    broadcast_ratio: float = 0.0
    """So many frames to the hardware broadcast address are sent for each of these, evenly. They are not counted; full speed has none."""
    begun: Callable[[], None] | None = field(default=None, compare=False)
    """Called when frames that count are being sent, within some tenths of a second after the first: for who does something meanwhile."""

    readings_every: Seconds = field(default=Seconds(1.0), compare=False)
    """The time from one reading to the next, at most; a generator that has none so fine gives those that it has."""
    frames: int | None = None
    """Each direction ends after so many, however long they take; `duration` is their time at the rate. None: it ends with the duration."""
    learns: bool = False
    """The port that receives keeps the addresses and ports of the frames, as they arrive, for offers that follow (RFC 9693 section 4.2)."""
    answers_learned: bool = False
    """Frames from sink to source answer those that the sink's port has learned, one after the other, with their addresses and ports."""
    lossy: bool = field(default=False, compare=False)
    """Something else fills the queues, so frames get lost whatever the machine does: loss does not mark it as disturbed."""
    once: bool = field(default=False, compare=False)
    """Something may happen to the DUT meanwhile: the load cannot be offered again, and a link that loses its carrier does not end it."""

    def __post_init__(self) -> None:
        """Raises ValueError when rate and profile are both given."""
        if self.profile and self.rate is not None:
            raise ValueError("an offer has a rate or a profile, not both")

    def carrying(self, traffic: Traffic, traffic_of: Mapping[str, Traffic] | None = None) -> Offer:
        """Return the load with `traffic`, and each way in `traffic_of` with its own; in bursts where it has some and a constant rate."""
        offer = replace(self, traffic=traffic, traffic_of=traffic_of or {})
        if traffic.burst is None or self.rate is None:
            return offer
        return replace(offer, burst_frames=traffic.burst.frames, burst_rate=traffic.burst.rate)

    @property
    def flow_names(self) -> tuple[str, ...]:
        """Names of its flows, in the order of an outcome: the links, each followed by its reverse direction if frames go in both."""
        if self.streams:
            return tuple(flow_of_stream(link, stream.name) for link in self.links for stream in self.streams)
        return flow_names(self.links, self.directions)


def flow_of_stream(link: str, stream: str) -> str:
    """The name of the flow of one of several streams on a link."""
    return f"{link}:{stream}"


def flow_names(links: tuple[str, ...], directions: Directions) -> tuple[str, ...]:
    """Return the names of the flows of links, in their order."""
    return tuple(back_of(link) if back else link for link in links for back in directions.backs)


Histogram = tuple[tuple[int, int], ...]
"""(upper end of the bucket in ns, values in it), rising; empty buckets are left out. Buckets are at most 1/128 of their value wide."""


@dataclass(frozen=True)
class Gaps:
    """Time from each frame to the next as it was sent: what the generator really did with the asked rate."""

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
    """Account of one link's frames in one trial. intended = sent + refused; sent + duplicated = received + lost."""

    link: str
    """With `.back` behind it where frames went from sink to source."""
    intended_frames: int
    sent_frames: int
    refused_frames: int
    received_frames: int
    lost_frames: int
    duplicated_frames: int
    reordered_frames: int | None
    """Arrivals after a later frame (RFC 4737 section 3). None: not known, because the receiving host's own queues may have changed
    the order, several CPUs sent the stream, or the generator does not look."""
    foreign_frames: int
    sent_seconds: float
    mean_frame_bytes: float
    received_bytes: int
    """Bytes with FCS of the received frames."""
    latency: Latency | None = None
    latency_error_ns: int | None = None
    """The latencies are true to within this; 0 where sender and receiver read one clock. None: there are none."""
    sent_timed_by: str = ""
    """Clock of a frame's send time: `card`, `kernel` or `engine`; empty where it is not known."""
    arrivals_timed_by: Mapping[str, int] = field(default_factory=dict)
    """Frames by who read the clock as they arrived, in the same words. They are of the port, whatever flow a frame is of."""
    gaps: Gaps | None = None
    late_frames: int | None = None
    """Arrived within the drain, after sending had ended (RFC 2544 section 23's residual frames); they are among the received."""
    stale_frames: int = 0
    """Ours, but of an earlier trial; not among the received."""
    corrupted_frames: int = 0
    """Ours, but altered on the way; not among the received, so they are lost too."""
    reordered_at_least_frames: int = 0
    """Arrivals after a later frame of the same receive queue or flow: so many are known to be the path's, also where not all are."""
    reorder_extent_max: int | None = 0
    """Greatest reordering extent, in frames (RFC 4737 section 4.2); None where reordering is not known."""
    backpressure_frames: int = 0
    """Refused frames that the generator could have sent and that were not taken. A veth's peer, the DUT of the embedded lab, had no
    room in its ring; a card had none in its queue, because the link is full or the DUT asked for a pause. It is the DUT's pressure back.
    The rest of the refused was not made in time: then the generator is too slow."""
    sources: tuple[str, ...] = ()
    """Source addresses of the first frames as the receiver saw them, where the generator reports them: translated if the DUT translates."""
    arrived_beyond_sent: bool = False
    """Frames arrived that the sender did not send: a sequence number that it did not use, or more different frames than it sent."""
    places: Mapping[str, int] = field(default_factory=dict)
    """Places where frames were lost between sending and receiving, as far as counters on the path show (tools.path_counters)."""

    @property
    def balances(self) -> bool:
        """Frames are conserved (rule 7 of the house)."""
        return (
            not self.arrived_beyond_sent
            and self.intended_frames == self.sent_frames + self.refused_frames
            and self.sent_frames + self.duplicated_frames == self.received_frames + self.lost_frames
        )

    @property
    def timed_by(self) -> str:
        """The clocks of its latencies, as part of a sentence; empty where that is not known."""
        arrived = " or ".join(f"the {by}'s" for by, frames in self.arrivals_timed_by.items() if frames)
        return f"the {self.sent_timed_by}'s when sent, {arrived} when received" if self.latency and self.sent_timed_by and arrived else ""

    @property
    def loss_ratio(self) -> float:
        """Frame loss ratio (RFC 1242 section 3.6), of the frames that were really sent; 0 when none was."""
        return self.lost_frames / self.sent_frames if self.sent_frames else 0.0


@dataclass(frozen=True)
class TimedFlow(Flow):
    """A flow with all that is known of its times; a record keeps the histograms in a separate file (store/details.py)."""

    latency_histogram: Histogram = ()
    gap_histogram: Histogram = ()


@dataclass(frozen=True)
class ToolReading:
    """A value in time inside a trial, as the tool itself saw it. `at_s` is wall clock, in seconds since the epoch."""

    at_s: float
    link: str
    """Name of its flow."""
    name: str
    """With unit suffix, as figures have. Frames a second since the reading before: `offered_pps`, `received_pps` (different frames),
    `lost_pps` (certainly lost by then), `backpressure_pps`; and the mean latency of those that came, `latency_mean_ns`."""
    value: float


@dataclass(frozen=True)
class LostSoFar:
    """Frames that a flow had lost, or the next port had not taken, at the last of its `lost_pps` readings: a count, not a rate."""

    at_s: float
    """Wall clock, in seconds since the epoch."""
    frames: int


@dataclass(frozen=True)
class LearnedTuples:
    """Addresses and ports of frames as they arrived, which the port that received them keeps."""

    frames: int
    """Each frame once."""
    different: int


@dataclass(frozen=True)
class Outage:
    """When a flow lost its frames, by their numbers: two frames, each sent between two instants of the wall clock (s since the epoch)."""

    first_lost_s: tuple[float, float]
    """The first frame that was lost."""
    back_s: tuple[float, float] | None
    """The first that came after the last lost one; None where none is known to have come."""


@dataclass(frozen=True)
class Outcome:
    """Report of a generator on one trial."""

    flows: tuple[Flow, ...]
    doubts: tuple[Doubt, ...] = ()
    raw: Mapping[str, bytes] = field(default_factory=dict)
    """File name → the tool's own output, untouched."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the tool: version, back end, core."""
    readings: Sequence[ToolReading] = ()
    lost_by: Mapping[str, LostSoFar] = field(default_factory=dict)
    """Losses by flow, where they were counted meanwhile; what a flow lost beyond that was lost, or known to be, after the last reading."""
    stopped_early_s: Seconds | None = None
    """The trial was stopped because of `Offer.stop_after_lost`, so long after its first frame; `intended_frames` is of that time."""
    began_s: float | None = None
    """Wall clock of the first frame, in seconds since the epoch, where the generator reports it."""
    learned: Mapping[str, LearnedTuples] = field(default_factory=dict)
    """By flow, where the offer had the receiver learn."""
    outages: Mapping[str, Outage] = field(default_factory=dict)
    """By flow, of an offer `once` at a constant rate: of those that lost frames."""
    disturbed: str = ""
    """Effect of other work on the testbed, where it was too much; empty where it was not, or was not read."""
    link_lost: str = ""
    """Ports of the generator that lost their link meanwhile, in words; empty where none did, or was not read."""
    thrown_away: tuple[Outcome, ...] = ()
    """Outcomes of the same offer before this one, each of which was disturbed, or lost a link."""


class CpuAccounts(Protocol):
    """Reads what our threads and other work use of the CPUs of the testbed's machines."""

    async def read(self) -> Mapping[str, CpuAccount]:
        """Host → account as it is now; a host that cannot tell is not there."""


class Generator(Protocol):
    """Offers a load and accounts for every frame of it."""

    async def offer(self, offer: Offer) -> Outcome:
        """Warm up, send, drain, then read the counters. Raises ToolFailed, HostError."""


Row = Mapping[str, float | str | None]
Table = Sequence[Row]
"""Rows with the same columns, whose names end in their unit as those of figures do."""


@dataclass(frozen=True)
class OfferCount:
    """Number of loads that a method offered, each judged by itself."""

    made: int
    disturbed: int
    """Number of these that other work disturbed."""
    kept: int = 0
    """Number of disturbed ones that could not be offered again, so that the figures are of them. The rest changed nothing."""
    link_lost: int = 0
    """Loads during which a link of the testbed went down. They moved nothing, and are not among the disturbed."""


@dataclass(frozen=True)
class LimitTrial:
    """Result of the load at a limit that a method had found before."""

    row: Row
    """Rates of all flows together, and the latency of the slowest."""
    raw: Mapping[str, bytes] = field(default_factory=dict)


AtLimit = Callable[[], Awaitable[LimitTrial]]
"""Offers the load at the limit once more. It moves no figure. Raises MeasurementError, HostError."""


@dataclass(frozen=True)
class Measured:
    """Result of a trial. `figures` is link → name with unit suffix → value; a link of several is written `a+b`."""

    figures: Mapping[str, Mapping[str, float]]
    flows: tuple[Flow, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    raw: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """Sentences for the report about the figures."""
    readings: Sequence[ToolReading] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Steps of a method: the trials of a search, the points of a curve."""
    offers: OfferCount | None = None
    """None: offers were not judged, and the trial is judged as a whole."""
    at_limit: AtLimit | None = field(default=None, compare=False)
    """None: no limit was found, or the method finds none."""


@dataclass(frozen=True)
class Bench:
    """All that a method is given to measure with."""

    generator: Generator
    speeds: Mapping[str, BpsL1 | None] = field(default_factory=dict)
    """Line rate of each link, None where it is not known."""
    device: DutControl | None = None
    """None: nothing can be done to the DUT."""
    addresses: Mapping[str, tuple[IPAddress, IPAddress]] = field(default_factory=dict)
    """Addresses of each link: the source's and the sink's."""
    routes: RouteTable | None = None
    """None: nothing can be loaded into the DUT. The same holds for `states`."""
    states: StateTable | None = None
    connections: Connections | None = None
    """None: there is no tool for TCP connections on the links."""
    transfers: Transfers | None = None
    """None: nothing sends TCP as fast as it goes."""
    management: Beside | None = None
    """A query to the DUT's address; None: none can be sent. `updates` is the same for a change of routes that no test frame takes."""
    updates: Beside | None = None
    readings: Readings | None = None
    """None: no sensor reports during the trial. `power` is None where the DUT cannot be switched."""
    power: PowerControl | None = None
    again: int = 0
    """How often a load that other work disturbed may be offered again by a method that sees to it itself (`Offer.once`)."""
    tell: Tell = nobody
    """Takes what a method knows meanwhile, for whoever looks on."""


Method = Callable[[Bench, Cell], Awaitable[Measured]]
"""Finds one trial's figures. Raises InputError, MeasurementError, HostError."""
