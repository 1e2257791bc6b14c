"""Output of fio: its report (json+, json, or the same members read from a text report), and its logs of each second.

Sources: fio's stat.c and its HOWTO ("Log File Formats"). Up to version 2, latencies are in µs under `clat` and `lat`; since version 3, in
ns under `clat_ns` and `lat_ns`. Rates are in KiB per second under `bw`; since 3.0 also in bytes under `bw_bytes`. A log line has time in
ms, value, direction (0 read, 1 write, 2 trim), block size, offset. With `log_unix_epoch=1` the time is wall clock. Rates in logs are in
KiB per second, latencies in ns.
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
"""Directions, and `mixed` for all of them where fio counts them together (unified_rw_reporting). With `both`, fio reports `mixed` and its
parts. Figures of `mixed` name no direction."""
_LOGS = {"iops": ("iops", 1.0), "bw": ("bytes_per_s", 1024.0), "clat": ("clat_mean_ns", 1.0)}
"""Ending of a log's name → figure, and the factor from its unit to ours."""
_NAMES = {50.0: "p50", 99.0: "p99", 99.9: "p999", 99.99: "p9999"}
_MOST_DIGITS = 20
"""Most digits of a bin's name (in ns) and of `numjobs`."""
_LEAST_MS = 100.0
"""Shortest job, in ms, from whose times the number of threads can be computed."""
ALL_CLIENTS = "All clients"
"""Name of fio's own sum over its clients (client.c)."""
_NOW_IOPS = re.compile(r"\[((?:[rwt]=[\d.]+[kMGT]?,?)+) IOPS\]")
"""IOPS in the line that `--eta` prints (fio's eta.c). Suffixes are powers of 1000; a direction without I/O may be missing."""
_POWERS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SHARE = re.compile(r"\d{1,3}(\.\d+)?")


@dataclass(frozen=True)
class FioLatency:
    """One kind of latency of one direction; None: not reported. `reported` has fio's own percentiles, for a report without bins."""

    mean_ns: float | None = None
    max_ns: float | None = None
    bins: Mapping[int, int] = field(default_factory=dict)
    reported: Mapping[float, float] = field(default_factory=dict)
    """Percent → ns."""

    @property
    def percentiles(self) -> dict[str, float]:
        """Percentile → value in ns, from the bins if there are any."""
        return (
            percentiles(self.bins)
            if self.bins
            else {name: self.reported[share] for share, name in _NAMES.items() if share in self.reported}
        )


@dataclass(frozen=True)
class FioDirection:
    """I/O of one direction. A rate is None if this fio does not report it."""

    ios: float
    iops: float | None
    bytes_per_s: float | None
    clat: FioLatency
    slat: FioLatency
    lat: FioLatency
    iops_deviation: float | None = field(default=None, compare=False)
    """Standard deviation of the IOPS over fio's windows of 0.5 s; None for a sum of several jobs."""
    iops_windows: int = field(default=0, compare=False)

    @property
    def figures(self) -> dict[str, float]:
        """Figures by name with unit."""
        value_by_name = {"iops": self.iops, "bytes_per_s": self.bytes_per_s, "clat_mean_ns": self.clat.mean_ns}
        value_by_name |= {f"clat_{name}_ns": value for name, value in self.clat.percentiles.items()}
        value_by_name |= {"clat_max_ns": self.clat.max_ns, "slat_mean_ns": self.slat.mean_ns, "lat_mean_ns": self.lat.mean_ns}
        return {name: value for name, value in value_by_name.items() if value is not None}


