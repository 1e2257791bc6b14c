"""Parser of fio's text output (`--output-format=normal`, the default) into the members of fio's JSON that `fio_run` reads.

Source: fio's stat.c. Rates and latencies are printed with three to five digits. Where possible IOPS is therefore computed from counts:
issued operations ÷ run time of the job. Up to version 2 `KB` is 1024 bytes; since version 3 that is `KiB`, and `kB` is 1000 bytes.
Each block of latencies has its unit. With `--status-interval` fio prints each job again for the whole time so far; the last one counts.
The date has no zone and counts as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dutlab.tools.fio.output import DIRECTIONS, MIXED, WAYS
from dutlab.tools.json_text import UnreadableError

_START = re.compile(
    r"(?:<\S+> )?(?P<name>\S.*): \(g=(?P<group>\d+)\): rw=(?P<rw>\w+), bs=(?P<bs>.+), ioengine=(?P<ioengine>[\w-]+)"
    r", iodepth=(?P<iodepth>\d+)$"
)
_JOB = re.compile(
    r"(?P<name>\S.*): \(groupid=(?P<group>\d+), jobs=(?P<jobs>\d+)\): err=\s*(?P<error>\d{1,9}).*?: pid=(?P<pid>\d+)(?:: (?P<date>.+))?$"
)
_WAY = re.compile(r"\s+(?P<way>read|write|trim|mixed)\s*: (?P<rest>.*(?:iops|IOPS)=.*)$")
_FIELD = re.compile(r"(?P<key>iops|IOPS|bw|BW|runt)=\s*(?P<value>\d{1,18}(?:\.\d{1,18})?)(?P<unit>[A-Za-z/]*)")
_RAN = re.compile(r"/(\d{1,18})msec\)")
_LATENCY = re.compile(r"\s+(?P<kind>[sc]?lat) \((?P<unit>nsec|usec|msec)\): (?P<rest>min=.*avg=.*)$")
_PERCENTILES = re.compile(r"\s+(?P<kind>clat|lat) percentiles \((?P<unit>nsec|usec|msec)\):")
_PERCENTILE = re.compile(r"(\d+\.\d+)th=\[\s*(\d{1,18})\]")
_VALUE = re.compile(r"(\w+)=\s*(\d{1,18}(?:\.\d{1,18})?)([kKMG]?)")
_CPU = re.compile(r"\s+cpu\s*: usr=\s*(\d{1,18}(?:\.\d{1,18})?)%, sys=\s*(\d{1,18}(?:\.\d{1,18})?)%")
_ISSUED = re.compile(r"\s+issued(?: rwts?)?\s*: total=(?:r=)?(\d{1,18})(?:/w=|,)(\d{1,18})(?:/d=|,)(\d{1,18})")
_DISK = re.compile(r"\s+(?P<name>\S+): ios=(?P<read_ios>\d{1,18})/(?P<write_ios>\d{1,18}),.*?merge=(?P<read_merges>\d{1,18})/")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([BKMGT])(?:i?B)?", re.IGNORECASE)
_VERSION = re.compile(r"fio-(\d+)\S*$")
_PREFIX = re.compile(r"^(\S[^\n]{0,200}?)Run status group \d+ ", re.MULTILINE)
_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6}
_TIMES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def read_texts(data: bytes) -> list[dict[str, Any]]:
    """Convert the text into the members of fio's JSON, for each run of fio in it. Raises UnreadableError if no job has a result."""
    reports = list[dict[str, Any]]()
    for lines in _runs(_unstamped(data.decode("utf-8", "replace")).splitlines()):
        report = _read_run(lines)
        if any(name in job for job in report["jobs"] for name in WAYS):
            reports.append(report)
    if not reports:
        raise UnreadableError("it has no fio job with a result")
    return reports


def _unstamped(text: str) -> str:
    """Return the text without a log's prefix before each line: the one before fio's sums, in which digits may differ."""
    prefix = _PREFIX.search(text)
    form = re.sub(r"\d+", lambda _: r"\d+", re.escape(prefix[1])) if prefix else ""
    return re.sub(f"^{form}", "", text, flags=re.MULTILINE) if form else text


