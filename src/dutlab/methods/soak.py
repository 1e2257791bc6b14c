"""Method `soak`: one rate for hours, and all seconds in which frames were lost.

Figures of a link:

    intended_pps, offered_pps, received_pps        over the whole trial
    loss_ratio                               lost, or not taken by the DUT, as a share of the frames that the generator made
    loss_events                              groups of consecutive seconds in which more than the threshold was lost
    longest_clean_s                          the longest time between two of them
    latency_p50_ns, latency_p999_ns          of the whole trial, if the clocks allow it
    latency_first_ns, latency_last_ns        mean latency of the first and the last tenth: the drift of the DUT

The record's table `events` has each event, including that of frames lost after the last reading; `course` has the trial in at most 600
pieces. With a target loss, the soak searches for the rate with this loss: methods.critical_rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.errors import InputError, MeasurementError
from dutlab.methods import critical_rate
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, failed_frames, made_frames, negative_loss
from dutlab.methods.ports import Bench, Measured, Offer, Outcome, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.soak import SoakSetting
from dutlab.stats.events import LossEvent, longest_clean, loss_events, with_late
from dutlab.stats.rescore import RampSecond
from dutlab.stats.series import Piece, between, mean_rate, pieces
from dutlab.units import Pps, Seconds, line_rate, si

MOST_PIECES = 600
GUESSED_THRESHOLD = 0.001
"""Least loss ratio that counts if losses follow from rates: a smaller one may come from counters read at two instants."""


@dataclass(frozen=True)
class Course:
    """Readings of one link under load."""

    seconds: tuple[RampSecond, ...]
    latency: tuple[Piece, ...]
    counted: bool
    """True if losses were counted; False if they follow from rates."""
    lost_by: tuple[float, int] | None = None
    """Time of the last reading in seconds from the first frame, and the frames known to be lost by then, if reported."""


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Offer the rate once.

    Raises InputError, ToolFailed, HostError; MeasurementError if nothing was sent, or nothing was read during it.
    """
    setting = cell.setting_as(SoakSetting)
    offer = offer_of(bench, cell.links, setting)
    if setting.target_loss_percent is not None:
        return await critical_rate.measure(bench, cell, offer, setting.target_loss_percent / 100)
    outcome = await bench.generator.offer(offer)
    flows = {f.link: f for f in outcome.flows if f.sent_frames}
    if idle := [link for link in cell.links if link not in flows]:
        raise MeasurementError(f"the generator sent nothing on link {' and '.join(idle)}")
    courses = {link: course_of(outcome, link) for link in cell.links}
    if blind := [link for link, course in courses.items() if not course.seconds]:
        raise MeasurementError(f"no counters of {' and '.join(blind)} were read while it was sent: loss cannot be placed in time")
    asked = setting.threshold_percent / 100
    limits = {link: asked if course.counted else max(asked, GUESSED_THRESHOLD) for link, course in courses.items()}
    events = {link: events_of(offer, flows[link], course, limits[link]) for link, course in courses.items()}
    return Measured(
        figures={link: figures_of(offer, flows[link], courses[link], events[link]) for link in cell.links},
        flows=tuple(flows[link] for link in cell.links),
        doubts=(*outcome.doubts, *(d for link in cell.links for d in (*doubts_of(offer, flows[link]), *negative_loss(flows[link])))),
        raw=outcome.raw,
        facts=outcome.facts,
        notes=[
            f"link {link}: a second has lost frames above {limit:.3%}, by rates: the generator counts no losses meanwhile"
            for link, limit in limits.items()
            if not courses[link].counted
        ],
        readings=outcome.readings,
        tables={
            "events": [_event_row(link, event) for link, of in events.items() for event in of],
            "course": [row for link, course in courses.items() for row in _course_rows(link, course, offer.duration)],
        },
    )


def offer_of(bench: Bench, links: tuple[str, ...], setting: SoakSetting) -> Offer:
    """Return the load: `rate_pps` times `share_percent`. Raises InputError for a rate above the speed of a link."""
    mix, rate = setting.frame_size, Pps(setting.rate_pps * setting.share_percent / 100)
    for link in links:
        speed = bench.speeds.get(link)
        if speed is not None and rate > line_rate(speed, mix.mean) * (1 + 1e-9):
            most = si(line_rate(speed, mix.mean), "pps", 4)
            raise InputError(f"{si(rate, 'pps', 4)} is more than link {link} carries, {most}", remedy="lower the rate or the share")
    return Offer(
        links=links,
        mix=mix,
        rate=rate,
        duration=setting.duration_s,
        warmup=setting.warmup_s,
        drain=setting.drain_s,
    ).carrying(setting.traffic)


