"""Import of iperf 2's output, text or `-y C`, from a client or a server, over TCP and UDP.

A test has all connections of the same time: the streams of `-P`, and with `--full-duplex` or `-d` those of both directions. A line from 0
to the end is the total of a stream, all others are its seconds. A TCP client counts the bytes that it wrote. A UDP client counts the
datagrams that it sent, and the server's report has those that arrived. Bytes are in powers of 1024, bits in powers of 1000 (src/stdio.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dutlab.interop.field_table import Derived, Document, ResultForm, TableField, reader
from dutlab.interop.imported_run import BACK, BOTH, LINK, LeftOut, Omission, repair_doubts
from dutlab.interop.iperf2_csv import tests_of_csv
from dutlab.interop.iperf2_test import SHORTEST_S, Iperf2Sample, Iperf2Test, each_once, with_totals
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
_CONNECTED = re.compile(
    r"^\[ *\*?(?P<id>\d+)\] local (?P<here>\S+) port (?P<port>\d+) "
    r"connected (?:with|to) (?P<there>\S+) +port (?P<far_port>\d+)(?P<rest>.*)$"
)
_LENGTH = re.compile(r"^(?:Sending|Receiving) (\d{1,9}) byte datagrams")
_LINE = re.compile(
    r"^\[ *(?P<back>\*)?(?P<id>\d+|SUM(?:-\d+)?)\] +(?P<begin>[\d.]{1,18})- *(?P<end>[\d.]{1,18}) +sec +[\d.]+ +[KMGT]?Bytes +"
    r"(?P<rate>[\d.]{1,18}) +(?P<prefix>[KMGT]?)(?P<what>bits|Bytes)/sec(?P<rest>.*)$"
)
_CAME = re.compile(r"^ *(?:(?P<jitter>[\d.]{1,18}) ms)? +(?P<lost>-?\d{1,18})/ *(?P<total>-?\d{1,18}) +\(")
_RETRIES = re.compile(r"^ +\d+/\d+ +(\d{1,18}) ")
_BITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BYTES = {"": 8.0, "K": 8 * 2.0**10, "M": 8 * 2.0**20, "G": 8 * 2.0**30, "T": 8 * 2.0**40}
_OVERCOUNTED = 1.05
"""Ratio of a sum to its streams above which the sum is wrong: a server of 2.0 with `-i` counts some seconds of a stream twice."""
_DIRECTIONS = {LINK: "forward", BACK: "reverse", BOTH: "both"}
_ADDED = ("goodput_bps", "sent_bps", "retransmits")


def _documents(data: bytes) -> tuple[Sequence[Document], list[str]]:
    text = _STAMP.sub("", data.decode("utf-8", "replace").replace("\r", "\n"))
    if _IPERF3.search(text):
        raise UnreadableError("it is output of iperf3")
    tests = [*tests_of_csv(text)] or each_once([*_of_text(text)])
    complete = [*_complete(tests)]
    documents = [document for test in complete if (document := _document(test))]
    if not documents:
        raise UnreadableError("no test of iperf 2 in it has a total")
    cut = len(tests) - len(complete)
    return documents, [f"{cut} of its tests were cut short: a client without a total does not know what arrived"] if cut else []


def _complete(tests: Sequence[Iperf2Test]) -> Iterator[Iperf2Test]:
    """Yield the tests with totals. If the client was ended, the server's report of its test remains."""
    for test in tests:
        if test.far is not None:
            with_totals(test.far)
        if with_totals(test):
            yield test
        elif test.far is not None:
            yield test.far


