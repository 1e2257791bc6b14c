"""Checks of a trial's account of frames for contradictions, for any generator."""

from __future__ import annotations

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Offer
from dutlab.units import si

RATE_TOLERANCE = 0.005
"""Missing share of the asked rate above which the trial had another rate than asked."""
DUPLICATES_SHARE = 0.001
"""Share of the sent frames above which duplicates are not a single accident."""
HELD_BACK_MARGIN = 2.0
"""Factor on the rate taken at full speed, because a DUT that must refuse frames takes fewer than it could."""
RFC2544_TRIAL_S = 60.0  # RFC 2544 section 24


def made_frames(flow: Flow) -> int:
    """Return the frames that the generator made in time: sent, or not taken by the next port.

    It did not make the rest of the asked ones.
    """
    return flow.sent_frames + flow.backpressure_frames


def failed_frames(flow: Flow) -> int:
    """Return the frames that the DUT did not forward: lost on the way, or not taken by its port."""
    return flow.lost_frames + flow.backpressure_frames


def starved(offer: Offer, flow: Flow) -> str:
    """Return the asked and the made load if the generator made less than RATE_TOLERANCE allows; else an empty string.

    Such a trial had another rate, or a shorter burst, than was asked for. It must not give a figure for the asked rate.
    """
    frames = made_frames(flow)
    if offer.rate is not None and flow.sent_seconds > 0:
        reached = frames / flow.sent_seconds
        return f"asked {si(offer.rate, 'pps')}, made {si(reached, 'pps')}" if reached < offer.rate * (1 - RATE_TOLERANCE) else ""
    if offer.profile and frames < flow.intended_frames * (1 - RATE_TOLERANCE):
        return f"asked {flow.intended_frames} frames, made {frames}"
    return ""


def doubts_of(offer: Offer, flow: Flow) -> list[Doubt]:
    """Return the doubts about one flow: an open ledger, a rate that was not reached, duplicates, foreign frames."""
    doubts = []
    if not flow.balances:
        numbers = (
            f"asked {flow.intended_frames} = sent {flow.sent_frames} + refused {flow.refused_frames}? "
            f"sent {flow.sent_frames} + duplicated {flow.duplicated_frames} = received {flow.received_frames} + lost {flow.lost_frames}?"
            f"{' frames arrived that were not sent' if flow.arrived_beyond_sent else ''}"
        )
        doubts.append(Doubt(DoubtKind.LEDGER_OPEN, numbers, flow.link))
    if short := starved(offer, flow):
        doubts.append(Doubt(DoubtKind.TX_STARVED, short, flow.link))
    if flow.duplicated_frames > DUPLICATES_SHARE * flow.sent_frames:
        doubts.append(Doubt(DoubtKind.DUPLICATES, f"{flow.duplicated_frames} copies of {flow.sent_frames} frames", flow.link))
    if flow.foreign_frames:
        doubts.append(Doubt(DoubtKind.FOREIGN_FRAMES, f"{flow.foreign_frames} frames", flow.link))
    return doubts


def doubts_of_length(offer: Offer) -> list[Doubt]:
    """Return a SHORT_TRIAL doubt for less than the 60 s of RFC 2544 section 24."""
    return [Doubt(DoubtKind.SHORT_TRIAL, f"{offer.duration:g} s")] if offer.duration < RFC2544_TRIAL_S else []


def negative_loss(flow: Flow) -> list[Doubt]:
    """Return a NEGATIVE_LOSS doubt if more frames arrived than were sent: counters were read while frames were on their way."""
    if flow.lost_frames >= 0:
        return []
    return [Doubt(DoubtKind.NEGATIVE_LOSS, f"sent {flow.sent_frames}, received {flow.received_frames}", flow.link)]