def course_of(outcome: Outcome, link: str) -> Course:
    """Return the readings of the seconds in which both ends were read, from the first frame on."""
    by_name: dict[str, list[tuple[float, float]]] = {}
    for reading in outcome.readings:
        if reading.link == link:
            by_name.setdefault(reading.name, []).append((reading.at_s, reading.value))
    sent = by_name.get("offered_pps", [])
    began = outcome.began_s if outcome.began_s is not None else min((at for at, _ in sent), default=0.0) - 1.0
    of = {name: pieces([(at - began, value) for at, value in points], 0.0) for name, points in by_name.items()}
    seconds = []
    # Losses are counted between two readings of the receiver. With the sender's readings, one loss would fall into two seconds.
    for piece in of.get("lost_pps") or of.get("offered_pps", ()):
        offered_pps, received_pps = (mean_rate(of.get(name, ()), piece.from_s, piece.to_s) for name in ("offered_pps", "received_pps"))
        if offered_pps is None or received_pps is None:
            continue
        refused = mean_rate(of.get("backpressure_pps", ()), piece.from_s, piece.to_s) or 0.0
        lost = None if refused else mean_rate(of.get("lost_pps", ()), piece.from_s, piece.to_s)
        seconds.append(RampSecond(piece.to_s, offered_pps, received_pps, lost, refused))
    known = outcome.lost_by.get(link)
    lost_by = None if known is None else (known.at_s - began, known.frames)
    return Course(tuple(seconds), of.get("latency_mean_ns", ()), counted=bool(of.get("lost_pps")), lost_by=lost_by)


def events_of(offer: Offer, flow: Flow, course: Course, threshold: float) -> tuple[LossEvent, ...]:
    """Return every event of one link. Frames not known to be lost at the last reading were lost between it and the end of the drain."""
    events = loss_events(course.seconds, threshold)
    if course.lost_by is None:
        return events
    at_s, known = course.lost_by
    late = LossEvent(at_s, max(at_s, flow.sent_seconds) + offer.drain, failed_frames(flow) - known)
    offered = made_frames(flow) / flow.sent_seconds * max(flow.sent_seconds - at_s, 0.0)
    return with_late(events, late) if late.lost_frames > max(threshold * offered, 0.0) else events


def figures_of(offer: Offer, flow: Flow, course: Course, events: Sequence[LossEvent]) -> dict[str, float]:
    """Return the figures of one link."""
    figures = {
        "intended_pps": float(offer.rate or 0.0),
        "offered_pps": flow.sent_frames / flow.sent_seconds,
        "received_pps": flow.received_frames / flow.sent_seconds,
        "loss_ratio": failed_frames(flow) / made_frames(flow),
        "loss_events": float(len(events)),
        "longest_clean_s": longest_clean(events, course.seconds[-1].at_s),
    }
    if flow.latency is not None and flow.latency.count:
        figures |= {"latency_p50_ns": flow.latency.p50_ns, "latency_p999_ns": flow.latency.p999_ns}
    tenth = offer.duration / 10
    spans = {"latency_first_ns": (0.0, tenth), "latency_last_ns": (offer.duration - tenth, float(offer.duration))}
    return figures | {name: mean for name, span in spans.items() if (mean := _mean(course.latency, *span)) is not None}


def _mean(of: Sequence[Piece], from_s: float, to_s: float) -> float | None:
    """Return the mean of the values in a span, weighted by their duration."""
    inside = [(min(p.to_s, to_s) - max(p.from_s, from_s), p.rate) for p in between(of, from_s, to_s)]
    total = sum(seconds for seconds, _ in inside)
    return sum(seconds * value for seconds, value in inside) / total if total > 0 else None


def _event_row(link: str, event: LossEvent) -> Row:
    return {"link": link, "at_s": round(event.from_s, 3), "lasted_s": round(event.lasted_s, 3), "lost_frames": round(event.lost_frames)}


def _course_rows(link: str, course: Course, duration: Seconds) -> list[Row]:
    """Return the trial in at most MOST_PIECES pieces of whole seconds."""
    each = max(1, -(-int(duration) // MOST_PIECES))
    rows: list[Row] = []
    for first in range(0, len(course.seconds), each):
        of = course.seconds[first : first + each]
        offered = sum(s.offered_pps + s.refused_pps for s in of)
        rows.append({
            "link": link,
            "at_s": round(of[-1].at_s, 3),
            "offered_pps": sum(s.offered_pps for s in of) / len(of),
            "received_pps": sum(s.received_pps for s in of) / len(of),
            "loss_ratio": sum(s.loss_ratio * (s.offered_pps + s.refused_pps) for s in of) / offered if offered else 0.0,
            "latency_mean_ns": _mean(course.latency, of[0].at_s - 1.0, of[-1].at_s),
        })  # fmt: skip
    return rows
