"""What a suite is asked for: which tests, at which frame size, and how much of the prescribed time each may take."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dutlab.methods.mixes import mix_of
from dutlab.methods.params import Params
from dutlab.methods.ports import Directions, FrameMix, back_of
from dutlab.methods.rfc2544.modifiers import Modifier
from dutlab.plan.cell import Cell
from dutlab.spec.traffic import EXTENSION_SETS, NO_HEADERS, Traffic
from dutlab.units import Seconds


class Benchmark(enum.Enum):
    """The tests of RFC 2544 section 26, in their order, and that of RFC 5180; the word is that of the experiment file."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    FRAME_LOSS = "frame-loss"
    BACK_TO_BACK = "back-to-back"
    RECOVERY = "recovery"
    RESET = "reset"
    BURSTY = "bursty"
    """Section 21: bursts as close as they may be."""
    HOP_BY_HOP = "hop-by-hop"
    """RFC 5180 section 5.3, for frames with a hop-by-hop options header; only this one is for them."""


@dataclass(frozen=True)
class Asked:
    """One frame size's suite."""

    links: tuple[str, ...]
    mix: FrameMix
    tests: tuple[Benchmark, ...]
    scale: float = 1.0
    """Every duration that the text prescribes is this share of it."""
    directions: Directions = Directions.FORWARD
    width: float = 0.005
    """Of the throughput: the bounds lie at most this share of the upper one apart."""
    latency_repeats: int = 20
    burst_repeats: int = 50
    burst_limit_s: float = 30.0
    """The longest burst that is tried at first; scaled as every time is."""
    recovery_repeats: int = 3
    reset_repeats: int = 3
    modifiers: tuple[Modifier, ...] = ()
    networks: int = 1
    """How many of them the destinations of each way lie in (section 12)."""
    all_networks: tuple[int, ...] = (1,)
    """The same of every trial of the experiment with these frames; likewise `all_headers`."""
    headers: str = NO_HEADERS
    """Which IPv6 extension headers frames have (RFC 5180 section 5.3)."""
    all_headers: tuple[str, ...] = (NO_HEADERS,)

    def seconds(self, prescribed: float) -> Seconds:
        """What is done where the text has `prescribed` seconds."""
        return Seconds(prescribed * self.scale)

    @property
    def traffic(self) -> Traffic:
        """What frames are, but for destinations of their own."""
        return Traffic(extension_headers=EXTENSION_SETS[self.headers])

    @property
    def ways(self) -> tuple[str, ...]:
        """Each link, and its way back if frames go both ways."""
        if self.directions is Directions.FORWARD:
            return self.links
        return tuple(name for link in self.links for name in (link, back_of(link)))


def asked_of(cell: Cell) -> Asked:
    """The cell's params, as Rfc2544Workload.settings names them. Raises InputError."""
    params = Params(cell)
    return Asked(
        links=cell.links,
        mix=mix_of(cell),
        tests=params.each("tests", Benchmark),
        scale=params.one("scale", float),
        directions=params.one("directions", Directions),
        width=params.one("width_ratio", float),
        latency_repeats=params.one("latency_repeats", int),
        burst_repeats=params.one("burst_repeats", int),
        burst_limit_s=params.maybe("burst_limit_s", float) or 30.0,
        recovery_repeats=params.maybe("recovery_repeats", int) or 1,
        reset_repeats=params.maybe("reset_repeats", int) or 1,
        networks=params.maybe("networks", int) or 1,
        all_networks=params.each("all_networks", int) or (1,),
        headers=params.maybe("extension_headers", str) or NO_HEADERS,
        all_headers=params.each("all_extension_headers", str) or (NO_HEADERS,),
        modifiers=params.each("modifiers", Modifier),
    )
