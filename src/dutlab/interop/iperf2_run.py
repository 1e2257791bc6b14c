"""Import of iperf 2's output, text or `-y C`, from a client or a server, over TCP and UDP.

A test has all connections of the same time: the streams of `-P`, and with `--full-duplex` or `-d` those of both directions. A line from 0
to the end is the total of a stream, all others are its seconds. A TCP client counts the bytes that it wrote. A UDP client counts the
datagrams that it sent, and the server's report has those that arrived. Bytes are in powers of 1024, bits in powers of 1000 (src/stdio.c).

`-y C` prints local or client address, remote address, id, interval, bytes and bits a second; for UDP also jitter, lost and total datagrams,
which are -1 at a sender (reports.c). iperf 2.1 writes 1970 as the time of a total. Then it is not known which streams ran together.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isfinite
from typing import Any

from dutlab.interop.field_table import Derived, Document, ResultForm, TableField, reader
from dutlab.interop.imported_run import BACK, BOTH, LINK, LeftOut, Omission, repair_doubts
from dutlab.methods.ports import Row
from dutlab.tools.json_text import UnreadableError

_HEADER = re.compile(r"^(?P<end>Client connecting to|Server listening on) .*?(?P<protocol>TCP|UDP) port (?P<port>\d+)")
_IPERF3 = re.compile(
    r"^(?:.{0,40} )?(?:Connecting to host |Accepted connection from |iperf Done\.)|[ \t](?:sender|receiver)[ \t]*$"
    r"|^\[ ID\](?:\[Role\])? Interval +Transfer +Bitrate\b|^\[[ \dSUM]+\](?:\[..-.\])? +\d+\.\d\d-\d+\.\d\d {2,}sec ",
    re.MULTILINE,
)
"""Words of iperf3, its head of columns, and the blanks in its lines: iperf 2 has one before `sec`."""
_STAMP = re.compile(
    r"^[^\n]{1,80}?(?=\[ *\*?(?:\d{1,5}|SUM|ID)\] |Client connecting to |Server listening on |(?:Sending|Receiving) \d+ byte datagrams)",
    re.MULTILINE,
)
"""Prefix of a line in a log, such as a time."""
_CONNECTED = re.compile(r"^\[ *\*?(?P<id>\d+)\] local \S+ port (?P<port>\d+) connected (?:with|to) \S+ port \d+(?P<rest>.*)$")
_LENGTH = re.compile(r"^(?:Sending|Receiving) (\d{1,9}) byte datagrams")
_LINE = re.compile(
    r"^\[ *(?P<back>\*)?(?P<id>\d+|SUM(?:-\d+)?)\] +(?P<begin>[\d.]{1,18})- *(?P<end>[\d.]{1,18}) +sec +[\d.]+ +[KMGT]?Bytes +"
    r"(?P<rate>[\d.]{1,18}) +(?P<prefix>[KMGT]?)(?P<what>bits|Bytes)/sec(?P<rest>.*)$"
)
_CAME = re.compile(r"^ *(?:(?P<jitter>[\d.]{1,18}) ms)? +(?P<lost>-?\d{1,18})/ *(?P<total>-?\d{1,18}) +\(")
_RETRIES = re.compile(r"^ +\d+/\d+ +(\d{1,18}) ")
_BITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BYTES = {"": 8.0, "K": 8 * 2.0**10, "M": 8 * 2.0**20, "G": 8 * 2.0**30, "T": 8 * 2.0**40}
_CSV_TCP, _CSV_UDP = 9, 14
_CSV_TIME = re.compile(r"\d{4,20}(?:\.\d{1,9})?")
_MOST_DIGITS = 9
_EPOCH = 1970
_LONGEST_FIELD = 50
"""Most characters of a field: an IPv6 address."""
_SUM_IDS = frozenset({"-1", "SUM"})
_SHORTEST_S, _LONGEST_S = 0.05, 1e9
_NEAR = 8
"""Number of earlier tests of a file, from its end, that a row may belong to."""
_TOGETHER = 0.5
"""Streams are of one test if they ran together for more than this share of the shorter one."""
_OVERCOUNTED = 1.05
"""Ratio of a sum to its streams above which the sum is wrong: a server of 2.0 with `-i` counts some seconds of a stream twice."""
_DIRECTIONS = {LINK: "forward", BACK: "reverse", BOTH: "both"}
_ADDED = ("goodput_bps", "sent_bps", "retransmits")


@dataclass(frozen=True)
class _Sample:
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
class _Test:
    protocol: str = "tcp"
    datagram: int | None = None
    streams: dict[str, bool] = field(default_factory=dict)
    """Id of a stream → True if it runs in the reverse direction."""
    samples: list[_Sample] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    is_server: bool = False
    """True if this end only accepted connections, so its bytes are those that arrived."""
    stream: int | None = None
    """Number of the test, if streams cannot be grouped into tests; else None."""


def _documents(data: bytes) -> tuple[Sequence[Document], list[str]]:
    text = _STAMP.sub("", data.decode("utf-8", "replace").replace("\r", "\n"))
    if _IPERF3.search(text):
        raise UnreadableError("it is output of iperf3")
    tests = [*_of_csv(text)] or [*_of_text(text)]
    documents = [document for test in tests if (document := _document(test))]
    if not documents:
        raise UnreadableError("no test of iperf 2 in it has a total")
    return documents, []


def _of_text(text: str) -> Iterator[_Test]:
    """Yield the tests of a text. A header may come after the lines of its connections.

    An end that opened a connection before it accepted one is the client.
    """
    protocol, length, is_client, listens, ports, test = "tcp", None, False, set[str](), set[str](), _Test()
    for line in text.splitlines():
        if header := _HEADER.match(line):
            protocol, length = header["protocol"].lower(), None
            is_client = is_client or (header["end"].startswith("Client") and not listens & ports)
            listens |= {header["port"]} if header["end"].startswith("Server") else set()
            test.protocol = test.protocol if test.samples else protocol
        elif sized := _LENGTH.match(line):
            length = int(sized[1])
            test.datagram = test.datagram if test.samples else length
        elif connected := _CONNECTED.match(line):
            if test.samples:
                yield test
                test = _Test()
            test.protocol, test.datagram = protocol, test.datagram or length
            ports.add(connected["port"])
            answers = connected["port"] in listens
            test.is_server = bool(listens) and not is_client
            test.streams[connected["id"]] = "(reverse)" in connected["rest"] or (answers if is_client else bool(listens) and not answers)
        elif (match := _LINE.match(line)) and (sample := _sample(match, test)):
            test.samples.append(sample)
            test.protocol = "udp" if sample.jitter_ms is not None else test.protocol  # the header of a text may be missing
    if test.samples:
        yield test


def _sample(match: re.Match[str], test: _Test) -> _Sample | None:
    came, retries = _CAME.match(match["rest"]), _RETRIES.match(match["rest"])
    stream = "SUM" if match["id"].startswith("SUM") else match["id"]
    try:
        return _Sample(
            stream,
            float(match["begin"]),
            float(match["end"]),
            float(match["rate"]) * (_BITS if match["what"] == "bits" else _BYTES)[match["prefix"]],
            bool(match["back"]) or test.streams.get(stream, False),
            float(came["jitter"]) if came and came["jitter"] else None,
            int(came["lost"]) if came else None,
            int(came["total"]) if came else None,
            int(retries[1]) if retries and test.protocol == "tcp" else None,
        )
    except ValueError:
        test.doubts.append(f"a line cannot be read: {match[0][:60]}")
        return None


def _of_csv(text: str) -> Iterator[_Test]:
    """Yield the tests of `-y C`: totals of streams that ran together, with their seconds."""
    rows = [row for line in text.splitlines() if len(row := line.split(",")) in (_CSV_TCP, _CSV_UDP) and _CSV_TIME.fullmatch(row[0])]
    rows = [row for row in rows if max(map(len, row)) <= _LONGEST_FIELD]
    is_udp = any(len(row) == _CSV_UDP for row in rows)
    sent = {_csv_stream(row) for row in rows if is_udp and (len(row) == _CSV_TCP or row[11].startswith("-"))}
    reports = {stream for row in rows if is_udp and (stream := _csv_stream(row)) not in sent and _csv_stream(row, swapped=True) in sent}
    back = _csv_back([row for row in rows if _csv_stream(row) not in reports])
    back |= {stream for row in rows if (stream := _csv_stream(row)) in reports and _csv_stream(row, swapped=True) in back}
    samples = [sample for row in rows if (sample := _csv_sample(row, sent, back)) is not None]
    groups = list[list[_Sample]]()
    for total in _csv_totals(samples):
        group = next((g for g in groups[-_NEAR:] if _ran_together(g[0], total)), None)
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
        test = _Test("udp" if is_udp else "tcp", None, streams, [*seconds, *of])
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


def _csv_sample(row: Sequence[str], sent: Collection[str], back: Collection[str]) -> _Sample | None:
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
    return _Sample(stream, begin_s, end_s, bps, stream in back, jitter, lost, total, ended=_csv_moment(row[0]))


def _csv_moment(text: str) -> datetime | None:
    try:
        instant = datetime.strptime(text[:14], "%Y%m%d%H%M%S")  # noqa: DTZ007 -- it has no zone, and only differences are used
    except ValueError:
        return None
    return None if instant.year <= _EPOCH else instant


def _csv_totals(samples: Sequence[_Sample]) -> list[_Sample]:
    """Return the totals: lines of a stream from 0 on, without a longer line after them."""
    totals = list[_Sample]()
    later_by_stream: dict[tuple[str, bool], _Sample] = {}
    for sample in reversed(samples):
        later = later_by_stream.get((sample.stream, sample.total is None))
        if sample.begin_s == 0 and (later is None or (later.begin_s == 0 and later.end_s <= sample.end_s + _SHORTEST_S)):
            totals.append(sample)
        later_by_stream[sample.stream, sample.total is None] = sample
    return totals[::-1]


def _ran_together(one: _Sample, other: _Sample) -> bool:
    """Return True if two streams ran at the same time; False if a time is not known."""
    if one.ended is None or other.ended is None:
        return False
    begun = max(s.ended - timedelta(seconds=s.seconds) for s in (one, other) if s.ended is not None)
    both_s = (min(one.ended, other.ended) - begun).total_seconds()
    return both_s > _TOGETHER * min(one.seconds, other.seconds) and one.stream != other.stream


def _document(test: _Test) -> Document | None:
    """Return a test with our names of its values; None for a test without a total."""
    longest = max((s.end_s for s in test.samples if s.begin_s == 0), default=0.0)
    if longest <= 0:
        return None
    ways = {place: way for place, is_back in ((LINK, False), (BACK, True)) if (way := _way(test, is_back=is_back))}
    if not ways:
        return None
    place, figures = next(iter(ways.items()))
    if len(ways) > 1:
        place, figures = (
            BOTH,
            {name: sum(way[name] for way in ways.values()) for name in _ADDED if all(name in way for way in ways.values())},
        )
    return {
        "protocol": test.protocol, "streams": len(test.streams) or 1, "duration_s": round(longest) or round(longest, 1),
        "direction": _DIRECTIONS[place], **({} if test.stream is None else {"stream": test.stream}),
        "datagram_bytes": test.datagram, "is_server": test.is_server, "place": place, "figures": figures,
        "ways": ways if len(ways) > 1 else {}, "doubts": test.doubts,
        "seconds": _seconds(test, longest) if len(ways) == 1 else [],
    }  # fmt: skip


def _totals(test: _Test, *, is_back: bool, came: bool) -> list[_Sample]:
    """Return the last line from 0 on of each stream, of received (`came`) or sent data; or the line of the sum alone, if it suffices."""
    sample_by_stream: dict[str, _Sample] = {}
    for s in test.samples:
        if s.begin_s == 0 and s.is_back == is_back and (s.total is not None) == came and s.end_s > 0:
            sample_by_stream[s.stream] = s
    whole, streams = sample_by_stream.pop("SUM", None), list(sample_by_stream.values())
    has_one_way = not any(s.is_back != is_back for s in test.samples if s.stream != "SUM")
    if whole is None or not has_one_way or len(streams) == 1:
        return streams
    of_all = len(streams) > 1 and len(streams) == len(test.streams)
    return streams if of_all and whole.bps > _OVERCOUNTED * sum(s.bps for s in streams) else [whole]


def _way(test: _Test, *, is_back: bool) -> dict[str, float]:
    came, sent = (_totals(test, is_back=is_back, came=of_came) for of_came in (True, False))
    if test.protocol != "udp":
        retransmits = [s.retransmits for s in sent if s.retransmits is not None]
        return ({"goodput_bps": sum(s.bps for s in sent)} if sent else {}) | (
            {"retransmits": float(sum(retransmits))} if retransmits else {}
        )
    figures = {"sent_bps": sum(s.bps for s in sent)} if sent else {}
    if came:
        total, lost = sum(s.total or 0 for s in came), sum(s.lost or 0 for s in came)
        figures["goodput_bps"] = sum(s.bps for s in came)
        summaries = [s for s in test.samples if s.is_back == is_back and s.begin_s == 0 and s.jitter_ms is not None]
        last = {s.stream: s.jitter_ms or 0.0 for s in summaries if s.stream != "SUM"}  # a total comes after the seconds of its stream
        jitters = list(last.values()) or [s.jitter_ms or 0.0 for s in summaries]
        figures |= {"loss_ratio": lost / total} if total > 0 else {}
        figures |= {"jitter_ns": 1e6 * max(jitters)} if jitters and total > 0 else {}
    return figures


def _seconds(test: _Test, longest: float) -> list[Row]:
    """Return the rates of all streams together, by the end time of their lines."""
    lines = [s for s in test.samples if not (s.begin_s == 0 and s.end_s >= longest - _SHORTEST_S)]
    sums = [s for s in lines if s.stream == "SUM"] or lines
    rates: dict[float, float] = {}
    for s in sums:
        rates[s.end_s] = rates.get(s.end_s, 0.0) + s.bps
    is_sent = test.protocol == "udp" and not any(s.total is not None for s in lines)
    return [{"at_s": at, ("sent_bps" if is_sent else "goodput_bps"): bps} for at, bps in sorted(rates.items())]


def _derive(result: Document, figures: Mapping[str, float]) -> Derived:
    own_figures: Mapping[str, Any] = result["figures"]
    udp = result["protocol"] == "udp"
    missing = udp and "goodput_bps" not in own_figures
    written = not udp and not result["is_server"]
    doubts = [*result["doubts"], *(["the receiver's report is missing: figures are what was sent, not what arrived"] if missing else [])]
    return Derived(
        figures=own_figures,
        doubts=repair_doubts(doubts),
        notes=["of TCP a client of iperf 2 counts what it wrote, which its socket may still have held"] if written else [],
        tables={"seconds": result["seconds"]},
        place=result["place"],
        places=result["ways"],
        datagram_bytes=result["datagram_bytes"] if udp else None,
        left_out=[LeftOut("reports", Omission.UNFINISHED, 1, "of the receiver")] if missing else [],
    )


imported = reader(
    "import what iperf 2 prints, to its last line, or with `-y C`",
    ResultForm(
        "iperf2",
        "iperf3",
        fields=[TableField(name, setting=name) for name in ("protocol", "streams", "duration_s", "direction", "stream")],
        holds=bool,
        documents=_documents,
        derive=_derive,
        names_all=True,
    ),
)
