"""Method `convergence`: flows to many destinations while a path of the DUT fails and while it recovers (RFC 6412, RFC 6413).

Each event has one load, so that the ledger alone shows its loss; one more load without an event is first. Each flow has a separate ledger:
its lost frames ÷ its rate are its loss of connectivity, exact to the gap between two of its frames.

Figures of a link; PART is failure or reversion:

    intended_pps, resolution_ns    the rate of all flows together, and the gap between two frames of one flow
    sampling_ns                    the time between two samples of the rate-derived method
    PART/route_loss_min_ns, route_loss_p50_ns, route_loss_max_ns
                                   loss of connectivity of the flows that lost frames (RFC 6412 section 3.6.5)
    PART/loss_derived_ns           all frames lost ÷ the rate of all flows (section 3.6.6)
    PART/loss_begins_ns            from the event to the first lost frame
    PART/first_route_ns            from the event until the first of these flows was back (section 3.6.2)
    PART/full_convergence_ns       from the event until all of them were back (section 3.6.1), by the numbers of the frames
    PART/full_rate_ns              full convergence by the rate-derived method (section 3.5.1)
    PART/instant_error_ns          error of the last three instants, in addition to the duration of the command
    PART/affected_ratio            share of the flows that lost frames
    PART/lossless_ratio            share of the events without loss
    PART/lost_frames, duplicated_frames, reordered_frames      of all flows
    PART/command_ns                duration of the command

Times of a part are absent if one of its flows has none: it did not come back, or the event was outside the load. The record's table `flows`
has each flow of each event, and `course` the samples around the first.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median_low

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError, MeasurementError
from dutlab.methods.dut_ports import DutChange
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, failed_frames, made_frames, starved
from dutlab.methods.ports import Bench, Measured, Offer, OfferedStream, Outcome, Row, flow_of_stream
from dutlab.methods.reconf import NOT_BACK, Sleep, under_load
from dutlab.plan.cell import Cell
from dutlab.spec.traffic import FlowSet, Traffic
from dutlab.spec.workloads.convergence import ConvergenceSetting
from dutlab.subject import of_part
from dutlab.units import Pps, Seconds

FAILURE, REVERSION = "failure", "reversion"
SAMPLING = Seconds(0.02)
"""Packet sampling interval of the rate-derived method (RFC 6412 section 3.7.4)."""
HALF_A_FLOW = 0.5
"""Least share of its frames that a flow must have in a sample to count as back."""
FRAMES_OF_A_SAMPLE = 4
"""Fewest frames of each flow in a sample that can show whether the flow is back."""
COURSE_S = 0.1
"""Step of the curve in a report, in seconds."""
_NS = 1e9


@dataclass(frozen=True)
class _Load:
    """The load of each event, and its flows by name."""

    setting: ConvergenceSetting
    link: str
    offer: Offer

    @property
    def flow_pps(self) -> float:
        """Frames a second of each flow."""
        return self.setting.rate_pps / self.setting.flow_count

    @property
    def destinations(self) -> dict[str, str]:
        """Destination address of each flow."""
        spread = self.setting.spread
        return {flow_of_stream(self.link, stream.name): str(spread.address(n)) for n, stream in enumerate(self.offer.streams)}


@dataclass(frozen=True)
class _Sample:
    """Rates since the previous sample: of all flows together, and of the flow with the lowest rate."""

    at_s: float
    """Wall clock of the sample."""
    offered_pps: float
    received_pps: float
    least_pps: float


@dataclass(frozen=True)
class _Occurrence:
    """One failure or reversion under load."""

    number: int
    part: str
    outcome: Outcome
    change: DutChange
    rows: Sequence[Row]
    """One row for each flow."""
    samples: Sequence[_Sample]


def load_of(link: str, setting: ConvergenceSetting) -> _Load:
    """Return the load: one stream for each flow, each to an address in another part of the network."""
    spread, each = setting.spread, Pps(setting.rate_pps / setting.flow_count)
    streams = tuple(
        OfferedStream(f"{n:02}", setting.frame_size, each, traffic=Traffic(flows=FlowSet(destinations=spread.part(n))))
        for n in range(setting.flow_count)
    )
    duration = Seconds(setting.before_s + setting.after_s)
    return _Load(
        setting,
        link,
        Offer((link,), setting.frame_size, None, duration, drain=setting.drain_s, streams=streams, readings_every=SAMPLING),
    )


async def measure(bench: Bench, cell: Cell, *, sleep: Sleep = asyncio.sleep) -> Measured:
    """Run one trial. Raises InputError, HostError, ToolFailed, TestbedError; MeasurementError if nothing is sent or nothing passes."""
    if bench.device is None:
        raise InputError("this DUT takes no commands inside a trial", remedy="leave the workload convergence out")
    setting, link = cell.setting_as(ConvergenceSetting), cell.links[0]
    load = load_of(link, setting)
    await bench.device.prepare(setting.event)
    quiet = await bench.generator.offer(load.offer)
    _insist_on_ways(load, quiet)
    outcomes, occurrences = [quiet], list[_Occurrence]()
    for number in range(1, setting.times + 1):
        for part, act in ((FAILURE, bench.device.fail), (REVERSION, bench.device.recover)):
            outcome, change = await under_load(bench.generator, load.offer, setting.before_s, partial(act, setting.event), sleep)
            outcomes.append(outcome)
            rows = [_row(number, part, load, flow, outcome, change) for flow in outcome.flows]
            occurrences.append(_Occurrence(number, part, outcome, change, rows, _samples(load, outcome)))
    figures = {"intended_pps": float(setting.rate_pps), "resolution_ns": _NS / load.flow_pps, "sampling_ns": SAMPLING * _NS}
    for part in (FAILURE, REVERSION):
        figures |= of_part(part, _figures(load, [of for of in occurrences if of.part == part]))
    notes = [f"{part}: {why}" for of in occurrences for part, why in _reasons(of)]
    return Measured(
        figures={link: figures},
        flows=outcomes[-1].flows,
        doubts=tuple(_doubts(load, quiet, outcomes)),
        raw=outcomes[-1].raw,
        facts=outcomes[-1].facts,
        notes=tuple(dict.fromkeys(notes)),
        tables={"flows": [row for of in occurrences for row in of.rows], "course": [row for of in occurrences[:2] for row in _course(of)]},
    )


def _insist_on_ways(load: _Load, quiet: Outcome) -> None:
    """Raise MeasurementError if the generator sent nothing, or if a destination is unreachable before any failure."""
    if not any(made_frames(flow) for flow in quiet.flows):
        raise MeasurementError("the generator sent nothing", raw=dict(quiet.raw))
    where = load.destinations
    if unreached := [where[flow.link] for flow in quiet.flows if not flow.received_frames]:
        what = f"no frame came to {len(unreached)} of {len(quiet.flows)} destinations before the failure, the first: {unreached[0]}"
        raise MeasurementError(what, raw=dict(quiet.raw), remedy="give the DUT and the routers behind it routes to `network`")


def _row(number: int, part: str, load: _Load, flow: Flow, outcome: Outcome, change: DutChange) -> Row:  # noqa: PLR0917 -- of one flow
    lost, frames = failed_frames(flow), made_frames(flow)
    why = _why_not(load, flow, outcome, change)
    outage = None if why else outcome.outages.get(flow.link)
    begins_ns, begins_latest_ns = _since(change, None if outage is None else outage.first_lost_s)
    back_ns, back_latest_ns = _since(change, None if outage is None else outage.back_s)
    return {
        "event": float(number),
        "part": part,
        "flow": flow.link,
        "destination": load.destinations[flow.link],
        "made_frames": float(frames),
        "lost_frames": float(lost),
        "duplicated_frames": float(flow.duplicated_frames),
        "reordered_frames": None if flow.reordered_frames is None else float(flow.reordered_frames),
        "route_loss_ns": None if why or lost <= 0 else lost / (frames / flow.sent_seconds) * _NS,
        "begins_ns": begins_ns,
        "begins_latest_ns": begins_latest_ns,
        "back_ns": back_ns,
        "back_latest_ns": back_latest_ns,
        "why": why,
    }


def _since(change: DutChange, between: tuple[float, float] | None) -> tuple[float, float] | tuple[None, None]:
    """Return two instants relative to the start of the command; an effect cannot precede its command."""
    if between is None:
        return None, None
    low, high = ((at_s - change.began_s) * _NS for at_s in between)
    return (max(low, 0.0) if high >= 0 else low), high


def _why_not(load: _Load, flow: Flow, outcome: Outcome, change: DutChange) -> str:
    """Return why the flow's loss does not give a time for this event; empty if it does."""
    offer, setting = replace(load.offer, rate=Pps(load.flow_pps)), load.setting
    if starved(offer, flow):
        return "the generator did not make the load"
    if outcome.began_s is not None and change.began_s + change.took_s > outcome.began_s + flow.sent_seconds:
        return "the command ended after the last frame: raise `after`"
    outage = outcome.outages.get(flow.link)
    if outage is not None and outage.first_lost_s[1] < change.began_s - SAMPLING:
        return "frames were lost before the event: the flow had not recovered from the one before, or the DUT loses frames anyway"
    if failed_frames(flow) > NOT_BACK * made_frames(flow) * setting.after_s / offer.duration or (outage and outage.back_s is None):
        return f"not every flow was back within {setting.after_s:g} s"
    return ""