def _runs(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines of each run. A run begins with its jobs and the version; both precede all results.

    A run without these lines begins with a job that the sums of the run before already have, by another process.
    """
    begin, has_result, has_sums, pids = 0, False, False, dict[tuple[str, str], set[str]]()
    for n, line in enumerate(lines):
        if entry := _JOB.match(line):
            known = pids.setdefault((entry["name"], entry["group"]), set())
            if has_sums and known and not known & {entry["pid"], "0"}:
                yield lines[begin:n]
                begin, has_sums, pids = n, False, {(entry["name"], entry["group"]): set()}
            pids[entry["name"], entry["group"]].add(entry["pid"])
            has_result = True
        elif has_result and (_START.match(line) or _VERSION.match(line)):
            yield lines[begin:n]
            begin, has_result, has_sums, pids = n, False, False, {}
        elif line.startswith("Run status group"):
            has_sums = True
    yield lines[begin:]


def _read_run(lines: list[str]) -> dict[str, Any]:
    jobs: dict[tuple[str, str, str], _Job] = {}
    options: dict[tuple[str, str], dict[str, str]] = {}
    disks: dict[str, dict[str, Any]] = {}
    version, job = "unknown", _Job({})
    for line in lines:
        if entry := _JOB.match(line):
            asked = _options_of(options, entry["name"], entry["group"]) | {"numjobs": entry["jobs"]}
            fields = {"jobname": entry["name"], "groupid": int(entry["group"][:9]), "error": int(entry["error"]), "job options": asked}
            fields["timestamp"] = _timestamp(entry["date"])
            job = jobs[entry["name"], entry["group"], entry["pid"]] = _Job(fields, old=version.startswith(("fio-1", "fio-2")))
        elif entry := _START.match(line):
            options[entry["name"], entry["group"]] = {k: _block_size(v) for k, v in entry.groupdict().items() if k not in ("name", "group")}
        elif _VERSION.match(line):
            version = line
        elif entry := _DISK.match(line):
            disks[entry["name"]] = {key: int(value) for key, value in entry.groupdict().items() if key != "name"}
        else:
            job.take(line)
    ended = max((entry.values["timestamp"] or 0 for entry in jobs.values()), default=0)
    of_jobs = [entry.values for entry in jobs.values()]
    return {"fio version": version, "timestamp": ended or None, "jobs": of_jobs, "disk_util": list(disks.values())}


def _options_of(options: Mapping[tuple[str, str], dict[str, str]], name: str, group: str) -> dict[str, str]:
    """Return the options of a job. Their line may begin with a shell's prompt and command."""
    own = (of for (other, of_group), of in options.items() if of_group == group and (other == name or other.endswith(f" {name}")))
    return options.get((name, group)) or next(own, {})


@dataclass
class _Job:
    """One job, filled line by line."""

    values: dict[str, Any]
    old: bool = False
    """True for output of version 1 or 2."""
    way: dict[str, Any] = field(default_factory=dict)
    """Values of the current direction."""
    kind: str = "clat_ns"
    scale: float = 0.0
    """Unit of the percentiles in ns."""

    def take(self, line: str) -> None:
        if match := _WAY.match(line):
            self.way = self.values[match["way"]] = _rates(match["rest"], old=self.old)
        elif match := _LATENCY.match(line):
            of = {key: float(value) * _TIMES[_prefix(unit)] * _NS[match["unit"]] for key, value, unit in _VALUE.findall(match["rest"])}
            times = {word: of[key] for word, key in (("min", "min"), ("max", "max"), ("mean", "avg")) if key in of}
            self.way.setdefault(f"{match['kind']}_ns", {}).update(times)
        elif match := _PERCENTILES.match(line):
            self.kind, self.scale = f"{match['kind']}_ns", _NS[match["unit"]]
        elif line.lstrip().startswith("|"):
            table = self.way.setdefault(self.kind, {}).setdefault("percentile", {})
            table |= {share: int(value) * self.scale for share, value in _PERCENTILE.findall(line)}
        elif match := _CPU.match(line):
            self.values |= {"usr_cpu": float(match[1]), "sys_cpu": float(match[2])}
        elif match := _ISSUED.match(line):
            totals = [int(total) for total in match.groups()]
            for name, total in zip((*DIRECTIONS, MIXED), (*totals, sum(totals)), strict=True):
                _count(self.values.get(name, {}), total)


def _rates(text: str, *, old: bool) -> dict[str, Any]:
    fields = {match["key"].lower(): (float(match["value"]), match["unit"]) for match in _FIELD.finditer(text)}
    of: dict[str, Any] = {}
    if "bw" in fields:
        rate, unit = fields["bw"]
        of["bw_bytes"] = rate * _bytes_of(unit.removesuffix("/s"), old=old)
    if "iops" in fields:
        rate, unit = fields["iops"]
        of["iops"] = rate * _TIMES[_prefix(unit)]
    if (runtime := _RAN.search(text)) is not None:
        of["runtime"] = int(runtime[1])
    elif "runt" in fields:
        of["runtime"] = int(fields["runt"][0])
    return of


def _count(of: dict[str, Any], total: int) -> None:
    """Set the exact IOPS from the number of issued operations, if the run time is known."""
    if of:
        of["total_ios"] = total
        if total and of.get("runtime"):
            of["iops"] = total / of["runtime"] * 1e3


def _bytes_of(unit: str, *, old: bool) -> float:
    power = max(0, "BKMGT".find(unit[:1].upper()))
    return float((1024 if old or unit[1:2] == "i" else 1000) ** power)


def _prefix(unit: str) -> str:
    """Return the prefix of a unit, with `k` for `K`; empty for a unit without a prefix."""
    prefix = {"K": "k"}.get(unit[:1], unit[:1])
    return prefix if prefix in _TIMES else ""


def _block_size(text: str) -> str:
    """Return the block size of `(R) 4096B-4096B, (W) …` in the form of a job file, if all sizes are equal; else return `text`."""
    sizes = set(re.findall(r"[\d.]+[KMG]?i?B?(?=[-/,]|$)", text.replace(" ", ""))) if "-" in text else {text}
    return _binary(sizes.pop()) if len(sizes) == 1 else text


def _binary(size: str) -> str:
    """Return a size in the form of a job file: `4k` for `4096B` or `4.0KiB`; return any other text unchanged."""
    match = _SIZE.fullmatch(size)
    if match is None or (float(match[1]) * 1024 ** "BKMGT".index(match[2].upper())) % 1:
        return size
    count, power = int(float(match[1]) * 1024 ** "BKMGT".index(match[2].upper())), 0
    while count and count % 1024 == 0 and power < 4:  # noqa: PLR2004 -- tera is the largest prefix
        count, power = count // 1024, power + 1
    return f"{count}{' kMGT'[power].strip()}"


def _timestamp(date: str | None) -> float | None:
    try:
        return datetime.strptime(date or "", "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
