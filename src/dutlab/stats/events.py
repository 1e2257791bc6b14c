"""Loss events, and the times without loss between them. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.stats.rescore import RampSecond

CONTIGUOUS_S = 1.5
"""Readings closer together than this belong to one event, in seconds. They come about once a second."""


@dataclass(frozen=True)
class LossEvent:
    """Consecutive seconds with a loss above the threshold. `from_s` and `to_s` count from the first frame."""

    from_s: float
    to_s: float
    lost_frames: float
    """Lost or refused frames, from the rates of the seconds."""

    @property
    def lasted_s(self) -> float:
        """Duration of the event in seconds."""
        return self.to_s - self.from_s


def loss_events(seconds: Sequence[RampSecond], threshold: float = 0.0) -> tuple[LossEvent, ...]:
    """Return all loss events in order of time.

    A second ends at its `at_s`. It begins where the previous one ended, or 1 s earlier after a gap.
    """
    out: list[LossEvent] = []
    before = None
    for second in seconds:
        begins = second.at_s - 1.0 if before is None or second.at_s - before > CONTIGUOUS_S else before
        before = second.at_s
        if second.loss_ratio <= threshold:
            continue
        lost = second.loss_ratio * (second.offered_pps + second.refused_pps) * (second.at_s - begins)
        if out and out[-1].to_s == begins:
            begins, lost = out[-1].from_s, lost + out.pop().lost_frames
        out.append(LossEvent(max(begins, 0.0), second.at_s, lost))
    return tuple(out)


def with_late(events: Sequence[LossEvent], late: LossEvent) -> tuple[LossEvent, ...]:
    """Return `events` with the event `late` after the last reading; merge it with an event that lasted up to that reading."""
    if not events or events[-1].to_s < late.from_s:
        return (*events, late)
    last = events[-1]
    return (*events[:-1], LossEvent(last.from_s, late.to_s, last.lost_frames + late.lost_frames))


def longest_clean(events: Sequence[LossEvent], whole_s: float) -> float:
    """Return the longest time without an event, in seconds, of a trial that lasted `whole_s`."""
    starts = [0.0, *(e.to_s for e in events)]
    ends = [*(e.from_s for e in events), whole_s]
    return max((end - start for start, end in zip(starts, ends, strict=True)), default=whole_s)
