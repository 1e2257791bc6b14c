"""Import of iperf3's output: `-J`, `--json-stream` and text, with any number of tests, over TCP, UDP and SCTP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import (
    BACK,
    LINK,
    Imported,
    ImportOptions,
    LeftOut,
    Omission,
    distinguished,
    imported_cell,
    left_out_of,
    moment,
    once_each,
    repair_doubts,
)
from dutlab.interop.iperf3_report import FORWARD, REVERSE, Iperf3Report, ids_of, places_of, with_rates
from dutlab.interop.iperf3_text import reports_of
from dutlab.methods.ports import Measured, Row
from dutlab.spec.workloads.setting import Value
from dutlab.tools.iperf3 import json_output
from dutlab.tools.iperf3.json_output import Iperf3Interval, Iperf3Result
from dutlab.tools.json_text import JsonPiece, UnreadableError, member, number, pieces_of
from dutlab.units import si

_FRAME = re.compile(r"^(?:iperf Done\.|-{20,}|Server listening on .*|[Ww]arning: .*|Control connection MSS \d+)$", re.MULTILINE)
"""Lines of iperf3 itself around a report. Before JSON it prints warnings (3.7 to 3.12 for `--bidir`), and the MSS with `-V`."""
_DEBUG = re.compile(rb"^(?:send|get)_(?:parameters|results):?[ \t]*\n\{$.*?^\}$\n?", re.MULTILINE | re.DOTALL)
"""Messages between the two ends, as --debug prints them."""
_TEXT_OF_SERVER = "Server JSON output:"
"""Line before the server's report of the same test, with `--get-server-output`."""


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read the file `name`: one trial per test. The device is named after the file, without its ending. Raises InputError."""
    try:
        reports, faults, other_text = _reports(data)
    except UnreadableError as error:
        reports, faults, other_text = [], [str(error)], []
    if not reports:
        why = faults[0] if faults else "it holds neither JSON nor lines of iperf3"
        raise InputError(f"{name}: {why}", remedy="only a test that reached its end has a result")
    left_out = (*left_out_of("tests", Omission.UNFINISHED, faults), *left_out_of("lines", Omission.UNREADABLE, other_text))
    trials = [
        _trial(name, report, [*faults, *other_text] if n == 0 else [], left_out if n == 0 else ())
        for n, report in enumerate(with_rates(reports))
    ]
    return distinguished(once_each(trials))


def _trial(name: str, report: Iperf3Report, faults: Sequence[str], left_out: Sequence[LeftOut]) -> Imported:
    asked, notes = report.asked, list[str]()
    doubts = list(repair_doubts([*report.repairs, *faults]))
    if report.below_zero:
        doubts.append(Doubt(DoubtKind.NEGATIVE_LOSS, report.below_zero, next(iter(report.figures))))
    if asked["direction"] == "bidir":
        ways = ((LINK, FORWARD), (BACK, REVERSE))
        rates = [f"{si(report.figures[place]['goodput_bps'], 'bit/s')} {way}" for place, way in ways if place in report.figures]
        notes = [f"both directions at once: {', '.join(rates)}"]
    measured = Measured(
        figures=report.figures,
        doubts=tuple(doubts),
        facts=report.facts,
        notes=notes,
        tables={"seconds": list(report.seconds)},
    )
    return Imported(
        imported_cell(PurePath(name).stem, workload="iperf3", tool="iperf3", params=asked),
        measured,
        started=report.started,
        apart=report.apart,
        test_ids=report.test_ids,
        is_second=report.is_server,
        datagram_bytes=float(size) if asked["protocol"] == "udp" and (size := asked.get("length_bytes")) else None,
        left_out=(*left_out, *((LeftOut("seconds", Omission.WARM_UP, report.omitted),) if report.omitted else ())),
    )


def _reports(data: bytes) -> tuple[list[Iperf3Report], list[str], list[str]]:
    """Return the reports of a file in order, the faults of unusable ones, and sentences on other text. Raises UnreadableError."""
    reports, faults, stream = list[Iperf3Report](), list[str](), _Stream()
    other_text, unbegun, after_server = list[str](), list[str](), False

    def take(document: Mapping[str, Any], repairs: Sequence[str]) -> None:
        try:
            reports.append(_report(document, repairs))
        except UnreadableError as error:
            # A server that is stopped between two tests reports a test that never began.
            (unbegun if "test_start" not in member(document, "start") and _is_cut_short(str(document.get("error"))) else faults).append(
                str(error)
            )

    for piece in pieces_of(_DEBUG.sub(b"", data), again=json_output.BACK):
        if stream.takes(piece):
            for document, repairs in stream.ended():
                take(document, repairs)
        elif piece.document is None:
            of_text, wrong = reports_of(piece.text)
            reports += of_text
            faults += [f"line {piece.line}: {piece.fault}"] if piece.fault else wrong
            if not (piece.fault or of_text or wrong) and (rest := _FRAME.sub("", piece.text).strip()):
                other_text.append(f"text around the report, line {piece.line}: {rest[:80]!r}")
        elif not after_server:
            take(piece.document, piece.repairs)
        after_server = piece.text.endswith(_TEXT_OF_SERVER)
    for document, repairs in stream.rest():
        take(document, repairs)
    return reports, faults if reports else [*faults, *unbegun], other_text


def _report(document: Mapping[str, Any], repairs: Sequence[str]) -> Iperf3Report:
    """Read one object of `-J`. Raises UnreadableError."""
    start, end = member(document, "start"), member(document, "end")
    test, is_server = member(start, "test_start"), "accepted_connection" in start
    error = str(document.get("error") or "")
    if _is_cut_short(error):
        document = {key: value for key, value in document.items() if key != "error"}
    results, faults = _results(document, repairs)
    if not results or (_is_cut_short(error) and not all(result.received_bps for result in results.values())):
        raise UnreadableError(f"it reports: {error}" if error else "; ".join(faults))
    is_both = len(results) + len(faults) > 1
    figures = {way: result.figures for way, result in results.items()}
    first = next(iter(results.values()))
    asked: dict[str, Value] = {
        "protocol": str(test.get("protocol", "TCP")).lower(),
        "direction": "bidir" if is_both else next(iter(results)),
        "streams": _whole(test, "num_streams"),
        "omit_s": _whole(test, "omit"),
        "duration_s": _whole(test, "duration"),
    }
    asked |= {name: value for name, key in _OTHER_SETTINGS.items() if (value := _whole(test, key) or _whole(start, key))}
    all_repairs = [repair for result in results.values() for repair in result.repairs]
    all_repairs += [f"half of a test in both directions is missing: {fault}" for fault in faults]
    all_repairs += [f"it was cut short: {error}"] if error else []
    return Iperf3Report(
        figures=places_of(figures, is_both=is_both),
        asked=asked,
        is_server=is_server,
        test_ids=ids_of(start.get("cookie"), _ends(start)),
        seconds=[_row(i, way, result, is_both=is_both) for way, result in results.items() for i in result.intervals],
        repairs=tuple(dict.fromkeys(all_repairs)),
        below_zero="; ".join(result.below_zero for result in results.values() if result.below_zero),
        facts={"iperf3_version": first.version},
        started=moment(number(member(start, "timestamp"), "timesecs")),
        apart=_apart(start, end, is_server=is_server),
        omitted=json_output.omitted(document),
    )


_OTHER_SETTINGS = {
    "rate_bps": "target_bitrate",
    "length_bytes": "blksize",
    "bytes": "bytes",
    "blocks": "blocks",
    "tos": "tos",
    "window_bytes": "sock_bufsize",
}
"""Other settings of a test that the user may have chosen: our name → iperf3's."""


