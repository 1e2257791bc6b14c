"""Method `latency`: one-way latency over the whole load axis, in shares of one rate, with all histograms.

The rate is given, or found first by a short search for rates without loss. Each share of it is one trial. A share of 0 means a rate so low
that frames never wait for one another. Figures of a link, by share (`90%` is that of the rate):

    reference_pps                            the rate that shares are of
    90%/tl_ns, 90%/wcl_ns                    typical and worst-case latency: median and 99.9th percentile (RFC 8219 section 7.2)
    90%/pdv_ns                               packet delay variation: 99.9th percentile less the least (RFC 8219 section 7.3.1)
    90%/loss_ratio                           lost, or not taken by the DUT
    knee_percent                             the share after which the typical latency rises steeply, from its least; absent without a rise

A share that the generator did not make has no figures: its row in the table shows the sent rate.

The record's table `points` has a row a link and share; `latency-histograms.json` has the buckets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.doubts import Doubt
from dutlab.errors import MeasurementError
from dutlab.methods.carrying import carrying
from dutlab.methods.flow import Flow, Latency, TimedFlow
from dutlab.methods.ledger import doubts_of, doubts_of_length, failed_frames, made_frames, negative_loss, starved
from dutlab.methods.ports import Bench, Measured, Offer, Outcome, Row
from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.plan.cell import Cell
from dutlab.spec.goals import PRESETS
from dutlab.spec.mixes import Mix
from dutlab.spec.workloads.latency import LatencySetting
from dutlab.stats.series import knee
from dutlab.subject import of_part, part_figure, share_part
from dutlab.units import Pps, line_rate, si


@dataclass(frozen=True)
class Reference:
    """Rate of each link that shares are of, and its source."""

    rate: Pps
    source: str


@dataclass(frozen=True)
class LatencyPoint:
    """One share: its load and the outcome."""

    percent: float
    offer: Offer
    outcome: Outcome

    def flow(self, link: str) -> Flow:
        """Return the flow of a link. Raises MeasurementError if nothing was sent on it."""
        of_link = next((f for f in self.outcome.flows if f.link == link and f.sent_frames), None)
        if of_link is None:
            raise MeasurementError(f"the generator sent nothing on link {link} at {self.percent:g} % of the rate")
        return of_link


async def reference_of(bench: Bench, links: tuple[str, ...], setting: LatencySetting) -> tuple[Reference, tuple[Doubt, ...]]:
    """Return `rate_pps`, or the result of a short search. Raises MeasurementError if it finds no rate without loss."""
    if setting.rate_pps is not None:
        return Reference(setting.rate_pps, "as given"), ()
    speeds = [bps for link in links if (bps := bench.speeds.get(link)) is not None]
    highest = line_rate(min(speeds), setting.frame_size.mean) if speeds else None
    goal = next(goal for goal in PRESETS["quick"] if goal.loss_ratio == 0)
    result = await find(bench.generator, Search(links, setting.frame_size, (goal,), highest), bench.tell)
    lower = result.results[goal.name].lower_pps
    if lower is None:
        raise MeasurementError(f"no rate without loss was found to take shares of: {'; '.join(result.notes)}")
    source = f"found by {len(result.trials)} trials of a quick search without loss"
    return Reference(lower, "; ".join((source, *result.notes))), ()


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Run one trial a share.

    Raises InputError, ToolFailed, HostError; MeasurementError if nothing was sent, or no latency is known at all.
    """
    setting = cell.setting_as(LatencySetting)
    bench = carrying(bench, setting.traffic)
    reference, doubts = await reference_of(bench, cell.links, setting)
    points, notes = [], [f"the rate is {si(reference.rate, 'pps', 4)} a link, {reference.source}"]
    for percent in setting.shares_percent:
        rate = Pps(reference.rate * percent / 100) if percent else min(setting.idle_pps, reference.rate)
        if above := _above_line(bench, cell, setting.frame_size, rate):
            notes.append(f"{percent:g} % was left out: it is more than link {above} carries")
            continue
        offer = _offer(cell.links, setting, rate)
        points.append(LatencyPoint(percent, offer, await bench.generator.offer(offer)))
    if not any(f.latency is not None for p in points for f in p.outcome.flows):
        raise MeasurementError("no latency is known: the clocks of sender and receiver may differ")
    figures = {link: _figures(points, link, reference) for link in cell.links}
    notes += [
        f"link {link}: there are no figures at {p.percent:g} %, which the generator did not make: {short}"
        for p in points
        for link in cell.links
        if (short := starved(p.offer, p.flow(link)))
    ]
    flows = [(p, p.flow(link)) for p in points for link in cell.links]
    trial_doubts = [d for p in points for d in p.outcome.doubts] + [
        d for p, f in flows for d in (*doubts_of(p.offer, f), *negative_loss(f))
    ]
    return Measured(
        figures=figures,
        flows=tuple(f for _, f in flows),
        doubts=tuple(dict.fromkeys((*doubts, *trial_doubts, *(d for p in points[:1] for d in doubts_of_length(p.offer))))),
        raw={f"at-{p.percent:g}-{name}": data for p in points for name, data in p.outcome.raw.items()}
        | {"latency-histograms.json": _buckets(points)},
        facts=points[0].outcome.facts,
        notes=notes,
        tables={"points": [_row(p, link) for p in points for link in cell.links]},
    )


