"""Simulated devices under test with noise, for methods: a generator that does not send, and knows what would have become of it.

A trial is cut into polls of 0.1 s. In each of them frames are lost that the capacity does not forward and the buffer does not hold, that
fall to random loss, that a stall swallows. All randomness of a trial comes from the seed and the number of the trial, and the whole trial
is drawn before it may be stopped: a trial that is stopped early is the beginning of the same trial in full. Nothing here reads a clock.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from dutlab.errors import ToolFailed
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Offer, Outcome, ToolReading
from dutlab.spec.mixes import Mix
from dutlab.units import Pps, Seconds

POLL_S = 0.1
"""How often the simulated generator looks whether it may stop."""
SEED = np.random.SeedSequence


@dataclass(frozen=True)
class Dut:
    """What a device does to frames. Rates in frames a second of one link."""

    capacity_pps: float
    buffer_frames: float = 0.0
    """Held back at an overload before the first frame is lost."""
    capacity_spread: float = 0.0
    """Standard deviation of the capacity from trial to trial, as a share of it."""
    slow_share: float = 0.0
    """Share of trials that find the device in its slow state (bistable)."""
    slow_capacity: float = 0.9
    """Capacity in the slow state, as a share."""
    random_loss: float = 0.0
    """Probability that any frame is lost, at any load."""
    stalls_per_s: float = 0.0
    stall_s: float = 0.0
    """What comes in during a stall is lost."""

    def limit_pps(self, seconds: float) -> float:
        """The highest rate that a device without noise passes for so long: its capacity, and its buffer once."""
        return self.capacity_pps + self.buffer_frames / seconds

    def chance_of_no_loss(self, rate_pps: float, seconds: float) -> float:
        """Of a trial: its state has the capacity, and no frame is lost by chance or in a stall."""
        good, needed_pps = 0.0, rate_pps - (self.buffer_frames + 1) / seconds
        for share, factor in ((1 - self.slow_share, 1.0), (self.slow_share, self.slow_capacity)):
            capacity_pps = self.capacity_pps * factor
            if self.capacity_spread:
                good += share * NormalDist(capacity_pps, capacity_pps * self.capacity_spread).cdf(2 * capacity_pps - needed_pps)
            else:
                good += share * (capacity_pps >= needed_pps)
        return good * math.exp(-seconds * (self.random_loss * rate_pps + self.stalls_per_s))


@dataclass
class Simulation:
    """A generator that reaches `reach_pps`, with a DUT behind it. `offers` is all that was asked of it, `sent_s` the time it sent in."""

    dut: Dut
    seed: int = 0
    reach_pps: float = 1e12
    deaf_from: int | None = None
    """From this trial on (counted from 0) nothing comes back."""
    deaf_until: int = 1 << 30
    dumb_from: int | None = None
    """From this trial on the generator itself fails."""
    change: Callable[[int, Flow], Flow] = lambda _, flow: flow
    """Tampers with what is counted in trial n."""
    obeys: bool = True
    """Whether it stops when it may."""
    held_back: bool = False
    """The DUT's port does not take what the DUT would lose, as the full ring of a veth pair."""
    offers: list[Offer] = field(default_factory=list)
    sent_s: float = 0.0

    async def offer(self, offer: Offer) -> Outcome:
        """As the port asks."""
        return self.trial(offer)

    def trial(self, offer: Offer) -> Outcome:
        """The same without waiting."""
        number = len(self.offers)
        self.offers.append(offer)
        if self.dumb_from is not None and number >= self.dumb_from:
            raise ToolFailed("ended early", tool="simulation", host="source")
        deaf = self.deaf_from is not None and self.deaf_from <= number < self.deaf_until
        polls = ends_of_polls(offer)
        steps = np.diff(polls, prepend=0.0)
        wanted = rates_of(offer, polls, self.reach_pps)
        rates = np.minimum(wanted, self.reach_pps)
        asked, sent_at = round(float(np.sum(wanted * steps))) or 1, np.cumsum(rates * steps)
        lost_at = np.ceil(sent_at) if deaf else self._losses(rates, steps, number)
        names = offer.flow_names
        allowed = None if not self.obeys else offer.stop_after_lost
        beyond = np.nonzero(lost_at * len(names) > allowed)[0] if allowed is not None else np.array([], dtype=int)
        at = int(beyond[0]) if len(beyond) else len(polls) - 1
        early = at < len(polls) - 1
        seconds = float(polls[at])
        sent = round(float(sent_at[at])) if early or bool(np.any(rates < wanted)) else asked
        lost = min(int(lost_at[at]), sent)
        flows = tuple(self.change(number, self._flow(name, offer, asked, sent, lost, seconds, early=early)) for name in names)
        self.sent_s += seconds
        readings = [r for name in names for r in _readings(name, polls[: at + 1], sent_at, lost_at)]
        return Outcome(flows, readings=readings, stopped_early_s=Seconds(seconds) if early else None)

    def _losses(self, rates: np.ndarray, steps: np.ndarray, number: int) -> np.ndarray:
        """The frames of one link lost until the end of each poll."""
        rng = np.random.default_rng(SEED([self.seed, number]))
        dut, count = self.dut, len(steps)
        slow = rng.random() < dut.slow_share
        capacity = dut.capacity_pps * (dut.slow_capacity if slow else 1.0) * max(1 + dut.capacity_spread * rng.standard_normal(), 0.01)
        lost = np.maximum(np.cumsum(np.maximum(rates - capacity, 0.0) * steps) - dut.buffer_frames, 0.0)
        if dut.random_loss:
            lost += np.cumsum(rng.poisson(np.minimum(rates, capacity) * dut.random_loss * POLL_S, count))
        if dut.stalls_per_s:
            lost += np.cumsum(rng.poisson(dut.stalls_per_s * POLL_S, count) * rates) * dut.stall_s
        return np.floor(lost + 1e-3)  # what a long sum of fractions falls short of a whole frame

    def _flow(self, link: str, offer: Offer, asked: int, made: int, failed: int, seconds: float, *, early: bool) -> Flow:
        asked = made if early else max(asked, made)
        refused = failed if self.held_back else 0
        return Flow(
            link=link,
            intended_frames=asked,
            sent_frames=made - refused,
            refused_frames=asked - made + refused,
            backpressure_frames=refused,
            received_frames=made - failed,
            lost_frames=failed - refused,
            duplicated_frames=0,
            reordered_frames=0,
            foreign_frames=0,
            sent_seconds=seconds,
            mean_frame_bytes=offer.mix.mean,
            received_bytes=round((made - failed) * offer.mix.mean),
        )