def _of_text(text: str) -> Iterator[Iperf2Test]:
    """Yield the tests of a text. A header may come after the lines of its connections.

    An end that opened a connection before it accepted one is the client.
    """
    protocol, length, port, is_client, listens, ports, test = "tcp", None, "", False, set[str](), set[str](), Iperf2Test()
    for line in text.splitlines():
        if header := _HEADER.match(line):
            protocol, length, port = header["protocol"].lower(), None, header["port"]
            is_client = is_client or (header["end"].startswith("Client") and not listens & ports)
            listens |= {header["port"]} if header["end"].startswith("Server") else set()
            test.protocol = test.protocol if test.samples else protocol
        elif sized := _LENGTH.match(line):
            length = int(sized[1])
            test.datagram = test.datagram if test.samples else length
        elif connected := _CONNECTED.match(line):
            if test.samples:
                yield test
                test = Iperf2Test()
            test.protocol, test.datagram = protocol, test.datagram or length
            ports.add(connected["port"])
            answers, test.accepts = connected["port"] in listens, connected["port"] == port
            test.is_server = bool(listens) and not is_client
            test.ends.add((f"{connected['here']}:{connected['port']}", f"{connected['there']}:{connected['far_port']}"))
            test.streams[connected["id"]] = "(reverse)" in connected["rest"] or (answers if is_client else bool(listens) and not answers)
        elif (match := _LINE.match(line)) and (sample := _sample(match, test)):
            test.samples.append(sample)
            test.protocol = "udp" if sample.jitter_ms is not None else test.protocol  # the header of a text may be missing
    if test.samples:
        yield test


def _sample(match: re.Match[str], test: Iperf2Test) -> Iperf2Sample | None:
    came, retries = _CAME.match(match["rest"]), _RETRIES.match(match["rest"])
    stream = "SUM" if match["id"].startswith("SUM") else match["id"]
    try:
        return Iperf2Sample(
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


def _document(test: Iperf2Test) -> Document | None:
    """Return a test with our names of its values; None for a test without a total."""
    longest = max((s.end_s for s in test.samples if s.begin_s == 0), default=0.0)
    if longest <= 0:
        return None
    ways = {place: way for place, is_back in ((LINK, False), (BACK, True)) if (way := _way(test, is_back=is_back))}
    if not ways:
        return None
    if test.far is not None and (arrived := _way(test.far, is_back=False)):
        ways[LINK] = ways.get(LINK, {}) | arrived
    place, figures = next(iter(ways.items()))
    if len(ways) > 1:
        place, figures = (
            BOTH,
            {name: sum(way[name] for way in ways.values()) for name in _ADDED if all(name in way for way in ways.values())},
        )
    return {
        "protocol": test.protocol, "streams": len(test.streams) or 1, "duration_s": round(longest) or round(longest, 1),
        "direction": _DIRECTIONS[place], **({} if test.stream is None else {"stream": test.stream}),
        "datagram_bytes": test.datagram, "is_server": test.is_server or test.far is not None, "place": place, "figures": figures,
        "ways": ways if len(ways) > 1 else {}, "doubts": test.doubts,
        "seconds": _seconds(test, longest) if len(ways) == 1 else [],
    }  # fmt: skip


def _totals(test: Iperf2Test, *, is_back: bool, came: bool) -> list[Iperf2Sample]:
    """Return the last line from 0 on of each stream, of received (`came`) or sent data; or the line of the sum alone, if it suffices."""
    sample_by_stream: dict[str, Iperf2Sample] = {}
    for s in test.samples:
        if s.begin_s == 0 and s.is_back == is_back and (s.total is not None) == came and s.end_s > 0:
            sample_by_stream[s.stream] = s
    whole, streams = sample_by_stream.pop("SUM", None), list(sample_by_stream.values())
    has_one_way = not any(s.is_back != is_back for s in test.samples if s.stream != "SUM")
    if whole is None or not has_one_way or len(streams) == 1:
        return streams
    of_all = len(streams) > 1 and len(streams) == len(test.streams)
    return streams if of_all and whole.bps > _OVERCOUNTED * sum(s.bps for s in streams) else [whole]


def _way(test: Iperf2Test, *, is_back: bool) -> dict[str, float]:
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


def _seconds(test: Iperf2Test, longest: float) -> list[Row]:
    """Return the rates of all streams together, by the end time of their lines."""
    lines = [s for s in test.samples if not (s.begin_s == 0 and s.end_s >= longest - SHORTEST_S)]
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
