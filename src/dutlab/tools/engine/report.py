"""Flows, doubts and readings from the agents' accounts of a trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import ToolFailed
from dutlab.methods.flow import Flow, Gaps, Latency, TimedFlow
from dutlab.tools.engine import protocol
from dutlab.tools.engine.agent import TOOL
from dutlab.tools.engine.loss_watch import ArrivedSoFar, SentSoFar
from dutlab.tools.engine.protocol import Received, ReceivedStream, ReceivingSoFar, SendingSoFar, Sent, SentStream, TimedBy

_NS = 1e9


def flow_of(link: str, sent: SentStream, received: ReceivedStream, port: Received, *, sent_by: TimedBy | None = None) -> Flow:
    """Return a link's flow. `sent_by` is the clock of the sent frames: card, kernel or engine."""
    return TimedFlow(
        link=link,
        intended_frames=sent.intended,
        sent_frames=sent.sent,
        refused_frames=sent.refused,
        backpressure_frames=sent.backpressure or 0,
        received_frames=received.received,
        lost_frames=received.lost,
        duplicated_frames=received.duplicated,
        reordered_frames=received.reordered,
        reordered_at_least_frames=received.reordered_at_least,
        foreign_frames=port.foreign,
        sent_seconds=sent.seconds,
        mean_frame_bytes=sent.sent_bytes / sent.sent if sent.sent else 0.0,
        received_bytes=received.received_bytes,
        latency=_latency(received.latency),
        latency_error_ns=_card_error_ns(port) if received.latency else None,
        sent_timed_by=sent_by or "",
        arrivals_timed_by=_arrivals(port),
        gaps=_gaps(sent.gaps),
        late_frames=received.late,
        stale_frames=port.stale,
        corrupted_frames=received.corrupted,
        reorder_extent_max=received.reorder_extent_max,
        arrived_beyond_sent=not received.balances,
        sources=tuple(dict.fromkeys(source.address for source in received.sources)),
        latency_histogram=received.latency.histogram if received.latency else (),
        gap_histogram=sent.gaps.histogram if sent.gaps else (),
    )


def doubts_of(link: str, sent: SentStream, received: ReceivedStream, port: Received) -> Iterator[Doubt]:
    """Yield the doubts that only the engine knows; methods.ledger has those that every ledger shows."""
    if sent.backpressure is None:
        yield Doubt(DoubtKind.REFUSALS_UNKNOWN, about=link)
    if port.kernel_dropped is None:
        yield Doubt(DoubtKind.RX_DROPS_UNKNOWN, about=link)
    elif port.kernel_dropped:
        yield Doubt(DoubtKind.RX_DROPPED, f"{port.kernel_dropped} frames", link)
    if received.guessed:
        yield Doubt(DoubtKind.LEDGER_GUESSED, f"{received.guessed} frames", link)
    if received.reordered is None and received.received:
        yield Doubt(DoubtKind.REORDERING_UNKNOWN, f"at least {received.reordered_at_least} frames", link)
    if unknown := received.reorder_extents_unknown:
        yield Doubt(DoubtKind.REORDERING_PARTLY_KNOWN, f"{unknown} of {received.reordered} reordered frames", link)
    if received.corrupted:
        yield Doubt(DoubtKind.CORRUPTED_FRAMES, f"{received.corrupted} frames", link)
    if received.latency and received.latency.negative:
        yield Doubt(DoubtKind.LATENCY_UNKNOWN, f"{received.latency.negative} frames arrived before they were sent", link)


def links_lost(sent: Sent, received: Received) -> list[str]:
    """Return sentences about the ports of a direction that lost their link during the trial, and at which end.

    A port that was set down on its own host reports that. A port that was up may have lost its carrier at either end or by the cable.
    """
    lost = [(of.port, of.link_lost) for of in (sent, received) if of.link_lost is not None]
    here = [f"the link of {port} went down: it was set down on its host" for port, of in lost if of.set_down]
    return here or [f"the link of {port} went down: whose end it was is not known" for port, _ in lost]


class _OfStream(Protocol):
    @property
    def stream(self) -> int: ...


S = TypeVar("S", bound=_OfStream)


def of_stream(parts: Iterable[S], stream: int, host: str) -> S:
    """Return one stream's part of the account of an agent on `host`. Raises ToolFailed if the account lacks it."""
    for part in parts:
        if part.stream == stream:
            return part
    raise ToolFailed(f"its report does not have stream {stream}", tool=TOOL, host=host)


def sent_so_far(sending: SendingSoFar, of: protocol.StreamSendingSoFar, *, since_s: float, until_s: float) -> SentSoFar:
    """Return a stream's part of a `status` reply, which was requested at `since_s` and received at `until_s`."""
    since_s -= sending.age_ns / _NS
    return SentSoFar(since_s, until_s, sending.monotonic_ns, of.sent, of.numbered, of.backpressure or 0)


def arrived_so_far(receiving: ReceivingSoFar, of: protocol.StreamReceivingSoFar, *, since_s: float, until_s: float) -> ArrivedSoFar:
    """Return the counts of the receiving end, with times as in sent_so_far()."""
    return ArrivedSoFar(
        since_s - receiving.age_ns / _NS,
        until_s,
        receiving.monotonic_ns,
        unique=of.received - of.duplicated,
        reordered=of.reordered,
        next_sequence=of.next_sequence,
        latency_count=of.latency_count,
        latency_sum_ns=of.latency_sum_ns,
    )


def _latency(of: protocol.Latency | None) -> Latency | None:
    if of is None or not of.count:
        return None
    ipdv = of.ipdv
    return Latency(
        of.count, of.min_ns, of.p50_ns, of.p90_ns, of.p99_ns, of.p999_ns, of.max_ns, of.mean_ns, of.pdv_p99_ns, of.pdv_p999_ns,
        ipdv.p50_ns if ipdv else None, ipdv.p99_ns if ipdv else None, ipdv.max_ns if ipdv else None,
    )  # fmt: skip


def _arrivals(port: Received) -> dict[str, int]:
    """Return the number of frames that card, kernel and engine timed, without zeros."""
    if (by := port.timed_by) is None:
        return {}
    return {name: count for name, count in (("card", by.card), ("kernel", by.kernel), ("engine", by.engine)) if count}


def _card_error_ns(port: Received) -> int:
    return (port.timed_by and port.timed_by.card_error_ns) or 0


def _gaps(of: protocol.Gaps | None) -> Gaps | None:
    if of is None or not of.count:
        return None
    return Gaps(of.count, of.min_ns, of.p50_ns, of.p99_ns, of.max_ns, of.mean_ns)
