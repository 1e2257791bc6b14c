"""Method `multi-stream`: several streams on each link at once, or one after another, each with a separate account.

Figures of a link, for each stream by its name, over the whole trial:

    NAME/offered_pps, NAME/received_pps      rate sent by the generator, and rate received from the DUT
    NAME/loss_ratio                          of the frames sent (RFC 1242 section 3.6)
    NAME/latency_p50_ns, NAME/latency_p99_ns of the frames that arrived, if the clocks allow it

A stream that sent nothing before the trial ended has a note instead of figures. The flow of a stream is called `a:NAME`.
"""

from __future__ import annotations

from dataclasses import replace

from dutlab.errors import MeasurementError
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, doubts_of_length
from dutlab.methods.ports import Bench, Measured, Offer, OfferedChain, OfferedStream, flow_of_stream
from dutlab.methods.sweep import rate_of
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.multi_stream import MultiStreamSetting
from dutlab.subject import of_part
from dutlab.units import Pps


def offer_of(bench: Bench, links: tuple[str, ...], setting: MultiStreamSetting) -> Offer:
    """Return the load of the setting. Raises InputError for a share of an unknown speed."""
    streams = tuple(
        OfferedStream(s.name, s.frame_size, rate_of(links, s.rate, s.frame_size, bench.speeds), s.frames, s.traffic)
        for s in setting.streams
    )
    chains = tuple(OfferedChain(tuple((step.stream, step.gap) for step in chain.steps), chain.rounds) for chain in setting.chains)
    return Offer(links, streams[0].mix, None, setting.duration_s, drain=setting.drain_s, streams=streams, chains=chains)


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Send all streams once. Raises InputError, ToolFailed, HostError; MeasurementError if a link sent nothing."""
    offer = offer_of(bench, cell.links, cell.setting_as(MultiStreamSetting))
    outcome = await bench.generator.offer(offer)
    by_name = {flow.link: flow for flow in outcome.flows}
    flows = {(link, s): by_name[flow_of_stream(link, s.name)] for link in cell.links for s in offer.streams}
    if idle := [link for link in cell.links if not any(flows[link, s].sent_frames for s in offer.streams)]:
        raise MeasurementError(f"the generator sent nothing on link {' and '.join(idle)}")
    figures = {
        link: {name: value for s in offer.streams for name, value in _figures(s.name, flows[link, s]).items()} for link in cell.links
    }
    chained = {name for chain in offer.chains for name, _ in chain.steps}
    doubts = [
        # A chain's streams pause while others are sent, so their mean rate differs from the asked one.
        doubt
        for (_, s), flow in flows.items()
        for doubt in doubts_of(replace(offer, rate=None if s.name in chained or not flow.sent_frames else s.rate), flow)
    ]
    return Measured(
        figures=figures,
        flows=tuple(flows.values()),
        doubts=(*outcome.doubts, *doubts, *doubts_of_length(offer)),
        raw=outcome.raw,
        facts=outcome.facts,
        notes=[
            f"link {link}: nothing of stream {s.name} was sent before the trial ended"
            for (link, s), f in flows.items()
            if not f.sent_frames
        ],
        readings=outcome.readings,
    )


def _figures(name: str, flow: Flow) -> dict[str, float]:
    if not flow.sent_frames:
        return {}
    figures = {"loss_ratio": flow.loss_ratio}
    if flow.sent_seconds > 0:
        figures |= {
            "offered_pps": Pps(flow.sent_frames / flow.sent_seconds),
            "received_pps": Pps(flow.received_frames / flow.sent_seconds),
        }
    if flow.latency is not None and flow.latency.count:
        figures |= {"latency_p50_ns": flow.latency.p50_ns, "latency_p99_ns": flow.latency.p99_ns}
    return of_part(name, figures)
