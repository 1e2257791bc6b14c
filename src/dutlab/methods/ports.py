"""Protocols and data types through which a method uses the testbed.

A method can reach nothing else, so unit tests run each method against a simulated DUT.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from dutlab.doubts import Doubt
from dutlab.events import Tell, no_observer
from dutlab.methods.connection_ports import Connections
from dutlab.methods.dut_ports import ConcurrentWork, DutControl, LinkControl, PowerControl, Readings
from dutlab.methods.dut_tables import RouteTable, StateTable
from dutlab.methods.flow import Flow
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
"""Default drain: long enough for the buffers of a software router; RFC 2544 section 23 waits 2 s."""


@dataclass(frozen=True)
class Stretch:
    """Time span with a linearly changing rate; a constant one if both rates are equal."""

    duration: Seconds
    from_rate: Pps
    to_rate: Pps


@dataclass(frozen=True)
class OfferedStream:
    """One of several streams of an offer. `rate` is per link; None is as fast as the generator can send."""

    name: str
    mix: Mix
    rate: Pps | None
    frames: int | None = None
    """Number of frames after which it ends (in a chain: in each round); None to end with the offer."""
    traffic: Traffic = field(default_factory=Traffic)


@dataclass(frozen=True)
class OfferedChain:
    """Streams sent one after another. Each step has its pause after the last frame of the previous stream."""

    steps: tuple[tuple[str, Seconds], ...]
    rounds: int = 1


@dataclass(frozen=True)
class Offer:
    """Load of one trial, as asked of the generator. `rate` is per link and direction; None is as fast as it can send."""

    links: tuple[str, ...]
    mix: Mix
    rate: Pps | None
    duration: Seconds
    warmup: Seconds = NO_TIME
    drain: Seconds = DRAIN
    stop_after_lost: int | None = None
    """Number of lost or refused frames of all links together above which the trial may be stopped early.

    Only frames that are certainly lost count, and those refused by the peer (`Flow.backpressure_frames`). Frames in flight are not lost;
    the drain is always complete. A generator that cannot check this during the trial sends to the end: that only costs time.
    """

    profile: tuple[Stretch, ...] = ()
    """Rate over time from the first frame on, for a ramp or steps. Replaces `rate`, which is then None.

    After the last part, its `to_rate` continues until the end of `duration`. `warmup` is sent at the first rate of the profile.
    """
    directions: Directions = Directions.FORWARD
    back_answers: bool = False
    """True to give frames in the reverse direction the addresses and ports of answers, which a filter lets through.

    For offers in both directions at once.
    """
    answered: IPAddress | None = None
    """Destination of answers if it is not the source's own address: the address to which the DUT translates it."""
    traffic: Traffic = field(default_factory=Traffic)
    traffic_of: Mapping[str, Traffic] = field(default_factory=dict, hash=False)
    """Traffic by flow name, instead of `traffic`, if each direction has other destinations."""
    burst_frames: int = 1
    """Number of frames sent back to back at each due time, at the same mean rate (RFC 2544 section 21). For constant rates only."""
    streams: tuple[OfferedStream, ...] = ()
    """Several streams on each link, forward only, each a separate flow. Replaces `mix`, `rate`, `traffic` and bursts."""
    chains: tuple[OfferedChain, ...] = ()
    """Chains of these streams; all other streams begin with the offer."""
    burst_rate: Pps | None = None
    """Rate inside a burst, above the mean rate; None is as fast as the port takes the frames."""
    broadcast_ratio: float = 0.0
    """Frames to the hardware broadcast address for each test frame, sent evenly and not counted. At full speed there are none."""
    begun: Callable[[], None] | None = field(default=None, compare=False)
    """Callback for concurrent actions, called within some tenths of a second after the first counted frame."""

    readings_every: Seconds = field(default=Seconds(1.0), compare=False)
    """Longest time between readings; a generator that cannot read so often gives the readings that it has."""
    frames: int | None = None
    """Number of frames after which each direction ends, however long they take; `duration` is their time at the rate. None: no limit."""
    learns: bool = False
    """True if the receiving port stores the addresses and ports of frames as they arrive, for later offers (RFC 9693 section 4.2)."""
    answers_learned: bool = False
    """True if frames from sink to source answer the frames that the sink's port has stored, in turn, with their addresses and ports."""
    lossy: bool = field(default=False, compare=False)
    """True if other load fills the queues: then loss does not mark the trial as disturbed."""
    once: bool = field(default=False, compare=False)
    """True if the DUT is changed during the offer: it cannot be repeated, and a lost carrier does not end it."""

    def __post_init__(self) -> None:
        """Raise ValueError if rate and profile are both given."""
        if self.profile and self.rate is not None:
            raise ValueError("an offer has a rate or a profile, not both")

    def carrying(self, traffic: Traffic, traffic_of: Mapping[str, Traffic] | None = None) -> Offer:
        """Return the load with `traffic`, or for single flows that of `traffic_of`. Bursts of the traffic apply to constant rates only."""
        offer = replace(self, traffic=traffic, traffic_of=traffic_of or {})
        if traffic.burst is None or self.rate is None:
            return offer
        return replace(offer, burst_frames=traffic.burst.frames, burst_rate=traffic.burst.rate)

    @property
    def flow_names(self) -> tuple[str, ...]:
        """Names of its flows, in the order of an outcome: the links, each followed by its reverse direction if both are used."""
        if self.streams:
            return tuple(flow_of_stream(link, stream.name) for link in self.links for stream in self.streams)
        return flow_names(self.links, self.directions)


