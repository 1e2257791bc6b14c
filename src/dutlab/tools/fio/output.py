"""Output of fio: its report, as json+, json or the members of it that a text has, and its logs of each second.

Read from fio's stat.c and its HOWTO ("Log File Formats"). Up to version 2 latencies are in µs under `clat` and `lat`, since version 3 in
ns under `clat_ns` and `lat_ns`; rates are KiB a second in `bw`, since 3.0 also bytes in `bw_bytes`. A log line is time in ms, value,
direction (0 read, 1 write, 2 trim), block size, offset. With `log_unix_epoch=1` the time is wall clock; rates are KiB a second,
latencies ns.
"""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dutlab.methods.ports import Row, ToolReading
from dutlab.subject import WAYS_OF_DRIVES, Way, of_part, way_figure
from dutlab.tools.fio.histogram import merged, percentiles, value_of_bin
from dutlab.tools.json_text import UnreadableError, member, number

DIRECTIONS = tuple(WAYS_OF_DRIVES)
MIXED = "mixed"
WAYS = (*DIRECTIONS, MIXED)
"""`mixed` is all of them where fio counts them together (unified_rw_reporting); with `both` it is there with its parts. Its figures
have no way."""
_LOGS = {"iops": ("iops", 1.0), "bw": ("bytes_per_s", 1024.0), "clat": ("clat_mean_ns", 1.0)}
"""Ending of a log's name → what its values are called, and their unit in ours."""
_TOLD = {50.0: "p50", 99.0: "p99", 99.9: "p999", 99.99: "p9999"}
_MOST_DIGITS = 20
"""Digits of a bin's name, in ns."""
_LEAST_MS = 100.0
"""A job that was shorter does not tell how many threads it had."""
ALL_CLIENTS = "All clients"
"""Name of the sum that fio makes over its clients (client.c)."""
_NOW_IOPS = re.compile(r"\[((?:[rwt]=[\d.]+[kMGT]?,?)+) IOPS\]")
"""IOPS in the line that `--eta` prints (fio's eta.c): powers of 1000, and what is zero may be left out."""
_POWERS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SHARE = re.compile(r"\d{1,3}(\.\d+)?")


@dataclass(frozen=True)
class FioLatency:
    """One kind of latency of one direction. `told` has fio's percentiles, for a report without bins; None: fio reports none."""

    mean_ns: float | None = None
    max_ns: float | None = None
    bins: Mapping[int, int] = field(default_factory=dict)
    told: Mapping[float, float] = field(default_factory=dict)
    """Percent → ns."""

    @property
    def percentiles(self) -> dict[str, float]:
        """Percentile name → value, from the bins where there are any."""
        return percentiles(self.bins) if self.bins else {name: self.told[share] for share, name in _TOLD.items() if share in self.told}


@dataclass(frozen=True)
class FioDirection:
    """Reads, or writes. A rate is None where this fio does not report it."""

    ios: float
    iops: float | None
    bytes_per_s: float | None
    clat: FioLatency
    slat: FioLatency
    lat: FioLatency

    @property
    def figures(self) -> dict[str, float]:
        """With units in their names."""
        value_by_name = {"iops": self.iops, "bytes_per_s": self.bytes_per_s, "clat_mean_ns": self.clat.mean_ns}
        value_by_name |= {f"clat_{name}_ns": value for name, value in self.clat.percentiles.items()}
        value_by_name |= {"clat_max_ns": self.clat.max_ns, "slat_mean_ns": self.slat.mean_ns, "lat_mean_ns": self.lat.mean_ns}
        return {name: value for name, value in value_by_name.items() if value is not None}


