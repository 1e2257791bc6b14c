"""Parser of fio's terse output (`--minimal`, `--output-format=terse`), versions 2 to 5, into the members of its JSON that `fio_run` reads.

Source: fio's stat.c (show_thread_status_terse_all). A line is a job: version, fio's version (not in 2), name, group, error. Then comes a
block for each direction: read and write, in versions 2, 4 and 5 also trim. If directions are counted together, there is only one block;
with unified_rw_reporting=both it follows the others. Then come the processor, distributions, disks, and errors if fio continues after
errors. A block has KiB, KiB/s, IOPS and ms. Latencies follow in µs: least, greatest, mean and deviation of slat, the same of clat,
twenty percentiles of clat, the same four values of lat. Then come five values of bandwidth, and in version 5 six more.

The output does not have the options of the jobs. Successive lines are of one run of fio if their text on disks is the same, since fio
prints that text after all jobs have ended. A repeated job without disks begins another run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from dutlab.tools.fio.output import MIXED
from dutlab.tools.json_text import UnreadableError

_LINE = re.compile(r"(?:2;[^;]*;\d{1,9};\d{1,9}|[345];fio[- ][^;]+;[^;]*;\d{1,9};\d{1,9})(?:;[^;]*){40,}$")
_HEAD = {2: 4, 3: 5, 4: 5, 5: 5}
"""Fields before the first block, by version."""
_BLOCK = {2: 41, 3: 41, 4: 41, 5: 47}
_WAYS = {2: ("read", "write", "trim"), 3: ("read", "write"), 4: ("read", "write", "trim"), 5: ("read", "write", "trim")}
_TO_DISKS = 5 + 7 + 10 + 12
"""Number of fields between the blocks and the disks: processor, depths, latencies in µs and in ms."""
_DISK = 9
_US = 1000.0
_REMEDY = "write it with --output-format=json"


def is_terse(data: bytes) -> bool:
    """Return True if a line of `data` is terse output of fio."""
    return any(_LINE.match(line) for line in _lines(data))


def read_terse(data: bytes) -> list[tuple[dict[str, Any], list[str]]]:
    """Return each run of fio, with its uncertainties. Raises UnreadableError if a line does not have the fields of its version."""
    runs: list[dict[str, Any]] = []
    unsure = list[str]()
    known: set[tuple[str, int]] = set()
    for number, line in enumerate(_lines(data), 1):
        if not _LINE.match(line):
            continue
        version, job, disks = _job(line.split(";"), number)
        who = (job["jobname"], job["groupid"])
        is_again = who in known and not disks
        if is_again:
            unsure.append(f"line {number} is of job {who[0]} again and names no disks: the two may have run at the same time")
        if not runs or is_again or (runs[-1]["fio version"], runs[-1]["disk_util"]) != (version, _disk_util(disks)):
            runs.append({"fio version": version, "jobs": [], "disk_util": _disk_util(disks)})
            known = set()
        known.add(who)
        runs[-1]["jobs"].append(job)
    return [(run, unsure if n == 0 else []) for n, run in enumerate(runs)]


def _lines(data: bytes) -> Sequence[str]:
    return data.decode("utf-8", "replace").splitlines()


def _job(fields: list[str], number: int) -> tuple[str, dict[str, Any], list[dict[str, str]]]:
    version = int(fields[0])
    head, width = _HEAD[version], _BLOCK[version]
    ways = _WAYS[version]
    for names in ((MIXED,), ways, (*ways, MIXED)):
        after = head + width * len(names)
        if len(fields) >= after + _TO_DISKS and fields[after].endswith("%") and fields[after + 1].endswith("%"):
            break
    else:
        raise UnreadableError(f"line {number} does not have the fields of version {version} of fio's terse form; {_REMEDY}")
    job: dict[str, Any] = {
        "jobname": fields[head - 3],
        "groupid": int(fields[head - 2]),
        "error": int(fields[head - 1]),
        "usr_cpu": _number(fields[after]),
        "sys_cpu": _number(fields[after + 1]),
    }
    job |= {way: _direction(fields[head + width * n : head + width * (n + 1)]) for n, way in enumerate(names)}
    disks = list(_disks(fields[after + _TO_DISKS :]))
    return fields[1] if version > 2 else "unknown", job, disks  # noqa: PLR2004 -- version 2 does not state it


def _direction(block: Sequence[str]) -> dict[str, Any]:
    iops, runtime = _number(block[2]), _number(block[3])
    shares = [field.partition("%=") for field in block[12:32]]
    clat = {**_latency(block[8:12]), "percentile": {share: _number(us) * _US for share, _, us in shares if share != "0"}}
    return {
        "total_ios": iops * runtime / 1000,
        "bw": _number(block[1]),
        "iops": iops,
        "runtime": runtime,
        "slat_ns": _latency(block[4:8]),
        "clat_ns": clat,
        "lat_ns": _latency(block[32:36]),
    }


def _latency(fields: Sequence[str]) -> dict[str, float]:
    """Return least, greatest and mean in ns; empty if the latency was not measured."""
    least, most, mean = (_number(field) * _US for field in fields[:3])
    return {"min": least, "max": most, "mean": mean} if most else {}


def _disks(fields: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the disks. The fields after them are errors and a description."""
    names = ("name", "read_ios", "write_ios", "read_merges", "write_merges", "read_ticks", "write_ticks", "in_queue", "util")
    for at in range(0, len(fields), _DISK):
        disk = fields[at : at + _DISK]
        if len(disk) < _DISK or not disk[-1].endswith("%"):
            return
        yield dict(zip(names, disk, strict=True))


def _disk_util(disks: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    return [{name: text if name == "name" else _number(text) for name, text in disk.items()} for disk in disks]


def _number(text: str) -> float:
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        return 0.0
    return number if 0 <= number < 1e18 else 0.0  # noqa: PLR2004 -- larger than any counter of fio
