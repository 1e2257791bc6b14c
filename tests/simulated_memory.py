"""Simulated devices with memory: what a trial finds depends on what was offered before it, and on how long ago.

A trial is cut into polls of 0.1 s, as in `simulated`; heat, warmth, backlog, tokens and states are carried from poll to poll, through warm-up,
drain and the pause before the next trial. A trial that is stopped early leaves the device as it was at that poll. Frames that are still
queued when the drain ends were not received in time, so they count as lost. All randomness comes from the seed. Nothing here reads a clock.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import numpy as np

from dutlab.methods.flow import Flow
from dutlab.methods.ports import Offer, Outcome
from simulated import POLL_S, Dut, Simulation, ends_of_polls

PAUSE_S = 1.0
"""Between two trials, in which nothing is offered."""
MEMORIES = ("hysteresis", "warm-up", "heat", "bucket", "bursts", "dwell", "drift", "starved", "duplicates")
COOLING = 3.0
"""A device cools more slowly than it heats by so much."""


@dataclass(frozen=True)
class Memory:
    """What a device does because of what went before. Zeros: none of it."""

    cold_dip: float = 0.0
    """Missing of the capacity when it has never been loaded; the dip falls to 1/e of it in `warm_s` of load, and does not come back."""
    warm_s: float = 20.0
    heat_drop: float = 0.0
    """Missing of the capacity when it is hot: after several `heat_s` at full load."""
    heat_s: float = 200.0
    bucket_frames: float = 0.0
    """Tokens that pass frames above the capacity; they come back at what is not offered of the capacity."""
    overload_drop: float = 0.0
    """Missing of the capacity once frames were lost, until less than `relief` of the capacity is offered."""
    relief: float = 0.7
    bursts_per_s: float = 0.0
    burst_frames: float = 2000.0
    """Lost at once, at any load."""
    slow_drop: float = 0.0
    """Missing of the capacity in the slow state, into which and out of which it falls after `dwell_s` on average."""
    dwell_s: float = 3.0
    drift_per_hour: float = 0.0
    """By so much of itself the capacity changes in an hour."""
    duplicated_share: float = 0.0


@dataclass
class Condition:
    """What is carried on."""

    loaded_s: float = 0.0
    heat: float = 0.0
    backlog: float = 0.0
    tokens: float = 0.0
    overloaded: bool = False
    slow: bool = False
    clock_s: float = 0.0


@dataclass
class Remembering(Simulation):
    """A generator with a device with memory behind it."""

    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng([self.seed, 77])
        self._now = Condition(tokens=self.memory.bucket_frames)
        self._after: list[Condition] = []

    def trial(self, offer: Offer) -> Outcome:
        """A pause, the warm-up, the trial itself, the drain."""
        self._pass(0.0, PAUSE_S)
        self._pass(min(float(offer.rate or 0.0), self.reach_pps), float(offer.warmup))
        outcome = super().trial(offer)
        seconds = max((flow.sent_seconds for flow in outcome.flows), default=0.0)
        polls = ends_of_polls(offer)
        self._now = self._after[min(int(np.searchsorted(polls, seconds - 1e-9)), len(self._after) - 1)]
        self._pass(0.0, float(offer.drain))
        held = math.floor(self._now.backlog)
        return replace(outcome, flows=tuple(self._as_received(flow, held) for flow in outcome.flows))

    def _as_received(self, flow: Flow, held: int) -> Flow:
        held = min(held, flow.received_frames)
        twice = round((flow.received_frames - held) * self.memory.duplicated_share)
        return replace(
            flow,
            received_frames=flow.received_frames - held + twice,
            lost_frames=flow.lost_frames + held,
            duplicated_frames=twice,
        )

    def _pass(self, rate: float, seconds: float) -> None:
        """Time in which nobody counts."""
        for _ in range(round(seconds / POLL_S)):
            self._poll(rate, POLL_S)

    def _losses(self, rates: np.ndarray, steps: np.ndarray, number: int) -> np.ndarray:
        lost, self._after = [], []
        for rate, step in zip(rates, steps, strict=True):
            lost.append(self._poll(float(rate), float(step)))
            self._after.append(replace(self._now))
        return np.floor(np.cumsum(lost) + 1e-3)

    def _poll(self, rate: float, step: float) -> float:
        """Carries the device on by one step; returns the frames that are lost in it."""
        of, now = self.memory, self._now
        capacity = self._capacity(now)
        offered, served = rate * step, capacity * step
        if of.bucket_frames:
            lost = max(offered - served - now.tokens, 0.0)
            now.tokens = min(max(now.tokens + served - offered, 0.0), of.bucket_frames)
        else:
            queued = max(now.backlog + offered - served, 0.0)
            lost = max(queued - self.dut.buffer_frames, 0.0)
            now.backlog = queued - lost
        if of.bursts_per_s and rate:
            lost += min(float(self._random.poisson(of.bursts_per_s * step)) * of.burst_frames, offered)
        use = min(rate / self.dut.capacity_pps, 1.0)
        now.heat += (use - now.heat) * step / (of.heat_s if use > now.heat else of.heat_s * COOLING)
        now.loaded_s += step * use
        now.clock_s += step
        now.overloaded = of.overload_drop > 0 and (lost > 0 or (now.overloaded and rate >= of.relief * self.dut.capacity_pps))
        if of.slow_drop and self._random.random() < step / of.dwell_s:
            now.slow = not now.slow
        return lost

    def _capacity(self, now: Condition) -> float:
        of, capacity = self.memory, self.dut.capacity_pps
        capacity *= 1 - of.cold_dip * math.exp(-now.loaded_s / of.warm_s)
        capacity *= 1 - of.heat_drop * now.heat
        capacity *= 1 - of.overload_drop * now.overloaded
        capacity *= 1 - of.slow_drop * now.slow
        return capacity * (1 + of.drift_per_hour * now.clock_s / 3600)


def remembering(kind: str, seed: int, *, line_pps: float) -> Remembering:
    """Device `seed` of a kind: capacities log-uniform over 10 … 80 % of the line, buffers as software routers have them."""
    of = random.Random(f"{kind} {seed}")
    dut = Dut(capacity_pps=line_pps * 0.8 * 0.125 ** of.random(), buffer_frames=of.choice([64, 512, 4096]))
    memory = {
        "hysteresis": Memory(overload_drop=of.uniform(0.1, 0.4)),
        "warm-up": Memory(cold_dip=of.uniform(0.1, 0.3), warm_s=of.uniform(5, 40)),
        "heat": Memory(heat_drop=of.uniform(0.05, 0.25), heat_s=of.uniform(60, 400)),
        "bucket": Memory(bucket_frames=dut.capacity_pps * of.uniform(0.5, 5.0)),
        "bursts": Memory(bursts_per_s=10 ** of.uniform(-3, -1.5)),
        "dwell": Memory(slow_drop=of.uniform(0.02, 0.2), dwell_s=of.uniform(1, 20)),
        "drift": Memory(drift_per_hour=of.choice([-1, 1]) * of.uniform(0.05, 0.3)),
        "starved": Memory(),
        "duplicates": Memory(duplicated_share=0.3),
    }[kind]
    reach = dut.capacity_pps * of.uniform(0.7, 0.98) if kind == "starved" else 1e12
    return Remembering(dut, seed, reach_pps=reach, memory=memory)
