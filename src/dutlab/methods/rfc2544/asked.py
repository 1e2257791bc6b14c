"""What a suite is asked for: which tests, at which frame size, and how much of the prescribed time each may take."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dutlab.errors import InputError
from dutlab.methods.mixes import mix_of
from dutlab.methods.ports import Directions, FrameMix, back_of
from dutlab.methods.rfc2544.modifiers import Modifier
from dutlab.plan.cell import Cell
from dutlab.units import Seconds


class Benchmark(enum.Enum):
    """The tests of RFC 2544 section 26, in their order; the word is that of the experiment file."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    FRAME_LOSS = "frame-loss"
    BACK_TO_BACK = "back-to-back"
    RECOVERY = "recovery"
    RESET = "reset"


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
    modifiers: tuple[Modifier, ...] = ()
    networks: int = 1
    """How many of them the destinations of each way lie in (section 12)."""
    all_networks: tuple[int, ...] = (1,)
    """The same of every trial of the experiment with these frames."""

    def seconds(self, prescribed: float) -> Seconds:
        """What is done where the text has `prescribed` seconds."""
        return Seconds(prescribed * self.scale)

    @property
    def ways(self) -> tuple[str, ...]:
        """Each link, and its way back if frames go both ways."""
        if self.directions is Directions.FORWARD:
            return self.links
        return tuple(name for link in self.links for name in (link, back_of(link)))


def asked_of(cell: Cell) -> Asked:
    """`tests`, `scale`, `directions`, `width_ratio`, `*_repeats`, `modifiers`, `networks`, frame_size, frame_mix. Raises InputError."""
    params = cell.params
    try:
        return Asked(
            links=cell.links,
            mix=mix_of(cell),
            tests=tuple(Benchmark(word) for word in str(params["tests"]).split(",")),
            scale=float(params["scale"] or 0),
            directions=Directions(str(params["directions"])),
            width=float(params["width_ratio"] or 0),
            latency_repeats=int(params["latency_repeats"] or 0),
            burst_repeats=int(params["burst_repeats"] or 0),
            networks=int(params.get("networks") or 1),
            all_networks=tuple(int(word) for word in str(params.get("all_networks") or "1").split(",")),
            modifiers=tuple(Modifier(word) for word in str(params.get("modifiers") or "").split(",") if word),
        )
    except (KeyError, ValueError) as e:
        raise InputError(f"workload {cell.workload} is not fully described: {e}", remedy="see `rfc2544` in the reference") from e
