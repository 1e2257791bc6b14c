"""What netmap's pkt-gen prints, in the three forms that it has had. The time of a line counts modulo 1000 s (sys/net/netmap_user.h, D()).

    2015   870.571509 main_thread [1418] 1400176 pps (1488384 pkts in 1062998 usec)
    then   143.205469 main_thread [1708] 33.000 pps (33.000 pkts 369.600 Kbps in 1001053 usec) 3.00 avg_batch
    now    … [2781] 14.880 Mpps [avg/std 14.870 Mpps/0.010 Mpps](14.896 Mpkts 7.150 Gbps in 1001054 usec) 511.95 avg_batch 0 min_space

and at its end `Sent N packets N bytes N events N bytes each in F seconds.` and a line of speed. Reports of two hosts are not aligned:
they are brought together by their time (`matched`), never by their place. Frame sizes given with `-l` exclude the FCS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

ROUND_S = 1000.0
"""After which the time of a line begins again."""
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_NUMBER = r"(\d+(?:\.\d+)?)\s*([KMG]?)"
_STAMP = re.compile(r"^(?P<time>\d{1,3}\.\d{6})\s+(?P<by>\w+)\s+\[\d+\]\s+(?P<said>.*)$")
_RATE = re.compile(rf"^{_NUMBER}pps\s*(?:\[avg/std [^\]]*\])?\s*\({_NUMBER}pkts\s*(?:{_NUMBER}bps\s*)?in (\d+) usec\)")
_END = re.compile(
    r"^(?P<way>Sent|Received) (?P<packets>\d+) packets (?P<bytes>\d+) bytes(?: \d+ events)? \d+ bytes each in"
    r" (?P<seconds>\d+\.\d+) seconds"
)
_NOTHING = re.compile(r"^(Sent|Received) nothing\.")


@dataclass(frozen=True)
class Report:
    """One interval: `end_s` is the line's own time, made to rise through a log."""

    end_s: float
    seconds: float
    pps: float
    packets: float


@dataclass(frozen=True)
class Total:
    """The closing account. `direction` is Sent or Received; sizes are without FCS."""

    direction: str
    packets: int
    bytes: int
    seconds: float

    @property
    def pps(self) -> float:
        """Over the whole; 0 for one that lasted no time."""
        return self.packets / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class PktGenLog:
    """A whole log, and the lines in it that are like reports and cannot be read."""

    reports: tuple[Report, ...]
    total: Total | None
    unread: tuple[int, ...] = ()
    """Their numbers, from 1."""


def parse(text: str) -> PktGenLog:
    """Any text; what is not a report of pkt-gen's is passed over."""
    reports: list[Report] = []
    unread: list[int] = []
    total: Total | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if end := _END.match(line):
            total = Total(end["way"], int(end["packets"]), int(end["bytes"]), float(end["seconds"]))
        elif nothing := _NOTHING.match(line):
            total = Total(nothing[1], 0, 0, 0.0)
        elif (stamp := _STAMP.match(line)) and "pps" in stamp["said"]:
            if rate := _RATE.match(stamp["said"]):
                reports.append(_report(float(stamp["time"]), rate, reports))
            else:
                unread.append(number)
    return PktGenLog(tuple(reports), total, tuple(unread))


def matched(sent: Sequence[Report], received: Sequence[Report], *, offset_s: float = 0.0) -> list[tuple[float, float, float]]:
    """(end, pps sent, pps received) at the end of each interval of the receiver that lies wholly inside the sender's time.

    The sender's rate is its packets over that very interval, shared out evenly inside each of its own. `offset_s` is what the receiver's
    clock is ahead of the sender's.
    """
    out = []
    for report in received:
        end = report.end_s - offset_s
        start = end - report.seconds
        if sent and sent[0].end_s - sent[0].seconds <= start and end <= sent[-1].end_s:
            out.append((end, _packets_between(sent, start, end) / report.seconds, report.pps))
    return out


def _packets_between(reports: Sequence[Report], start: float, end: float) -> float:
    shares = (max(0.0, min(end, r.end_s) - max(start, r.end_s - r.seconds)) / r.seconds * r.packets for r in reports if r.seconds)
    return sum(shares)


def _report(at: float, rate: re.Match[str], before: Sequence[Report]) -> Report:
    while before and at < before[-1].end_s - ROUND_S / 2:
        at += ROUND_S
    pps, packets, micros = float(rate[1]) * _SCALES[rate[2]], float(rate[3]) * _SCALES[rate[4]], int(rate[7])
    return Report(at, micros / 1e6, pps, packets)
