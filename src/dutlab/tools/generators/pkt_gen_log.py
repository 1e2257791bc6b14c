"""Output of netmap's pkt-gen, in its three formats. The time of a line counts modulo 1000 s (sys/net/netmap_user.h, D()).

    2015   870.571509 main_thread [1418] 1400176 pps (1488384 pkts in 1062998 usec)
    then   143.205469 main_thread [1708] 33.000 pps (33.000 pkts 369.600 Kbps in 1001053 usec) 3.00 avg_batch
    now    … [2781] 14.880 Mpps [avg/std 14.870 Mpps/0.010 Mpps](14.896 Mpkts 7.150 Gbps in 1001054 usec) 511.95 avg_batch 0 min_space

It ends with `Sent N packets N bytes N events N bytes each in F seconds.` (2015: `Sent N packets, N bytes each, in F seconds.`) and a line
with the speed. `Gbps` are the bits of the interval, since 2021 those of a second; with -B each frame counts 24 bytes more. A log may have
several runs one after another; in one file, the reports of a run come before its final account. Reports of two hosts are not aligned: they
are matched by time (`matched`), never by index. Frame sizes given with `-l` exclude the FCS.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

FCS_BYTES = 4
ROUND_S = 1000.0
"""Period after which the time of a line begins again."""
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_HALF_DIGIT = 0.0005
"""Rounding error of a number with a scale, which has three decimals."""
_NUMBER = r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGT]?)"
_STAMP = re.compile(r"^(?P<time>\d{1,3}\.\d{6})\s+(?P<by>\w+)\s+\[\d+\]\s+(?P<text>.*)$")
_RATE = re.compile(rf"^{_NUMBER}pps\s*(?:\[avg/std [^\]]*\])?\s*\({_NUMBER}pkts\s*(?:{_NUMBER}bps\s*)?in (\d{{1,15}}) usec\)")
_END = re.compile(
    r"^(?P<way>Sent|Received) (?P<packets>\d{1,20}) packets,? (?:(?P<bytes>\d{1,20}) bytes(?: \d+ events)? )?"
    r"(?:(?P<each>\d{1,9}) bytes each,? )?in (?P<seconds>\d{1,9}\.\d+) seconds"
)
_NOTHING = re.compile(r"^(Sent|Received) nothing\.")
_WAY = re.compile(r"^(?:\S+ \w+ \[\d+\] )?(Sending on|Receiving from) |\b(sender|receiver)_body\b")
_BEGINS = "interface is "
_HEAD = re.compile(r"\s*(?:(source|sender|tx)|sink|receiver|rx)\s*:?\s*", re.IGNORECASE)
"""Heading that people write above a log, in a file with the logs of both ends."""
_COMMAND = re.compile(r"\bpkt-gen\b.{0,400}? -f ?(tx|rx)\b")
"""Command before its output, as in a page that shows both ends."""
_OVERLAP = 0.2
"""Share of a report's interval that may lie before the end of the report before it."""
_EVERY = re.compile(r"^Sending (\d{1,9}) packets every\s+(\d{1,9}\.\d{9}) s")


LEAST_REPORTS = 2
"""Least number of reports of a size, or of a process: a single report between two sizes may cover both."""


@dataclass(frozen=True)
class Report:
    """One interval. `end_s` is the line's own time, made to rise through a log."""

    end_s: float
    seconds: float
    pps: float
    packets: float
    bits: float | None = None
    """Bits as printed; their meaning depends on version and options (`_MEANINGS`)."""
    packets_error: float = 0.0
    bits_error: float = 0.0


@dataclass(frozen=True)
class Total:
    """The final account. `direction` is Sent or Received; sizes are without FCS."""

    direction: str
    packets: int
    bytes: int | None
    """Bytes; None if the line has none."""
    seconds: float

    @property
    def pps(self) -> float:
        """Mean rate over the whole time; 0 if there was none."""
        return self.packets / self.seconds if self.seconds else 0.0


