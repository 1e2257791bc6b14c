"""Devices with known answers, and what each method must find of them.

Every answer follows from what the device does, never from what was measured: of n frames one that drops each 7th loses n ÷ 7, rounded down;
a policer with a bucket of d frames and r a second passes a trial of T seconds whole up to r + d ÷ T.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from dutlab.errors import MeasurementError
from dutlab.methods import search, sweep
from dutlab.methods.ports import Bench, Flow
from dutlab.plan.cell import Cell
from dutlab.spec.goals import Goal, goals_text
from dutlab.units import Seconds

FRAME_SIZE = "128"
COUNTING_PPS = 20_000.0
COUNTING_S = 0.5
DROPS, DOUBLES, SWAPS, CORRUPTS = 7, 11, 10, 5
HELD_NS, HELD_PPS, HELD_WITHIN_NS = 300_000, 1000.0, 20_000
BURST, BURST_S = 400, 0.1
POLICED_PPS, POLICED_DEPTH, POLICED_S = 2000, 200, Seconds(2.0)
THROUGHPUT_WITHIN = 0.005
_WIDTH = 0.0025


@dataclass(frozen=True)
class Known:
    """A figure beside its answer. `tolerance` is absolute, in the unit that the name of the figure ends with; 0 is exact."""

    device: str
    method: str
    figure: str
    expected: float
    found: float | None
    """None: the method found none."""
    tolerance: float
    why: str = ""
    """Why there is none."""

    @property
    def error(self) -> float | None:
        """Found less expected."""
        return None if self.found is None else self.found - self.expected

    @property
    def holds(self) -> bool:
        """Whether the figure is as near to its answer as it must be."""
        return self.error is not None and abs(self.error) <= self.tolerance


class Counted(Protocol):
    """A device that stands."""

    async def wronged(self) -> int:
        """Frames that it dropped, doubled, swapped or damaged so far."""


Measure = Callable[[Bench, Counted], Awaitable[list[Known]]]


@dataclass(frozen=True)
class Case:
    """A device, and how it is measured. `wrong` is what it does, in the words of the program that is it."""

    name: str
    wrong: tuple[str, ...]
    measure: Measure
    quick: bool = True
    """Whether it takes a few seconds at most."""


def counting(name: str, every: int, figure: str, of: Callable[[Flow], int]) -> Case:
    """A device that does wrong by each `every`-th frame; `of` reads from a flow how many were."""

    async def measure(bench: Bench, device: Counted) -> list[Known]:
        flow = await _swept(bench, rate_pps=COUNTING_PPS, duration_s=COUNTING_S)
        expected = flow.sent_frames // every
        return [
            Known(f"{name} {every}", "sweep", figure, expected, of(flow), 0),
            Known(f"{name} {every}", "device", "wronged_frames", expected, await device.wronged(), 0),
        ]

    return Case(name, (name, str(every)), measure)


async def _delay(bench: Bench, _: Counted) -> list[Known]:
    flow = await _swept(bench, rate_pps=HELD_PPS, duration_s=COUNTING_S)
    found = flow.latency.p50_ns if flow.latency is not None else None
    why = "" if found is not None else "the engine gave no latency"
    return [Known("holds 300 µs", "sweep", "latency_p50_ns", HELD_NS, found, HELD_WITHIN_NS, why)]


async def _burst(bench: Bench, _: Counted) -> list[Known]:
    flow = await _swept(bench, rate_pps=None, duration_s=BURST_S)
    if flow.sent_frames <= BURST:
        return [Known(f"queue of {BURST}", "sweep", "burst_frames", BURST, None, 0, f"only {flow.sent_frames} frames were sent")]
    return [Known(f"queue of {BURST}", "sweep", "burst_frames", BURST, flow.received_frames, 0)]


async def _throughput(bench: Bench, _: Counted) -> list[Known]:
    goal = Goal("ndr", 0.0, 0.0, POLICED_S, POLICED_S, _WIDTH, POLICED_S, 1)
    params: dict[str, str | float | int | None] = {
        "goals": goals_text([goal]),
        "highest_pps": 2.0 * POLICED_PPS,
        "lowest_pps": POLICED_PPS / 4,
        "warmup_s": 0.0,
        "drain_s": 0.2,
    }
    expected = POLICED_PPS + POLICED_DEPTH / POLICED_S
    name = f"polices {POLICED_PPS} pps, bucket {POLICED_DEPTH}"
    try:
        measured = await search.measure(bench, _cell("search", params))
    except MeasurementError as e:
        return [Known(name, "search", "ndr_lower_pps", expected, None, expected * THROUGHPUT_WITHIN, str(e))]
    found = measured.figures["a"].get("ndr_lower_pps")
    return [Known(name, "search", "ndr_lower_pps", expected, found, expected * THROUGHPUT_WITHIN, "" if found else "no lower bound")]


async def _swept(bench: Bench, *, rate_pps: float | None, duration_s: float) -> Flow:
    """One sweep without warm-up: a device counts from its first frame."""
    measured = await sweep.measure(bench, _cell("sweep", {"rate_pps": rate_pps, "duration_s": duration_s, "warmup_s": 0.0}))
    return measured.flows[0]


def _cell(workload: str, params: dict[str, str | float | int | None]) -> Cell:
    whole: dict[str, str | float | int | None] = {"frame_size": FRAME_SIZE, **params}
    return Cell(mode="known", factors={}, workload=workload, tool="engine", links=("a",), params=whole, repeat=1)


CASES = (
    counting("drops", DROPS, "lost_frames", lambda flow: flow.lost_frames),
    counting("duplicates", DOUBLES, "duplicated_frames", lambda flow: flow.duplicated_frames),
    counting("swaps", SWAPS, "reordered_frames", lambda flow: flow.reordered_frames),
    counting("corrupts", CORRUPTS, "corrupted_frames", lambda flow: flow.corrupted_frames),
    Case("holds", ("holds", str(HELD_NS)), _delay),
    Case("burst", ("polices", "1", "--depth", str(BURST)), _burst),
    Case("polices", ("polices", str(POLICED_PPS), "--depth", str(POLICED_DEPTH)), _throughput, quick=False),
)
"""Every known device. The burst's policer refills one frame a second: within its 0.1 s only the bucket passes."""
