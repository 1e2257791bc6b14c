"""Read the output of `iperf3 -J` of any version, complete or not.

UDP before 3.11 has one sum, `end.sum`. Its `bytes` are those sent; a server reports 0, because it prints before the client reports.
`packets` are those sent since 3.2; before 3.2 it is the highest number that the receiver saw. Received is `packets - lost_packets`
(iperf_print_results() of the tags 3.0.12, 3.1.3, 3.2, 3.7, 3.10.1 and 3.11).

The format is that of iperf3's src/iperf_api.c. `json_text` repairs faults of the JSON. Other faults that occur: no output at all, an
`error` with plausible figures, and exit status 0 with an error (3.12, for "unable to connect"). So the status is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, TypeVar

from dutlab.subject import back_of, joined
from dutlab.tools.json_text import Unreadable, UnreadableError, member, number, read_object

__all__ = ["UnreadableError", "error_in", "parse"]


_N = TypeVar("_N", int, float)


def _sum(ours: _N | None, theirs: _N | None) -> _N | None:
    return None if ours is None or theirs is None else ours + theirs


@dataclass(frozen=True)
class Iperf3Interval:
    """One interval of the report: all streams together. It ends `end_s` after the test began, omitted seconds included."""

    end_s: float
    goodput_bps: float
    """Goodput; for a UDP sender, the sent rate."""
    retransmits: int | None
    of_sender: bool = True
    """True for a UDP sender, which lacks the counts of a receiver."""

    def __add__(self, other: Iperf3Interval) -> Iperf3Interval:
        """Return the sum of two clients."""
        return replace(self, goodput_bps=self.goodput_bps + other.goodput_bps, retransmits=_sum(self.retransmits, other.retransmits))


@dataclass(frozen=True)
class Iperf3Result:
    """Result of one test. Rates are payload bits per second over the time that was not omitted; None: this iperf3 does not report it."""

    received_bps: float
    sent_bps: float | None
    """Sent rate; None in the report of a server that receives, which prints before the client reports what it sent."""
    received_bytes: int
    sent_bytes: int | None
    seconds: float
    retransmits: int | None
    sender_cpu_percent: float | None
    receiver_cpu_percent: float | None
    congestion: str | None
    version: str
    intervals: tuple[Iperf3Interval, ...] = ()
    repairs: tuple[str, ...] = field(default=())
    """Repairs and omissions that were needed to read the output."""
    loss_ratio: float | None = None
    jitter_ns: float | None = None
    below_zero: str = ""
    """Count of lost UDP datagrams, if it is negative."""
    began_s: float | None = None
    """Start of the test, in whole seconds since 1970 by the client's clock."""

    @property
    def figures(self) -> dict[str, float]:
        """Figures of the test, under our names; what this iperf3 does not report is absent."""
        known = {
            "goodput_bps": self.received_bps,
            "sent_bps": self.sent_bps,
            "retransmits": self.retransmits,
            "sender_cpu_percent": self.sender_cpu_percent,
            "receiver_cpu_percent": self.receiver_cpu_percent,
            "loss_ratio": self.loss_ratio,
            "jitter_ns": self.jitter_ns if self.loss_ratio is not None else None,
        }
        return {name: float(value) for name, value in known.items() if value is not None}

    def __add__(self, other: Iperf3Result) -> Iperf3Result:
        """Return the sum of two clients of one link, which sent at the same time. A value that one lacks is None."""
        return replace(
            self,
            received_bps=self.received_bps + other.received_bps,
            sent_bps=_sum(self.sent_bps, other.sent_bps),
            received_bytes=self.received_bytes + other.received_bytes,
            sent_bytes=_sum(self.sent_bytes, other.sent_bytes),
            seconds=min(self.seconds, other.seconds),
            retransmits=_sum(self.retransmits, other.retransmits),
            sender_cpu_percent=_sum(self.sender_cpu_percent, other.sender_cpu_percent),
            receiver_cpu_percent=_sum(self.receiver_cpu_percent, other.receiver_cpu_percent),
            intervals=tuple(ours + theirs for ours, theirs in zip(self.intervals, other.intervals, strict=False)),
            repairs=(*self.repairs, *other.repairs),
        )


@dataclass(frozen=True)
class Sums:
    """Sums of a report in the form of 3.11 and later. A mapping is empty if this end does not know that side."""

    sent: Mapping[str, Any]
    received: Mapping[str, Any]
    loss_ratio: float | None = None
    """Share of lost UDP datagrams among those sent."""
    jitter_ns: float | None = None
    repairs: tuple[str, ...] = ()
    below_zero: str = ""


