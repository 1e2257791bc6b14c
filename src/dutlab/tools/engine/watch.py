"""Counts of both ends of a direction during a trial: readings, usually one a second, and losses, which may end it early."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from dutlab.methods.flow import Flow
from dutlab.methods.ports import LostSoFar, ToolReading
from dutlab.tools.engine.loss_watch import ArrivedSoFar, LossWatch, SentSoFar
from dutlab.tools.engine.outage import Look

SECOND_NS = 1_000_000_000
_NEARLY = 0.9
"""Least distance of two readings, as a share of their interval. Looks in between give no reading."""
_READINGS_OF_A_RATE = 2


@dataclass(frozen=True)
class _Point:
    """A running count at an instant of an agent's clock."""

    at_ns: int
    count: int


def _rate(before: _Point, now: _Point) -> float:
    """Return the rate between two readings, per second."""
    return (now.count - before.count) / ((now.at_ns - before.at_ns) / SECOND_NS)


@dataclass
class DirectionWatch:
    """One direction in one trial. `flow` is the name of its flow."""

    flow: str
    losses: LossWatch
    every_s: float = 1.0
    """Time between readings."""
    sending: bool = False
    """True if a frame had been sent at the last look."""
    keeps_looks: bool = False
    looks: list[Look] = field(default_factory=list)
    """Counts of the receiver at each look, if they are kept."""
    _told: int = 0
    _told_ns: int = 0
    _points: dict[str, list[_Point]] = field(default_factory=dict)
    _latencies: list[tuple[int, int, int]] = field(default_factory=list)
    tell: Callable[[str, Mapping[str, float]], None] | None = None
    """Function that gets the flow and its newest rates, once a second."""

    def see(self, sent: SentSoFar, arrived: ArrivedSoFar) -> None:
        """Add a reading of both ends, each later than the one before."""
        self.losses.see(sent, arrived)
        self.sending = sent.sent > 0
        if self.keeps_looks:
            self.looks.append(Look(arrived.at_ns, arrived.next_sequence, arrived.unique))
        self._enter("offered_pps", sent.at_ns, sent.sent)
        self._enter("backpressure_pps", sent.at_ns, sent.backpressure)
        self._enter("received_pps", arrived.at_ns, arrived.unique)
        if (by := self.losses.lost_by) is not None:
            self._enter("lost_pps", by.at_ns, self.losses.lost)
        if self._due([at for at, *_ in self._latencies], arrived.at_ns):
            self._latencies.append((arrived.at_ns, arrived.latency_count, arrived.latency_sum_ns))
        self._report_rates()

    def _report_rates(self) -> None:
        """Report the newest rate of each count, once the receiver has a new one too."""
        received = self._points.get("received_pps", [])
        if self.tell is None or len(received) <= self._told or received[-1].at_ns - self._told_ns < _NEARLY * SECOND_NS:
            return
        self._told, self._told_ns = len(received), received[-1].at_ns
        second = round(1 / self.every_s)
        rates = {name: round(_rate(points[-1 - second :][0], points[-1]), 1) for name, points in self._points.items() if len(points) > 1}
        if rates:
            self.tell(self.flow, rates)

    def report_finished(self, flow: Flow) -> None:
        """Report the rates of a finished load that was too short for readings."""
        if self.tell is not None and self._told < _READINGS_OF_A_RATE and flow.sent_seconds > 0:
            counts = {"offered_pps": flow.sent_frames, "received_pps": flow.received_frames, "lost_pps": flow.lost_frames}
            self.tell(self.flow, {name: round(count / flow.sent_seconds, 1) for name, count in counts.items()})

    def _enter(self, name: str, at_ns: int, count: int) -> None:
        points = self._points.setdefault(name, [])
        if self._due([p.at_ns for p in points[-1:]], at_ns):
            points.append(_Point(at_ns, count))

    def _due(self, before_ns: list[int], at_ns: int) -> bool:
        return not before_ns or at_ns - before_ns[-1] >= _NEARLY * self.every_s * SECOND_NS

    def lost_so_far(self, receiver_wall_s: Callable[[int], float]) -> LostSoFar | None:
        """Return the frames lost at the last reading of losses; None if there is none yet."""
        if not (lost := self._points.get("lost_pps")):
            return None
        refused = self._points["backpressure_pps"][-1].count
        return LostSoFar(receiver_wall_s(lost[-1].at_ns), lost[-1].count + refused)

    def readings(
        self, sender_wall_s: Callable[[int], float], receiver_wall_s: Callable[[int], float], *, latency: bool
    ) -> Iterator[ToolReading]:
        """Yield the readings, each at the later of two instants; latencies only if `latency`.

        The functions convert an agent's monotonic time to wall clock.
        """
        for name, points in self._points.items():
            wall_s = sender_wall_s if name in {"offered_pps", "backpressure_pps"} else receiver_wall_s
            for before, now in pairwise(points):
                yield ToolReading(wall_s(now.at_ns), self.flow, name, _rate(before, now))
        for (_, count, total), (at_ns, more, sum_ns) in pairwise(self._latencies) if latency else ():
            if more > count:
                yield ToolReading(receiver_wall_s(at_ns), self.flow, "latency_mean_ns", (sum_ns - total) / (more - count))