def _reasons(of: _Occurrence) -> Iterator[tuple[str, str]]:
    """Yield each reason with its part and the number of flows that it affects."""
    counted: dict[str, int] = defaultdict(int)
    for row in of.rows:
        counted[str(row["why"] or "")] += 1
    yield from ((of.part, f"{why} ({flows} of {len(of.rows)} flows, event {of.number})") for why, flows in counted.items() if why)


def _figures(load: _Load, occurrences: Sequence[_Occurrence]) -> dict[str, float]:
    figures = {"command_ns": median_low(of.change.took_s * _NS for of in occurrences)}
    for name in ("lost_frames", "duplicated_frames", "reordered_frames"):
        if (values := [_sum(of.rows, name) for of in occurrences]) and None not in values:
            figures[name] = median_low(value for value in values if value is not None)
    if any(row["why"] for of in occurrences for row in of.rows):
        return figures
    losses = [[ns for row in of.rows if (ns := _number(row, "route_loss_ns")) is not None] for of in occurrences]
    figures["lossless_ratio"] = sum(not of for of in losses) / len(losses)
    figures["affected_ratio"] = median_low(len(of) / load.setting.flow_count for of in losses)
    if not all(losses):  # an event without loss has no times: it was shorter than the gap between two frames, or affected no flow
        return figures
    every = [ns for of in losses for ns in of]
    figures |= {"route_loss_min_ns": min(every), "route_loss_p50_ns": median_low(every), "route_loss_max_ns": max(every)}
    figures["loss_derived_ns"] = median_low(sum(of) / load.setting.flow_count for of in losses)
    instants: dict[str, Callable[[Sequence[Row]], float | None]] = {
        "loss_begins_ns": partial(_extreme, min, "begins_ns"),
        "first_route_ns": partial(_extreme, min, "back_latest_ns"),
        "full_convergence_ns": partial(_extreme, max, "back_latest_ns"),
        "instant_error_ns": _widest,
    }
    for name, of_rows in instants.items():
        values = [of_rows(of.rows) for of in occurrences]
        if None not in values:
            figures[name] = (max if name == "instant_error_ns" else median_low)(value for value in values if value is not None)
    rates = [_rate_derived(load, of) for of in occurrences]
    if None not in rates:
        figures["full_rate_ns"] = median_low(ns for ns in rates if ns is not None)
    return figures