def _results(document: Mapping[str, Any], repairs: Sequence[str]) -> tuple[dict[str, Iperf3Result], list[str]]:
    """Return direction → result, with directions as the client names them, and the faults of directions without a result."""
    is_reverse = json_output.is_reverse(document)
    ways = {FORWARD: False, REVERSE: True} if json_output.has_back(document) else {REVERSE if is_reverse else FORWARD: False}
    results, faults = dict[str, Iperf3Result](), list[str]()
    for way, back in ways.items():
        try:
            results[way] = json_output.result_of(document, repairs, back=back)
        except UnreadableError as error:
            faults.append(f"{way}: {error}" if len(ways) > 1 else str(error))
    return results, faults


def _ends(start: Mapping[str, Any]) -> list[tuple[object, object]]:
    """Return address and port of both ends of the first stream; empty if one is missing."""
    connected = start.get("connected")
    first = connected[0] if isinstance(connected, list) and connected and isinstance(connected[0], Mapping) else {}
    ends = [(first[f"{end}_host"], first.get(f"{end}_port")) for end in ("local", "remote") if f"{end}_host" in first]
    return ends if len(ends) == 2 else []  # noqa: PLR2004 -- both


def _apart(start: Mapping[str, Any], end: Mapping[str, Any], *, is_server: bool) -> dict[str, str]:
    own, far = (str(address).removeprefix("::ffff:") for address, _ in (_ends(start) or [("", ""), ("", "")]))
    far = str(member(start, "connecting_to").get("host") or member(start, "accepted_connection").get("host") or far).removeprefix("::ffff:")
    fields = {"client": far if is_server else own, "server": own if is_server else far}
    fields["congestion"] = str(end.get("sender_tcp_congestion") or "")
    return {key: value for key, value in fields.items() if value}