@dataclass(frozen=True)
class JobOutput:
    """One drive's part of a report, or the sum of several."""

    ways: Mapping[str, FioDirection]
    """Directions with I/O."""
    cpu_cores: float | None
    """Cores that fio's own threads used, without the kernel's work for them in other threads."""
    errors: int = 0
    error: int = 0
    """Number (errno) of the first error."""
    name: str = field(default="", compare=False)
    client: str = field(default="", compare=False)
    group: int = field(default=0, compare=False)
    """Number of the group: jobs of one group run at the same time; a stonewall begins the next group."""
    options: Mapping[str, str] = field(default_factory=dict, compare=False)
    lasted_ms: float = 0.0
    steady: str = ""
    """Verdict of fio on steady state, if the job asks for one."""

    @property
    def continued_after_errors(self) -> bool:
        """True if I/Os failed and the job continued: fio then reports the first error as the job's, with complete figures."""
        return self.errors > 0 and self.ios > 0 and self.options.get("continue_on_error", "none") not in ("none", "0", "")

    @property
    def ios(self) -> float:
        """Number of I/Os in all directions."""
        return self.both.ios if self.ways else 0.0

    @property
    def both(self) -> FioDirection:
        """Sum of all directions. Raises ValueError if there was no I/O."""
        if not self.ways:
            raise ValueError("no I/O was done")
        return self.ways.get(MIXED) or _sum(list(self.ways.values()))

    @property
    def figures(self) -> dict[str, float]:
        """Figures by name with unit; a direction without I/O has none."""
        return self.figures_of("")

    def figures_of(self, result: str) -> dict[str, float]:
        """Return the figures of a named result, as in `NAME/iops.read`."""
        figures = {way_figure(WAYS_OF_DRIVES.get(way), name): value for way, of in self.ways.items() for name, value in of.figures.items()}
        return of_part(result, figures if self.cpu_cores is None else {**figures, "fio_cpu_cores": self.cpu_cores})

    @property
    def bins(self) -> list[Row]:
        """Histogram of completion latencies, as table rows."""
        return self.bins_of("")

    def bins_of(self, result: str) -> list[Row]:
        """Return the histogram of a named result, as table rows."""
        return [
            {"direction": f"{result}-{way}" if result else way, "clat_ns": value, "ios": count}
            for way, of in self.ways.items()
            for value, count in sorted(of.clat.bins.items())
        ]

    @property
    def buffered(self) -> str:
        """Reason why the page cache may have answered; empty if it cannot have. fio uses the page cache by default."""
        if self.options.get("ioengine") in ("null", "io_uring_cmd", "sg"):
            return ""
        direct = self.options.get("direct", "0" if self.options.get("buffered", "1") != "0" else "1")
        return (
            ""
            if direct in ("1", "")
            else f"{'direct=0' if 'direct' in self.options else 'direct is not set'}: the page cache may have answered"
        )


def jobs_of(document: Mapping[str, Any]) -> list[JobOutput]:
    """Return each job of a report, for each client, without fio's sums over clients. Raises UnreadableError if there is none."""
    entries = [job for job in _entries(document) if job.get("jobname") != ALL_CLIENTS]
    if not entries:
        raise UnreadableError("its report names no jobs")
    asked = _common(document)
    alike = Counter(map(_who, entries))
    hosts = {(job.get("hostname"), job.get("port")) for job in entries}
    several = {host for host, count in Counter(host for host, _ in hosts).items() if count > 1}
    return [_job(job, asked, entries=alike[_who(job)], by_port=job.get("hostname") in several) for job in entries]


def sum_of_clients(document: Mapping[str, Any]) -> JobOutput | None:
    """Return fio's own sum over several clients. Only it has their joint percentiles; these do not follow from those of each client."""
    entry = next((job for job in _entries(document) if job.get("jobname") == ALL_CLIENTS), None)
    return None if entry is None else _job(entry, {}, entries=1)


def cached_reads(document: Mapping[str, Any], jobs: Sequence[JobOutput]) -> str:
    """Return the evidence that memory answered most reads, from the devices' I/O counts (`disk_util`); empty if there is none.

    A device may get more requests than fio makes (a ramp, large blocks, metadata). It gets fewer only if something else answers.
    """
    devices = [of for of in _list(document.get("disk_util")) if isinstance(of, Mapping)]
    asked = sum(number(of, key) or 0.0 for of in devices for key in ("read_ios", "read_merges"))
    read = sum(job.ways["read"].ios for job in jobs if "read" in job.ways)
    if not devices or asked >= read / 2:
        return ""
    return f"{read:.0f} reads of fio, {asked:.0f} of its devices: memory answered the others"


def version_of(document: Mapping[str, Any]) -> str:
    """Return fio's version."""
    return str(document.get("fio version", "unknown"))


def span_of(document: Mapping[str, Any], jobs: Sequence[JobOutput]) -> tuple[float, float]:
    """Return start and end of the measured jobs, in seconds since 1970 by their host's clock. fio writes the report as they end."""
    ended_s = (number(document, "timestamp_ms") or 0.0) / 1e3
    return ended_s - max((job.lasted_ms for job in jobs), default=0.0) / 1e3, ended_s


def histograms_over_time(text: bytes) -> list[tuple[float, float, Counter[int]]]:
    """Return each row of a histogram log: start, end, and the I/Os of each bin.

    The rows of one thread follow one another. Each row counts the I/Os since the row before (iolog.c, flush_hist_samples); the first row
    begins with the job. A thread with several directions writes a row for each of them.
    """
    rows: list[tuple[float, float, Counter[int]]] = []
    before: dict[bytes, float] = {}
    last = 0.0
    for line in io.BytesIO(text):
        words = line.split(b",")
        try:
            at_s, way, counts = int(words[0]) / 1e3, words[1], [int(word) for word in words[3:]]
        except (ValueError, IndexError):
            continue  # a last line that was cut as fio ended
        if at_s < last:
            before = {}  # the rows of the next thread begin
        last = at_s
        bins = Counter({value_of_bin(index): count for index, count in enumerate(counts) if count})
        rows.append((before.get(way, at_s - 1.0), at_s, bins))
        before[way] = at_s
    return rows