def _number(row: Row, name: str) -> float | None:
    return value if isinstance(value := row[name], float) else None


def _sum(rows: Sequence[Row], name: str) -> float | None:
    values = [_number(row, name) for row in rows]
    return None if None in values else sum(value for value in values if value is not None)


def _extreme(which: Callable[[Iterable[float]], float], name: str, rows: Sequence[Row]) -> float | None:
    """Return the extreme instant of the flows that lost frames; None if one of them has no such instant."""
    values = [_number(row, name) for row in rows if row["route_loss_ns"] is not None]
    return None if None in values or not values else which(value for value in values if value is not None)


def _widest(rows: Sequence[Row]) -> float | None:
    """Return the largest error of an instant of any flow."""
    widths = [
        abs(high - low)
        for row in rows
        for ends in (("begins_ns", "begins_latest_ns"), ("back_ns", "back_latest_ns"))
        if (low := _number(row, ends[0])) is not None and (high := _number(row, ends[1])) is not None
    ]
    return max(widths, default=None)


def _samples(load: _Load, outcome: Outcome) -> list[_Sample]:
    """Return the samples of all flows together while the generator sends, at the instants of the receiver's counters."""
    received: dict[float, list[float]] = defaultdict(list)
    offered: dict[str, list[float]] = defaultdict(list)
    for reading in outcome.readings:
        if reading.name == "received_pps":
            received[reading.at_s].append(reading.value)
        elif reading.name == "offered_pps":
            offered[reading.link].append(reading.value)
    each = [sum(rates) for rates in zip(*offered.values(), strict=False)] if len(offered) == len(outcome.flows) else []
    whole = [(at_s, rates) for at_s, rates in sorted(received.items()) if len(rates) == len(outcome.flows)]
    ends_s = (outcome.began_s or 0.0) + load.offer.duration
    return [
        _Sample(at_s, asked, sum(rates), min(rates))
        for (at_s, rates), asked in zip(whole, each, strict=False)
        if outcome.began_s is None or at_s <= ends_s
    ]