def ends_of_polls(offer: Offer) -> np.ndarray:
    """When the generator looks, in seconds from the first frame."""
    count = max(int(np.ceil(offer.duration / POLL_S - 1e-9)), 1)
    return np.minimum(np.arange(1, count + 1) * POLL_S, float(offer.duration))


def rates_of(offer: Offer, polls: np.ndarray, reach_pps: float) -> np.ndarray:
    """The rate asked for in the middle of each poll: that of the offer, or as its profile goes."""
    if not offer.profile:
        return np.full(len(polls), offer.rate or reach_pps)
    middle = polls - np.diff(polls, prepend=0.0) / 2
    corners, rates, start = [], [], 0.0
    for stretch in offer.profile:
        corners += [start, start + stretch.duration - 1e-9]
        rates += [float(stretch.from_rate), float(stretch.to_rate)]
        start += stretch.duration
    return np.interp(middle, corners, rates)


def _readings(name: str, polls: np.ndarray, sent_at: np.ndarray, lost_at: np.ndarray) -> Iterator[ToolReading]:
    """Once a second, as the engine tells them."""
    every = round(1 / POLL_S)
    for end in range(2 * every - 1, len(polls), every):
        sent, lost = (float(count[end] - count[end - every]) for count in (sent_at, lost_at))
        for what, value in (("offered_pps", sent), ("received_pps", sent - lost), ("lost_pps", lost), ("backpressure_pps", 0.0)):
            yield ToolReading(float(polls[end]), name, what, value)


def in_flight(flow: Flow) -> Flow:
    """The same with counters read in flight: more has arrived than was sent."""
    return replace(flow, received_frames=flow.sent_frames + 7, lost_frames=-7)


LINE_PPS = 14_880_952.0
"""Shortest frames at 10 Gbit/s (RFC 5180 appendix A: 14 880 952)."""
NOISES = ("clean", "spread", "loss", "stalls", "bistable", "all")


def noise_of(seed: int) -> str:
    """Which noise device `seed` of the population has: three of eight have none."""
    return random.Random(seed).choice(["clean", "clean", *NOISES])


def any_dut(seed: int) -> Dut:
    """Device `seed` of a population: capacities log-uniform over 5 … 100 % of line rate, buffers from none to 65 536 frames, noise of each kind.

    Random loss is 1e-12 … 1e-8 a frame: bit errors of 1e-12, which IEEE 802.3 has as its aim, lose one 64-byte frame in 2e9. Stalls come
    once in 10 s to once in a day and last 0.1 to 3 ms, as interrupts and management tasks of software routers do.
    """
    noise, rng = noise_of(seed), random.Random(f"dut {seed}")
    dut = Dut(capacity_pps=LINE_PPS * 0.05 ** rng.random(), buffer_frames=rng.choice([0, 64, 512, 4096, 65536]))
    if noise in ("spread", "all"):
        dut = replace(dut, capacity_spread=rng.choice([0.0005, 0.002, 0.01]))
    if noise in ("loss", "all"):
        dut = replace(dut, random_loss=10 ** rng.uniform(-12, -8))
    if noise in ("stalls", "all"):
        dut = replace(dut, stalls_per_s=10 ** rng.uniform(-5, -1), stall_s=10 ** rng.uniform(-4, -2.5))
    if noise in ("bistable", "all"):
        dut = replace(dut, slow_share=rng.uniform(0.05, 0.5), slow_capacity=rng.uniform(0.6, 0.98))
    return dut


@dataclass(frozen=True)
class Bisected:
    """What plain bisection found, and what it took."""

    lower_pps: float
    upper_pps: float | None
    sent_s: float
    trials: int


def plain_bisection(simulation: Simulation, mix: Mix, *, width: float, seconds: float = 60.0, highest: float = LINE_PPS) -> Bisected:
    """RFC 2544 throughput as a plain search finds it: the highest rate first, then always the middle, every trial in full."""

    def loses(rate: float) -> bool:
        (flow,) = simulation.trial(Offer(("a",), mix, Pps(rate), Seconds(seconds))).flows
        return flow.lost_frames > 0

    if not loses(highest):
        return Bisected(highest, None, simulation.sent_s, 1)
    low, high = 0.0, highest
    while (high - low) / high > width and high > highest / 1000:
        middle = (low + high) / 2
        low, high = (low, middle) if loses(middle) else (middle, high)
    return Bisected(low, high, simulation.sent_s, len(simulation.offers))