def _row(interval: Iperf3Interval, way: str, result: Iperf3Result, *, is_both: bool) -> Row:
    """Return the row of an interval. For a UDP sender the rate counts sent datagrams, some of which were lost."""
    rate = "sent_bps" if interval.of_sender and result.jitter_ns is not None else "goodput_bps"
    row: Row = {"at_s": interval.end_s, rate: interval.goodput_bps, "retransmits": interval.retransmits}
    return {**row, "direction": LINK if way == FORWARD else BACK} if is_both else row


def _is_cut_short(error: str) -> bool:
    return "has terminated" in error or error.startswith("interrupt")


def _whole(of: Mapping[str, Any], key: str) -> int | None:
    value = number(of, key)
    return None if value is None else int(value)


class _Stream:
    """Collector that joins lines of `--json-stream` into the objects that `-J` would print."""

    def __init__(self) -> None:
        self._whole: dict[str, Any] | None = None
        self._cut: list[str] = []
        self._ended: list[tuple[dict[str, Any], list[str]]] = []

    def takes(self, piece: JsonPiece) -> bool:
        """Take an event, or another line between events. Return False for any other piece."""
        document = piece.document
        if document is None:
            if self._whole is None or not (piece.fault or not reports_of(piece.text)[0]):
                return False
            self._cut.append(f"line {piece.line} is not an event")
            return True
        event = document.get("event")
        if not isinstance(event, str) or "data" not in document:
            if self._whole is not None and member(self._whole, "start") == member(document, "start"):
                self._whole = None  # --json-stream-full-output reports the test again, as one object
            return False
        if event == "start" or self._whole is None:
            self._end()
            self._whole = {"intervals": []}
        if event == "interval":
            self._whole["intervals"].append(document["data"])
        elif event in {"start", "end", "error"}:
            self._whole[event] = document["data"]
        return True

    def ended(self) -> Iterator[tuple[Mapping[str, Any], Sequence[str]]]:
        """Yield the objects that were completed since the last call."""
        while self._ended:
            yield self._ended.pop(0)

    def rest(self) -> Iterator[tuple[Mapping[str, Any], Sequence[str]]]:
        """Yield the remaining objects, the unfinished last one included."""
        self._end()
        yield from self.ended()

    def _end(self) -> None:
        if self._whole is not None:
            self._ended.append((self._whole, self._cut))
        self._whole, self._cut = None, []
