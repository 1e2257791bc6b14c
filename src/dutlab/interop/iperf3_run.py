"""`iperf3 -J` and `--json-stream`, whole or cut, as a trial of ours, and what iperf3 prints for people: TCP and UDP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, imported_cell, mended, moment
from dutlab.interop.iperf3_text import is_text, results_of
from dutlab.methods.ports import Measured, Row
from dutlab.tools.iperf3 import json_output
from dutlab.tools.iperf3.json_output import Iperf3Interval, Iperf3Result, both_ways
from dutlab.tools.json_text import UnreadableError, member, number, read_object
from dutlab.units import si


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A file called `name` as a trial: its name without ending stands for the device. Raises InputError."""
    del options
    if is_text(data):
        return _of_text(name, data)
    try:
        document, repairs = _document(data)
        result = json_output.result_of(document, repairs)
        back = json_output.result_of(document, (), back=True) if json_output.has_back(document) else None
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy="only a test that reached its end has a result") from error
    start = member(document, "start")
    test = member(start, "test_start")
    measured = Measured(
        figures={LINK: _figures(result)} if back is None else both_ways(LINK, _figures(result), _figures(back)),
        doubts=mended([*result.repairs, *(back.repairs if back else ())]),
        facts={"iperf3_version": result.version},
        notes=[f"both directions at once: {si(result.received_bps, 'bit/s')} forward, {si(back.received_bps, 'bit/s')} back"]
        if back
        else [],
        tables={"seconds": [_row(i, sent=i.of_sender and result.jitter_ns is not None) for i in result.intervals]},
    )
    params = {
        "protocol": str(test.get("protocol", "TCP")).lower(),
        "streams": _whole(test, "num_streams"),
        "omit_s": _whole(test, "omit"),
        "duration_s": _whole(test, "duration"),
    }
    cell = imported_cell(PurePath(name).stem, workload="iperf3", tool="iperf3", params=params)
    return [Imported(cell, measured, started=moment(number(member(start, "timestamp"), "timesecs")))]


def _of_text(name: str, data: bytes) -> list[Imported]:
    try:
        results = results_of(data)
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy="only a test that reached its end has a result") from error
    return [
        Imported(
            imported_cell(PurePath(name).stem, workload="iperf3", tool="iperf3", params=dict(r.params)),
            Measured(figures={LINK: dict(r.figures)}, doubts=mended(r.repairs), tables={"seconds": r.seconds}),
        )
        for r in results
    ]


def _document(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """The one object of `-J`, or the lines of `--json-stream` put together as that object would have been. Raises UnreadableError."""
    events = []
    lines = data.decode("utf-8", "replace").splitlines()
    if not any('"event"' in line[:20] for line in lines[:3]):
        return read_object(data)
    cut = []
    for at, line in enumerate(lines, 1):
        try:
            said = json.loads(line)
            events.append((said["event"], said["data"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            cut += [f"line {at} is not an event"] if line.strip() else []
    whole: dict[str, Any] = {"intervals": [data for event, data in events if event == "interval"]}
    whole |= {event: data for event, data in events if event in ("start", "end", "error")}
    if "start" not in whole:
        raise UnreadableError("its stream has no start")
    return whole, cut


def _figures(result: Iperf3Result) -> dict[str, float]:
    of_udp = {"loss_ratio": result.loss_ratio, "jitter_ns": result.jitter_ns if result.loss_ratio is not None else None}
    return result.figures | {name: value for name, value in of_udp.items() if value is not None}


def _row(interval: Iperf3Interval, *, sent: bool) -> Row:
    """`sent`: the rate is that of datagrams sent, of which some were lost."""
    rate = "sent_bps" if sent else "goodput_bps"
    return {"at_s": interval.end_s, rate: interval.goodput_bps, "retransmits": interval.retransmits}


def _whole(of: Mapping[str, Any], key: str) -> int | None:
    found = number(of, key)
    return None if found is None else int(found)