@dataclass
class PktGenRun:
    """One run of the program. `direction` is empty if unknown."""

    reports: list[Report] = field(default_factory=list)
    total: Total | None = None
    direction: str = ""
    asked_pps: float | None = None
    """Intended rate (-R); None for as fast as it can, or if unknown."""
    unread: list[int] = field(default_factory=list)
    """Numbers, from 1, of lines that look like reports and cannot be read."""
    is_one_of_two: bool = False
    """True if its reports were mixed with those of another process. The faster one then counts as the sender."""

    @property
    def has_reports(self) -> bool:
        """True if there are reports, or lines that look like them."""
        return bool(self.reports or self.unread)

    def take(self, number: int, at_s: float, text: str) -> None:
        """Read a line that has a time; `number` is its line number."""
        if every := _EVERY.match(text):
            self.asked_pps = int(every[1]) / float(every[2]) if float(every[2]) else None
        elif "pps" in text:
            if rate := _RATE.match(text):
                self.reports.append(_report(at_s, rate, self.reports))
            else:
                self.unread.append(number)

    @property
    def frame_bytes(self) -> int | None:
        """Size of each frame with FCS, if all had one size."""
        if self.total is None or not self.total.packets or self.total.bytes is None or self.total.bytes % self.total.packets:
            return None
        return self.total.bytes // self.total.packets + FCS_BYTES


@dataclass(frozen=True)
class PktGenLog:
    """A whole log."""

    runs: tuple[PktGenRun, ...]

    @property
    def reports(self) -> tuple[Report, ...]:
        """Reports of all runs."""
        return tuple(report for run in self.runs for report in run.reports)

    @property
    def total(self) -> Total | None:
        """Total of the last run."""
        return self.runs[-1].total if self.runs else None


def _total_in(line: str) -> Total | None:
    if end := _END.match(line):
        return _total(end)
    nothing = _NOTHING.match(line)
    return Total(nothing[1], 0, 0, 0.0) if nothing else None


def parse(text: str) -> PktGenLog:
    """Return the runs in any text; lines that are not of pkt-gen are skipped."""
    runs = [PktGenRun()]
    for number, line in enumerate(text.splitlines(), 1):
        run = runs[-1]
        if total := _total_in(line):
            run.total, run.direction = total, total.direction
            runs.append(PktGenRun())
            continue
        if way := _WAY.search(line):
            run.direction = "Sent" if way[1] == "Sending on" or way[2] == "sender" else "Received"
        stamp, head, command = _STAMP.match(line), _HEAD.fullmatch(line), _COMMAND.search(line)
        if run.has_reports and (head or command or (stamp and stamp["text"].startswith(_BEGINS))):
            runs.append(run := PktGenRun())  # the run before it was truncated
        if head:
            run.direction = "Sent" if head[1] else "Received"
        if command:
            run.direction = "Sent" if command[1] == "tx" else "Received"
        if stamp:
            run.take(number, float(stamp["time"]), stamp["text"])
    return PktGenLog(tuple(one for run in runs if run.has_reports or run.total is not None for one in _each_process(run)))


def _each_process(run: PktGenRun) -> list[PktGenRun]:
    """Return the runs of two processes whose reports are mixed, as in the output of a shell that runs both; else the run itself."""
    by_process = list[list[Report]]()
    for report in run.reports:
        begin_s = report.end_s - report.seconds
        earlier = [(abs(of[-1].end_s - begin_s), of) for of in by_process if of[-1].end_s <= begin_s + report.seconds * _OVERLAP]
        if earlier:
            min(earlier, key=itemgetter(0))[1].append(report)
        else:
            by_process.append([report])
    if run.total is not None or len(by_process) != 2 or min(map(len, by_process)) < LEAST_REPORTS:  # noqa: PLR2004 -- a sender and a receiver
        return [run]
    begins, ends = ([of[n].end_s for of in by_process] for n in (0, -1))
    shorter_s = min(end - begin for begin, end in zip(begins, ends, strict=True))
    if min(ends) - max(begins) < shorter_s / 2:  # one process, a line of which was late
        return [run]
    by_process.sort(key=lambda of: -sum(report.pps for report in of) / len(of))
    return [
        replace(run, reports=of, direction=way, is_one_of_two=True, unread=run.unread if way == "Sent" else [])
        for of, way in zip(by_process, ("Sent", "Received"), strict=True)
    ]


