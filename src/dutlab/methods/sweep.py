"""Method `sweep`: one frame size (or mix) at one rate through the DUT, at full speed or as asked.

Figures of a link, all over the time of sending:

    offered_pps, offered_bps_l1                    rate sent by the generator
    received_pps, received_bps_l1, _l2       rate received from the DUT (the forwarding rate of RFC 2285 section 3.6.1)
    intended_pps                                only if a rate was asked for
    refused_ratio                            share of the generator's frames that were not taken: at full speed, how much more it could
                                             have sent (a port that is held back by the next one refuses frames)
    loss_ratio                               of the frames sent (RFC 1242 section 3.6)
    latency_min_ns … latency_max_ns          of the frames that arrived, if the clocks allow it
    pdv_p999_ns, ipdv_p99_ns                 variation of the latency (RFC 5481), if the back end measures it

Frames that arrive during the drain count as received: they were sent in the trial. In an overload this adds the frames that the DUT had
buffered. Several links at once have these figures for each and, under `a+b`, for all: the sum of rates, the loss of all frames together,
and only the worst latency, because percentiles of different links do not add. Both directions of link a at once have `a`, `a.back` and
`a+a.back`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dutlab.errors import InputError, MeasurementError
from dutlab.methods.flow import Flow, Latency
from dutlab.methods.ledger import doubts_of, doubts_of_length
from dutlab.methods.ports import Bench, Generator, Measured, Offer
from dutlab.plan.cell import Cell
from dutlab.spec.mixes import Mix
from dutlab.spec.rates import Rate
from dutlab.spec.workloads.setting import LoadSetting
from dutlab.subject import joined
from dutlab.units import ETH_L1_OVERHEAD_BYTES, BpsL1, Pps, l1_rate

_ADDS = ("intended_pps", "offered_pps", "offered_bps_l1", "received_pps", "received_bps_l1", "received_bps_l2")


def offer_of(links: tuple[str, ...], setting: LoadSetting, speeds: Mapping[str, BpsL1 | None]) -> Offer:
    """Return the load of `setting`; `speeds` are those of the links. Raises InputError for a share of an unknown speed."""
    offer = Offer(
        links=links,
        mix=setting.frame_size,
        rate=rate_of(links, setting.rate, setting.frame_size, speeds),
        directions=setting.directions,
        duration=setting.duration_s,
        warmup=setting.warmup_s,
        drain=setting.drain_s,
    )
    return offer.carrying(setting.traffic)


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Offer the cell's load once. Raises InputError, ToolFailed, HostError; MeasurementError if a link sent nothing."""
    return await offered(bench.generator, offer_of(cell.links, cell.setting_as(LoadSetting), bench.speeds))


async def offered(generator: Generator, offer: Offer) -> Measured:
    """Measure any offer."""
    outcome = await generator.offer(offer)
    by_link = {flow.link: flow for flow in outcome.flows}
    if idle := [
        name for name in offer.flow_names if name not in by_link or by_link[name].sent_frames == 0 or by_link[name].sent_seconds <= 0
    ]:
        raise MeasurementError(f"the generator sent nothing on link {' and '.join(idle)}")
    flows = [by_link[name] for name in offer.flow_names]
    figures = {flow.link: figures_of(offer, flow) for flow in flows}
    if len(flows) > 1:
        figures[joined(offer.flow_names)] = sum_of(figures, flows)
    doubts = (*outcome.doubts, *(d for flow in flows for d in doubts_of(offer, flow)), *doubts_of_length(offer))
    return Measured(figures=figures, flows=tuple(flows), doubts=doubts, raw=outcome.raw, facts=outcome.facts, readings=outcome.readings)


def figures_of(offer: Offer, flow: Flow) -> dict[str, float]:
    """Return one link's figures without unknown ones; none is ever NaN."""
    seconds = flow.sent_seconds
    sent = Pps(flow.sent_frames / seconds)
    figures: dict[str, float] = {} if offer.rate is None else {"intended_pps": offer.rate}
    figures |= {
        "refused_ratio": flow.refused_frames / flow.intended_frames if flow.intended_frames else 0.0,
        "offered_pps": sent,
        "offered_bps_l1": l1_rate(sent, flow.mean_frame_bytes),
        "received_pps": flow.received_frames / seconds,
        "received_bps_l1": (flow.received_bytes + flow.received_frames * ETH_L1_OVERHEAD_BYTES) * 8 / seconds,
        "received_bps_l2": flow.received_bytes * 8 / seconds,
        "loss_ratio": flow.loss_ratio,
    }
    return figures | _latency(flow.latency)


def sum_of(figures: dict[str, dict[str, float]], flows: Sequence[Flow]) -> dict[str, float]:
    """Return the sum of the rates, the loss of all frames together, and the worst latency."""
    total = {name: sum(of_link[name] for of_link in figures.values()) for name in _ADDS if all(name in f for f in figures.values())}
    total["refused_ratio"] = sum(f.refused_frames for f in flows) / max(1, sum(f.intended_frames for f in flows))
    total["loss_ratio"] = sum(f.lost_frames for f in flows) / sum(f.sent_frames for f in flows)
    worst = [of_link["latency_max_ns"] for of_link in figures.values() if "latency_max_ns" in of_link]
    return total | ({"latency_max_ns": max(worst)} if len(worst) == len(figures) else {})


def _latency(latency: Latency | None) -> dict[str, float]:
    if latency is None or latency.count == 0:
        return {}
    return {
        "latency_min_ns": latency.min_ns,
        "latency_mean_ns": latency.mean_ns,
        "latency_p50_ns": latency.p50_ns,
        "latency_p90_ns": latency.p90_ns,
        "latency_p99_ns": latency.p99_ns,
        "latency_p999_ns": latency.p999_ns,
        "latency_max_ns": latency.max_ns,
    } | {name: value for name, value in (("pdv_p999_ns", latency.pdv_p999_ns), ("ipdv_p99_ns", latency.ipdv_p99_ns)) if value is not None}


def rate_of(links: tuple[str, ...], asked: Rate, mix: Mix, speeds: Mapping[str, BpsL1 | None]) -> Pps | None:
    """Return the frames a second on each link; None is full speed. Raises InputError for a share of an unknown speed."""
    if asked is None:
        return None
    rates = {name: asked.pps(mix.mean, speeds.get(name)) for name in links}
    if unknown := [name for name, rate in rates.items() if rate is None]:
        raise InputError(f"{asked} of a speed that is not known: link {unknown[0]}", remedy="write the link's speed in the testbed file")
    if len(set(rates.values())) > 1:
        raise InputError(f"{asked} of links with different speeds: {', '.join(links)}", remedy="drive them in separate sets")
    return next(iter(rates.values()))