def flow_of_stream(link: str, stream: str) -> str:
    """Return the name of the flow of one stream on a link."""
    return f"{link}:{stream}"


def flow_names(links: tuple[str, ...], directions: Directions) -> tuple[str, ...]:
    """Return the names of the flows of links, in their order."""
    return tuple(back_of(link) if back else link for link in links for back in directions.backs)


@dataclass(frozen=True)
class ToolReading:
    """A value at an instant of a trial, read by the tool. `at_s` is wall clock, in seconds since the epoch."""

    at_s: float
    link: str
    """Name of its flow."""
    name: str
    """Name with unit suffix, as of figures.

    Frames a second since the previous reading: `offered_pps`, `received_pps` (different frames), `lost_pps` (certainly lost by then),
    `backpressure_pps`. Mean latency of the frames received since then: `latency_mean_ns`.
    """
    value: float


@dataclass(frozen=True)
class LostSoFar:
    """Number of frames of a flow that were lost, or not taken by the next port, up to its last `lost_pps` reading."""

    at_s: float
    """Wall clock, in seconds since the epoch."""
    frames: int


@dataclass(frozen=True)
class LearnedTuples:
    """Addresses and ports of received frames, stored by the receiving port."""

    frames: int
    """Number of frames."""
    different: int


@dataclass(frozen=True)
class Outage:
    """Begin and end of the losses of a flow, by sequence numbers; each between two instants (wall clock, s since the epoch)."""

    first_lost_s: tuple[float, float]
    """Send time of the first lost frame."""
    back_s: tuple[float, float] | None
    """Send time of the first frame received after the last lost one; None if none is known."""


@dataclass(frozen=True)
class Outcome:
    """Report of a generator on one trial."""

    flows: tuple[Flow, ...]
    doubts: tuple[Doubt, ...] = ()
    raw: Mapping[str, bytes] = field(default_factory=dict)
    """The tool's raw output by file name."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the tool: version, back end, core."""
    readings: Sequence[ToolReading] = ()
    lost_by: Mapping[str, LostSoFar] = field(default_factory=dict)
    """Losses by flow, if counted during the trial. Further losses happened, or became known, after the last reading."""
    stopped_early_s: Seconds | None = None
    """Duration until the trial was stopped by `Offer.stop_after_lost`; `intended_frames` is for that time. None if not stopped."""
    began_s: float | None = None
    """Wall clock of the first frame, in seconds since the epoch, if the generator reports it."""
    learned: Mapping[str, LearnedTuples] = field(default_factory=dict)
    """Stored addresses and ports by flow, if the offer has `learns`."""
    outages: Mapping[str, Outage] = field(default_factory=dict)
    """Outages by flow, for flows with loss; only for an offer with `once` at a constant rate."""
    disturbed: str = ""
    """Effect of other work on the testbed, if it was too large; empty if not, or if not read."""
    link_lost: str = ""
    """Ports of the generator whose link went down, in words; empty if none, or if not read."""
    thrown_away: tuple[Outcome, ...] = ()
    """Earlier outcomes of the same offer that were disturbed or lost a link."""