@dataclass(frozen=True)
class JobOutput:
    """One drive's part of a report, or the sum of several."""

    ways: Mapping[str, FioDirection]
    """Those that moved anything."""
    cpu_cores: float | None
    """Cores that fio's own threads used; the kernel's work for them elsewhere is not in it."""
    errors: int = 0
    error: int = 0
    """The number (errno) of the first error."""
    name: str = field(default="", compare=False)
    client: str = field(default="", compare=False)
    group: int = field(default=0, compare=False)
    """Jobs of one group run at the same time; a stonewall begins the next."""
    options: Mapping[str, str] = field(default_factory=dict, compare=False)
    lasted_ms: float = 0.0
    steady: str = ""
    """Fio's verdict on steady state, where it was asked for one."""

    @property
    def went_on(self) -> bool:
        """True if I/Os failed and it continued: fio then reports the first error as the job's, with whole figures."""
        return self.errors > 0 and self.ios > 0 and self.options.get("continue_on_error", "none") not in ("none", "0", "")

    @property
    def ios(self) -> float:
        """I/Os of all directions."""
        return self.both.ios if self.ways else 0.0

    @property
    def both(self) -> FioDirection:
        """All directions together. Raises ValueError where nothing moved."""
        if not self.ways:
            raise ValueError("no I/O was done")
        return self.ways.get(MIXED) or _sum(list(self.ways.values()))

    @property
    def figures(self) -> dict[str, float]:
        """With units in their names; a direction without I/O has none."""
        return self.figures_of("")

    def figures_of(self, result: str) -> dict[str, float]:
        """The figures of a result: `NAME/iops.read`."""
        found = {way_figure(WAYS_OF_DRIVES.get(way), name): value for way, of in self.ways.items() for name, value in of.figures.items()}
        return of_part(result, found if self.cpu_cores is None else {**found, "fio_cpu_cores": self.cpu_cores})

    @property
    def bins(self) -> list[Row]:
        """The histogram of completion latencies."""
        return self.bins_of("")

    def bins_of(self, result: str) -> list[Row]:
        """The histogram of a named result."""
        return [
            {"direction": f"{result}-{way}" if result else way, "clat_ns": value, "ios": count}
            for way, of in self.ways.items()
            for value, count in sorted(of.clat.bins.items())
        ]

    @property
    def buffered(self) -> str:
        """Why the page cache may have answered; empty where it cannot have. fio's own default is to go through it."""
        if self.options.get("ioengine") in ("null", "io_uring_cmd", "sg"):
            return ""
        direct = self.options.get("direct", "0" if self.options.get("buffered", "1") != "0" else "1")
        return (
            ""
            if direct in ("1", "")
            else f"{'direct=0' if 'direct' in self.options else 'direct is not set'}: the page cache may have answered"
        )


def jobs_of(document: Mapping[str, Any]) -> list[JobOutput]:
    """Each job of a report, of each client; the sums that fio makes over clients are left out. Raises UnreadableError for none."""
    entries = [job for job in _entries(document) if job.get("jobname") != ALL_CLIENTS]
    if not entries:
        raise UnreadableError("its report names no jobs")
    asked = _common(document)
    alike = Counter(map(_who, entries))
    hosts = {(job.get("hostname"), job.get("port")) for job in entries}
    several = {host for host, count in Counter(host for host, _ in hosts).items() if count > 1}
    return [_job(job, asked, entries=alike[_who(job)], by_port=job.get("hostname") in several) for job in entries]


def sum_of_clients(document: Mapping[str, Any]) -> JobOutput | None:
    """Return fio's own sum over several clients: it has their percentiles together, which cannot be made of theirs."""
    entry = next((job for job in _entries(document) if job.get("jobname") == ALL_CLIENTS), None)
    return None if entry is None else _job(entry, {}, entries=1)


def cached_reads(document: Mapping[str, Any], jobs: Sequence[JobOutput]) -> str:
    """Return why memory answered most reads, by the kernel's I/O to the devices (`disk_util`); empty where it did not, or is not known.

    A device may be asked more often than fio asks (a ramp, large blocks, metadata), and less often only where something else answers.
    """
    devices = [of for of in _list(document.get("disk_util")) if isinstance(of, Mapping)]
    asked = sum(number(of, key) or 0.0 for of in devices for key in ("read_ios", "read_merges"))
    read = sum(job.ways["read"].ios for job in jobs if "read" in job.ways)
    if not devices or asked >= read / 2:
        return ""
    return f"{read:.0f} reads of fio, {asked:.0f} of its devices: memory answered the others"


def version_of(document: Mapping[str, Any]) -> str:
    """Fio's own."""
    return str(document.get("fio version", "unknown"))


def span_of(document: Mapping[str, Any], jobs: Sequence[JobOutput]) -> tuple[float, float]:
    """From when to when the jobs were measured, in seconds since 1970 by their host's clock: the report is written as they end."""
    ended_s = (number(document, "timestamp_ms") or 0.0) / 1e3
    return ended_s - max((job.lasted_ms for job in jobs), default=0.0) / 1e3, ended_s


