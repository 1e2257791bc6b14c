"""Count the frames that are certainly lost in the middle of a trial, from two ends that count independently.

Frames in flight are not lost, and no two counters are read at one instant. Both rules below compare an older reading with a newer one, and
err on the side of too few:

- A gap in the numbers that arrived was a lost frame, or one that others overtook. One that has not come `OVERTAKEN_S` later is lost: what
  came after a later frame since then is taken off, whichever gap it filled.
- Where nothing comes any more there are no gaps. But what was sent before a reading, and has not come a whole drain later, counts as lost
  at the end of a trial too.

Numbers that refused frames used up were not sent, so they are not lost (docs/reference/engine-protocol.md, "Before the end").
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from dutlab.units import Seconds

OVERTAKEN_S = Seconds(0.1)
"""No network holds one frame back for so long and lets those behind it pass."""


@dataclass(frozen=True)
class SentSoFar:
    """Counts of the sender. It counted after the instant `since_s` and before `until_s` of the controller's clock."""

    since_s: float
    until_s: float
    at_ns: int
    """That instant by the sender's clock."""
    sent: int
    numbered: int
    """Sequence numbers used; `numbered` - `sent` frames were refused after they had got one."""
    backpressure: int

    @property
    def refused_numbers(self) -> int:
        """Numbers of frames that were not sent."""
        return self.numbered - self.sent


@dataclass(frozen=True)
class ArrivedSoFar:
    """Frames that the receiver had counted by then."""

    since_s: float
    until_s: float
    at_ns: int
    unique: int
    """Different frames."""
    reordered: int
    """Number of these that came after a frame with a higher number."""
    next_sequence: int
    """One above the highest number."""
    latency_count: int = 0
    latency_sum_ns: int = 0


@dataclass
class LossWatch:
    """One stream in one trial. `drain` is what the trial waits for its last frames."""

    drain: Seconds
    lost: int = 0
    """Frames certainly lost so far; never falls."""
    lost_by: ArrivedSoFar | None = None
    """The reading that `lost` is as old as: what got lost later is not in it yet."""
    backpressure: int = 0
    """Frames so far that the port behind the sender's did not take, because its ring was full."""
    _sent: deque[SentSoFar] = field(default_factory=deque)
    _arrived: deque[ArrivedSoFar] = field(default_factory=deque)
    """Readings that have not settled yet."""
    _gaps: int = 0
    """Numbers of frames that were sent and had been skipped by then, whether they came later or not."""

    def see(self, sent: SentSoFar, arrived: ArrivedSoFar) -> None:
        """Enters a reading of both ends; each must have been read after the one before."""
        self.backpressure = sent.backpressure
        self._sent.append(sent)
        self._arrived.append(arrived)
        self._gaps_until(min(arrived.since_s - OVERTAKEN_S, sent.since_s))
        self.lost = max(self.lost, self._gaps - arrived.reordered, self._silence(arrived))

    def _gaps_until(self, settled_s: float) -> None:
        while self._arrived and self._arrived[0].until_s <= settled_s:
            then = self._arrived.popleft()
            # Of two counters that change together, one may be read a frame before the other: the older `reordered` is the safe one.
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