class CpuAccounts(Protocol):
    """Reads the CPU time of our threads and of other work on the testbed's machines."""

    async def read(self) -> Mapping[str, CpuAccount]:
        """Return the current account by host, without hosts that cannot report it."""


class Generator(Protocol):
    """Offers a load and accounts for every frame of it."""

    async def offer(self, offer: Offer) -> Outcome:
        """Warm up, send, drain, then read the counters. Raises ToolFailed, HostError."""


Row = Mapping[str, float | str | None]
Table = Sequence[Row]
"""Rows with the same columns; column names end in their unit, like those of figures."""


@dataclass(frozen=True)
class OfferCount:
    """Number of loads that a method offered, each judged by itself."""

    made: int
    disturbed: int
    """Number of loads that other work disturbed."""
    kept: int = 0
    """Number of disturbed loads that could not be repeated, so figures include them. The others changed no figure."""
    link_lost: int = 0
    """Loads during which a link of the testbed went down. They changed no figure, and are not included in `disturbed`."""


@dataclass(frozen=True)
class LimitTrial:
    """Result of one more trial of the load at a limit that a method found."""

    row: Row
    """Rates of all flows together, and the latency of the slowest."""
    raw: Mapping[str, bytes] = field(default_factory=dict)


AtLimit = Callable[[], Awaitable[LimitTrial]]
"""Function that offers the load at the limit once more. It changes no figure. Raises MeasurementError, HostError."""


@dataclass(frozen=True)
class Measured:
    """Result of a trial. `figures` is link → name with unit suffix → value; several links together are written `a+b`."""

    figures: Mapping[str, Mapping[str, float]]
    flows: tuple[Flow, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    raw: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """Notes about the figures for the report, as sentences."""
    readings: Sequence[ToolReading] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Steps of a method: the trials of a search, the points of a curve."""
    offers: OfferCount | None = None
    """Counts of loads judged separately; None if the trial is judged as a whole."""
    at_limit: AtLimit | None = field(default=None, compare=False)
    """Function for the load at the limit; None if the method found no limit."""


@dataclass(frozen=True)
class Bench:
    """Access of a method to the testbed."""

    generator: Generator
    speeds: Mapping[str, BpsL1 | None] = field(default_factory=dict)
    """Line rate of each link; None if not known."""
    device: DutControl | None = None
    """Actions on the DUT; None if there are none."""
    addresses: Mapping[str, tuple[IPAddress, IPAddress]] = field(default_factory=dict)
    """Addresses of each link: the source's and the sink's."""
    routes: RouteTable | None = None
    """Route table of the DUT; None if no routes can be loaded. `states` is None if its flow table cannot be used."""
    states: StateTable | None = None
    connections: Connections | None = None
    """Tool for TCP connections; None if there is none on the links."""
    transfers: Transfers | None = None
    """Tool for TCP transfers at full speed; None if there is none."""
    management: ConcurrentWork | None = None
    """Queries to the DUT's address; None if they are not possible. `updates` are changes of routes that no test frame uses."""
    updates: ConcurrentWork | None = None
    readings: Readings | None = None
    """Sensor readings; None if no sensor reports during the trial. `power` is None if the DUT cannot be switched."""
    power: PowerControl | None = None
    links: LinkControl | None = None
    """State of the links through the DUT; None if there are none."""
    ask: Callable[[str], Awaitable[str]] | None = None
    """Question to a person, who answers in a line; None if there is no person."""
    seen: dict[str, str] = field(default_factory=dict)
    """Cell as JSON → answer of the person who looked at its traffic; a trial that is repeated does not ask again."""
    plain: Generator | None = None
    """Generator whose offers are neither judged nor counted, for loads that are not results; None: `generator`."""
    again: int = 0
    """Number of repeats of a disturbed load, for methods that repeat loads themselves (`Offer.once`)."""
    tell: Tell = no_observer
    """Receiver of progress messages during the trial."""


Method = Callable[[Bench, Cell], Awaitable[Measured]]
"""Function that finds one trial's figures. Raises InputError, MeasurementError, HostError."""
