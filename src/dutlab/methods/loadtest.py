"""Method `loadtest`: a ramp of load through the DUT, read once a second, and the second in which the DUT saturates.

The load is a warm-up at a low rate, a linear ramp from 0 to a share of the line rate, and a hold at that share. It uses one direction of a
link, or both at once. The ramp is one offer of the generator, which reads its counters during it. Saturation is the first second from which
the loss stays above a threshold (0.1 % by default). The loss includes frames certainly lost and frames that the DUT refused to take. If the
generator knows neither, it is the sent frames less the received ones.

Figures of a direction (`a` forward, `a.back` back) and, under `a+a.back`, of all directions together:

    max_offered_pps, max_received_pps, max_received_bps_l1    the best second
    max_line_ratio                                         its bits on the wire as a share of a line rate: up to 2 for both directions
    saturation_pps, saturation_bps_l1, saturation_line_ratio, saturation_s
                                                           rate received in the saturated second, and its start, from that of the ramp;
                                                           absent if the ramp ended without saturation
    loss_ratio                                             of all frames that were sent
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dutlab.errors import InputError, MeasurementError
from dutlab.methods.at_limit import frames_at_limit
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, negative_loss
from dutlab.methods.ports import AtLimit, Bench, Measured, Offer, Outcome, Row, Stretch, ToolReading
from dutlab.methods.verify_traffic import send_until_confirmed
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.loadtest import AT_LIMIT_S, LoadtestSetting
from dutlab.stats.rescore import RampSecond, saturation
from dutlab.stats.series import mean_rate, pieces, ramp_mean
from dutlab.subject import apart, joined
from dutlab.units import BpsL1, Pps, Seconds, l1_rate, line_rate, si

REFERENCE_LINE = BpsL1(1e9)
"""Reference of percentages if a link has no speed and none is given: 1 Gbit/s, as in the review that the ramp is from."""
SECOND = Seconds(1.0)
_LEAST_COVERED = 0.5
"""Shortest reading, in seconds, that counts as a second."""


@dataclass(frozen=True)
class RampRequest:
    """Parameters of a ramp, from a cell's setting."""

    warmup_rate: Pps
    warmup: Seconds
    target_rate: Pps
    rampup: Seconds
    hold: Seconds
    line: BpsL1
    line_said: str
    """Source of `line`, in words."""

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """Warm-up, ramp and hold; those without duration are left out."""
        every = (
            Stretch(self.warmup, self.warmup_rate, self.warmup_rate),
            Stretch(self.rampup, Pps(0.0), self.target_rate),
            Stretch(self.hold, self.target_rate, self.target_rate),
        )
        return tuple(s for s in every if s.duration > 0)

    @property
    def duration(self) -> Seconds:
        """Duration of all three phases."""
        return Seconds(self.warmup + self.rampup + self.hold)

    def asked(self, from_s: float, to_s: float) -> float:
        """Return the mean intended rate between two instants after the first frame."""
        return ramp_mean([(s.duration, s.from_rate, s.to_rate) for s in self.stretches], from_s, to_s)


@dataclass(frozen=True)
class LoadtestSecond:
    """A second of one direction, or of all directions. `at_s` is its end, from the first frame."""

    at_s: float
    intended_pps: float | None
    """Intended rate; None if an imported file does not have it."""
    counted: RampSecond
    offered_bps_l1: BpsL1
    received_bps_l1: BpsL1


