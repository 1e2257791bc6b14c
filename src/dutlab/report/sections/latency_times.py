"""Source of latency timestamps: a card, a kernel or the engine, and the error of the clocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.report.model.groups import Group
from dutlab.report.model.words import latency_text


def words(groups: Sequence[Group]) -> Iterator[str]:
    """Yield a sentence for each source of timestamps; none if no record names one."""
    flows: dict[str, tuple[dict[str, None], int]] = {}
    for record in (r for g in groups for r in g.measured):
        for flow in record.flows:
            links, error_ns = flows.get(flow.timed_by, ({}, 0))
            flows[flow.timed_by] = ({**links, flow.link: None}, max(error_ns, flow.latency_error_ns or 0))
        for row in record.tables.get("latency", ()):
            flows.setdefault(str(row.get("timed_by") or ""), ({}, 0))
    flows.pop("", None)
    for times, (links, error_ns) in flows.items():
        about = f" on {', '.join(links)}" if links and len(flows) > 1 else ""
        within = f", known to within {latency_text(error_ns)}" if error_ns else ""
        yield f"Times of latencies{about}: {times}{within}."
