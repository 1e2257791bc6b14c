"""Reads what `iperf3 -J` prints, from any version, whole or not.

The format is made in iperf3's src/iperf_api.c. What has been seen in the wild and is read here, beside what `json_text` mends: no output at
all, an `error` beside figures that look real, and exit status 0 with an error (3.12 says "unable to connect" that way), which is why the
status is not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dutlab.tools.json_text import Unreadable, UnreadableError, member, number, read_object

__all__ = ["UnreadableError", "error_in", "parse"]


@dataclass(frozen=True)
class Iperf3Interval:
    """One line of the report: all streams together, `end_s` after the test began, omitted seconds included."""

    end_s: float
    goodput_bps: float
    retransmits: int | None


@dataclass(frozen=True)
class Iperf3Result:
    """One test's end. Rates are payload bits per second over the time that was not omitted; None is what this iperf3 does not tell."""

    received_bps: float
    sent_bps: float
    received_bytes: int
    sent_bytes: int
    seconds: float
    retransmits: int | None
    sender_cpu_percent: float | None
    receiver_cpu_percent: float | None
    congestion: str | None
    version: str
    intervals: tuple[Iperf3Interval, ...] = ()
    repairs: tuple[str, ...] = field(default=())
    """What had to be mended or left out before the output could be read."""

    @property
    def figures(self) -> dict[str, float]:
        """What the test found, under the names of figures; what this iperf3 does not tell is absent."""
        known = {
            "goodput_bps": self.received_bps,
            "sent_bps": self.sent_bps,
            "retransmits": self.retransmits,
            "sender_cpu_percent": self.sender_cpu_percent,
            "receiver_cpu_percent": self.receiver_cpu_percent,
        }
        return {name: float(value) for name, value in known.items() if value is not None}


_BACK = "_bidir_reverse"
"""What the sums of the other direction have behind their name (iperf_api.c, since 3.7)."""


def parse(output: bytes, *, back: bool = False) -> Iperf3Result:
    """The result of a TCP test from the client's output; `back`: of the other direction of a test in both.

    Raises UnreadableError when it holds none.
    """
    return result_of(*read_object(output), back=back)


def result_of(document: Mapping[str, Any], repairs: Sequence[str], *, back: bool = False) -> Iperf3Result:
    """The result in a report that was read; `repairs` is what was mended in it. Raises UnreadableError when it holds none."""
    suffix = _BACK if back else ""
    if (error := document.get("error")) is not None:
        raise UnreadableError(f"it reports: {str(error).removeprefix('error - ')}", Unreadable.REPORTED)
    start, end = member(document, "start"), member(document, "end")
    if not end:
        raise UnreadableError("it ended early: its report has no end", Unreadable.CUT)
    received, sent = member(end, f"sum_received{suffix}"), member(end, f"sum_sent{suffix}")
    cpu = member(end, "cpu_utilization_percent")
    ours, theirs = ("remote_total", "host_total") if member(start, "test_start").get("reverse") == 1 else ("host_total", "remote_total")
    if not isinstance(intervals := document.get("intervals", []), list):
        intervals, repairs = [], [*repairs, "the list of intervals is invalid and was left out"]
    received_bps = number(received, "bits_per_second")
    if received_bps is None:
        raise UnreadableError("its report says nothing of what was received (sum_received.bits_per_second)")
    sent_bps = number(sent, "bits_per_second")
    if sent_bps is None:
        raise UnreadableError("its report says nothing of what was sent (sum_sent.bits_per_second)")
    return Iperf3Result(
        received_bps=received_bps,
        sent_bps=sent_bps,
        received_bytes=int(number(received, "bytes") or 0),
        sent_bytes=int(number(sent, "bytes") or 0),
        seconds=number(received, "seconds") or 0.0,
        retransmits=_count(sent, "retransmits"),
        sender_cpu_percent=number(cpu, ours),
        receiver_cpu_percent=number(cpu, theirs),
        congestion=str(end["sender_tcp_congestion"]) if "sender_tcp_congestion" in end else None,
        version=str(start.get("version", "unknown")),
        intervals=_intervals(intervals, f"sum{suffix}"),
        repairs=tuple(repairs),
    )


def error_in(output: bytes) -> str | None:
    """The `error` that iperf3 reports, or None; never raises."""
    try:
        document, _ = read_object(output)
    except UnreadableError:
        return None
    error = document.get("error")
    return None if error is None else str(error).removeprefix("error - ")


def is_whole(output: bytes) -> bool:
    """Whether the report has an end: the client got the server's result; never raises."""
    try:
        return bool(member(read_object(output)[0], "end"))
    except UnreadableError:
        return False


def _intervals(raw: list[Any], name: str) -> tuple[Iperf3Interval, ...]:
    """Those that count: not omitted, at least half a second long (the last may be a sliver), with a rate."""
    intervals, begun_s = [], 0.0
    for entry in raw:
        total = member(entry, name) if isinstance(entry, Mapping) else {}
        seconds, rate = number(total, "seconds"), number(total, "bits_per_second")
        begun_s += seconds or 0.0
        if seconds is not None and rate is not None and seconds >= 0.5 and not total.get("omitted"):  # noqa: PLR2004 - see above
            intervals.append(Iperf3Interval(begun_s, rate, _count(total, "retransmits")))
    return tuple(intervals)


def _count(document: Mapping[str, Any], key: str) -> int | None:
    """A counter; old builds without TCP_INFO leave it out or say -1."""
    found = number(document, key)
    return None if found is None else int(found)