def ramp_of(bench: Bench, links: tuple[str, ...], setting: LoadtestSetting) -> RampRequest:
    """Return the ramp of a setting. Raises InputError for links with different line rates, or a target above the speed of a port."""
    lines = {name: _line_of(bench, setting, name) for name in links}
    if len({bps for bps, _ in lines.values()}) > 1:
        words = ", ".join(f"{name} {si(bps, 'bit/s')}" for name, (bps, _) in lines.items())
        raise InputError(
            f"links of one ramp have different line rates: {words}", remedy="drive them in separate sets, or write a line_rate"
        )
    line, words = next(iter(lines.values()))
    share = setting.target_percent / 100
    for name in links:
        if (speed := bench.speeds.get(name)) is not None and line * share > speed * (1 + 1e-9):
            most = f"{share * 100:g} % of {si(line, 'bit/s')} is more than link {name} carries ({si(speed, 'bit/s')})"
            raise InputError(most, remedy="lower the target")
    return RampRequest(
        warmup_rate=Pps(setting.warmup_pps),
        warmup=setting.warmup_s,
        target_rate=Pps(line_rate(line, setting.frame_size.mean) * share),
        rampup=setting.rampup_s,
        hold=setting.hold_s,
        line=line,
        line_said=words,
    )


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Run one ramp. Raises InputError, ToolFailed, HostError; MeasurementError if nothing was sent, or nothing was read during it."""
    setting = cell.setting_as(LoadtestSetting)
    ramp = ramp_of(bench, cell.links, setting)
    offer = Offer(
        links=cell.links,
        mix=setting.frame_size,
        rate=None,
        duration=ramp.duration,
        drain=setting.drain_s,
        profile=ramp.stretches,
        directions=setting.directions,
    ).carrying(setting.traffic)
    seen = [await send_until_confirmed(bench, cell, offer, ramp.warmup_rate)] if setting.verify_traffic else []
    outcome = await bench.generator.offer(offer)
    by_name = {flow.link: flow for flow in outcome.flows}
    if idle := [name for name in offer.flow_names if name not in by_name or by_name[name].sent_frames == 0]:
        raise MeasurementError(f"the generator sent nothing on {' and '.join(idle)}")
    flows = tuple(by_name[name] for name in offer.flow_names)
    began = began_s(outcome.readings) if outcome.began_s is None else outcome.began_s
    seconds = {flow.link: seconds_of(outcome, flow, ramp, began) for flow in flows}
    if blind := [name for name, of in seconds.items() if not of]:
        raise MeasurementError(f"no counters of {' and '.join(blind)} were read while it was sent: a ramp needs them once a second")
    if len(flows) > 1:
        seconds[joined(offer.flow_names)] = together(list(seconds.values()))
    threshold = setting.threshold_percent / 100
    of_name = {name: [f for f in flows if f.link in apart(name)] for name in seconds}
    return Measured(
        figures={name: figures_of(of, ramp, threshold) | _loss(of_name[name]) for name, of in seconds.items()},
        flows=flows,
        doubts=(*outcome.doubts, *(d for f in flows for d in (*doubts_of(offer, f), *negative_loss(f)))),
        raw=outcome.raw,
        facts=outcome.facts,
        notes=[*seen, *notes_of(seconds, ramp, threshold)],
        readings=[*outcome.readings, *(r for f in flows for r in _readings(f.link, seconds[f.link], ramp, began))],
        tables={"seconds": [row for f in flows for row in rows_of(f.link, seconds[f.link], ramp)]},
        at_limit=_at_limit(bench, offer, of_ramp(list(seconds.values())[-1], ramp), threshold),
    )


def _at_limit(bench: Bench, offer: Offer, seconds: Sequence[LoadtestSecond], threshold: float) -> AtLimit | None:
    """Return a function that offers the mean received rate of the saturated second once more; None without saturation."""
    saturated_second = saturation([s.counted for s in seconds], threshold).saturated
    if saturated_second is None or not saturated_second.received_pps:
        return None
    rate = Pps(saturated_second.received_pps / len(offer.flow_names))
    return frames_at_limit(bench.generator, replace(offer, profile=(), rate=rate, duration=AT_LIMIT_S))


def began_s(readings: Sequence[ToolReading]) -> float:
    """Return the wall clock of the first frame: a second before the first reading of sent frames."""
    return min((r.at_s for r in readings if r.name == "offered_pps"), default=0.0) - SECOND


def seconds_of(outcome: Outcome, flow: Flow, ramp: RampRequest, began: float) -> list[LoadtestSecond]:
    """Return each second in which both ends were read, with bits by the mean size of sent frames and of received ones."""
    of = {
        name: pieces([(r.at_s - began, r.value) for r in outcome.readings if r.link == flow.link and r.name == name], 0.0)
        for name in ("offered_pps", "received_pps", "lost_pps", "backpressure_pps")
    }
    mean_received = flow.received_bytes / flow.received_frames if flow.received_frames else flow.mean_frame_bytes
    seconds = []
    for piece in of["offered_pps"]:
        span = (piece.from_s, piece.to_s)
        received = mean_rate(of["received_pps"], *span)
        if received is None or piece.to_s - piece.from_s < _LEAST_COVERED:
            continue
        refused = mean_rate(of["backpressure_pps"], *span) or 0.0
        # refused frames used up sequence numbers, and their number at an instant is not known, so the certain loss would be far too low
        lost = None if refused else mean_rate(of["lost_pps"], *span)
        counted = RampSecond(piece.to_s, piece.rate, received, lost, refused)
        bits = l1_rate(Pps(piece.rate), flow.mean_frame_bytes), l1_rate(Pps(received), mean_received)
        seconds.append(LoadtestSecond(piece.to_s, ramp.asked(*span), counted, *bits))
    return seconds


def together(directions: Sequence[Sequence[LoadtestSecond]]) -> list[LoadtestSecond]:
    """Return the sums of all directions, second by second, for the seconds in which all were read."""
    return [_sum(of) for of in zip(*directions, strict=False)]


def _sum(of: Sequence[LoadtestSecond]) -> LoadtestSecond:
    counted = [s.counted for s in of]
    lost = None if any(c.lost_pps is None for c in counted) else sum(c.lost_pps or 0.0 for c in counted)
    return LoadtestSecond(
        at_s=max(s.at_s for s in of),
        intended_pps=None if any(s.intended_pps is None for s in of) else sum(s.intended_pps or 0.0 for s in of),
        counted=RampSecond(
            max(c.at_s for c in counted),
            sum(c.offered_pps for c in counted),
            sum(c.received_pps for c in counted),
            lost,
            sum(c.refused_pps for c in counted),
        ),
        offered_bps_l1=BpsL1(sum(s.offered_bps_l1 for s in of)),
        received_bps_l1=BpsL1(sum(s.received_bps_l1 for s in of)),
    )


def figures_of(seconds: Sequence[LoadtestSecond], ramp: RampRequest, threshold: float) -> dict[str, float]:
    """Return the figures of the best second, and of the saturated one if there is one. The warm-up is not a part of the ramp."""
    best = max(seconds, key=lambda s: s.counted.received_pps)
    bits = max(s.received_bps_l1 for s in seconds)
    figures = {
        "max_offered_pps": max(s.counted.offered_pps for s in seconds),
        "max_received_pps": best.counted.received_pps,
        "max_received_bps_l1": bits,
        "max_line_ratio": bits / ramp.line,
    }
    saturated_second = saturation([s.counted for s in of_ramp(seconds, ramp)], threshold).saturated
    if saturated_second is None:
        return figures
    second = next(s for s in seconds if s.at_s == saturated_second.at_s)
    return figures | {
        "saturation_pps": saturated_second.received_pps,
        "saturation_bps_l1": second.received_bps_l1,
        "saturation_line_ratio": second.received_bps_l1 / ramp.line,
        "saturation_s": max(second.at_s - ramp.warmup - SECOND, 0.0),
    }


def of_ramp(seconds: Sequence[LoadtestSecond], ramp: RampRequest) -> list[LoadtestSecond]:
    """Return the seconds that are completely after the warm-up."""
    return [s for s in seconds if s.at_s - SECOND >= ramp.warmup - _LEAST_COVERED]


def notes_of(seconds: dict[str, list[LoadtestSecond]], ramp: RampRequest, threshold: float, *, cut: str = "") -> list[str]:
    """Return notes: the reference of percentages, and if there was no saturation, the reason.

    `cut` is the reason if the ramp is known to have ended early.
    """
    every = list(seconds)[-1]
    result = saturation([s.counted for s in of_ramp(seconds[every], ramp)], threshold)
    notes = [f"percentages are of {si(ramp.line, 'bit/s')}: {ramp.line_said}"]
    if result.saturated is None:
        most = f"{result.most_received_pps:,.0f} frames a second were received at most"
        notes.append(f"no saturation: {cut or result.why or 'the loss never stayed above the threshold'}; {most}")
    return notes


def _loss(flows: Sequence[Flow]) -> dict[str, float]:
    return {"loss_ratio": sum(f.lost_frames for f in flows) / sum(f.sent_frames for f in flows)}


def rows_of(name: str, seconds: Sequence[LoadtestSecond], ramp: RampRequest) -> list[Row]:
    """Return the rows of the table `seconds` for one direction."""
    return [
        {
            "direction": name,
            "at_s": round(s.at_s, 3),
            "intended_pps": s.intended_pps,
            "offered_pps": s.counted.offered_pps,
            "received_pps": s.counted.received_pps,
            "lost_pps": s.counted.lost_pps,
            "backpressure_pps": s.counted.refused_pps,
            "offered_bps_l1": s.offered_bps_l1,
            "received_bps_l1": s.received_bps_l1,
            "offered_line_ratio": s.offered_bps_l1 / ramp.line,
            "received_line_ratio": s.received_bps_l1 / ramp.line,
        }
        for s in seconds
    ]


def _readings(name: str, seconds: Sequence[LoadtestSecond], ramp: RampRequest, began: float) -> list[ToolReading]:
    """Return readings that the generator did not take: bits and utilisation of the sending and the receiving port."""
    return [
        ToolReading(began + float(row["at_s"] or 0.0), name, column, float(row[column] or 0.0))
        for row in rows_of(name, seconds, ramp)
        for column in ("intended_pps", "offered_bps_l1", "received_bps_l1", "offered_line_ratio", "received_line_ratio")
    ]


def _line_of(bench: Bench, setting: LoadtestSetting, name: str) -> tuple[BpsL1, str]:
    if setting.line_rate_bps_l1 is not None:
        return BpsL1(setting.line_rate_bps_l1), "the line rate that was asked for"
    if (speed := bench.speeds.get(name)) is not None:
        return speed, f"the speed of link {name}"
    return REFERENCE_LINE, "a reference, since the link has no speed and no line rate was given"
