"""What fio leaves behind: its json+ report and its logs of each second.

Read from fio's stat.c and its HOWTO ("Log File Formats"): a log line is time in ms, value, direction (0 read, 1 write, 2 trim), block
size, offset. With `log_unix_epoch=1` the time is wall clock; rates are KiB a second, latencies ns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from dutlab.methods.ports import ToolReading
from dutlab.tools.fio.histogram import merged, percentiles
from dutlab.tools.json_text import UnreadableError, member, number, read_object

DIRECTIONS = ("read", "write", "trim")
_LOGS = {"iops": ("iops", 1.0), "bw": ("bytes_per_s", 1024.0), "clat": ("clat_mean_ns", 1.0)}
"""Ending of a log's name → what its values are called, and their unit in ours."""


@dataclass(frozen=True)
class JobOutput:
    """One drive's part of a report, or the sum of several."""

    ios: Mapping[str, float]
    """Direction → I/Os."""
    iops: Mapping[str, float]
    bytes_per_s: Mapping[str, float]
    clat_bins: Mapping[str, Mapping[int, int]]
    clat_mean_ns: Mapping[str, float]
    clat_max_ns: Mapping[str, float]
    cpu_cores: float
    """What fio's own threads used; what the kernel does for them elsewhere is not in it."""
    errors: int = 0
    error: int = 0
    """The number (errno) of the first error."""
    name: str = field(default="", compare=False)

    @property
    def figures(self) -> dict[str, float]:
        """With units in their names; a direction without I/O has none. Percentiles come from the bins."""
        found: dict[str, float] = {}
        for way in DIRECTIONS:
            if self.ios.get(way):
                found[f"{way}_iops"] = self.iops[way]
                found[f"{way}_bytes_per_s"] = self.bytes_per_s[way]
                if self.clat_bins[way]:
                    found[f"{way}_clat_mean_ns"] = self.clat_mean_ns[way]
                    found |= {f"{way}_clat_{name}_ns": value for name, value in percentiles(self.clat_bins[way]).items()}
                    found[f"{way}_clat_max_ns"] = self.clat_max_ns[way]
        return {**found, "fio_cpu_cores": self.cpu_cores}


def parse(data: bytes) -> tuple[str, list[JobOutput]]:
    """Fio's version, and each of its jobs. Raises UnreadableError."""
    document, _ = read_object(data)
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs) or not jobs:
        raise UnreadableError("its report names no jobs")
    return str(document.get("fio version", "unknown")), [_job(job) for job in jobs]


def total(jobs: Sequence[JobOutput]) -> JobOutput:
    """All of them as one: rates are added, and so are the bins of latencies."""
    ios = {way: sum(job.ios.get(way, 0.0) for job in jobs) for way in DIRECTIONS}
    return JobOutput(
        ios=ios,
        iops={way: sum(job.iops.get(way, 0.0) for job in jobs) for way in DIRECTIONS},
        bytes_per_s={way: sum(job.bytes_per_s.get(way, 0.0) for job in jobs) for way in DIRECTIONS},
        clat_bins={way: merged(job.clat_bins.get(way, {}) for job in jobs) for way in DIRECTIONS},
        clat_mean_ns={
            way: sum(job.clat_mean_ns.get(way, 0.0) * job.ios.get(way, 0.0) for job in jobs) / ios[way] for way in DIRECTIONS if ios[way]
        },
        clat_max_ns={way: max((job.clat_max_ns.get(way, 0.0) for job in jobs), default=0.0) for way in DIRECTIONS},
        cpu_cores=sum(job.cpu_cores for job in jobs),
        errors=sum(job.errors for job in jobs),
        error=next((job.error for job in jobs if job.error), 0),
    )


def readings(logs: Mapping[str, bytes], link: str) -> Iterator[ToolReading]:
    """Each second of the logs of one drive, those of several jobs added; `logs` is the ending of a log's name (`iops`) → its text."""
    for ending, (name, unit) in _LOGS.items():
        seconds: dict[tuple[int, str], list[float]] = defaultdict(list)
        for line in logs.get(ending, b"").splitlines():
            words = line.split(b",")
            try:
                at_ms, value, way = int(words[0]), float(words[1]), DIRECTIONS[int(words[2])]
            except (ValueError, IndexError):
                continue  # the last line of a log whose writer was ended
            seconds[round(at_ms / 1e3), way].append(value)
        for (at_s, way), values in sorted(seconds.items()):
            yield ToolReading(float(at_s), link, f"{way}_{name}", (fmean(values) if ending == "clat" else sum(values)) * unit)


def _job(job: Mapping[str, Any]) -> JobOutput:
    of = {way: member(job, way) for way in DIRECTIONS}
    latency = {way: member(of[way], "clat_ns") for way in DIRECTIONS}
    return JobOutput(
        ios={way: number(of[way], "total_ios") or 0.0 for way in DIRECTIONS},
        iops={way: number(of[way], "iops") or 0.0 for way in DIRECTIONS},
        bytes_per_s={way: number(of[way], "bw_bytes") or 0.0 for way in DIRECTIONS},
        clat_bins={way: _bins(member(latency[way], "bins")) for way in DIRECTIONS},
        clat_mean_ns={way: number(latency[way], "mean") or 0.0 for way in DIRECTIONS},
        clat_max_ns={way: number(latency[way], "max") or 0.0 for way in DIRECTIONS},
        cpu_cores=((number(job, "usr_cpu") or 0.0) + (number(job, "sys_cpu") or 0.0)) / 100 * _threads(job),
        errors=int(number(job, "total_err") or 0),
        error=int(number(job, "error") or number(job, "first_error") or 0),
        name=str(job.get("jobname", "")),
    )


def _threads(job: Mapping[str, Any]) -> int:
    """With group_reporting fio divides by the time of all threads of a job together (stat.c, sum_thread_stats)."""
    asked = str(member(job, "job options").get("numjobs", "1"))
    return int(asked) if asked.isdecimal() else 1


def _bins(bins: Mapping[str, Any]) -> dict[int, int]:
    return {int(key): int(count) for key in bins if key.isdecimal() and (count := number(bins, key))}