def _offer(links: tuple[str, ...], setting: LatencySetting, rate: Pps) -> Offer:
    return Offer(
        links=links,
        mix=setting.frame_size,
        rate=rate,
        duration=setting.duration_s,
        warmup=setting.warmup_s,
        drain=setting.drain_s,
    )


def _above_line(bench: Bench, cell: Cell, mix: Mix, rate: Pps) -> str:
    """Return the link that cannot carry `rate`, or an empty string."""
    known = ((link, bench.speeds.get(link)) for link in cell.links)
    return next((link for link, bps in known if bps is not None and rate > line_rate(bps, mix.mean) * (1 + 1e-9)), "")


def _loss(flow: Flow) -> float:
    return failed_frames(flow) / made_frames(flow) if made_frames(flow) else 0.0


def _pdv(latency: Latency) -> int:
    return latency.pdv_p999_ns if latency.pdv_p999_ns is not None else latency.p999_ns - latency.min_ns


def _figures(points: Sequence[LatencyPoint], link: str, reference: Reference) -> dict[str, float]:
    figures: dict[str, float] = {"reference_pps": reference.rate}
    typical = []
    for point in points:
        flow = point.flow(link)
        at = share_part(point.percent)
        if starved(point.offer, flow):
            continue
        figures[part_figure(at, "loss_ratio")] = _loss(flow)
        if (latency := flow.latency) is not None and latency.count:
            figures |= of_part(at, {"tl_ns": latency.p50_ns, "wcl_ns": latency.p999_ns, "pdv_ns": _pdv(latency)})
            typical.append((point.percent, float(latency.p50_ns)))
    bend = knee(typical)
    return figures if bend is None else figures | {"knee_percent": bend}


def _row(point: LatencyPoint, link: str) -> Row:
    flow = point.flow(link)
    row: dict[str, float | str | None] = {
        "link": link,
        "load_percent": point.percent,
        "intended_pps": point.offer.rate,
        "offered_pps": flow.sent_frames / flow.sent_seconds if flow.sent_seconds else None,
        "received_pps": flow.received_frames / flow.sent_seconds if flow.sent_seconds else None,
        "loss_ratio": _loss(flow),
    }
    latency = flow.latency
    names = ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "mean_ns")
    return row | {f"latency_{n}": None if latency is None else getattr(latency, n) for n in names} | {
        "pdv_p999_ns": None if latency is None else _pdv(latency)
    }  # fmt: skip


def _buckets(points: Sequence[LatencyPoint]) -> bytes:
    """Return the histograms as JSON: link → share in percent → [upper end of the bucket in ns, frames in it]."""
    links = dict.fromkeys(f.link for p in points for f in p.outcome.flows)
    by_link = {
        link: {
            f"{p.percent:g}": [list(b) for b in f.latency_histogram]
            for p in points
            for f in p.outcome.flows
            if f.link == link and f.latency and isinstance(f, TimedFlow)
        }
        for link in links
    }
    return json.dumps(by_link, separators=(",", ":")).encode() + b"\n"