def of_clients(results: Sequence[Iperf3Result]) -> Iperf3Result:
    """Return the clients of one link as one. If they did not run at the same time, the sum of their rates is reduced."""
    whole, later_s = reduce(add, results), apart_s(results)
    share = whole.seconds / (whole.seconds + later_s) if whole.seconds else 1.0
    return replace(whole, received_bps=whole.received_bps * share, sent_bps=None if whole.sent_bps is None else whole.sent_bps * share)


def apart_s(results: Sequence[Iperf3Result]) -> float:
    """Return how long after the first client the last one began; 0 for one second or less, since clients report whole seconds."""
    began = [r.began_s for r in results if r.began_s is not None]
    return later_s if began and (later_s := max(began) - min(began)) > 1 else 0.0


def both_ways(link: str, forward: Mapping[str, float] | None, back: Mapping[str, float] | None) -> dict[str, dict[str, float]]:
    """Return the figures of each direction of a link, and of both together.

    An end's processor works for both directions: `sender` is the client's. None is a direction that the report lacks; then there is no
    sum.
    """
    ways = {place: of for place, of in ((link, forward), (back_of(link), back)) if of is not None}
    if len(ways) == 1 or forward is None or back is None:
        return {place: dict(of) for place, of in ways.items()}
    counted = {name: forward[name] + back[name] for name in ("goodput_bps", "sent_bps", "retransmits") if name in forward and name in back}
    whole = {name: value for name, value in forward.items() if name in _OF_PROCESSOR} | counted
    each = {place: {name: value for name, value in of.items() if name not in _OF_PROCESSOR} for place, of in ways.items()}
    return {joined(ways): whole, **each}


_OF_PROCESSOR = ("sender_cpu_percent", "receiver_cpu_percent")
BACK = "_bidir_reverse"
"""Ending of the names of the reverse direction's sums (iperf_api.c, since 3.11). It is added here for 3.7 to 3.10, whose names repeat.

At both ends the sums without it are from client to server.
"""
_APART = 0.05
"""Difference of loss ratios that a warm-up explains: the seconds that the two ends omit differ by some tens of milliseconds."""
_LONGEST_DATAGRAM = 65535
"""Longest datagram, in bytes: the length field has 16 bits (RFC 768)."""


def parse(output: bytes, *, back: bool = False) -> Iperf3Result:
    """Return the result of a TCP test from the client's output; `back`: of the reverse direction of a test in both.

    Raises UnreadableError if there is none.
    """
    return result_of(*read_report(output), back=back)


