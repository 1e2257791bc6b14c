"""Method `quick-test`: the rates without loss and with a small loss by one short search, then the latency at half the former.

Figures of a link: those of the search (ndr/lower_pps, …), and of the trial at half load

    half/load_pps                            the intended rate: half of the NDR's lower bound
    half/received_pps, half/loss_ratio
    half/latency_min_ns, _p50_ns, _p99_ns, _p999_ns, _max_ns   absent if no latency is known

Without a rate that loses nothing there is no half load, and a note reports it.
"""

from __future__ import annotations

from dataclasses import replace

from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, failed_frames, made_frames, negative_loss, starved
from dutlab.methods.ports import Bench, Measured, Offer
from dutlab.methods.search import method as search
from dutlab.methods.search.request import search_of
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.quick_test import QuickTestSetting
from dutlab.subject import of_part
from dutlab.units import Pps

HALF = 0.5
GOAL = "ndr"
_LATENCIES = ("min_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns")


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Run one trial. Raises the errors of methods.search, and ToolFailed."""
    setting = cell.setting_as(QuickTestSetting)
    measured = await search.searched(
        bench,
        search_of(
            cell.links,
            setting.frame_size,
            setting.goals,
            bench.speeds,
            warmup=setting.warmup_s,
            drain=setting.drain_s,
            budget=setting.budget_s,
        ),
    )
    notes = [*measured.notes, *_of_scale(setting.scale)]
    result = measured.search.results.get(GOAL) if measured.search is not None else None
    if result is None or result.lower_pps is None:
        return replace(measured, notes=[*notes, "no latency at half load: no rate without loss was found to take half of"])
    offer = Offer(
        links=cell.links,
        mix=setting.frame_size,
        rate=Pps(result.lower_pps * HALF),
        duration=setting.latency_s,
        warmup=setting.warmup_s,
        drain=setting.drain_s,
    )
    outcome = await bench.generator.offer(offer)
    flow_doubts = [d for flow in outcome.flows for d in (*doubts_of(offer, flow), *negative_loss(flow))]
    figures = {link: {**of, **_half(offer, link, outcome.flows)} for link, of in measured.figures.items()}
    return replace(
        measured,
        figures=figures,
        flows=outcome.flows,
        doubts=tuple(dict.fromkeys((*measured.doubts, *outcome.doubts, *flow_doubts))),
        raw={**measured.raw, **{f"half-load-{name}": data for name, data in outcome.raw.items()}},
        facts={**measured.facts, **outcome.facts},
        notes=notes,
        readings=outcome.readings,
    )


def _of_scale(scale: float) -> list[str]:
    return (
        [] if scale == 1.0 else [f"every duration is {scale:g} of what a quick test takes: too short to trust, long enough to try it out"]
    )


def _half(offer: Offer, link: str, flows: tuple[Flow, ...]) -> dict[str, float]:
    """Return the figures of one link at half load; none for a sum of links, or for a load that the generator did not make."""
    flow = next((f for f in flows if f.link == link and f.sent_seconds > 0), None)
    if flow is None or offer.rate is None or starved(offer, flow):
        return {}
    frames = made_frames(flow)
    figures = {
        "load_pps": float(offer.rate),
        "received_pps": flow.received_frames / flow.sent_seconds,
        "loss_ratio": failed_frames(flow) / frames if frames else 0.0,
    }
    if flow.latency is not None and flow.latency.count:
        figures |= {f"latency_{name}": float(getattr(flow.latency, name)) for name in _LATENCIES}
    return of_part("half", figures)