@dataclass(frozen=True)
class SizedReports:
    """Successive reports on frames of one size. None: several sizes, or unknown."""

    frame_bytes: int | None
    reports: tuple[Report, ...]

    @property
    def whole(self) -> tuple[Report, ...]:
        """Reports without the first and the last, whose intervals may be only partly filled with frames."""
        return self.reports[1:-1] if len(self.reports) > 3 else self.reports  # noqa: PLR2004 -- two are left

    @property
    def pps(self) -> float:
        """Mean rate over these reports."""
        seconds = sum(report.seconds for report in self.whole)
        return sum(report.packets for report in self.whole) / seconds if seconds else 0.0


def by_size(reports: Sequence[Report]) -> tuple[list[SizedReports], int]:
    """Return the reports of each size in turn, and the number of reports without a single size. Empty if reports have no bits."""
    sized = [report for report in reports if report.packets and report.bits is not None]
    meaning = max(_MEANINGS, key=lambda of: sum(_only_size([report], of) is not None for report in sized), default=None)
    if not sized or meaning is None:
        return [], 0
    groups: list[list[Report]] = []
    for report in sized:
        if groups and _only_size([*groups[-1], report], meaning) is not None:
            groups[-1].append(report)
        else:
            groups.append([report])
    usable = [of for of in groups if len(of) >= LEAST_REPORTS or len(groups) == 1]
    return [SizedReports(_only_size(of, meaning), tuple(of)) for of in usable], sum(len(of) for of in groups if of not in usable)


_Meaning = tuple[bool, int]
"""True if bits are per second; and the bytes counted for each frame in addition to its own."""
_MEANINGS: tuple[_Meaning, ...] = ((False, 0), (True, 0), (False, 24), (True, 24))


def _only_size(reports: Sequence[Report], meaning: _Meaning) -> int | None:
    """Return the one size with FCS, in whole bytes, that fits all reports; None if none or several fit."""
    least, most = 0.0, math.inf
    for report in reports:
        if report.bits is None:
            return None
        of_second, overhead = meaning
        scale = (report.seconds if of_second else 1.0) / 8
        low = (report.bits - report.bits_error) * scale / (report.packets + report.packets_error) - overhead
        high = (report.bits + report.bits_error) * scale / max(report.packets - report.packets_error, 0.5) - overhead
        least, most = max(least, low), min(most, high)
    first, last = math.ceil(least - 1e-9), math.floor(most + 1e-9)
    return first + FCS_BYTES if first == last and first > 0 else None


def matched(sent: Sequence[Report], received: Sequence[Report], *, offset_s: float = 0.0) -> list[tuple[float, float, float]]:
    """Return (end, pps sent, pps received) for each interval of the receiver that is wholly inside the sender's time.

    The sender's rate is its packets in exactly that interval, if they are spread evenly over each of the sender's intervals. `offset_s` is
    how far the receiver's clock is ahead of the sender's.
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


def _total(end: re.Match[str]) -> Total:
    """Return the final account. In 2015 a sender printed the requested size, and a receiver none."""
    packets, each = int(end["packets"]), end["each"]
    byte_count = int(end["bytes"]) if end["bytes"] else packets * int(each) if each and end["way"] == "Sent" else None
    return Total(end["way"], packets, byte_count, float(end["seconds"]))


def _report(at: float, rate: re.Match[str], before: Sequence[Report]) -> Report:
    while before and at < before[-1].end_s - ROUND_S / 2:
        at += ROUND_S
    pps, packets, micros = float(rate[1]) * _SCALES[rate[2]], float(rate[3]) * _SCALES[rate[4]], int(rate[7])
    bits = float(rate[5]) * _SCALES[rate[6]] if rate[5] else None
    packets_error = _HALF_DIGIT * _SCALES[rate[4]] if rate[4] else 0.0
    bits_error = _HALF_DIGIT * _SCALES[rate[6]] if rate[5] and rate[6] else 0.0
    return Report(at, micros / 1e6, pps, packets, bits, packets_error, bits_error)
