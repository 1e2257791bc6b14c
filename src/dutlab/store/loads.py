"""Account of a trial's load, in the words of RFC 2285: intended (section 3.5.1), offered (3.5.2), held back, delivered and lost.

intended      rate that was asked for; absent where the generator sent as fast as it could
offered       rate that left the generator: offered_pps
backpressure  share of the generated frames that the DUT's port did not take
delivered     share of the generated frames that came out of the DUT
lost          share of the offered frames that never came out (RFC 2544 section 26.3); it may be 0 although nearly all were held back
"""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.store.record import FlowRecord, TrialRecord
from dutlab.subject import apart

BACKPRESSURE, DELIVERED = "backpressure_ratio", "delivered_ratio"


def load_of(record: TrialRecord, link: str, figure: str) -> float | None:
    """Return the backpressure or delivered ratio of a record; None where it has no ledger of these links."""
    directions = apart(link)
    flows = [f for f in record.flows if f.link in directions]
    if len(flows) < len(directions):
        return None
    figures = record.figures.get(link, {})
    held_frames = held_back(flows, at_full_speed="offered_pps" in figures and "intended_pps" not in figures)
    sent = sum(f.sent_frames for f in flows)
    if not sent + held_frames:
        return None
    return (held_frames if figure == BACKPRESSURE else sent - sum(f.lost_frames for f in flows)) / (sent + held_frames)


def held_back(flows: Sequence[FlowRecord], *, at_full_speed: bool) -> int:
    """Return the number of frames that the generator could have sent and the next port did not take.

    If the back end has no separate count, this is every refused frame at full speed, and 0 at a given rate, because those frames were late.
    """
    by_peer = sum(f.backpressure_frames for f in flows)
    return by_peer or (sum(f.refused_frames for f in flows) if at_full_speed else 0)
