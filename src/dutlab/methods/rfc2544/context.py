"""Context of each test of the suite: a generator that keeps the waits of RFC 2544 section 23, and the results of earlier tests."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dutlab.doubts import Doubt, DoubtKind
from dutlab.events import Tell, no_observer
from dutlab.methods.dut_ports import DutControl, PowerControl
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, failed_frames, made_frames, starved
from dutlab.methods.ports import NO_TIME, Generator, Offer, Outcome, Row, Stretch, flow_names
from dutlab.methods.rfc2544.modifiers import Modifiers
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.rfc2544 import Rfc2544Setting
from dutlab.subject import back_of
from dutlab.units import Pps, Seconds

LEARNING_S = 2.0
"""Seconds of uncounted frames before each trial: learning frames (section 23), and to fill caches."""
RESIDUAL_S = 2.0  # RFC 2544 section 23: for residual frames to be received
RESTABILISE_S = 5.0  # RFC 2544 section 23: for the DUT to restabilise
LEAST_DRAIN_S = 0.2
"""Least drain in seconds, for any scale: a software router must have time to empty its buffers."""

STARVED_TRIES = 2
"""Most offers of a load that the generator does not make in full; after them there is no figure."""

Sleep = Callable[[float], Awaitable[None]]


class Paced:
    """Generator whose directions (`a`, `a.back`) can be used as links, with the modifiers during each trial and a rest after it."""

    def __init__(self, generator: Generator, rest: Seconds, sleep: Sleep = asyncio.sleep, modifiers: Modifiers | None = None) -> None:
        self._generator, self._rest, self.sleep = generator, rest, sleep
        self._modifiers = modifiers or Modifiers("", {})
        self.facts: dict[str, str] = {}
        self._doubted, self._trials = Counter[DoubtKind](), 0
        self._wrong = Counter[str]()
        self._unordered = 0
        self.raw: Mapping[str, bytes] = {}
        """Raw output of the last trial, by name."""

    async def offer(self, offer: Offer) -> Outcome:
        """Offer the load; see methods.ports. Raises ToolFailed, HostError."""
        forward = tuple(direction for direction in offer.links if not _is_back(direction, offer.links))
        directions = Directions.FORWARD if len(forward) == len(offer.links) else Directions.BOTH
        offer = replace(offer, links=forward, directions=directions, broadcast_ratio=self._modifiers.broadcast_ratio)
        async with self._modifiers.running() as begun:
            outcome = await self._generator.offer(replace(offer, begun=_both(begun.set, offer.begun)))
        self.facts.update(outcome.facts)
        self._trials += 1
        self._doubted.update({doubt.kind for doubt in (*outcome.doubts, *(d for flow in outcome.flows for d in doubts_of(offer, flow)))})
        self.raw = outcome.raw
        for flow in outcome.flows:
            at_least = flow.reordered_at_least_frames if flow.reordered_frames is None else flow.reordered_frames
            self._wrong.update(reordered_at_least=at_least, duplicated=flow.duplicated_frames, corrupted=flow.corrupted_frames)
        self._unordered += any(flow.reordered_frames is None for flow in outcome.flows)
        await self.sleep(self._rest)
        return outcome

    @property
    def arrivals(self) -> Row:
        """Counts that section 10 reports in addition to lost frames, over all trials."""
        counts: Row = {f"{name}_frames": float(count) for name, count in self._wrong.items()}
        known = None if self._unordered else counts.get("reordered_at_least_frames", 0.0)
        return {"trials": self._trials, "trials_order_unknown": self._unordered, "reordered_frames": known, **counts}

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Doubts of trials, each kind once."""
        return tuple(Doubt(kind, f"in {count} of {self._trials} trials") for kind, count in self._doubted.items())


def _both(one: Callable[[], None], other: Callable[[], None] | None) -> Callable[[], None]:
    def report() -> None:
        one()
        if other is not None:
            other()

    return report


def _is_back(direction: str, directions: Sequence[str]) -> bool:
    return any(direction == back_of(link) for link in directions)


@dataclass(frozen=True)
class SuiteContext:
    """Context of a suite's tests. Rates are frames a second of each direction."""

    links: tuple[str, ...]
    setting: Rfc2544Setting
    generator: Paced
    maximum: Pps
    """Highest rate of the medium, or its replacement if the speed is not known."""
    maximum_is: str
    """Description of the highest rate."""
    throughput: Pps | None = None
    device: DutControl | None = None
    power: PowerControl | None = None
    """Power of the DUT; None if nothing may switch it."""
    tell: Tell = no_observer

    @property
    def directions(self) -> tuple[str, ...]:
        """Names of the flows: each link, and its reverse direction if both are used."""
        return flow_names(self.links, self.setting.directions)

    async def offer(
        self,
        rate: Pps | None,
        duration: Seconds,
        *,
        profile: tuple[Stretch, ...] = (),
        warmup: Seconds | None = None,
    ) -> Outcome:
        """Run one trial with the waits of RFC 2544 section 23."""
        return await self.generator.offer(self.load(rate, duration, profile=profile, warmup=warmup))

    async def offer_in_full(self, offer: Offer) -> tuple[Outcome, str]:
        """Offer the load again if the generator did not make it; return by how much it was missed if it never did.

        Raises as a generator.
        """
        for _ in range(STARVED_TRIES):
            outcome = await self.generator.offer(offer)
            if not (short := starved_words(offer, outcome.flows)):
                break
        return outcome, short

    def load(
        self,
        rate: Pps | None,
        duration: Seconds,
        *,
        profile: tuple[Stretch, ...] = (),
        warmup: Seconds | None = None,
        settling: Seconds = NO_TIME,
    ) -> Offer:
        """Return the load of a trial; the wait `settling` is added to the RFC's waits."""
        return Offer(
            links=self.directions,
            mix=self.setting.frame_size,
            rate=rate,
            duration=duration,
            warmup=self.setting.seconds(LEARNING_S) if warmup is None else warmup,
            drain=Seconds(max(self.setting.seconds(RESIDUAL_S), LEAST_DRAIN_S) + settling),
            profile=profile,
        )


@dataclass(frozen=True)
class Rfc2544Result:
    """Result of one test: rows for its table, figures of all directions together, notes."""

    rows: Sequence[Row]
    figures: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    doubts: Sequence[Doubt] = ()


def failed(flows: Sequence[Flow]) -> int:
    """Return the frames of all directions that the DUT did not forward: lost, or not taken by its port."""
    return sum(failed_frames(flow) for flow in flows)


def made(flows: Sequence[Flow]) -> int:
    """Return the frames of all directions that the generator made in time."""
    return sum(made_frames(flow) for flow in flows)


def starved_words(offer: Offer, flows: Sequence[Flow]) -> str:
    """Return the directions whose load the generator did not make, and the rates that it reached; empty if it made all."""
    return "; ".join(f"{flow.link}: {short}" for flow in flows if (short := starved(offer, flow)))


def made_pps(flows: Sequence[Flow]) -> float:
    """Return the rate made by the generator in the slowest direction."""
    return min((made_frames(f) / f.sent_seconds if f.sent_seconds > 0 else 0.0 for f in flows), default=0.0)
