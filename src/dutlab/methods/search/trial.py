"""One trial of a search: its load, its outcome, and the effect on the search."""

from __future__ import annotations

import enum
import math
from dataclasses import asdict, dataclass

from dutlab.methods.early_stop import most_frames
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import failed_frames, made_frames
from dutlab.methods.ports import Offer, Outcome, Row
from dutlab.methods.search.mlrsearch import LoadOutcome, NextTrial
from dutlab.stats.rescore import NO, YES, TrialPoint

NEXT_TO_NOTHING = 0.001
"""Share of received frames below which a trial counts as silent: frames on their way when a DUT failed, or stray ones."""


class Role(enum.Enum):
    """Purpose of a trial."""

    SEARCH = "search"
    REACH = "reach"
    """Trial at full speed, to find the highest rate."""
    CONTROL = "control"
    """Trial at a rate that passed before, to check that the DUT still forwards."""
    AGAIN = "again"
    """Trial at a bound after the search, to check the bound."""


class Mark(enum.Enum):
    """Warning about a trial. Read it before you use the trial's numbers."""

    STARVED = "the generator did not reach the rate"
    CONTRADICTORY = "the counters contradict one another"
    SILENT = "next to nothing came back on a link"
    REPEATED = "offered once more because the trial before it had no result"
    NO_ACCOUNT = "the generator gave no account"
    DISTURBED = "other work on the testbed disturbed it, or a link went down, so it was offered again"
    IDLE = "the generator sent nothing on a link"


@dataclass(frozen=True)
class SearchTrial:
    """A trial of a search. Rates are in frames a second of each link, frames of all links together, times in seconds.

    Frames that the DUT's port did not take count against the DUT like lost ones; frames that the generator did not make in time do not.
    """

    number: int
    """Number from 1, in the order of the search."""
    role: Role
    load_pps: float
    """Asked load; for a trial at full speed, the reached one."""
    duration_s: float
    """Asked duration."""
    sent_s: float
    """Duration of sending; for several links the longest."""
    made_pps: float
    """Rate made by the generator on the slowest link: sent, or not taken by the next port."""
    intended_frames: int
    """Frames of the whole duration, even if the trial was stopped early."""
    sent_frames: int
    backpressure_frames: int
    """Frames that were not sent because the next port, the DUT's, did not take them."""
    received_frames: int
    lost_frames: int
    allowed_frames: int | None
    """Number of lost or refused frames above which the trial may be stopped."""
    stopped_early_s: float | None
    """Seconds from the first frame until it was stopped; None if it ran to its end."""
    counts: bool
    """True if its result was reported to the search."""
    marks: tuple[Mark, ...] = ()
    detail: str = ""

    @property
    def is_usable(self) -> bool:
        """True if its numbers can be used at all."""
        return not {Mark.CONTRADICTORY, Mark.NO_ACCOUNT, Mark.IDLE, Mark.DISTURBED} & set(self.marks)

    @property
    def made_frames(self) -> int:
        """Frames offered to the DUT: sent, or not taken by its port."""
        return self.sent_frames + self.backpressure_frames

    @property
    def failed_frames(self) -> int:
        """Frames offered to the DUT that it did not forward."""
        return self.lost_frames + self.backpressure_frames

    @property
    def loss_ratio(self) -> float:
        """Failed frames ÷ frames made, up to its end."""
        return self.failed_frames / self.made_frames if self.made_frames else 0.0

    @property
    def saved_s(self) -> float:
        """Seconds that the early stop saved."""
        return 0.0 if self.stopped_early_s is None else max(self.duration_s - self.stopped_early_s, 0.0)

    def load_outcome(self, ask: NextTrial, tolerance: float) -> LoadOutcome:
        """Return the result for the search: for a trial stopped early, only what is certain for its full length (see early_stop)."""
        if self.stopped_early_s is not None:
            frames = most_frames(self.intended_frames, tolerance)
            return LoadOutcome(ask, frames, frames, min(self.failed_frames, frames))
        if Mark.STARVED in self.marks:  # frames that were late count as not made
            in_time = min(self.made_frames, math.floor(self.intended_frames * self.made_pps / self.load_pps))
            return LoadOutcome(ask, self.intended_frames, in_time, min(self.failed_frames, in_time))
        return LoadOutcome(ask, self.made_frames, self.made_frames, min(self.failed_frames, self.made_frames))

    def point(self, tolerance: float) -> TrialPoint:
        """Return the trial for definitions of limits: exact only if it ran to its end at its rate."""
        if self.stopped_early_s is not None or Mark.STARVED in self.marks:
            frames = max(most_frames(self.intended_frames, tolerance), self.made_frames)
            return TrialPoint(self.load_pps, self.duration_s, self.failed_frames / frames, exact=False)
        return TrialPoint(self.load_pps, self.duration_s, self.loss_ratio)

    def row(self, tolerance: float) -> Row:
        """Return the row for the record: every field by its name, and the values that stats.rescore.points_of reads."""
        point = self.point(tolerance)
        plain = asdict(self) | {
            "role": self.role.value,
            "counts": YES if self.counts else NO,
            "marks": "; ".join(mark.value for mark in self.marks),
            "loss_ratio": self.loss_ratio,
        }
        return plain | {"known_loss_ratio": point.loss_ratio, "exact": YES if point.exact else NO}


