"""One line of the output of iperf3 and iperf 2 for people: an interval or a sum, with its rate and the counts after it.

The lines are those of iperf3's src/iperf_locale.c. Rates have three digits, bits in powers of 1000 and bytes (`-f K`, `-f M`) in powers of
1024 (units.c, unit_snprintf()).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dutlab.bounds import LARGEST_NUMBER

_LINE = re.compile(
    r"^\[ *(?P<id>\d+|SUM)\](?:\[(?P<role>[TR]X-[CS])\])? +(?P<from>\d+[.,]\d+)- *(?P<to>\d+[.,]\d+) +sec +[\d.,]+ [KMGTPE]?Bytes +"
    r"(?P<rate>\d+(?:[.,]\d+)?) (?P<prefix>[KMGTPE]?)(?P<unit>bits|Bytes)/sec(?P<rest>.*)$",
    re.MULTILINE,
)
_STAMP = re.compile(
    r"^(?=[^\n]*\[ *(?:\d+|SUM|ID)\])[^\n]*?(?=\[ *(?:\d+|SUM|ID)\](?:\[(?:[TR]X-[CS]|Role)\])? )"
    r"|^[^\n]*?(?=Connecting to host |Accepted connection from |Reverse mode, remote host |- - - - -|-{20}|iperf3: |Server output:"
    r"|Time: |Cookie: |Starting Test: |Test Complete|Target Bitrate: |CPU Utilization: |snd_tcp_congestion )",
    re.MULTILINE,
)
_QUOTE = re.compile(r'" *$', re.MULTILINE)
_DATAGRAMS = re.compile(r"(?<![\d.,])(?P<jitter>\d{1,18}(?:[.,]\d{1,18})?) ms +(?P<lost>-?\d{1,18})/ *(?P<total>\d{1,18}) +\(")
_RETRANSMITS = re.compile(r"^ +(\d{1,18})(?= |$)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
SUM = "SUM"


@dataclass(frozen=True)
class ReceivedDatagrams:
    """Counts of a UDP receiver."""

    jitter_ns: float
    counted_lost: int
    """Lost datagrams as printed: duplicates and late ones can bring the number below zero (esnet/iperf#1044)."""
    total: int

    @property
    def lost(self) -> int:
        """Lost datagrams, 0 or more."""
        return max(0, self.counted_lost)


@dataclass(frozen=True)
class TextLine:
    """A line: payload bits a second between two instants of a test. `at` is its offset in the text, in characters."""

    at: int
    stream: str
    """Number of a stream, or SUM."""
    role: str
    """Role in a test of both directions (--bidir): TX-C, RX-C, TX-S or RX-S; else empty."""
    from_s: float
    to_s: float
    bps: float
    rest: str

    @property
    def side(self) -> str:
        """`sender` or `receiver` in a line of sums; empty in an interval, and in iperf 2 and UDP before iperf3 3.1."""
        return next((side for side in ("sender", "receiver") if self.rest.rstrip().endswith(side)), "")

    @property
    def is_omitted(self) -> bool:
        """True if it belongs to the warm-up that iperf3 leaves out (-O)."""
        return "(omitted)" in self.rest

    @property
    def datagrams(self) -> ReceivedDatagrams | None:
        """Counts of a UDP receiver; None for TCP, and for an interval of a sender."""
        match = _DATAGRAMS.search(self.rest)
        return ReceivedDatagrams(_number(match["jitter"]) * 1e6, int(match["lost"]), int(match["total"])) if match else None

    @property
    def retransmits(self) -> int | None:
        """Retransmits; None for a receiver, and on a system that does not report them (Windows)."""
        match = _RETRANSMITS.match(self.rest)
        return int(match[1]) if match else None


def unstamped(text: str) -> str:
    """Return the text without prefixes of its lines: times (`--timestamps`, ts), or the names and quotes of a log."""
    return _STAMP.sub("", _QUOTE.sub("", text))


def _number(digits: str) -> float:
    """Return a number with a decimal point or comma; no number here has a thousands separator."""
    return float(digits.replace(",", "."))


def lines_of(text: str) -> Iterator[TextLine]:
    """Yield every such line of a text, in order, without lines whose numbers are too large to be real."""
    for m in _LINE.finditer(text):
        is_bits = m["unit"] == "bits"
        bps = _number(m["rate"]) * (1e3 if is_bits else 1024.0) ** _POWERS[m["prefix"]] * (1 if is_bits else 8)
        if max(bps, _number(m["to"])) > LARGEST_NUMBER:
            continue
        yield TextLine(m.start(), m["id"], m["role"] or "", _number(m["from"]), _number(m["to"]), bps, m["rest"])


def mean_bps(lines: Sequence[TextLine]) -> float | None:
    """Return the mean rate over successive intervals; None if there are none."""
    seconds = sum(line.to_s - line.from_s for line in lines)
    return sum(line.bps * (line.to_s - line.from_s) for line in lines) / seconds if seconds > 0 else None