def read_report(output: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the object that `-J` printed, and its repairs. Raises UnreadableError."""
    return read_object(output, again=BACK)


def result_of(document: Mapping[str, Any], repairs: Sequence[str], *, back: bool = False) -> Iperf3Result:
    """Return the result in a report, which was read with `repairs`. Raises UnreadableError if there is none."""
    suffix = BACK if back else ""
    if (error := document.get("error")) is not None:
        raise UnreadableError(f"it reports: {str(error).removeprefix('error - ')}", Unreadable.REPORTED)
    start, end = member(document, "start"), member(document, "end")
    if not end:
        raise UnreadableError("it ended early: its report has no end", Unreadable.CUT)
    sums = sums_of(document, back=back)
    received, sent = sums.received, sums.sent
    cpu = member(end, "cpu_utilization_percent")
    is_server = "accepted_connection" in start
    ours, theirs = ("host_total", "remote_total") if is_server == is_reverse(document) else ("remote_total", "host_total")
    if is_server:  # it does not know the client's processor, and reports 0
        cpu = {key: value for key, value in cpu.items() if key != "remote_total"}
    if not isinstance(intervals := document.get("intervals", []), list):
        intervals, repairs = [], [*repairs, "the list of intervals is invalid and was left out"]
    received_bps = number(received, "bits_per_second")
    if received_bps is None:
        raise UnreadableError("its report does not state what was received (sum_received.bits_per_second)")
    sent_bps = number(sent, "bits_per_second")
    if sent_bps is None and not is_server:
        raise UnreadableError("its report does not state what was sent (sum_sent.bits_per_second)")
    return Iperf3Result(
        received_bps=received_bps,
        sent_bps=sent_bps,
        received_bytes=int(number(received, "bytes") or 0),
        sent_bytes=int(number(sent, "bytes") or 0) if sent else None,
        seconds=number(received, "seconds") or 0.0,
        retransmits=_count(sent, "retransmits"),
        sender_cpu_percent=number(cpu, ours),
        receiver_cpu_percent=number(cpu, theirs),
        congestion=str(end["sender_tcp_congestion"]) if "sender_tcp_congestion" in end else None,
        version=str(start.get("version", "unknown")),
        began_s=number(member(start, "timestamp"), "timesecs"),
        intervals=_intervals(intervals, f"sum{suffix}"),
        repairs=(*repairs, *sums.repairs),
        loss_ratio=sums.loss_ratio,
        jitter_ns=sums.jitter_ns,
        below_zero=sums.below_zero,
    )


def sums_of(document: Mapping[str, Any], *, back: bool = False) -> Sums:
    """Return the sums sent and received in a report; `back` as in parse().

    Raises UnreadableError if the sums of both directions have one name.
    """
    start, end, suffix = member(document, "start"), member(document, "end"), BACK if back else ""
    sent, received, both = (member(end, f"{name}{suffix}") for name in ("sum_sent", "sum_received", "sum"))
    if _is_bidirectional(end) and not has_back(document):
        raise UnreadableError("it measured both directions at once (--bidir), and before 3.11 its report has the sum of only one")
    packets, counted, jitter_ms = number(both, "packets"), both.get("lost_packets"), number(both, "jitter_ms")
    is_below = isinstance(counted, int) and counted < 0
    lost = 0.0 if is_below else number(both, "lost_packets")
    is_server = "accepted_connection" in start
    sends = is_server == (is_reverse(document) != back)
    loss = min(1.0, lost / packets) if packets and lost is not None else None
    omits = number(member(start, "test_start"), "omit")
    repairs = [] if omits else _loss_exceeds_total(packets, lost)
    if not sent and not received and packets is not None and lost is not None:
        came = max(0.0, packets - lost)
        if not is_server:
            sent, received, loss = _before_3_11(both, _datagram_bytes(start), came)
            repairs += _unsure_before_3_11(lost, jitter_ms, omits) if sends else []
        elif sends:
            sent = both
        else:
            received = _received_by_server(document, came)
    elif not is_server and omits and loss is not None and abs((of_payload := _lost_payload(sent, received)) - loss) > _APART:
        loss = of_payload  # 3.11 to 3.13: a client also counts losses of the warm-up
        repairs.append("this iperf3 counts datagrams lost in the warm-up (-O) as lost: the loss is that of the payload")
    elif is_server and sends:
        received = received if number(received, "bytes") else {}
    elif is_server:
        sent = sent if number(sent, "bytes") else {}
    if not received:
        loss = jitter_ms = None
    elif _came_nothing(sent, received):
        loss, jitter_ms = 1.0, None  # the receiver counted nothing, so it counted no loss either
    below_zero = f"{counted} of {packets or 0:.0f} datagrams" if is_below else ""
    return Sums(sent, received, loss, None if jitter_ms is None else jitter_ms * 1e6, tuple(repairs), below_zero)


def _came_nothing(sent: Mapping[str, Any], received: Mapping[str, Any]) -> bool:
    return number(received, "packets") == 0 and bool(number(sent, "packets"))


def _unsure_before_3_11(lost: float, jitter_ms: float | None, omits: float | None) -> list[str]:
    """Return the doubtful parts in the report of a client that sent."""
    if lost:
        return ["this iperf3 counts datagrams lost in the warm-up (-O) as lost"] if omits else []
    return [] if jitter_ms else ["its jitter is exactly 0: before 3.11 iperf3 prints this report also if nothing arrived"]


def _lost_payload(sent: Mapping[str, Any], received: Mapping[str, Any]) -> float:
    """Return the share of bytes that did not arrive."""
    size = number(sent, "bytes")
    return max(0.0, 1 - (number(received, "bytes") or 0.0) / size) if size else 0.0


def _loss_exceeds_total(packets: float | None, lost: float | None) -> list[str]:
    """Return a fault if more datagrams are counted as lost than in all."""
    return [f"it counts {lost:.0f} datagrams as lost of {packets:.0f}"] if packets and lost is not None and lost > packets else []


def _before_3_11(both: Mapping[str, Any], length: float | None, came: float) -> tuple[Mapping[str, Any], Mapping[str, Any], float | None]:
    """Return the sums sent and received, and the loss ratio, from the one sum of a client. A datagram has `length` bytes."""
    sent_bytes, sent_bps = number(both, "bytes") or 0.0, number(both, "bits_per_second") or 0.0
    packets = max(number(both, "packets") or 0.0, sent_bytes // length if length else 0.0)
    share = came / packets if packets else 0.0
    sent = {**both, "packets": int(packets), "seconds": sent_bytes * 8 / sent_bps if sent_bps else number(both, "seconds")}
    received = {**both, "bytes": round(sent_bytes * share), "bits_per_second": sent_bps * share, "packets": int(came)}
    return sent, received, (packets - came) / packets if packets else None


def _received_by_server(document: Mapping[str, Any], came: float) -> Mapping[str, Any]:
    """Return the received sum of a server before 3.11, which has 0 bytes: from its intervals, or else its count of datagrams."""
    raw, both = document.get("intervals"), member(member(document, "end"), "sum")
    totals = [member(entry, "sum") for entry in raw if isinstance(entry, Mapping)] if isinstance(raw, list) else []
    totals = [total for total in totals if not total.get("omitted")]
    size, seconds = (sum(number(total, key) or 0.0 for total in totals) for key in ("bytes", "seconds"))
    if not size:
        length = _datagram_bytes(member(document, "start"))
        if came and not length:
            return {}
        size, seconds = came * (length or 0.0), number(both, "seconds") or 0.0
    return {**both, "bytes": int(size), "seconds": seconds, "bits_per_second": size * 8 / seconds if seconds else 0.0, "packets": int(came)}


def _datagram_bytes(start: Mapping[str, Any]) -> float | None:
    size = number(member(start, "test_start"), "blksize")
    return size if size is not None and 1 <= size <= _LONGEST_DATAGRAM else None


def intervals_in(output: bytes, *, back: bool = False) -> tuple[Iperf3Interval, ...]:
    """Return the intervals of one end, complete or not; `back` as in parse(). Raises UnreadableError."""
    raw = read_report(output)[0].get("intervals")
    return _intervals(raw if isinstance(raw, list) else [], f"sum{BACK if back else ''}")


def round_trips_in(output: bytes) -> tuple[tuple[float, float], ...]:
    """Return (seconds after the test began, nanoseconds): the smoothed round trip of each sending stream of this end, per interval.

    It is tcpi_rtt of TCP_INFO in microseconds; a receiver has none (iperf3: iperf_tcp.c, print_interval_results()). Raises UnreadableError.
    """
    raw = read_report(output)[0].get("intervals")
    streams = [s for entry in raw if isinstance(entry, Mapping) for s in entry.get("streams", ())] if isinstance(raw, list) else []
    pairs = [(number(s, "end"), number(s, "rtt")) for s in streams if isinstance(s, Mapping)]
    return tuple((end, rtt * 1e3) for end, rtt in pairs if end is not None and rtt)


def is_reverse(document: Mapping[str, Any]) -> bool:
    """Return whether the client receives (`-R`)."""
    return member(member(document, "start"), "test_start").get("reverse") == 1


def _is_bidirectional(end: Mapping[str, Any]) -> bool:
    """Return whether there are streams of both directions; before 3.7 no stream states its direction."""
    streams = end.get("streams")
    ends = [e for s in streams if isinstance(s, Mapping) for e in s.values() if isinstance(e, Mapping)] if isinstance(streams, list) else []
    return {e["sender"] for e in ends if isinstance(e.get("sender"), bool)} == {True, False}


def has_back(document: Mapping[str, Any]) -> bool:
    """Return whether the report is of a test in both directions, with separate sums."""
    return any(key.startswith("sum") and key.endswith(BACK) for key in member(document, "end"))


def error_in(output: bytes) -> str | None:
    """Return the `error` that iperf3 reports, or None; never raises."""
    try:
        document, _ = read_object(output)
    except UnreadableError:
        return None
    error = document.get("error")
    return None if error is None else str(error).removeprefix("error - ")


def is_whole(output: bytes) -> bool:
    """Return whether the report has an end: the client got the server's result; never raises."""
    try:
        return bool(member(read_object(output)[0], "end"))
    except UnreadableError:
        return False


def omitted(document: Mapping[str, Any]) -> int:
    """Return the number of warm-up intervals (-O)."""
    raw = document.get("intervals")
    return sum(member(entry, "sum").get("omitted") is True for entry in raw if isinstance(entry, Mapping)) if isinstance(raw, list) else 0


def _intervals(raw: list[Any], name: str) -> tuple[Iperf3Interval, ...]:
    """Return the intervals that count: not omitted, with a rate, and at least half as long as the longest (the last may be short)."""
    intervals, begun_s = [], 0.0
    totals = [member(entry, name) if isinstance(entry, Mapping) else {} for entry in raw]
    least_s = max((number(total, "seconds") or 0.0 for total in totals), default=0.0) / 2
    for total in totals:
        seconds, rate = number(total, "seconds"), number(total, "bits_per_second")
        begun_s += seconds or 0.0
        if seconds is not None and rate is not None and seconds >= least_s and not total.get("omitted"):
            intervals.append(Iperf3Interval(begun_s, rate, _count(total, "retransmits"), number(total, "jitter_ms") is None))
    return tuple(intervals)


def _count(document: Mapping[str, Any], key: str) -> int | None:
    """Return a counter; None if it is absent or -1, as in old builds without TCP_INFO."""
    count = number(document, key)
    return None if count is None else int(count)
