"""Devices that lose frames in the ways that soaks meet, with the critical rate of each known exactly: a generator that does not send.

How much is lost on average at a load is one of PLRsearch's curves around a capacity, or two for a device with a slow state, and a floor; how
it scatters is the kind's own. All randomness comes from the kind and the seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dutlab.methods.flow import Flow
from dutlab.methods.ports import Offer, Outcome

CAPACITY_PPS = 300e3
KINDS = ("poisson", "geometric", "bursts", "spread", "logistic", "sharp", "mixture", "bistable", "drift", "rare-bursts", "dwell")
"""Poisson loss, geometric loss, and bursts around a soft knee; a capacity that is normal or logistic from trial to trial; one that never
changes; a floor of bursts below a capacity that changes; a slow state; a capacity that goes up or down all the time; bursts of 2,000 frames
that come a few times in a soak, at any load; a slow state that lasts for seconds, half of the time."""
CLAIMED = KINDS[:7]
"""Kinds that are alike from trial to trial, with one knee."""
PAUSE_S, STEP_S = 1.0, 0.05
"""Between two trials; of the time that a slow state is followed through."""
RARE_FRAMES = 2000.0
_GRID = np.linspace(-0.5, 0.5, 101)


@dataclass
class LossyDut:
    """Device `seed` of a kind: knee 0.3 to 5 % wide (`sharp` 0.001 to 0.03 %), target 1, 0.1 or 0.01 %, highest rate 1.05 to 2.5 × its capacity."""

    kind: str
    seed: int
    trials: int = 45
    """Of 1 s, that a soak of it has."""
    offers: list[Offer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random = np.random.default_rng([self.seed, KINDS.index(self.kind)])
        self.highest_pps = CAPACITY_PPS * random.uniform(1.05, 2.5)
        self.target = float(random.choice([1e-2, 1e-3, 1e-3, 1e-4]))
        self.width_pps = CAPACITY_PPS * 10 ** (random.uniform(-5, -3.5) if self.kind == "sharp" else random.uniform(-2.5, -1.3))
        self.normal = {"spread": True, "logistic": False}.get(self.kind, bool(random.random() < 0.5))
        self.burst_frames = 10 ** random.uniform(1, 4)
        self.floor = self.target * random.uniform(0.05, 0.6) if self.kind == "mixture" else 0.0
        self.slow_share, self.slow_capacity = (
            (random.uniform(0.05, 0.4), random.uniform(0.85, 0.99)) if self.kind == "bistable" else (0.0, 1.0)
        )
        self.drift = random.uniform(0.01, 0.05) * random.choice([-1, 1]) if self.kind == "drift" else 0.0
        self.rare_per_s, self.slow, self.dwell_s = 0.0, False, 0.0
        if self.kind in ("rare-bursts", "dwell") and random.random() < 0.5:
            self.width_pps = CAPACITY_PPS * 10 ** random.uniform(-5, -3.5)
        if self.kind == "rare-bursts":
            self.rare_per_s = min(10 ** random.uniform(-3, -1.5), 0.3 * self.target * CAPACITY_PPS / RARE_FRAMES)
        if self.kind == "dwell":
            self.slow_share, self.slow_capacity, self.dwell_s = 0.5, 1 - random.uniform(0.02, 0.2), random.uniform(1, 20)
            self.slow = bool(random.random() < self.slow_share)

    @property
    def true_pps(self) -> float:
        """Where just the target is lost on average, over the time of the soak."""
        return float(brentq(lambda load: self._lost_pps(load, _GRID).mean() - self.target * load, 0.4 * CAPACITY_PPS, 1.5 * CAPACITY_PPS))

    async def offer(self, offer: Offer) -> Outcome:
        """As the port asks."""
        self.offers.append(offer)
        load, seconds = float(offer.rate or 0.0), float(offer.duration)
        sent = round(load * seconds)
        lost = min(int(self._lost(load, seconds, (len(self.offers) - 1) / (self.trials - 1) - 0.5)), sent)
        (name,) = offer.flow_names
        of = {"seconds": seconds, "frame_bytes": offer.mix.mean, "reordered_frames": 0}
        return Outcome((Flow.counted(name, asked=sent, sent=sent, received=sent - lost, **of),))

    def _capacity_pps(self, when: np.ndarray | float) -> np.ndarray | float:
        """From -0.5 at the beginning of the soak to 0.5 at its end."""
        return CAPACITY_PPS * (1 + self.drift * when)

    def _knee(self, load: float, capacity_pps: np.ndarray | float) -> np.ndarray | float:
        z = (load - capacity_pps) / self.width_pps
        return self.width_pps * (z * ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi) if self.normal else np.logaddexp(0.0, z))

    def _lost_pps(self, load: float, when: np.ndarray | float) -> np.ndarray | float:
        capacity = self._capacity_pps(when)
        slow = self.slow_share * self._knee(load, capacity * self.slow_capacity)
        return (1 - self.slow_share) * self._knee(load, capacity) + slow + self.floor * load + self.rare_per_s * RARE_FRAMES

    def _lost(self, load: float, seconds: float, when: float) -> float:
        mean = self._lost_pps(load, when) * seconds
        if self.kind == "poisson":
            return self.random.poisson(mean)
        if self.kind == "geometric":
            return self.random.geometric(1 / (1 + mean)) - 1
        if self.kind == "bursts":
            return self._bursts(mean)
        if self.kind == "rare-bursts":
            rare = self.random.poisson(self.rare_per_s * seconds)
            return self.random.poisson(self._knee(load, CAPACITY_PPS) * seconds) + RARE_FRAMES * rare
        if self.kind == "dwell":
            slow = self._slow_share_of(seconds)
            self._slow_share_of(PAUSE_S)
            lost = slow * self._knee(load, CAPACITY_PPS * self.slow_capacity) + (1 - slow) * self._knee(load, CAPACITY_PPS)
            return self.random.poisson(lost * seconds)
        capacity = self._capacity_pps(when) * (self.slow_capacity if self.random.random() < self.slow_share else 1.0)
        capacity += self.width_pps * (self.random.standard_normal() if self.normal else self.random.logistic())
        return np.floor(max(0.0, load - capacity) * seconds) + self._bursts(self.floor * load * seconds)

    def _slow_share_of(self, seconds: float) -> float:
        """Time goes on; returns the share of it in the slow state."""
        steps = round(seconds / STEP_S)
        slow = 0
        for _ in range(steps):
            self.slow ^= bool(self.random.random() < STEP_S / self.dwell_s)
            slow += self.slow
        return slow / steps

    def _bursts(self, mean: float) -> float:
        """Of geometric sizes, as many as come."""
        number = self.random.poisson(mean / self.burst_frames)
        return self.random.geometric(1 / self.burst_frames, number).sum() if number else 0.0