def _rate_derived(load: _Load, of: _Occurrence) -> float | None:
    """Return the time from the event to the end of the last sample in which a flow is not back.

    None if there is no such sample, if it is the last sample, or if samples are too short.
    """
    since = [sample for sample in of.samples if sample.at_s > of.change.began_s]
    short = [sample for sample in since if sample.least_pps < HALF_A_FLOW * load.flow_pps]
    if not short or short[-1] is since[-1] or load.flow_pps * SAMPLING < FRAMES_OF_A_SAMPLE:
        return None
    return (short[-1].at_s - of.change.began_s) * _NS


def _course(of: _Occurrence) -> list[Row]:
    """Return means of the samples in each COURSE_S: all flows send at one instant, so single samples differ by a frame of each."""
    by_time: dict[int, list[_Sample]] = defaultdict(list)
    for sample in of.samples:
        by_time[math.floor((sample.at_s - of.change.began_s) / COURSE_S)].append(sample)
    return [
        {
            "part": of.part,
            "at_s": (n + 0.5) * COURSE_S,
            "offered_pps": fmean(sample.offered_pps for sample in samples),
            "received_pps": fmean(sample.received_pps for sample in samples),
        }
        for n, samples in sorted(by_time.items())
    ]


def _doubts(load: _Load, quiet: Outcome, outcomes: Sequence[Outcome]) -> Iterator[Doubt]:
    """Yield each kind of doubt once for a link or flow."""
    lost, frames = sum(map(failed_frames, quiet.flows)), sum(map(made_frames, quiet.flows))
    if lost > 0:
        yield Doubt(DoubtKind.LOSS_WITHOUT_CHANGE, f"{lost} of {frames} frames", load.link)
    if down := next((o.link_lost for o in outcomes if o.link_lost), ""):
        yield Doubt(DoubtKind.LINK_WENT_DOWN, down, load.link)
    offer = replace(load.offer, rate=Pps(load.flow_pps))
    all_doubts = [d for o in outcomes for d in (*o.doubts, *(d for flow in o.flows for d in doubts_of(offer, flow)))]
    yield from {(doubt.kind, doubt.about): doubt for doubt in all_doubts}.values()
