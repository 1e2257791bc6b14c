"""Make a generator with a fixed rate follow a profile: one second at a time, each at the profile's mean rate.

Between two seconds the program ends, its counters are read, and it starts again. So a ramp takes longer than the profile says. Readings
have the time of the profile, without these pauses. An offer without a profile goes to the generator unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.flow import Flow
from dutlab.methods.ports import NO_TIME, Offer, Outcome, Stretch, ToolReading
from dutlab.stats.series import ramp_mean
from dutlab.tools.generator_tool import GeneratorTool
from dutlab.units import Pps, Seconds

STEP = Seconds(1.0)
DRAIN = Seconds(0.2)
"""Longest drain after a step; the last step has the offer's own drain."""
LEAST = Pps(1.0)
"""Lowest rate of a step: a ramp may begin at 0, which a generator cannot be asked for."""


class Stepped:
    """A tools.generator_tool.GeneratorTool that wraps another one."""

    def __init__(self, inner: GeneratorTool) -> None:
        self._inner = inner

    async def check(self) -> str:
        """Check as the wrapped generator does."""
        return await self._inner.check()

    async def close(self) -> None:
        """Close as the wrapped generator does."""
        await self._inner.close()

    async def offer(self, offer: Offer) -> Outcome:
        """Carry out a trial, in steps if it has a profile. Raises ToolFailed, HostError."""
        if not offer.profile:
            return await self._inner.offer(offer)
        rates = rates_of(offer.profile, max(1, round(offer.duration / STEP)))
        outcomes, began_s = list[Outcome](), time.time()
        for n, rate in enumerate(rates):
            drain = offer.drain if n == len(rates) - 1 else min(offer.drain, DRAIN)
            warmup = offer.warmup if n == 0 else NO_TIME
            outcomes.append(await self._inner.offer(replace(offer, profile=(), rate=rate, duration=STEP, warmup=warmup, drain=drain)))
        return joined(offer, outcomes, began_s)


def rates_of(profile: Sequence[Stretch], steps: int) -> list[Pps]:
    """Return the mean rate of each step. After the last stretch its final rate continues."""
    stretches = [(s.duration, s.from_rate, s.to_rate) for s in profile]
    return [max(LEAST, Pps(ramp_mean(stretches, n * STEP, (n + 1) * STEP))) for n in range(steps)]


def joined(offer: Offer, outcomes: Sequence[Outcome], began_s: float) -> Outcome:
    """Return one outcome of all steps: frames and times are summed, outputs are joined, and each step and flow gives a reading."""
    by_flow = {name: [flow for o in outcomes for flow in o.flows if flow.link == name] for name in offer.flow_names}
    raw: dict[str, bytes] = {}
    for outcome in outcomes:
        for name, text in outcome.raw.items():
            raw[name] = raw.get(name, b"") + text
    return Outcome(
        flows=tuple(_sum(flows) for flows in by_flow.values() if flows),
        doubts=(*dict.fromkeys(d for o in outcomes for d in o.doubts), Doubt(DoubtKind.STEPPED, f"{len(outcomes)} steps")),
        raw=raw,
        facts={name: fact for o in outcomes for name, fact in o.facts.items()},
        readings=[r for flows in by_flow.values() for n, flow in enumerate(flows, start=1) for r in _readings(flow, began_s + n * STEP)],
        began_s=began_s,
    )


def _total(counts: Sequence[int | None]) -> int | None:
    """Return the sum of counts; None if one of them is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _sum(flows: Sequence[Flow]) -> Flow:
    counted = (name for name in Flow.__annotations__ if name.endswith("_frames") and name != "late_frames")
    frames: dict[str, Any] = {name: _total([getattr(f, name) for f in flows]) for name in counted}
    sent = sum(f.sent_frames for f in flows)
    places = dict.fromkeys(place for f in flows for place in f.places)
    return replace(
        flows[0],
        **frames,
        late_frames=None,
        sent_seconds=sum(f.sent_seconds for f in flows),
        mean_frame_bytes=sum(f.mean_frame_bytes * f.sent_frames for f in flows) / sent if sent else 0.0,
        received_bytes=sum(f.received_bytes for f in flows),
        places={place: sum(f.places.get(place, 0) for f in flows) for place in places},
    )


def _readings(flow: Flow, at_s: float) -> Iterator[ToolReading]:
    counts = {
        "offered_pps": flow.sent_frames,
        "received_pps": flow.received_frames,
        "lost_pps": flow.lost_frames,
        "backpressure_pps": flow.backpressure_frames,
    }
    for name, count in counts.items():
        yield ToolReading(at_s, flow.link, name, count / flow.sent_seconds if flow.sent_seconds else 0.0)
