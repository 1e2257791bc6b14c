"""Where frames got lost, of all trials that lost some: place by place, as shares of what was sent."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import LossRow
from dutlab.stats.summary import median
from dutlab.store.record import FlowRecord


def losses(groups: Sequence[Group]) -> tuple[LossRow, ...]:
    """One row a cell and link whose frames were lost anywhere that counters could tell."""
    rows = []
    for group in groups:
        for link in group.cell.links:
            flows = [f for r in group.measured for f in r.flows if f.link == link and f.sent_frames and f.places]
            places = list(dict.fromkeys(place for f in flows for place in f.places))
            shares = {place: median([_share(f, place) for f in flows]) for place in places}
            if any(shares.values()):
                size = str(group.cell.params.get("frame_size", ""))
                rows.append(LossRow(group.label, group.cell.workload, link, size, shares, tuple(r.trial for r in group.measured)))
    return tuple(rows)


def _share(flow: FlowRecord, place: str) -> float:
    return flow.places.get(place, 0) / flow.sent_frames
