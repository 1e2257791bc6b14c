"""Method `soak-power`: phases of load, idleness and power off, one after another; sensor readings give their watts.

The trial (measure) and the evaluation of its readings (with_readings) are separate, since sensors deliver their readings after the trial.
Times are by the clock of their samples. docs/method/soak-power.md has the figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from dutlab.doubts import Doubt
from dutlab.errors import InputError, MeasurementError
from dutlab.methods.dut_ports import PowerControl, Readings, SensedValue
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, failed_frames, made_frames
from dutlab.methods.ports import Bench, Measured, Offer, Outcome, Row, ToolReading
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.soak_power import PowerPhase, SoakPowerSetting
from dutlab.stats.series import stands_still
from dutlab.subject import joined
from dutlab.units import Pps, Seconds

LOOK_S = 1.0
LONGEST_LOAD_S = 30.0
"""Length in seconds of the parts of a load whose end is not known; between two of them there is no load for about a second."""
BEGUN_WITHIN_S = 0.5
"""Longest time from the first frame until the generator reports it (methods.ports.Offer.begun)."""
WATTS, CELSIUS = "W", "degC"
STILL: dict[str, Callable[[float], float]] = {WATTS: lambda mean: max(0.01 * abs(mean), 0.5), CELSIUS: lambda _: 0.5}
"""Largest difference between the means of the two halves of the window, by unit; a function of the mean."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass
class _Held:
    """Result of a phase."""

    from_s: float
    to_s: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of each load that the generator reported, in seconds since the trial's start."""
    stable: bool = False


async def measure(bench: Bench, cell: Cell, *, sleep: Sleep = asyncio.sleep) -> Measured:
    """Run all phases in turn. Raises InputError, ToolFailed, HostError; MeasurementError if nothing was sent."""
    setting = cell.setting_as(SoakPowerSetting)
    if bench.readings is None:
        raise InputError("there are no sensor readings here", remedy="measure soak-power with `dutlab run` or `dutlab measure`")
    rows, loads, outcomes, notes = list[Row](), list[Row](), list[Outcome](), list[str]()
    doubts, is_off = dict[tuple[object, str], Doubt](), False
    for number, phase in enumerate(setting.phases, 1):
        bench.tell(cell.link_label, "soak-power", {"phase_number": float(number)})
        await _enter(bench, phase, is_off=is_off)
        is_off = phase.off
        hold = await _hold(bench, setting, phase, phase.links or cell.links, sleep)
        outcomes += hold.outcomes
        rows.append(
            {**_row(phase, hold, setting), "ports_up": None if phase.off or bench.links is None else bench.links.ports_up(phase.down)}
        )
        if phase.until and not hold.stable:
            notes.append(f"phase {phase.name} did not become stable within {phase.duration:g} s")
        for outcome in hold.outcomes:
            offer = _offer(setting, phase, phase.links or cell.links, phase.duration)
            for doubt in (*outcome.doubts, *(d for flow in outcome.flows for d in doubts_of(offer, flow))):
                doubts.setdefault((doubt.kind, doubt.about), doubt)
        loads += [{"phase": phase.name, "from_s": round(start, 3), "to_s": round(end, 3)} for start, end in hold.spans]
    await _enter(bench, PowerPhase(name="end"), is_off=is_off)
    if not any(made_frames(flow) for outcome in outcomes for flow in outcome.flows):
        raise MeasurementError("the generator sent nothing in any phase", raw={n: s for o in outcomes for n, s in o.raw.items()})
    return Measured(
        figures={},
        flows=outcomes[-1].flows,
        doubts=tuple(doubts.values()),
        raw={f"{n}-{name}": output for n, outcome in enumerate(outcomes, 1) for name, output in outcome.raw.items()},
        facts=outcomes[-1].facts,
        notes=notes,
        readings=[reading for outcome in outcomes for reading in _rates(outcome)],
        tables={"phases": rows, "loads": loads},
    )


