"""A test of iperf 2, with its lines of output, before its figures are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

SHORTEST_S = 0.05
"""Largest difference between equal times, which iperf 2 prints with one digit or four."""
NEAR = 8
"""Number of earlier tests of a file, from its end, that a row or a test may belong to."""


@dataclass(frozen=True)
class Iperf2Sample:
    """One line of output, for one stream or for all (`SUM`)."""

    stream: str
    begin_s: float
    end_s: float
    bps: float
    is_back: bool = False
    jitter_ms: float | None = None
    lost: int | None = None
    total: int | None = None
    """Number of datagrams; None if the line does not count arrivals."""
    retransmits: int | None = None
    ended: datetime | None = None

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


@dataclass
class Iperf2Test:
    """All connections of the same time, with their lines."""

    protocol: str = "tcp"
    datagram: int | None = None
    streams: dict[str, bool] = field(default_factory=dict)
    """Id of a stream → True if it runs in the reverse direction."""
    samples: list[Iperf2Sample] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    is_server: bool = False
    """True if this end only accepted connections, so its bytes are those that arrived."""
    stream: int | None = None
    """Number of the test, if streams cannot be grouped into tests; else None."""
    ends: set[tuple[str, str]] = field(default_factory=set)
    """Local and remote end of each connection."""
    accepts: bool = False
    """True if its local port is the one that listens."""
    far: Iperf2Test | None = None
    """Report of the server on the same test, if the text has both ends; this is then the client's."""

    def is_other_end_of(self, other: Iperf2Test) -> bool:
        return bool(self.ends) and self.ends == {(there, here) for here, there in other.ends}


def each_once(tests: Sequence[Iperf2Test]) -> list[Iperf2Test]:
    """Return each test once. A page that shows a test at both ends has it twice: the server's report then belongs to the client's."""
    once = list[Iperf2Test]()
    for test in tests:
        other = next((of for of in once[-NEAR:] if of.far is None and test.is_other_end_of(of)), None)
        if other is None:
            once.append(test)
            continue
        for of in (test, other):
            of.streams = dict.fromkeys(of.streams, False)
            of.samples = [replace(sample, is_back=False) for sample in of.samples]
        client, server = (other, test) if test.accepts else (test, other)
        client.is_server, server.is_server, client.far = False, True, server
        once[once.index(other)] = client
    return once


def with_totals(test: Iperf2Test) -> bool:
    """Return True if the test has totals. Its first interval, which also begins at 0, is not one.

    A server that was ended has only intervals. They are added up, with a doubt. A client that was ended does not know what arrived.
    """
    by_stream: dict[tuple[str, bool, bool], list[Iperf2Sample]] = {}
    for s in test.samples:
        by_stream.setdefault((s.stream, s.is_back, s.total is not None), []).append(s)
    for lines in by_stream.values():
        total_s = max((s.end_s for s in lines if s.begin_s == 0), default=None)
        last = max(lines, key=lambda s: s.end_s)
        if total_s is None or last.end_s <= total_s + SHORTEST_S or last.begin_s < total_s - SHORTEST_S:
            continue
        if not test.is_server:
            return False
        seconds = sum(s.seconds for s in lines)
        mean = sum(s.bps * s.seconds for s in lines) / seconds
        counted = last.total is not None
        lost, came = (sum(of) if counted else None for of in ([s.lost or 0 for s in lines], [s.total or 0 for s in lines]))
        test.samples.append(replace(last, begin_s=0.0, bps=mean, lost=lost, total=came))
        test.doubts.append(f"it was cut short: it has no total, its figures are those of {seconds:.0f} s")
    return True
