"""Count frames that are certainly lost, during a trial, from the independent counters of both ends.

Frames in flight are not lost, and the two counters are never read at the same instant. Both rules below compare an older reading with a
newer one, and never count too many frames as lost:

- A gap in the received sequence numbers is a lost frame or a reordered frame. It counts as lost if the frame has not arrived `OVERTAKEN_S`
  later. Frames that arrived out of order since then are subtracted, for any gap that they filled.
- If no frames arrive, there are no gaps. But a frame that was sent before a reading, and has not arrived a whole drain later, would also
  count as lost at the end of the trial.

Refused frames that used up a number were not sent, so they are not lost (docs/reference/engine-protocol.md, "Before the end").
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from dutlab.units import Seconds

OVERTAKEN_S = Seconds(0.1)
"""Longest time by which a frame may be overtaken: no network delays one frame longer while later ones pass."""


@dataclass(frozen=True)
class SentSoFar:
    """Counters of the sender, read between `since_s` and `until_s` of the controller's clock."""

    since_s: float
    until_s: float
    at_ns: int
    """Time of the reading by the sender's clock."""
    sent: int
    numbered: int
    """Sequence numbers used; `numbered` - `sent` frames were refused after they had got one."""
    backpressure: int

    @property
    def refused_numbers(self) -> int:
        """Sequence numbers used by refused frames."""
        return self.numbered - self.sent


@dataclass(frozen=True)
class ArrivedSoFar:
    """Counters of the receiver, read between `since_s` and `until_s` of the controller's clock."""

    since_s: float
    until_s: float
    at_ns: int
    unique: int
    """Number of different frames."""
    reordered: int
    """Frames of `unique` that arrived after a frame with a higher number."""
    next_sequence: int
    """One above the highest number."""
    latency_count: int = 0
    latency_sum_ns: int = 0


@dataclass
class LossWatch:
    """Loss count of one stream in one trial. `drain` is the trial's wait for its last frames."""

    drain: Seconds
    lost: int = 0
    """Frames certainly lost so far; never falls."""
    lost_by: ArrivedSoFar | None = None
    """Reading up to which `lost` is complete; later losses are not yet included."""
    backpressure: int = 0
    """Frames so far that the next port did not take, because its ring was full."""
    _sent: deque[SentSoFar] = field(default_factory=deque)
    _arrived: deque[ArrivedSoFar] = field(default_factory=deque)
    """Readings that have not settled yet, because they are newer than OVERTAKEN_S."""
    _gaps: int = 0
    """Sent frames whose numbers were skipped up to `lost_by`, whether they arrived later or not."""

    def see(self, sent: SentSoFar, arrived: ArrivedSoFar) -> None:
        """Add a reading of both ends. Readings must be in time order."""
        self.backpressure = sent.backpressure
        self._sent.append(sent)
        self._arrived.append(arrived)
        self._gaps_until(min(arrived.since_s - OVERTAKEN_S, sent.since_s))
        self.lost = max(self.lost, self._gaps - arrived.reordered, self._silence(arrived))

    def _gaps_until(self, settled_s: float) -> None:
        while self._arrived and self._arrived[0].until_s <= settled_s:
            then = self._arrived.popleft()
            # Two counters that change together may be read one frame apart, so the older `reordered` is the safe value.
            reordered = 0 if self.lost_by is None else self.lost_by.reordered
            refused = next(s.refused_numbers for s in self._sent if s.since_s >= then.until_s)
            self._gaps = max(self._gaps, then.next_sequence - then.unique + reordered - refused)
            self.lost_by = then

    def _silence(self, arrived: ArrivedSoFar) -> int:
        waited_s = arrived.since_s - max(self.drain, OVERTAKEN_S)
        while len(self._sent) > 1 and self._sent[1].until_s <= waited_s:
            self._sent.popleft()
        if self._sent[0].until_s > waited_s:
            return 0
        return self._sent[0].numbered - self._sent[-1].refused_numbers - arrived.unique
