"""`iperf3 -J` and `--json-stream`, whole or cut, as a trial of ours: TCP and UDP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, ImportOptions
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.tools import iperf3_json
from dutlab.tools.iperf3 import figures_of
from dutlab.tools.iperf3_json import Result, UnreadableError

LINK = "a"
"""What the one way of such a file is called here."""


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A file called `name` as a trial: its name without ending stands for the device. Raises InputError."""
    del options
    try:
        document, repairs = _document(data)
        result = iperf3_json.parse(json.dumps(document).encode())
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy="only a test that reached its end has a result") from error
    start, udp = _mapping(document, "start"), _mapping(_mapping(document, "end"), "sum")
    test = _mapping(start, "test_start")
    doubts = [Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(found), LINK)] if (found := [*repairs, *result.repairs]) else []
    measured = Measured(
        figures={LINK: _figures(result, udp)},
        doubts=tuple(dict.fromkeys(doubts)),
        facts={"iperf3_version": result.version},
        tables={"seconds": [_row(i.end_s, i.goodput_bps, i.retransmits) for i in result.intervals]},
    )
    cell = Cell(
        mode=PurePath(name).stem,
        factors={"mode": PurePath(name).stem},
        workload="iperf3",
        tool="iperf3",
        links=(LINK,),
        params={
            "protocol": str(test.get("protocol", "TCP")).lower(),
            "streams": _whole(test.get("num_streams")),
            "omit_s": _whole(test.get("omit")),
            "duration_s": _whole(test.get("duration")),
        },
        repeat=1,
    )
    seconds = _mapping(start, "timestamp").get("timesecs")
    began = datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) else None
    return [Imported(cell, measured, {PurePath(name).name: data}, began)]


def _document(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """The one object of `-J`, or the lines of `--json-stream` put together as that object would have been. Raises UnreadableError."""
    events = []
    lines = data.decode("utf-8", "replace").splitlines()
    if not any('"event"' in line[:20] for line in lines[:3]):
        return iperf3_json.read_object(data)
    cut = 0
    for line in lines:
        try:
            said = json.loads(line)
            events.append((said["event"], said["data"]))
        except (ValueError, KeyError, TypeError):
            cut += bool(line.strip())
    whole: dict[str, Any] = {"intervals": [data for event, data in events if event == "interval"]}
    whole |= {event: data for event, data in events if event in ("start", "end", "error")}
    if "start" not in whole:
        raise UnreadableError("its stream has no start")
    return whole, [f"lines that are no event: {cut}"] if cut else []


def _figures(result: Result, udp: Mapping[str, Any]) -> dict[str, float]:
    found = figures_of(result)
    packets, lost, jitter = (udp.get(key) for key in ("packets", "lost_packets", "jitter_ms"))
    if isinstance(packets, int) and isinstance(lost, int) and packets > 0:
        found |= {"loss_ratio": lost / packets}
        found |= {"jitter_ns": float(jitter) * 1e6} if isinstance(jitter, int | float) else {}
    return found


def _row(at_s: float, goodput_bps: float, retransmits: int | None) -> Row:
    return {"at_s": at_s, "goodput_bps": goodput_bps, "retransmits": retransmits}


def _mapping(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = of.get(key)
    return found if isinstance(found, Mapping) else {}


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
