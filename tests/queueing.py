"""A simulated device whose latency grows with its load, and a trial of the method `latency` on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from cells import cell_of
from dutlab.methods.flow import Flow, Latency, TimedFlow
from dutlab.methods.latency import measure
from dutlab.methods.ports import Bench, Offer, Outcome
from simulated import Simulation

OWN_WAY_NS = 10_000
QUEUE_NS = 5_000_000


def cell(**params):
    said = {
        "frame_size": 64, "frame_mix": "64:1", "rate_pps": 100_000.0, "shares_percent": "0,10,50,90,100,110", "idle_pps": 1000.0,
        "duration_s": 120.0, "warmup_s": 1.0, "drain_s": 0.5, **params,
    }  # fmt: skip
    return cell_of("latency", **said)


@dataclass
class Queueing(Simulation):
    """A device whose queue grows with its load as that of M/D/1 (Kleinrock: load / (2 (1 - load)) service times), and is full at 1."""

    clocks: bool = True
    seen: list[Offer] = field(default_factory=list)

    async def offer(self, offer: Offer) -> Outcome:
        self.seen.append(offer)
        outcome = self.trial(offer)
        load = (offer.rate or 0.0) / max(self.dut.capacity_pps, 1e-9)
        wait = QUEUE_NS if load >= 1 else min(int(load / (2 * (1 - load)) * 1e9 / self.dut.capacity_pps), QUEUE_NS)
        mid = OWN_WAY_NS + wait
        latency = Latency(
            count=1000, min_ns=OWN_WAY_NS - 1000, p50_ns=mid, p90_ns=mid + 500, p99_ns=mid + 1000, p999_ns=mid + 2000, max_ns=mid + 9000,
            mean_ns=float(mid),
        )  # fmt: skip
        return replace(outcome, flows=tuple(self._timed(f, latency) for f in outcome.flows))

    def _timed(self, flow: Flow, latency: Latency) -> Flow:
        if not self.clocks:
            return replace(flow, latency=None)
        return TimedFlow(**{**vars(flow), "latency": latency}, latency_histogram=((latency.p50_ns, 999), (latency.max_ns, 1)))


def run(generator, of=None, speed=None):
    return asyncio.run(measure(Bench(generator, {"a": speed}), of or cell()))
