"""Devices that drop, duplicate, swap or corrupt frames by rule, and a queue of known length: the counts are exact."""

from __future__ import annotations

from collections.abc import Callable

from dutlab.methods import sweep
from dutlab.methods.flow import Flow
from dutlab.methods.known.case import FRAME, Case, FaultyDevice, Known, cell, policer
from dutlab.methods.ports import DRAIN, NO_TIME, Bench
from dutlab.spec.rates import AskedRate, RateUnit
from dutlab.spec.workloads.sweep import SweepSetting
from dutlab.units import Seconds

COUNTING_PPS = 20_000.0
COUNTING_S = 0.5
DROPS, DOUBLES, SWAPS, CORRUPTS = 7, 11, 10, 5
BURST, BURST_S = 400, 0.1


def counting(name: str, every: int, figure: str, of: Callable[[Flow], int | None]) -> Case:
    """Return the case of a device that drops, duplicates, swaps or corrupts every `every`-th frame; `of` reads their number."""

    async def measure(bench: Bench, device: FaultyDevice) -> list[Known]:
        flow = await swept(bench, rate_pps=COUNTING_PPS, duration_s=COUNTING_S)
        expected = flow.sent_frames // every
        return [
            Known(f"{name} {every}", "sweep", figure, expected, of(flow), 0),
            Known(f"{name} {every}", "device", "wronged_frames", expected, await device.altered_frames(), 0),
        ]

    return Case(name, "sweep", (name, str(every)), measure)


async def _burst(bench: Bench, _: FaultyDevice) -> list[Known]:
    flow = await swept(bench, rate_pps=None, duration_s=BURST_S)
    if flow.sent_frames <= BURST:
        return [Known(f"queue of {BURST}", "sweep", "burst_frames", BURST, None, 0, f"only {flow.sent_frames} frames were sent")]
    return [Known(f"queue of {BURST}", "sweep", "burst_frames", BURST, flow.received_frames, 0)]


async def swept(bench: Bench, *, rate_pps: float | None, duration_s: float) -> Flow:
    """Run one sweep without warm-up, because a device counts from its first frame."""
    rate = None if rate_pps is None else AskedRate(rate_pps, RateUnit.PPS)
    setting = SweepSetting(frame_size=FRAME, rate=rate, duration_s=Seconds(duration_s), warmup_s=NO_TIME, drain_s=DRAIN)
    measured = await sweep.measure(bench, cell(setting))
    return measured.flows[0]


CASES = (
    counting("drops", DROPS, "lost_frames", lambda flow: flow.lost_frames),
    counting("duplicates", DOUBLES, "duplicated_frames", lambda flow: flow.duplicated_frames),
    counting("swaps", SWAPS, "reordered_frames", lambda flow: flow.reordered_frames),
    counting("corrupts", CORRUPTS, "corrupted_frames", lambda flow: flow.corrupted_frames),
    Case("burst", "sweep", policer(1, BURST), _burst),
)
"""The policer of the burst refills one frame per second, so within 0.1 s only the frames of the bucket pass."""
