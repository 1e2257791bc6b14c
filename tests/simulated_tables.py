"""Simulated DUTs with tables: routes that they may take or not, flows and connections that they know up to a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MeasurementError
from dutlab.methods.dut_tables import FlowCounts, LinkEnd, RoutesLoaded
from dutlab.methods.flow import Flow, Latency
from dutlab.methods.ports import LearnedTuples, Offer, Outcome
from dutlab.spec.traffic import Directions, Spread
from simulated import Simulation


@dataclass
class Routes:
    """A route table that keeps `keeps` of what is loaded, and leads `astray`."""

    keeps: float = 1.0
    astray: tuple[str, ...] = ()
    loads: list[tuple[str, Spread, LinkEnd]] = field(default_factory=list)

    async def load(self, link: str, spread: Spread, towards: LinkEnd = LinkEnd.SINK) -> RoutesLoaded:
        """As the port asks."""
        self.loads.append((link, spread, towards))
        return RoutesLoaded(int(spread.count * self.keeps), 0.5, 64, self.astray)


@dataclass
class States:
    """A state table of `most` flows: a full one drops new flows, or `evicts` the oldest. Shared with `StatefulDut`."""

    most: int
    evicts: bool = False
    tells: bool = True
    tracks: bool = True
    known: set[int] = field(default_factory=set)
    dropped: int = 0
    evicted: int = 0
    kept_s: float = 0.0
    forgotten: int = 0
    ports: tuple[int, int] | None = None

    async def counts(self) -> FlowCounts:
        """As the port asks."""
        if not self.tells:
            return FlowCounts()
        return FlowCounts(len(self.known) if self.tracks else 0, self.most, {"drop": self.dropped, "early_drop": self.evicted})

    async def forget(self) -> None:
        """As the port asks."""
        self.known.clear()
        self.forgotten += 1

    async def keep(self, seconds: float) -> None:
        """As the port asks."""
        self.kept_s = max(self.kept_s, seconds)

    async def limit(self, flows: int) -> None:
        """As in a namespace."""
        raise MeasurementError(f"nf_conntrack_max stays {self.most}, not {flows}")

    async def limit_ports(self, first: int, last: int) -> None:
        """As the port asks."""
        self.ports = (first, last)

    def begin(self, flow: int) -> bool:
        """Whether a frame of the flow passes."""
        if not self.tracks or flow in self.known:
            return True
        room = self.most if self.ports is None else min(self.most, self.ports[1] - self.ports[0] + 1)
        if len(self.known) >= room:
            if not self.evicts:
                self.dropped += 1
                return False
            self.known.pop()
            self.evicted += 1
        self.known.add(flow)
        return True


@dataclass
class StatefulDut:
    """A generator with a DUT behind it that takes `per_s` new flows a second and knows as many as `states` hold."""

    states: States
    simulation: Simulation
    answers: bool = True
    tamper: Callable[[int, Flow], Flow] = lambda _, flow: flow
    offers: list[Offer] = field(default_factory=list)

    async def offer(self, offer: Offer) -> Outcome:
        """As the port asks."""
        number = len(self.offers)
        self.offers.append(offer)
        outcome = await self.simulation.offer(offer)
        flows = tuple(self.tamper(number, self._through(offer, flow)) for flow in outcome.flows)
        return replace(outcome, flows=flows)

    def _through(self, offer: Offer, flow: Flow) -> Flow:
        count = offer.traffic.flows.count
        begun = [n % count for n in range(flow.received_frames)]
        if offer.directions is Directions.ANSWERS:
            passed = sum(self.answers and (not self.states.tracks or n in self.states.known) for n in begun)
        else:
            passed = sum(self.states.begin(n) for n in begun)
        lost = flow.lost_frames + flow.received_frames - passed
        return replace(flow, received_frames=passed, lost_frames=lost, sources=("172.16.10.1",))


@dataclass
class Translator:
    """A generator with a stateful translator behind it, which takes `per_s` new connections a second and `depth` at once.

    Loads of connections that it knows pass up to `capacity_pps` in all. From connection `alike_from` on it gives every connection the same port.
    """

    states: States
    per_s: float = 40_000.0
    depth: int = 20
    capacity_pps: float = 30_000.0
    reach_pps: float = 1e6
    alike_from: int | None = None
    spoilt: set[int] = field(default_factory=set)
    """Numbers of the offers of which the tester itself loses a frame."""
    offers: list[Offer] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)

    async def offer(self, offer: Offer) -> Outcome:
        """As the port asks."""
        self.offers.append(offer)
        rate = min(float(offer.rate or self.reach_pps), self.reach_pps)
        frames = offer.frames or round(rate * offer.duration)
        if offer.learns:
            return self._begin(offer, frames, rate)
        if offer.directions is Directions.BACK:
            passed = sum(connection in self.states.known for connection in self.learned)
            return Outcome((self._flow(offer.flow_names[0], frames, rate, frames - passed),), self._doubts())
        share = min(1.0, self.capacity_pps / (rate * len(offer.flow_names)))
        loads = offer.answers_learned and len(self.learned) == offer.traffic.flows.count
        return Outcome(
            tuple(self._flow(name, frames, rate, math.ceil(frames * (1 - share)) if loads else frames) for name in offer.flow_names)
        )

    def _begin(self, offer: Offer, frames: int, rate: float) -> Outcome:
        taken, self.learned = 0, []
        for n in range(frames):
            room = n in self.states.known or self.depth + self.per_s * n / rate >= taken + 1
            if room and self.states.begin(n):
                taken += 1
                self.learned.append(n)
        different = len(self.learned) if self.alike_from is None else min(len(self.learned), self.alike_from)
        flow = self._flow(offer.links[0], frames, rate, frames - len(self.learned))
        return Outcome((flow,), self._doubts(), learned={offer.links[0]: LearnedTuples(len(self.learned), different)})

    def _doubts(self) -> tuple[Doubt, ...]:
        return (Doubt(DoubtKind.RX_DROPPED, "1 frame", "a"),) if len(self.offers) in self.spoilt else ()

    def _flow(self, name: str, frames: int, rate: float, lost: int) -> Flow:
        ns = 50_000
        latency = Latency(frames - lost, ns, 2 * ns, 3 * ns, 4 * ns, 5 * ns, 6 * ns, float(2 * ns)) if frames > lost else None
        of = {"seconds": frames / rate, "frame_bytes": 64.0, "reordered_frames": 0, "latency": latency}
        return Flow.counted(name, asked=frames, sent=frames, received=frames - lost, **of)
