"""One more offer of the load at the limit that a method found, for observers such as profilers. It changes no figure.

Columns of a row: `offered_pps`, `received_pps` of all flows together; `loss_ratio`, frames that the next port did not take included;
`latency_p50_ns` and `latency_p99_ns` of the slowest flow, if frames have times; `disturbed`: the effect of other work, if it took too much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dutlab.errors import MeasurementError
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import failed_frames, made_frames, starved
from dutlab.methods.ports import AtLimit, Generator, LimitTrial, Offer, Row


def frames_at_limit(generator: Generator, offer: Offer) -> AtLimit:
    """Return a function that offers `offer` to its end, however much is lost."""

    async def once_more() -> LimitTrial:
        outcome = await generator.offer(whole := replace(offer, stop_after_lost=None))
        if short := [words for flow in outcome.flows if (words := starved(whole, flow))]:
            raise MeasurementError(f"the generator did not make the load: {'; '.join(short)}", raw=dict(outcome.raw))
        return LimitTrial({**_row(outcome.flows), "disturbed": outcome.disturbed}, outcome.raw)

    return once_more


def _row(flows: Sequence[Flow]) -> Row:
    frames = sum(map(made_frames, flows))
    row: dict[str, float | str | None] = {
        "offered_pps": sum(f.sent_frames / f.sent_seconds for f in flows if f.sent_seconds > 0),
        "received_pps": sum(f.received_frames / f.sent_seconds for f in flows if f.sent_seconds > 0),
        "loss_ratio": sum(map(failed_frames, flows)) / frames if frames else None,
    }
    if times := [flow.latency for flow in flows if flow.latency is not None]:
        row |= {"latency_p50_ns": float(max(t.p50_ns for t in times)), "latency_p99_ns": float(max(t.p99_ns for t in times))}
    return row
