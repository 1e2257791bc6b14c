"""A data file of flent (`.flent.gz`, `.flent`, of old `.json.gz`) as a trial of ours.

The format is flent's doc/data-format.rst: `x_values` in seconds, `results` series → values or null, `metadata` with the unit of each
series, and since version 2 `raw_values` with what was really read at its own time, which `results` has interpolated onto `x_values`.
Figures here are of the raw values where there are any. A series that flent computed of others (sum, average) gives no figure of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, imported_cell, mended, moment, moment_in
from dutlab.methods.ports import Measured, Row
from dutlab.tools.json_text import LONGEST_OUTPUT, UnreadableError, member, number, read_cut_object

_GZIP = b"\x1f\x8b"
_COMPUTED = (" avg", " sum", " totals", " total")
_SCALES = {"Mbits/s": 1e6, "Kbits/s": 1e3, "bits/s": 1.0, "Mbit/s": 1e6}


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A file called `name`: its name without endings stands for the device. Raises InputError."""
    del options
    try:
        text, cut = _unpacked(data)
        document, repairs = read_cut_object(text)
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy="import the data file that flent leaves, .flent or .flent.gz") from error
    said = member(document, "metadata")
    series = {key: values for key in member(document, "results") if (values := _values(document, key))}
    figures = _figures(series, said)
    if not figures:
        raise InputError(f"{name}: has no series of rates or times", remedy="import the data file that flent leaves, .flent or .flent.gz")
    measured = Measured(
        figures={LINK: figures},
        doubts=mended([*cut, *repairs]),
        facts={"flent_version": str(said.get("FLENT_VERSION", "unknown"))},
        notes=[f"note of the file: {note}"] if (note := said.get("NOTE")) else [],
        tables={"series": [_row(key, _unit(said, key), values) for key, values in series.items()]},
    )
    params = {"test": str(said.get("NAME", "not told")), "duration_s": number(said, "LENGTH")}
    cell = imported_cell(PurePath(name).name.split(".")[0], workload="flent", tool="flent", params=params)
    began, lasted_s = moment_in(said.get("TIME")), number(said, "TOTAL_LENGTH")
    return [Imported(cell, measured, started=began, ended=moment(began.timestamp() + lasted_s) if began and lasted_s else None)]


def _unpacked(data: bytes) -> tuple[bytes, list[str]]:
    """The text, as far as it can be unpacked, and what could not be. Raises UnreadableError."""
    if not data.startswith(_GZIP):
        return data, []
    unpacker = zlib.decompressobj(wbits=31)  # 31: a gzip file
    try:
        text = unpacker.decompress(data, LONGEST_OUTPUT)
    except zlib.error as error:
        raise UnreadableError(f"is not a whole gzip file ({error})") from error
    if unpacker.unconsumed_tail:
        raise UnreadableError(f"unpacks to more than {LONGEST_OUTPUT} bytes, more than any test has")
    return text, [] if unpacker.eof else ["the packed file was cut"]


def _values(document: Mapping[str, Any], series: str) -> list[float]:
    raw = member(document, "raw_values").get(series)
    found = [number(entry, "val") for entry in raw if isinstance(entry, Mapping)] if isinstance(raw, list) else []
    if not found:
        plain = member(document, "results").get(series)
        found = [number({"val": value}, "val") for value in plain] if isinstance(plain, list) else []
    return [value for value in found if value is not None]


def _unit(said: Mapping[str, Any], series: str) -> str:
    """As flent writes it; files of before 2014 name none, and their series say it themselves."""
    return str(member(member(said, "SERIES_META"), series).get("UNITS") or ("ms" if series.startswith("Ping") else "Mbits/s"))


def _figures(series: Mapping[str, Sequence[float]], said: Mapping[str, Any]) -> dict[str, float]:
    measured = {key: values for key, values in series.items() if not key.endswith(_COMPUTED)}
    rates = {key: _mean(values) * _SCALES[unit] for key, values in measured.items() if (unit := _unit(said, key)) in _SCALES}
    times = sorted(value for key, values in measured.items() if _unit(said, key) == "ms" and key.startswith("Ping") for value in values)
    figures = {"goodput_bps": sum(rates.values())} if rates else {}
    for word in ("upload", "download"):
        if of_direction := [rate for key, rate in rates.items() if word in key]:
            figures[f"{word}_goodput_bps"] = sum(of_direction)
    if times:
        figures |= {"rtt_min_ns": times[0] * 1e6, "rtt_mean_ns": _mean(times) * 1e6}
        figures |= {f"rtt_p{share}_ns": _quantile(times, share) * 1e6 for share in (50, 99)} | {"rtt_max_ns": times[-1] * 1e6}
    return figures


def _row(series: str, unit: str, values: Sequence[float]) -> Row:
    ordered = sorted(values)
    found = {"min": ordered[0], "mean": _mean(ordered), "p50": _quantile(ordered, 50), "p99": _quantile(ordered, 99), "max": ordered[-1]}
    return {"series": series, "unit": unit, "values": len(ordered), **found}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _quantile(ordered: Sequence[float], percent: int) -> float:
    """The value that so many percent do not exceed (nearest rank)."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
