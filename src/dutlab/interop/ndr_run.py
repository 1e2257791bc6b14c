"""Import of the JSON of TRex's search, `ndr --stl … -o json` (ndr_bench.py): {"results": {…}, "config": {…}}.

Source: ndr_bench.py of v3.08. The rates are those of the last run that met the goal, over all transmitting ports. The counters are read
while frames are on their way. The default goal is a drop rate of 0.1 %, not zero. `tx_bps` is L2 with FCS, latencies are in µs. The file
has no frame size, so it is computed as bits ÷ frames. `-o json` prints the text as Python does: in quotes, and in several pieces.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, imported_cell, repair_doubts
from dutlab.methods.ports import Measured, Row
from dutlab.tools.json_text import UnreadableError, member, number, read_cut_object

_PRINTED = re.compile(rb"""\((?:\s*(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))+\)""")
_REMEDY = "import what `ndr --stl … -o json` gives"


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read the file `name`. The device is named after the file, without its ending. Raises InputError."""
    try:
        document, repairs = read_cut_object(_text(data))
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy=_REMEDY) from error
    results, config = member(document, "results"), member(document, "config")
    figures = _figures(results)
    if "received_pps" not in figures:
        raise InputError(f"{name}: does not report what was received (results.rx_pps)", remedy=_REMEDY)
    frame = _frame(results)
    duration = number(config, "iteration_duration")  # twice the requested length of a run (NdrBenchConfig.__init__)
    params: dict[str, str | float | int | None] = {
        "frame_size": "not stated" if frame is None else frame,
        "directions": "both" if config.get("bi_dir") is True else "forward",
        "duration_s": None if duration is None else duration / 2,
        "loss_percent": number(config, "pdr"),
    }
    measured = Measured(
        figures={LINK: figures},
        doubts=repair_doubts(repairs),
        notes=_notes(results, config, frame),
        tables={"latency": [_row(group, of) for group, of in member(results, "latency").items() if isinstance(of, Mapping)]},
    )
    return [Imported(imported_cell(PurePath(name).stem, workload="sweep", tool="TRex ndr_bench", params=params), measured)]


def _text(data: bytes) -> bytes:
    """Return the JSON, also from the output of Python's pprint."""
    printed = next((match[0] for match in _PRINTED.finditer(data) if b'{"results"' in match[0]), None)
    if printed is None:
        return data
    try:
        return str(ast.literal_eval(printed.decode("utf-8", "replace"))).encode()
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return data


def _figures(document: Mapping[str, Any]) -> dict[str, float]:
    drop, full = number(document, "drop_rate_percentage"), number(document, "queue_full_percentage")
    known = {
        "offered_pps": number(document, "tx_pps"),
        "received_pps": number(document, "rx_pps"),
        "offered_bps_l1": number(document, "total_tx_L1"),
        "received_bps_l1": number(document, "total_rx_L1"),
        "offered_bps_l2": number(document, "tx_bps"),
        "received_bps_l2": number(document, "rx_bps"),
        "loss_ratio": None if drop is None else drop / 100,
        "queue_full_ratio": None if full is None else full / 100,
        "generator_cpu_percent": number(document, "cpu_util"),
    }
    groups = [of for of in member(document, "latency").values() if isinstance(of, Mapping)]
    for word, of_all, key in (("min", min, "total_min"), ("max", max, "total_max")):
        values = [value for of in groups if (value := number(of, key)) is not None]
        known[f"latency_{word}_ns"] = of_all(values) * 1e3 if values else None
    if len(groups) == 1 and (mean := number(groups[0], "average")) is not None:
        known["latency_mean_ns"] = mean * 1e3
    return {name: value for name, value in known.items() if value is not None}


def _frame(document: Mapping[str, Any]) -> int | None:
    """Return the average frame size in bytes with FCS; None if it is not known."""
    bits, frames = number(document, "tx_bps"), number(document, "tx_pps")
    return round(bits / 8 / frames) if bits and frames else None


def _notes(document: Mapping[str, Any], config: Mapping[str, Any], frame: int | None) -> list[str]:
    goal, of_max = number(config, "pdr"), number(document, "rate_p")
    allowed = "0.1 (its default)" if goal is None else f"{goal:g}"
    notes = [f"ndr_bench allowed {allowed} % loss, and read its counters while frames were on their way"]
    notes += [] if of_max is None else [f"found at {of_max:.2f} % of the most that it could send"]
    tried, most = number(document, "total_iterations"), number(config, "max_iterations")
    if tried is not None and tried == most:
        notes.append(f"it stopped after {tried:g} runs, the most that it was allowed: the limit may be higher")
    notes += [] if frame is None else ["frame size: bits sent by frames sent, so that of a mix is its average"]
    return notes


def _row(group: str, of: Mapping[str, Any]) -> Row:
    words = {"average": "mean", "total_min": "min", "total_max": "max", "jitter": "jitter"}
    return {"group": group} | {f"{ours}_ns": None if (us := number(of, key)) is None else us * 1e3 for key, ours in words.items()}
