"""The two phases of a trial of RFC 9693: connections are begun one by one (section 4.2), then answered from the other side (section 4.7).

The tester does not query the DUT. The receiver of the first phase stores the addresses and ports of the frames as the DUT made them. The
frames received in the second phase show which of these connections the DUT knows (section 4.6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.methods.dut_tables import FlowCounts, StateTable
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, starved
from dutlab.methods.ports import Generator, LearnedTuples, Offer, Outcome, Row
from dutlab.spec.traffic import Directions, Traffic
from dutlab.spec.workloads.stateful_nat import StatefulNatSetting
from dutlab.units import Pps, Seconds, si

TRIES = 4
"""Most tries of a trial that other work disturbed, or in which the tester itself lost frames."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class NatTrial:
    """One trial of both phases."""

    asked: int
    rate_per_s: float
    begun: Flow
    learned: LearnedTuples
    answered: Flow | None
    """Flow of the second phase; None if connections were already missing after the first phase."""
    starved: str
    """Description of a generator too slow for the first phase; empty if it was not."""

    @property
    def validated(self) -> int | None:
        """Connections whose answer arrived."""
        return None if self.answered is None else self.answered.received_frames - self.answered.duplicated_frames

    @property
    def established(self) -> int:
        """Connections that the DUT took, translated to distinct addresses and ports, and knew at the end."""
        arrived = min(self.learned.frames, self.learned.different)
        return arrived if self.validated is None else min(arrived, self.validated)

    @property
    def passes(self) -> bool:
        """True if every asked connection was established."""
        return self.answered is not None and self.established == self.asked

    @property
    def row(self) -> Row:
        """Row for the tables of the record."""
        return {
            "asked_per_s": self.rate_per_s,
            "asked_connections": self.asked,
            "begun_connections": self.begun.sent_frames,
            "arrived_connections": self.learned.frames,
            "different_connections": self.learned.different,
            "validated_connections": self.validated,
            "passed": "yes" if self.passes else "no",
            "starved": self.starved or None,
        }


@dataclass
class Phases:
    """Runs trials on one link. `states` deletes connections by command; without it, trials wait for their time-out."""

    generator: Generator
    states: StateTable | None
    link: str
    setting: StatefulNatSetting
    again: int = TRIES - 1
    """Number of repeats of a trial that other work disturbed; with 0 it counts as it is."""
    sleep: Sleep = asyncio.sleep
    traffic: Traffic = field(default_factory=Traffic)
    """Traffic of the connections that were begun last."""
    doubts: dict[DoubtKind, Doubt] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    made: int = 0
    """Number of trials."""

    async def trial(self, connections: int, rate_per_s: float) -> NatTrial:
        """Make `connections` new connections at a rate, and then answer each. Raises MeasurementError, HostError."""
        spoilt = ""
        for _ in range(max(TRIES, self.again + 1)):
            first, learned = await self.begin(connections, rate_per_s)
            (begun,) = first.flows
            behind = starved(self._load(connections, rate_per_s, Directions.FORWARD), begun)
            second = None
            if min(begun.sent_frames, learned.frames, learned.different) == connections:
                second = await self.answer(connections, rate_per_s * self.setting.alpha_ratio)
            spoilt = self._spoilt(first) or (self._spoilt(second) if second is not None else "")
            if not spoilt:
                return NatTrial(connections, rate_per_s, begun, learned, None if second is None else second.flows[0], behind)
        raise MachineTooBusy(f"{connections} connections at {si(rate_per_s, '/s')}: {spoilt}", raw=self.raw)

    async def begin(self, connections: int, rate_per_s: float) -> tuple[Outcome, LearnedTuples]:
        """Run the first phase, in an empty table, with connections that no earlier trial had."""
        await self.forget()
        self.made += 1
        self.traffic = self.setting.traffic(connections, seed=self.made)
        outcome = await self._offer(replace(self._load(connections, rate_per_s, Directions.FORWARD), learns=True))
        learned = outcome.learned.get(self.link)
        if learned is None:
            raise MeasurementError(
                "the generator does not report which addresses and ports came out of the DUT", remedy="leave generator out"
            )
        return outcome, learned

    async def answer(self, connections: int, rate_per_s: float) -> Outcome:
        """Send a frame from the other side to each connection of the first phase, in the order in which they arrived there."""
        return await self._offer(replace(self._load(connections, rate_per_s, Directions.BACK), answers_learned=True))

    async def forget(self) -> None:
        """Empty the DUT's table."""
        if self.states is not None:
            await self.states.forget()
        elif self.setting.expires_s is not None:
            await self.sleep(self.setting.expires_s)
        else:
            raise MeasurementError(
                "this DUT's connections cannot be flushed",
                remedy="write expires: the longest time-out of its connections, or take a DUT of family linux",
            )

    async def counts(self) -> FlowCounts:
        """Return the counts of the DUT's table, as far as it reports them."""
        return FlowCounts() if self.states is None else await self.states.counts()

    async def _offer(self, offer: Offer) -> Outcome:
        outcome = await self.generator.offer(offer)
        self.facts.update(outcome.facts)
        for name, output in outcome.raw.items():
            self.raw[name] = self.raw.get(name, b"") + output
        doubts = [*outcome.doubts, *(doubt for flow in outcome.flows for doubt in doubts_of(offer, flow))]
        excluded = {DoubtKind.TX_STARVED, DoubtKind.DISTURBED, DoubtKind.RX_DROPPED}
        self.doubts |= {doubt.kind: replace(doubt, about="") for doubt in doubts if doubt.kind not in excluded}
        return outcome

    def _spoilt(self, outcome: Outcome) -> str:
        """Return a disturbance of the trial that the DUT did not cause; empty if none."""
        if outcome.link_lost or (outcome.disturbed and self.again):
            return outcome.link_lost or outcome.disturbed
        dropped = [doubt.detail for doubt in outcome.doubts if doubt.kind is DoubtKind.RX_DROPPED]
        return f"the receiving host dropped frames: {'; '.join(dropped)}" if dropped else ""

    def _load(self, connections: int, rate_per_s: float, directions: Directions) -> Offer:
        return Offer(
            links=(self.link,),
            mix=self.setting.frame_size,
            rate=Pps(rate_per_s),
            duration=Seconds(connections / rate_per_s),
            drain=self.setting.drain_s,
            directions=directions,
            traffic=self.traffic,
            frames=connections,
            once=True,
        )
