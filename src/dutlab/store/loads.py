"""Account of a trial's load, in the words of RFC 2285: intended (section 3.5.1), offered (3.5.2), held back, delivered and lost.

intended      what was asked for; nothing where it was as fast as the generator can
offered       what left the generator: offered_pps
backpressure  of what the generator made, what the DUT's port did not take
delivered     of what the generator made, what came out of the DUT
lost          of what was offered, what never came out (RFC 2544 section 26.3): nothing may be lost where nearly all was held back
"""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.store.record import FlowRecord, TrialRecord
from dutlab.subject import apart

BACKPRESSURE, DELIVERED = "backpressure_ratio", "delivered_ratio"


def load_of(record: TrialRecord, link: str, figure: str) -> float | None:
    """Return the account of one record; None where it keeps no ledger of these links."""
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
    """Frames that the generator could have sent and the next port did not take.

    At full speed every refused frame is one, also of a back end that does not tell them apart; at a given rate the rest was made too late.
    """
    by_peer = sum(f.backpressure_frames for f in flows)
    return by_peer or (sum(f.refused_frames for f in flows) if at_full_speed else 0)
