"""What the agents' accounts of a trial mean: flows, doubts and readings out of the protocol's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Flow, Gaps, Histogram, Latency
from dutlab.tools.engine.loss_watch import ArrivedSoFar, SentSoFar

_NS = 1e9


def flow_of(
    link: str, sent: Mapping[str, Any], received: Mapping[str, Any], port: Mapping[str, Any], *, sent_by: str | None = None
) -> Flow:
    """A link's flow from the protocol's SentStream, ReceivedStream and, for the port, Received. Raises KeyError, TypeError, ValueError.

    `sent_by` is who read the clock for the send times, as the protocol's Sent has it.
    """
    frames = int(sent["sent"])
    return Flow(
        link=link,
        intended_frames=int(sent["asked"]),
        sent_frames=frames,
        refused_frames=int(sent["refused"]),
        backpressure_frames=_known(sent.get("backpressure")),
        received_frames=int(received["received"]),
        lost_frames=int(received["lost"]),
        duplicated_frames=int(received["duplicated"]),
        reordered_frames=int(received["reordered"]),
        foreign_frames=int(port["foreign"]),
        sent_seconds=float(sent["seconds"]),
        mean_frame_bytes=int(sent["sent_bytes"]) / frames if frames else 0.0,
        received_bytes=int(received["received_bytes"]),
        latency=_latency(received.get("latency")),
        latency_error_ns=_card_error_ns(port) if received.get("latency") else None,
        sent_timed_by=str(sent_by or ""),
        arrivals_timed_by=_arrivals(port),
        gaps=_gaps(sent.get("gaps")),
        late_frames=None if (late := received.get("late")) is None else int(late),
        stale_frames=int(port["stale"]),
        corrupted_frames=int(received["corrupted"]),
        reorder_extent_max=int(received["reorder_extent_max"]),
        arrived_beyond_sent=not received["balances"],
        sources=tuple(dict.fromkeys(str(source["address"]) for source in received["sources"])),
    )


def doubts_of(link: str, sent: Mapping[str, Any], received: Mapping[str, Any], port: Mapping[str, Any]) -> Iterator[Doubt]:
    """What only the engine can know; what every ledger shows is left to methods.ledger."""
    if sent.get("backpressure") is None:
        yield Doubt(DoubtKind.REFUSALS_UNKNOWN, about=link)
    if (dropped := port.get("kernel_dropped")) is None:
        yield Doubt(DoubtKind.RX_DROPS_UNKNOWN, about=link)
    elif int(dropped):
        yield Doubt(DoubtKind.RX_DROPPED, f"{int(dropped)} frames", link)
    if guessed := int(received["guessed"]):
        yield Doubt(DoubtKind.LEDGER_GUESSED, f"{guessed} frames", link)
    if unknown := int(received.get("reorder_extents_unknown", 0)):
        yield Doubt(DoubtKind.REORDERING_PARTLY_KNOWN, f"{unknown} of {int(received['reordered'])} reordered frames", link)
    if corrupted := int(received["corrupted"]):
        yield Doubt(DoubtKind.CORRUPTED_FRAMES, f"{corrupted} frames", link)
    if negative := int((received.get("latency") or {}).get("negative", 0)):
        yield Doubt(DoubtKind.LATENCY_UNKNOWN, f"{negative} frames arrived before they were sent", link)


def of_stream(reply: Mapping[str, Any], stream: int) -> Mapping[str, Any]:
    """The stream's part of a reply. Raises ValueError when it has none, KeyError."""
    parts: list[dict[str, Any]] = [part for part in reply["streams"] if part["stream"] == stream]
    if not parts:
        raise ValueError(f"nothing of stream {stream}")
    return parts[0]


def sent_so_far(sending: Mapping[str, Any], stream: int, *, since_s: float, until_s: float) -> SentSoFar:
    """A `status` reply's `sending`, for which was asked and which came at these instants. Raises KeyError, TypeError, ValueError."""
    part, since_s = of_stream(sending, stream), since_s - int(sending["age_ns"]) / _NS
    return SentSoFar(
        since_s, until_s, int(sending["monotonic_ns"]), int(part["sent"]), int(part["numbered"]), _known(part.get("backpressure"))
    )


def arrived_so_far(receiving: Mapping[str, Any], stream: int, *, since_s: float, until_s: float) -> ArrivedSoFar:
    """The same of its `receiving`."""
    part, since_s = of_stream(receiving, stream), since_s - int(receiving["age_ns"]) / _NS
    return ArrivedSoFar(
        since_s,
        until_s,
        int(receiving["monotonic_ns"]),
        unique=int(part["received"]) - int(part["duplicated"]),
        reordered=int(part["reordered"]),
        next_sequence=int(part["next_sequence"]),
        latency_count=int(part["latency_count"]),
        latency_sum_ns=int(part["latency_sum_ns"]),
    )


def _known(count: int | None) -> int:
    """A count that may be unknown, where it is subtracted from: then nothing is. The doubt says that it is unknown."""
    return 0 if count is None else int(count)


def _latency(latency: Mapping[str, Any] | None) -> Latency | None:
    if not latency or not latency["count"]:
        return None
    whole = ("count", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
    ipdv = latency.get("ipdv") or {}
    known: dict[str, Any] = {name: latency.get(name) for name in ("pdv_p99_ns", "pdv_p999_ns")}
    known |= {f"ipdv_{name}": ipdv.get(name) for name in ("p50_ns", "p99_ns", "max_ns")}
    return Latency(
        **{name: int(latency[name]) for name in whole},
        mean_ns=float(latency["mean_ns"]),
        **{name: int(value) for name, value in known.items() if value is not None},
        histogram=_histogram(latency),
    )


def _arrivals(port: Mapping[str, Any]) -> dict[str, int]:
    """Frames by who timed them, the card first; those that timed none are not there."""
    said = port.get("timed_by") or {}
    return {by: int(said[by]) for by in ("card", "kernel", "engine") if said.get(by)}


def _card_error_ns(port: Mapping[str, Any]) -> int:
    return int((port.get("timed_by") or {}).get("card_error_ns", 0))


def _gaps(gaps: Mapping[str, Any] | None) -> Gaps | None:
    if not gaps or not gaps["count"]:
        return None
    whole = ("count", "min_ns", "p50_ns", "p99_ns", "max_ns")
    return Gaps(**{name: int(gaps[name]) for name in whole}, mean_ns=float(gaps["mean_ns"]), histogram=_histogram(gaps))


def _histogram(of: Mapping[str, Any]) -> Histogram:
    return tuple((int(upper_ns), int(count)) for upper_ns, count in of.get("histogram", ()))
