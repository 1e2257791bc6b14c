"""What a trial's account of frames says against itself, whichever generator kept it."""

from __future__ import annotations

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Flow, Offer
from dutlab.units import si

RATE_TOLERANCE = 0.005
"""Share of the asked rate that may be missing before the trial is one at another rate."""
RFC2544_TRIAL_S = 60.0  # RFC 2544 section 24


def doubts_of(offer: Offer, flow: Flow) -> list[Doubt]:
    """Doubts about one link's flow: an open ledger, a rate that was not reached, frames of strangers."""
    doubts = []
    if not flow.balances:
        numbers = (
            f"asked {flow.asked_frames} = sent {flow.sent_frames} + refused {flow.refused_frames}? "
            f"sent {flow.sent_frames} + duplicated {flow.duplicated_frames} = received {flow.received_frames} + lost {flow.lost_frames}?"
        )
        doubts.append(Doubt(DoubtKind.LEDGER_OPEN, numbers, flow.link))
    if offer.rate is not None and flow.sent_seconds > 0:
        reached = flow.sent_frames / flow.sent_seconds
        if reached < offer.rate * (1 - RATE_TOLERANCE):
            doubts.append(Doubt(DoubtKind.TX_STARVED, f"asked {si(offer.rate, 'pps')}, sent {si(reached, 'pps')}", flow.link))
    elif offer.profile and (late := flow.refused_frames - flow.refused_by_peer_frames) > flow.asked_frames * RATE_TOLERANCE:
        # A ramp goes on until the DUT takes no more: what its port refused is the answer, not a fault of the generator.
        doubts.append(Doubt(DoubtKind.TX_STARVED, f"{late} of {flow.asked_frames} frames were not made in time", flow.link))
    if flow.foreign_frames:
        doubts.append(Doubt(DoubtKind.FOREIGN_FRAMES, f"{flow.foreign_frames} frames", flow.link))
    return doubts


def doubts_of_length(offer: Offer) -> list[Doubt]:
    """SHORT_TRIAL below the 60 s of RFC 2544 section 24."""
    return [Doubt(DoubtKind.SHORT_TRIAL, f"{offer.duration:g} s")] if offer.duration < RFC2544_TRIAL_S else []


def negative_loss(flow: Flow) -> list[Doubt]:
    """NEGATIVE_LOSS when more frames arrived than had been sent: counters were read while frames were on their way."""
    if flow.lost_frames >= 0:
        return []
    return [Doubt(DoubtKind.NEGATIVE_LOSS, f"sent {flow.sent_frames}, received {flow.received_frames}", flow.link)]