async def _enter(bench: Bench, phase: PowerPhase, *, is_off: bool) -> None:
    """Set power and links as the phase has them. Links change only while the DUT is on."""
    if is_off and not phase.off:
        await _power(bench).on()
    if bench.links is not None:
        await bench.links.hold_down(phase.down)
    elif phase.down:
        raise InputError("no link goes through this DUT", remedy="leave `down` out of the phases")
    if phase.off and not is_off:
        await _power(bench).off()


def _power(bench: Bench) -> PowerControl:
    if bench.power is None:
        raise InputError("nothing switches this DUT", remedy="write `power:` with `may-switch: yes` below it in the testbed file")
    return bench.power


async def _hold(bench: Bench, setting: SoakPowerSetting, phase: PowerPhase, links: tuple[str, ...], sleep: Sleep) -> _Held:
    readings = bench.readings
    assert readings is not None  # noqa: S101 -- the caller has checked it
    hold = _Held(readings.now_s())
    while (left := hold.from_s + phase.duration - readings.now_s()) > (0.0 if not phase.share else LOOK_S):
        if phase.share:
            lasts = Seconds(min(LONGEST_LOAD_S, left) if phase.until else phase.duration)
            began = list[float]()
            offer = replace(_offer(setting, phase, links, lasts), begun=partial(_note, began, readings))
            hold.outcomes.append(outcome := await bench.generator.offer(offer))
            if began:
                sent_s = max((flow.sent_seconds for flow in outcome.flows), default=0.0)
                hold.spans.append((began[0], max(began[0] + sent_s - BEGUN_WITHIN_S, began[0])))
        else:
            await sleep(min(LOOK_S, left))
        now_s = readings.now_s()
        if phase.until and now_s - hold.from_s >= setting.window_s and _still(readings.since(now_s - setting.window_s), now_s, setting):
            hold.stable = True
            break
    hold.to_s = readings.now_s()
    return hold


def _note(began: list[float], readings: Readings) -> None:
    began.append(readings.now_s())


def _offer(setting: SoakPowerSetting, phase: PowerPhase, links: tuple[str, ...], duration: Seconds) -> Offer:
    return Offer(
        links=links,
        mix=setting.frame_size,
        rate=Pps(setting.rate_pps * phase.share),
        duration=duration,
        drain=Seconds(setting.drain_s),
        directions=setting.directions,
        once=True,
    )


def _still(readings: Sequence[SensedValue], now_s: float, setting: SoakPowerSetting) -> bool:
    """Return True if there are readings of watts or temperatures, and all are steady."""
    series = dict[tuple[str, str, str, str], list[tuple[float, float]]]()
    for r in readings:
        if r.unit in STILL:
            series.setdefault((r.where, r.sensor, r.name, r.unit), []).append((r.t_s, r.value))
    still = partial(stands_still, from_s=now_s - setting.window_s, to_s=now_s)
    return bool(series) and all(still(points, within=STILL[key[-1]]) for key, points in series.items())


def _row(phase: PowerPhase, held: _Held, setting: SoakPowerSetting) -> Row:
    """Return a row of the table `phases`; rates and losses are of all links and directions together."""
    flows: list[Flow] = [flow for outcome in held.outcomes for flow in outcome.flows]
    frames, sent_s = sum(map(made_frames, flows)), sum(max((f.sent_seconds for f in o.flows), default=0.0) for o in held.outcomes)
    received, size = sum(f.received_frames for f in flows), sum(f.received_bytes for f in flows)
    return {
        "phase": phase.name,
        "state": "off" if phase.off else "load" if phase.share else "idle",
        "share_percent": round(phase.share * 100, 9),
        "links": joined(phase.links) if phase.links else None,
        "down": joined(phase.down) if phase.down else None,
        "from_s": round(held.from_s, 3),
        "to_s": round(held.to_s, 3),
        "stable": None if phase.until is None else "yes" if held.stable else "no",
        "asked_pps": setting.rate_pps * phase.share if phase.share else None,
        "received_pps": received / sent_s if sent_s else None,
        "received_bps": size * 8 / sent_s if sent_s else None,
        "loss_ratio": sum(map(failed_frames, flows)) / frames if frames else None,
    }


def _rates(outcome: Outcome) -> Sequence[ToolReading]:
    return [r for r in outcome.readings if r.name in ("offered_pps", "received_pps", "lost_pps")]