def histograms_over_time(text: bytes) -> list[tuple[float, float, Counter[int]]]:
    """Each row of a log of histograms: from when to when, and how many I/Os each bin has, of all directions.

    A thread's rows follow one another, and each has what came since the row before (iolog.c, flush_hist_samples); the first began with the
    job. Several directions of one thread have a row each at a time.
    """
    rows: list[tuple[float, float, Counter[int]]] = []
    before: dict[bytes, float] = {}
    last = 0.0
    for line in io.BytesIO(text):
        words = line.split(b",")
        try:
            at_s, way, counts = int(words[0]) / 1e3, words[1], [int(word) for word in words[3:]]
        except (ValueError, IndexError):
            continue  # the last line of a log whose writer was ended
        if at_s < last:
            before = {}  # the next thread's
        last = at_s
        bins = Counter({value_of_bin(index): count for index, count in enumerate(counts) if count})
        rows.append((before.get(way, at_s - 1.0), at_s, bins))
        before[way] = at_s
    return rows


def total(jobs: Sequence[JobOutput]) -> JobOutput:
    """All of them as one: rates are added, and so are the bins of latencies."""
    ways = {way: [job.ways[way] for job in jobs if way in job.ways] for way in WAYS}
    cores = [job.cpu_cores for job in jobs if job.cpu_cores is not None]
    return JobOutput(
        ways={way: _sum(parts) for way, parts in ways.items() if parts},
        cpu_cores=sum(cores) if cores else None,
        errors=sum(job.errors for job in jobs),
        error=next((job.error for job in jobs if job.error), 0),
        lasted_ms=max((job.lasted_ms for job in jobs), default=0.0),
    )


def of_results(jobs: Sequence[JobOutput], results: Mapping[str, Sequence[str]]) -> dict[str, JobOutput]:
    """Each result of a job file: the sum of the jobs that it names, of all hosts; one without I/O is absent."""
    sums = {result: total([job for job in jobs if job.name in names]) for result, names in results.items()}
    return {result: of for result, of in sums.items() if of.ios}


def readings(logs: Mapping[str, bytes], link: str) -> Iterator[ToolReading]:
    """Each second of the logs of one drive, those of several jobs added; `logs` is the ending of a log's name (`iops`) → its text."""
    for ending, (name, unit) in _LOGS.items():
        sums: dict[tuple[int, str], float] = defaultdict(float)
        counts: Counter[tuple[int, str]] = Counter()
        for line in io.BytesIO(logs.get(ending, b"")):
            words = line.split(b",", 3)
            try:
                second = round(int(words[0]) / 1e3), DIRECTIONS[int(words[2])]
                sums[second] += float(words[1])
            except (ValueError, IndexError):
                continue  # the last line of a log whose writer was ended
            counts[second] += 1
        for (at_s, way), value in sorted(sums.items()):
            yield ToolReading(float(at_s), link, way_figure(Way(way), name), value * unit / (counts[at_s, way] if ending == "clat" else 1))


def rates_now(line: str) -> dict[str, float]:
    """Return fio's rates of this second, from the line that it prints meanwhile; empty for any other line."""
    if not (match := _NOW_IOPS.search(line)):
        return {}
    ways = {way[0]: way for way in DIRECTIONS}
    of = (re.fullmatch(r"([rwt])=([\d.]+)([kMGT]?)", part) for part in match[1].split(","))
    return {way_figure(Way(ways[m[1]]), "iops"): float(m[2]) * _POWERS[m[3]] for m in of if m and m[2].replace(".", "", 1).isdigit()}


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [job for key in ("jobs", "client_stats") for job in _list(document.get(key)) if isinstance(job, Mapping)]


def _common(document: Mapping[str, Any]) -> dict[str, str]:
    """Options of all jobs; with clients a list, of one after the other."""
    options = document.get("global options")
    mappings = [of for of in (options if isinstance(options, list) else [options]) if isinstance(of, Mapping)]
    return {str(key): str(value) for of in mappings for key, value in of.items()}


def _who(job: Mapping[str, Any]) -> str:
    """Return the name of an entry, also where one job has several (numjobs without group_reporting)."""
    return str([job.get(key) for key in ("hostname", "port", "jobname", "groupid")])