def trial_of(offer: Offer, outcome: Outcome, *, number: int, role: Role, tolerance: float) -> SearchTrial:
    """Return the outcome of one offer as a trial with its marks."""
    flows, load, allowed = outcome.flows, offer.rate, offer.stop_after_lost
    made_pps = min((made_frames(f) / f.sent_seconds if f.sent_seconds > 0 else 0.0 for f in flows), default=0.0)
    rate = made_pps if load is None else load
    asked = round(rate * offer.duration) * len(offer.links)
    stopped = outcome.stopped_early_s
    faults = [fault for flow in flows for fault in _contradictions(flow)]
    failed = sum(map(failed_frames, flows))
    if stopped is not None and (allowed is None or failed <= allowed):
        faults.append(f"stopped early with {failed} frames lost, but the limit was {'not set' if allowed is None else allowed}")
    frames = sum(map(made_frames, flows))
    if frames > most_frames(asked, tolerance):
        faults.append(f"{asked} frames were asked for and {frames} sent")
    if missing := [link for link in offer.links if link not in {f.link for f in flows}]:
        faults.append(f"the generator gave no account of link {' and '.join(missing)}")
    marks = [Mark.CONTRADICTORY] if faults else []
    if idle := [f.link for f in flows if made_frames(f) <= 0]:
        marks.append(Mark.IDLE)
        faults.append(f"nothing was sent on link {' and '.join(idle)}")
    if load is not None and stopped is None and made_pps < load * (1 - tolerance):
        marks.append(Mark.STARVED)
    if any(0 <= f.received_frames < made_frames(f) * NEXT_TO_NOTHING for f in flows):
        marks.append(Mark.SILENT)
    return SearchTrial(
        number=number,
        role=role,
        load_pps=rate,
        duration_s=float(offer.duration),
        sent_s=max((f.sent_seconds for f in flows), default=0.0),
        made_pps=made_pps,
        intended_frames=asked,
        sent_frames=sum(f.sent_frames for f in flows),
        backpressure_frames=sum(f.backpressure_frames for f in flows),
        received_frames=sum(f.received_frames for f in flows),
        lost_frames=sum(f.lost_frames for f in flows),
        allowed_frames=allowed,
        stopped_early_s=None if stopped is None else float(stopped),
        counts=False,
        marks=tuple(marks),
        detail="; ".join(faults),
    )


def _contradictions(flow: Flow) -> list[str]:
    """Return contradictions among one link's counters."""
    faults = []
    if flow.lost_frames < 0:
        faults.append(f"link {flow.link}: {-flow.lost_frames} more frames came back than were sent")
    elif not flow.balances:
        faults.append(
            f"link {flow.link}: asked {flow.intended_frames}, sent {flow.sent_frames}, refused {flow.refused_frames}, "
            f"duplicated {flow.duplicated_frames}, received {flow.received_frames}, lost {flow.lost_frames} do not add up"
        )
    return faults
