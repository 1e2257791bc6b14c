"""Devices with faults in time: a constant delay of each frame, and the seconds in which frames are lost."""

from __future__ import annotations

from dutlab.errors import MeasurementError
from dutlab.methods import latency, soak
from dutlab.methods.known.case import DRAINED, FRAME, LINK, Case, FaultyDevice, Known, cell
from dutlab.methods.known.counts import COUNTING_S, swept
from dutlab.methods.ports import NO_TIME, Bench
from dutlab.spec.workloads.latency import LatencySetting
from dutlab.spec.workloads.soak import SoakSetting
from dutlab.units import Pps, Seconds

HELD_NS, HELD_PPS, HELD_WITHIN_NS = 300_000, 1000.0, 20_000
_HOLDS = ("holds", str(HELD_NS))
_HELD = "holds 300 µs"

SOAK_PPS, SOAK_S = 1000.0, 12.5
SOAK_EVERY = 3300
"""Period of lost frames. Of 12 500 frames, the 3300th, 6600th and 9900th are lost.

They are more than three seconds apart, so they are three events, whenever a second begins. The last is early enough to be seen in time.
"""
SOAK_EVENTS = int(SOAK_PPS * SOAK_S) // SOAK_EVERY


async def _delay(bench: Bench, _: FaultyDevice) -> list[Known]:
    flow = await swept(bench, rate_pps=HELD_PPS, duration_s=COUNTING_S)
    latency_ns = flow.latency.p50_ns if flow.latency is not None else None
    why = "" if latency_ns is not None else "the engine gave no latency"
    return [Known(_HELD, "sweep", "latency_p50_ns", HELD_NS, latency_ns, HELD_WITHIN_NS, why)]


async def _latency(bench: Bench, _: FaultyDevice) -> list[Known]:
    """Measure a delay that is equal at every load."""
    setting = LatencySetting(
        frame_size=FRAME,
        rate_pps=Pps(HELD_PPS),
        shares_percent=(50.0, 100.0),
        idle_pps=Pps(HELD_PPS),
        duration_s=Seconds(COUNTING_S),
        warmup_s=NO_TIME,
        drain_s=DRAINED,
    )
    try:
        figures = (await latency.measure(bench, cell(setting))).figures[LINK]
    except MeasurementError as e:
        return [Known(_HELD, "latency", "100%/tl_ns", HELD_NS, None, HELD_WITHIN_NS, str(e))]
    return [
        Known(_HELD, "latency", name, HELD_NS, figures.get(name), HELD_WITHIN_NS, "" if name in figures else "the engine gave no latency")
        for name in ("50%/tl_ns", "100%/tl_ns")
    ]


async def _soak(bench: Bench, _: FaultyDevice) -> list[Known]:
    setting = SoakSetting(
        frame_size=FRAME,
        rate_pps=Pps(SOAK_PPS),
        share_percent=100.0,
        threshold_percent=0.0,
        duration_s=Seconds(SOAK_S),
        warmup_s=NO_TIME,
        drain_s=DRAINED,
    )
    device = f"drops {SOAK_EVERY}"
    try:
        measured = await soak.measure(bench, cell(setting))
    except MeasurementError as e:
        return [Known(device, "soak", "loss_events", SOAK_EVENTS, None, 0, str(e))]
    lost = sum(flow.lost_frames for flow in measured.flows)
    return [
        Known(device, "soak", "loss_events", SOAK_EVENTS, measured.figures[LINK]["loss_events"], 0),
        Known(device, "soak", "lost_frames", SOAK_EVENTS, lost, 0),
    ]


CASES = (
    Case("holds", "sweep", _HOLDS, _delay),
    Case("holds-at-each-load", "latency", _HOLDS, _latency, seconds=3.0),
    Case("loses-now-and-then", "soak", ("drops", str(SOAK_EVERY)), _soak, seconds=14.0),
)
