"""`fio --output-format=json` (or json+), or its text (`fio_text`), as trials of ours: one a job, of the whole test and of clients alike.

Read from fio's stat.c. Up to version 2 latencies are in µs under `clat` and `lat`, since version 3 in ns under `clat_ns` and `lat_ns`;
rates are KiB a second in `bw`, since 3.0 also bytes in `bw_bytes`. `--status-interval` writes one object after the other, each of the
whole time so far: the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from dutlab.errors import InputError
from dutlab.interop.fio_text import read_text
from dutlab.interop.imported_run import Imported, ImportOptions, imported_cell, mended, moment
from dutlab.methods.ports import Measured, Row
from dutlab.tools.json_text import UnreadableError, member, number, read_cut_object

STORAGE = "storage"
"""What to write where other tools name a link."""
_WAYS = ("read", "write", "trim", "mixed")
_OPTIONS = ("rw", "bs", "iodepth", "numjobs", "ioengine")
_PERCENTILES = {"50": "p50", "99": "p99", "99.9": "p999"}
_OBJECT = re.compile(rb"^\{", re.MULTILINE)
_TEXT = re.compile(rb"^\S.*: \(groupid=\d+, jobs=", re.MULTILINE)


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A file called `name`: its name without ending stands for the device. Raises InputError."""
    del options
    try:
        document, repairs = _last_report(data)
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy="keep what fio prints, or writes with --output-format=json") from error
    jobs = [job for key in ("jobs", "client_stats") for job in _objects(document.get(key))]
    trials = [_trial(PurePath(name).stem, job, document, repairs) for job in jobs if any(_moved(job, direction) for direction in _WAYS)]
    if not trials:
        raise InputError(f"{name}: no job in it did any I/O", remedy="keep what fio prints, or writes with --output-format=json")
    return trials


def _last_report(data: bytes) -> tuple[dict[str, Any], list[str]]:
    begins = [found.start() for found in _OBJECT.finditer(data)]
    if not begins and _TEXT.search(data):
        return read_text(data), []
    if len(begins) < 2:  # noqa: PLR2004 -- a single one, as without --status-interval
        return read_cut_object(data)
    document, repairs = read_cut_object(data[begins[-1] :])
    line = data.count(b"\n", 0, begins[-1]) + 1
    return document, [*repairs, f"{len(begins)} reports; that from line {line} on, the last, counts"]


def _trial(device: str, job: Mapping[str, Any], document: Mapping[str, Any], repairs: Sequence[str]) -> Imported:
    common = document.get("global options")
    asked = {**(common if isinstance(common, Mapping) else {}), **member(job, "job options")}
    params: dict[str, str | float | int | None] = {"job": str(job.get("jobname", "not named"))}
    params |= {"client": str(job["hostname"])} if "hostname" in job else {}
    params |= {key: str(asked[key]) for key in _OPTIONS if key in asked}
    figures: dict[str, float] = {}
    for direction in _WAYS:
        figures |= _figures(direction, member(job, direction)) if _moved(job, direction) else {}
    figures |= {f"{word}_cpu_percent": cpu for word in ("usr", "sys") if (cpu := number(job, f"{word}_cpu")) is not None}
    wrong = [f"job {params['job']} ended with error {job['error']}"] if job.get("error") else []
    ended_s, lasted_ms = number(document, "timestamp"), max(number(member(job, direction), "runtime") or 0.0 for direction in _WAYS)
    measured = Measured(
        figures={STORAGE: figures},
        doubts=mended([*repairs, *wrong], STORAGE),
        facts={"fio_version": str(document.get("fio version", "unknown"))},
        notes=_notes(job),
        tables={"latency": list(_percentiles(job))},
    )
    return Imported(
        imported_cell(device, workload="fio", tool="fio", link=STORAGE, params=params),
        measured,
        started=moment(None if ended_s is None else ended_s - lasted_ms / 1e3),
        ended=moment(ended_s),
    )


def _figures(direction: str, of: Mapping[str, Any]) -> dict[str, float]:
    """Of one direction; what this fio does not tell is absent."""
    kibibytes = number(of, "bw")
    rate = number(of, "bw_bytes")
    known = {"iops": number(of, "iops"), "bytes_per_s": kibibytes * 1024 if rate is None and kibibytes is not None else rate}
    for kind, words in (("clat", ("mean", "max")), ("lat", ("mean",))):
        latency, scale = _latency(of, kind)
        if number(latency, "N") != 0:
            known |= {f"{kind}_{word}_ns": value * scale for word in words if (value := number(latency, word)) is not None}
        known |= {f"{kind}_{_PERCENTILES[p]}_ns": value for p, value in _percentile(of, kind) if p in _PERCENTILES}
    return {f"{direction}_{name}": value for name, value in known.items() if value is not None}


def _latency(of: Mapping[str, Any], kind: str) -> tuple[Mapping[str, Any], float]:
    """The block of a kind of latency, and how many ns its unit has."""
    return (member(of, f"{kind}_ns"), 1.0) if f"{kind}_ns" in of else (member(of, kind), 1e3)


def _percentile(of: Mapping[str, Any], kind: str) -> Iterator[tuple[str, float]]:
    """(`99.9`, ns) of each percentile."""
    block, scale = _latency(of, kind)
    table = member(block, "percentile")
    for share in table:
        value = number(table, share)
        if value is not None and re.fullmatch(r"\d{1,3}(\.\d+)?", share):
            yield f"{float(share):g}", value * scale


def _percentiles(job: Mapping[str, Any]) -> Iterator[Row]:
    for direction in _WAYS:
        for share, value in _percentile(member(job, direction), "clat") if _moved(job, direction) else ():
            yield {"direction": direction, "share_percent": float(share), "clat_ns": value}


def _notes(job: Mapping[str, Any]) -> list[str]:
    state = member(job, "steadystate")
    if "attained" not in state:
        return []
    found = "was attained" if state["attained"] else "was not attained"
    return [f"fio's steady state ({state.get('ss', 'not named')}) {found}; the figures are of the whole job"]


def _moved(job: Mapping[str, Any], direction: str) -> bool:
    return bool(number(member(job, direction), "total_ios") or number(member(job, direction), "iops"))


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
