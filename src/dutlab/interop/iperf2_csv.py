"""Tests in the output of iperf 2 with `-y C`.

It prints local or client address, remote address, id, interval, bytes and bits a second; for UDP also jitter, lost and total datagrams,
which are -1 at a sender (reports.c). iperf 2.1 writes 1970 as the time of a total. Then it is not known which streams ran together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from math import isfinite

from dutlab.interop.iperf2_test import NEAR, SHORTEST_S, Iperf2Sample, Iperf2Test

_CSV_TCP, _CSV_UDP = 9, 14
_CSV_TIME = re.compile(r"\d{4,20}(?:\.\d{1,9})?")
_MOST_DIGITS = 9
_EPOCH = 1970
_LONGEST_FIELD = 50
"""Most characters of a field: an IPv6 address."""
_SUM_IDS = frozenset({"-1", "SUM"})
_TOGETHER = 0.5
"""Streams are of one test if they ran together for more than this share of the shorter one."""
_LONGEST_S = 1e9


def tests_of_csv(text: str) -> Iterator[Iperf2Test]:
    """Yield the tests of `-y C`: totals of streams that ran together, with their seconds."""
    rows = [row for line in text.splitlines() if len(row := line.split(",")) in (_CSV_TCP, _CSV_UDP) and _CSV_TIME.fullmatch(row[0])]
    rows = [row for row in rows if max(map(len, row)) <= _LONGEST_FIELD]
    is_udp = any(len(row) == _CSV_UDP for row in rows)
    sent = {_csv_stream(row) for row in rows if is_udp and (len(row) == _CSV_TCP or row[11].startswith("-"))}
    reports = {stream for row in rows if is_udp and (stream := _csv_stream(row)) not in sent and _csv_stream(row, swapped=True) in sent}
    back = _csv_back([row for row in rows if _csv_stream(row) not in reports])
    back |= {stream for row in rows if (stream := _csv_stream(row)) in reports and _csv_stream(row, swapped=True) in back}
    samples = [sample for row in rows if (sample := _csv_sample(row, sent, back)) is not None]
    groups = list[list[Iperf2Sample]]()
    for total in _csv_totals(samples):
        group = next((g for g in groups[-NEAR:] if _ran_together(g[0], total)), None)
        if group is None:
            groups.append(group := [])
        group.append(total)
    unknown = len(groups) > 1 and all(of[0].ended is None for of in groups)
    for number, of in enumerate(groups, 1):
        ids = {total.stream for total in of}
        seconds = []
        if len(groups) == 1:
            seconds = [s for s in samples if s.stream in ids and s not in of and s.begin_s + s.seconds <= max(t.end_s for t in of)]
        streams = {stream: stream in back for stream in ids - _SUM_IDS - reports}
        test = Iperf2Test("udp" if is_udp else "tcp", None, streams, [*seconds, *of])
        if unknown:
            test.doubts.append("its times are all of 1970: whether its streams ran together is not known, each is a trial")
            test.stream = number
        yield test


def _csv_stream(row: Sequence[str], *, swapped: bool = False) -> str:
    if row[5] in _SUM_IDS:
        return "SUM"
    here, there = (f"{row[3]}:{row[4]}", f"{row[1]}:{row[2]}") if swapped else (f"{row[1]}:{row[2]}", f"{row[3]}:{row[4]}")
    return f"{here}>{there}"


def _csv_back(rows: Sequence[Sequence[str]]) -> set[str]:
    """Return the streams of the reverse direction.

    A row has the ports of this end and of the far one, and one of them is the port that listens. The first stream of a test runs forward.
    If only one direction is in the file, no stream is in the result.
    """
    of_streams = [row for row in rows if row[5] not in _SUM_IDS]
    if not of_streams:
        return set()
    first = min(of_streams, key=lambda row: int(row[5]) if row[5].isdecimal() and len(row[5]) < _MOST_DIGITS else 0)
    for listens, other in ((4, 2), (2, 4)):
        if all(first[listens] in (row[2], row[4]) for row in of_streams):
            return {_csv_stream(row) for row in of_streams if row[other] == first[listens]}
    return set()


def _csv_sample(row: Sequence[str], sent: Collection[str], back: Collection[str]) -> Iperf2Sample | None:
    """Return the sample of a row; None for an unreadable row. `sent` has the streams of senders, whose seconds count sent datagrams too."""
    try:
        begin_s, end_s = (float(part) for part in row[6].split("-", 1))
        udp = (float(row[9]), int(row[10]), int(row[11])) if len(row) == _CSV_UDP else None
        stream, bps = _csv_stream(row), float(row[8])
    except ValueError:
        return None
    if not all(0 <= value < _LONGEST_S for value in (begin_s, end_s)) or not all(isfinite(value) for value in (bps, *(udp or ()))):
        return None
    jitter, lost, total = udp if udp is not None and stream not in sent else (None, None, None)
    return Iperf2Sample(stream, begin_s, end_s, bps, stream in back, jitter, lost, total, ended=_csv_moment(row[0]))


def _csv_moment(text: str) -> datetime | None:
    try:
        instant = datetime.strptime(text[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007 -- it has no zone, and only differences are used
    except ValueError:
        return None
    return None if instant.year <= _EPOCH else instant


def _csv_totals(samples: Sequence[Iperf2Sample]) -> list[Iperf2Sample]:
    """Return the totals: lines of a stream from 0 on, without a longer line after them.

    The only line of a stream is its first interval, not its total, if the file was cut: then other streams have intervals of that length.
    """
    lines_by_stream: dict[tuple[str, bool], list[Iperf2Sample]] = {}
    for sample in samples:
        lines_by_stream.setdefault((sample.stream, sample.total is None), []).append(sample)
    intervals = [lines[0].end_s for lines in lines_by_stream.values() if len(lines) > 1 and lines[1].begin_s > 0]
    totals = list[Iperf2Sample]()
    later_by_stream: dict[tuple[str, bool], Iperf2Sample] = {}
    for sample in reversed(samples):
        stream = sample.stream, sample.total is None
        later = later_by_stream.get(stream)
        is_interval = len(lines_by_stream[stream]) == 1 and any(abs(sample.end_s - end_s) < SHORTEST_S for end_s in intervals)
        if sample.begin_s == 0 and not is_interval and (later is None or (later.begin_s == 0 and later.end_s <= sample.end_s + SHORTEST_S)):
            totals.append(sample)
        later_by_stream[stream] = sample
    return totals[::-1]


def _ran_together(one: Iperf2Sample, other: Iperf2Sample) -> bool:
    """Return True if two streams ran at the same time; False if a time is not known."""
    if one.ended is None or other.ended is None:
        return False
    begun = max(s.ended - timedelta(seconds=s.seconds) for s in (one, other) if s.ended is not None)
    both_s = (min(one.ended, other.ended) - begun).total_seconds()
    return both_s > _TOGETHER * min(one.seconds, other.seconds) and one.stream != other.stream