def total(jobs: Sequence[JobOutput]) -> JobOutput:
    """Return the sum of all jobs: rates and latency bins are added."""
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
    """Return each result of a job file: the sum of the jobs that it names, over all hosts. A result without I/O is absent."""
    sums = {result: total([job for job in jobs if job.name in names]) for result, names in results.items()}
    return {result: of for result, of in sums.items() if of.ios}


def readings(logs: Mapping[str, bytes], link: str) -> Iterator[ToolReading]:
    """Yield the readings of one drive, one per second: rates of several jobs are added, latencies averaged.

    `logs` maps the ending of a log's name (`iops`) to its text.
    """
    for ending, (name, unit) in _LOGS.items():
        sums: dict[tuple[int, str], float] = defaultdict(float)
        counts: Counter[tuple[int, str]] = Counter()
        for line in io.BytesIO(logs.get(ending, b"")):
            words = line.split(b",", 3)
            try:
                second = round(int(words[0]) / 1e3), DIRECTIONS[int(words[2])]
                sums[second] += float(words[1])
            except (ValueError, IndexError):
                continue  # a last line that was cut as fio ended
            counts[second] += 1
        for (at_s, way), value in sorted(sums.items()):
            yield ToolReading(float(at_s), link, way_figure(Way(way), name), value * unit / (counts[at_s, way] if ending == "clat" else 1))


def rates_now(line: str) -> dict[str, float]:
    """Return fio's current rates from a line of its progress output; empty for any other line."""
    if not (match := _NOW_IOPS.search(line)):
        return {}
    ways = {way[0]: way for way in DIRECTIONS}
    of = (re.fullmatch(r"([rwt])=([\d.]+)([kMGT]?)", part) for part in match[1].split(","))
    return {way_figure(Way(ways[m[1]]), "iops"): float(m[2]) * _POWERS[m[3]] for m in of if m and m[2].replace(".", "", 1).isdigit()}


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [job for key in ("jobs", "client_stats") for job in _list(document.get(key)) if isinstance(job, Mapping)]


def _common(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that all jobs share. With several clients they are a list, one entry per client."""
    options = document.get("global options")
    mappings = [of for of in (options if isinstance(options, list) else [options]) if isinstance(of, Mapping)]
    return {str(key): str(value) for of in mappings for key, value in of.items()}


def _who(job: Mapping[str, Any]) -> str:
    """Return a key for the job of an entry; one job has several entries with numjobs and without group_reporting."""
    return str([job.get(key) for key in ("hostname", "port", "jobname", "groupid")])


def _job(job: Mapping[str, Any], common: Mapping[str, str], *, entries: int, by_port: bool = False) -> JobOutput:
    options = {**common, **{str(key): str(value) for key, value in member(job, "job options").items()}}
    ways = {way: of for way in WAYS if (of := _direction(member(job, way))).ios or of.iops}
    if any(of.iops for of in ways.values()):  # fio 3.4x writes a rate of 0 for I/Os that it did not time, such as those before a verify
        ways = {way: of for way, of in ways.items() if of.iops != 0}
    cpu = [value for word in ("usr", "sys") if (value := number(job, f"{word}_cpu")) is not None]
    lasted_ms = max(number(member(job, way), "runtime") or 0.0 for way in WAYS)
    threads = _threads(options, number(job, "job_runtime"), lasted_ms) if entries == 1 else 1
    client = str(job.get("hostname", ""))
    return JobOutput(
        ways=ways,
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
        iops_deviation=number(of, "iops_stddev"),
        iops_windows=int(number(of, "iops_samples") or 0),
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
    """Return midpoint in ns → I/Os."""
    try:
        counts = {int(key): count for key, count in bins.items() if len(key) <= _MOST_DIGITS and type(count) is int and count > 0}
    except ValueError:
        return {}
    return counts if scale == 1 else {round(key * scale): count for key, count in counts.items()}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _threads(options: Mapping[str, str], all_ms: float | None, lasted_ms: float) -> int | None:
    """Return the number of threads of one entry; None if unknown.

    fio divides CPU time by the summed time of all threads (`job_runtime`; stat.c, sum_thread_stats). With group_reporting one entry covers
    all threads of a job, and the report does not state it. Before 3.0 the summed time is missing; then the options give the number.
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
    if len(parts) == 1:
        return parts[0]
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
    """Return the latency of all parts: bins are added. Without bins the percentiles of several jobs are unknown."""
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