def _job(job: Mapping[str, Any], common: Mapping[str, str], *, entries: int, by_port: bool = False) -> JobOutput:
    options = {**common, **{str(key): str(value) for key, value in member(job, "job options").items()}}
    ways = {way: _direction(member(job, way)) for way in WAYS}
    cpu = [value for word in ("usr", "sys") if (value := number(job, f"{word}_cpu")) is not None]
    lasted_ms = max(number(member(job, way), "runtime") or 0.0 for way in WAYS)
    threads = _threads(options, number(job, "job_runtime"), lasted_ms) if entries == 1 else 1
    client = str(job.get("hostname", ""))
    return JobOutput(
        ways={way: of for way, of in ways.items() if of.ios or of.iops},
        cpu_cores=sum(cpu) / 100 * threads if cpu and threads is not None else None,
        errors=int(number(job, "total_err") or 0),
        error=int(number(job, "error") or number(job, "first_error") or 0),
        name=str(job.get("jobname", "not named")),
        client=f"{client}:{job.get('port')}" if by_port else client,
        group=int(number(job, "groupid") or 0),
        options=options,
        lasted_ms=lasted_ms,
        steady=_steady(member(job, "steadystate")),
    )


def _direction(of: Mapping[str, Any]) -> FioDirection:
    kibibytes = number(of, "bw")
    rate = number(of, "bw_bytes")
    return FioDirection(
        ios=number(of, "total_ios") or 0.0,
        iops=number(of, "iops"),
        bytes_per_s=kibibytes * 1024 if rate is None and kibibytes is not None else rate,
        clat=_latency(of, "clat"),
        slat=_latency(of, "slat"),
        lat=_latency(of, "lat"),
    )


def _latency(of: Mapping[str, Any], kind: str) -> FioLatency:
    block, scale = (member(of, f"{kind}_ns"), 1.0) if f"{kind}_ns" in of else (member(of, kind), 1e3)
    if number(block, "N") == 0 or ("N" not in block and number(block, "max") == 0):  # not measured; fio 2 has no N
        return FioLatency()
    mean, most, table = number(block, "mean"), number(block, "max"), member(block, "percentile")
    value_by_share = {
        float(share): value * scale for share in table if _SHARE.fullmatch(share) and (value := number(table, share)) is not None
    }
    return FioLatency(
        None if mean is None else mean * scale,
        None if most is None else most * scale,
        _bins(member(block, "bins"), scale),
        dict(sorted(value_by_share.items())),
    )


def _bins(bins: Mapping[str, Any], scale: float) -> dict[int, int]:
    """Midpoint in ns → I/Os."""
    try:
        counts = {int(key): count for key, count in bins.items() if len(key) <= _MOST_DIGITS and type(count) is int and count > 0}
    except ValueError:
        return {}
    return counts if scale == 1 else {round(key * scale): count for key, count in counts.items()}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _threads(options: Mapping[str, str], all_ms: float | None, lasted_ms: float) -> int | None:
    """Return the number of threads of one entry: fio divides by the time of all together (`job_runtime`; stat.c, sum_thread_stats).

    A report does not say whether group_reporting was set, and has one entry for all jobs of a group then. Before 3.0 it does not say
    the time of all; None where it names no options either.
    """
    if all_ms and lasted_ms >= _LEAST_MS:
        return max(1, round(all_ms / lasted_ms))
    if not options:
        return None
    asked = options.get("numjobs", "1")
    return max(1, int(asked)) if asked.isdecimal() and len(asked) <= _MOST_DIGITS else 1


def _steady(state: Mapping[str, Any]) -> str:
    if "attained" not in state:
        return ""
    verdict = "was attained" if state["attained"] else "was not attained"
    return f"fio's steady state ({state.get('ss', 'not named')}) {verdict}; the figures are of the whole job"


def _sum(parts: Sequence[FioDirection]) -> FioDirection:
    iops, rates = [p.iops for p in parts if p.iops is not None], [p.bytes_per_s for p in parts if p.bytes_per_s is not None]
    weights = [p.ios for p in parts]
    return FioDirection(
        ios=sum(weights),
        iops=sum(iops) if iops else None,
        bytes_per_s=sum(rates) if rates else None,
        clat=_together([p.clat for p in parts], weights),
        slat=_together([p.slat for p in parts], weights),
        lat=_together([p.lat for p in parts], weights),
    )


def _together(parts: Sequence[FioLatency], weights: Sequence[float]) -> FioLatency:
    """Bins are added. fio's percentiles are of one job, so those of several without bins are not known."""
    if len(parts) == 1:
        return parts[0]
    means = [(p.mean_ns, weight) for p, weight in zip(parts, weights, strict=True) if p.mean_ns is not None and weight]
    most = [p.max_ns for p in parts if p.max_ns is not None]
    of_all = sum(weight for _, weight in means)
    return FioLatency(
        sum(mean * weight for mean, weight in means) / of_all if of_all else None,
        max(most) if most else None,
        merged(p.bins for p in parts),
    )
