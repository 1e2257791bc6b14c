"""Setting of a trial of `pts`: one test of SNIA's specification on one set of drives, with the fio job of each part of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dutlab.spec.drives import parse_size
from dutlab.spec.workloads.base import LONGEST_TRIAL
from dutlab.spec.workloads.block_mix import Percent
from dutlab.spec.workloads.fio import FioSetting, access_options
from dutlab.spec.workloads.on_drives import DriveSetting
from dutlab.spec.workloads.setting import DurationSaid, SecondsLong, SecondsOrNone, Words
from dutlab.units import Seconds

PtsTest = Literal[
    "iops", "throughput", "latency", "write-saturation", "host-idle-recovery", "cross-stimulus-recovery", "demand-intensity", "composite"
]
Purge = Literal["none", "blkdiscard", "nvme-format", "nvme-sanitize"]
WriteCache = Literal["as-found", "on", "off"]
Counts = tuple[Annotated[int, Field(ge=1, le=1024)], ...]
Cells = tuple[tuple[int, str], ...]
"""Reads in percent and block size of each cell."""
TRACKED: Cells = ((0, "4k"), (65, "64k"), (100, "1M"))
"""Cells of the IOPS test that must all be steady, where a test has them."""
DEMANDS = ("demand-intensity", "composite")
"""Tests over numbers of threads and depths."""
COMPOSITE = {
    "bssplit": "512/4:1024/1:1536/1:2048/1:2560/1:3072/1:3584/1:4k/67:8k/10:16k/7:32k/3:64k/3",
    "random_distribution": "zoned:50/5:30/15:20/80",
}
"""Sizes with their probabilities, and places: 50 % of the I/Os in the first 5 % of the drive, 30 % in the next 15 %, 20 % in the rest."""
STIMULI = (("write", "1M"), ("randwrite", "8k"), ("write", "1M"))
"""Access and block size of the three loads of cross-stimulus recovery."""
STEADY, NOT_REACHED, FRESH = "steady", "not reached", "fresh"
NAMES = {STEADY: "steady", NOT_REACHED: "unsteady", FRESH: "fresh"}
"""State → part of the tracked cell's IOPS. The name depends on the state, so that figures of different states are never compared."""
POINTS = ("max", "mid", "min")
"""Operating points of demand, in the order of measurement."""
HISTOGRAM = "histogram"
"""Part of the figures of the writes after a test."""
ROUNDS, BEFORE = "rounds", "preconditioning"
"""Phases, and the names of their tables in the records."""
_RANDOM_DATA = {"refill_buffers": "1"}
_WHOLE = 100


def cell_name(reads_percent: float, block: str) -> str:
    """Return the name of a cell of a round in figures and tables, as `r65_64k`."""
    return f"r{reads_percent:g}_{block}"


def demand_name(threads: float, depth: float) -> str:
    """Return the name of a demand in figures and tables, as `t4q8`."""
    return f"t{threads:g}q{depth:g}"


def _lasts(words: str) -> Words:
    return Words(words, {0: ""}, place=1)


def _listed(values: Sequence[float | str]) -> str:
    """Return values in a sentence; commas without a space look like decimal ones."""
    return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in values)


class PtsSetting(DriveSetting):
    """Setting of a trial: one test on one set of drives. Fields that a test does not use have their default."""

    kind: Literal["pts"] = "pts"
    left_out: ClassVar[frozenset[str]] = frozenset(
        {
            "capacities", "active_range_percent", "write_cache", "cell_s", "interval_s", "histogram_s", "burst_s", "loops", "waits_s",
            "stimuli_s", "threads", "depths", "prewrite_s", "point_s", "point_prewrite_s", "most_latency_s",
        }
    )  # fmt: skip

    test: Annotated[PtsTest, Words("test {}", place=-1)]
    purge: Annotated[Purge, Words("purge {}", place=1)]
    passes: Annotated[int, Words("passes {}", {0: ""}, place=1)]
    """Number of sequential writes of the drive's whole capacity, before the rounds."""
    depth: Annotated[int, Words("depth {}", place=1)]
    jobs: Annotated[int, Words("jobs {}", place=1)]
    block_sizes: Annotated[tuple[str, ...], Words("block sizes {}", place=1, read=_listed)]
    reads_percent: Annotated[tuple[Percent, ...], Words("{} % reads", read=_listed)]
    most_rounds: Annotated[int, Words("most rounds {}", place=1)]
    duration_s: DurationSaid
    """Duration of each cell of a round. For write saturation, the longest duration of the test; its cells last `cell_s`."""
    capacities: Annotated[int, Words("capacities {}", place=1)] = 0
    """Number of times that write saturation writes the drive's capacity at most; 0 to limit it by time only."""
    active_range_percent: Annotated[int, Words("active range {} %", {100: ""}, place=1)] = _WHOLE
    """Part of each drive that is written and read, from its beginning."""
    write_cache: Annotated[WriteCache, Words("write cache {}", {"as-found": ""}, place=1)] = "as-found"
    cell_s: Annotated[SecondsOrNone, _lasts("cells of {} s")] = Seconds(0.0)
    """Duration of a tracked cell of write saturation; 0: that of the test."""
    interval_s: Annotated[SecondsOrNone, _lasts("a tracked cell every {} s")] = Seconds(0.0)
    """Time from the start of a tracked cell to that of the next, in tests that write without pause; 0: no time between them."""
    histogram_s: Annotated[SecondsOrNone, _lasts("histogram over {} s")] = Seconds(0.0)
    """Duration of the writes of 4 KiB after the test, for a histogram of response times; 0 for none."""
    burst_s: Annotated[SecondsOrNone, _lasts("bursts of {} s")] = Seconds(0.0)
    loops: Annotated[int, Words("{} bursts", {0: ""}, place=1)] = 0
    """Number of bursts with each pause (host idle recovery)."""
    waits_s: Annotated[tuple[SecondsLong, ...], Words("pauses of {} s", {"": ""}, place=1, read=_listed)] = ()
    stimuli_s: Annotated[tuple[SecondsLong, ...], Words("loads of {} s", {"": ""}, place=1, read=_listed)] = ()
    """Duration of each of the three loads of cross-stimulus recovery."""
    threads: Annotated[Counts, Words("threads {}", {"": ""}, place=1, read=_listed)] = ()
    depths: Annotated[Counts, Words("depths {}", {"": ""}, place=1, read=_listed)] = ()
    prewrite_s: Annotated[SecondsOrNone, _lasts("writes of {} s before each round")] = Seconds(0.0)
    point_s: Annotated[SecondsOrNone, _lasts("operating points of {} s")] = Seconds(0.0)
    point_prewrite_s: Annotated[SecondsOrNone, _lasts("writes of {} s before each of them")] = Seconds(0.0)
    most_latency_s: Annotated[SecondsOrNone, _lasts("operating points below {} s")] = Seconds(0.0)
    """Highest mean latency of an operating point."""

    @property
    def cells(self) -> Cells:
        """Reads in percent and block size of each cell of a round, in the order of measurement."""
        return tuple((reads, size) for reads in self.reads_percent for size in self.block_sizes)

    @property
    def tracked(self) -> Cells:
        """Cells that must all reach steady state."""
        if self.test == "iops":
            if known := tuple(cell for cell in TRACKED if cell in self.cells):
                return known
        elif TRACKED[0] in self.cells:
            return TRACKED[:1]
        return ((min(self.reads_percent), self.block_sizes[-1]),)

    @property
    def tracked_figure(self) -> str:
        """Figure of the tracked cells that must be steady."""
        return {"latency": "clat_mean_ns", "throughput": "bytes_per_s"}.get(self.test, "iops")

    @property
    def demands(self) -> tuple[tuple[int, int], ...]:
        """Threads and depth of each cell of a round, from most outstanding I/Os to fewest; the first is tracked."""
        return tuple((threads, depth) for threads in sorted(self.threads, reverse=True) for depth in sorted(self.depths, reverse=True))

    @property
    def writing(self) -> tuple[tuple[float, int | None], ...]:
        """Time and block size of each part with writes, over the most possible rounds."""
        before = self.most_rounds * max(self.interval_s, self.duration_s)
        histogram = ((self.histogram_s, 4096),) if self.histogram_s else ()
        match self.test:
            case "write-saturation":
                return () if self.capacities else ((self.duration_s, parse_size(self.block_sizes[0])), *histogram)
            case "host-idle-recovery":
                return ((before + 2 * len(self.waits_s) * self.bursts_s, 4096),)
            case "cross-stimulus-recovery":
                return tuple(
                    (seconds, parse_size(size) if way == "randwrite" else None)
                    for seconds, (way, size) in zip(self.stimuli_s, STIMULI, strict=True)
                )
            case "demand-intensity" | "composite":
                rounds = self.most_rounds * (self.prewrite_s + len(self.demands) * self.duration_s)
                block = parse_size(self.block_sizes[0]) if self.test == "demand-intensity" else None
                return ((before + rounds + 3 * (self.point_s + self.point_prewrite_s), block),)
        sequential = self.test == "throughput"
        of = [None if sequential else parse_size(size) for reads, size in self.cells if reads < _WHOLE]
        return (*((self.most_rounds * self.duration_s, block) for block in of), *histogram)

    @property
    def fills(self) -> int:
        """Passes of preconditioning and of write saturation."""
        return self.passes + self.capacities

    def at(self, reads: int, size: str) -> FioSetting:
        """Return the job of one cell."""
        access = access_options(reads, random=self.test != "throughput")
        return self._job({**access, "bs": size}, self.cell_s or self.duration_s, threads=self.jobs, depth=self.depth)

    def filling(self, seconds: float, bytes_left: int) -> FioSetting:
        """Return the job of the cell of write saturation for a time, or until it has written `bytes_left` to a drive."""
        job = self.at(*self.cells[0])
        limit = {"loops": "1", "io_size": str(max(bytes_left // self.jobs, 4096))} if self.capacities else {}
        return job.model_copy(update={"options": {**job.options, **limit}, "duration_s": seconds})

    def saturating(self, seconds: float) -> FioSetting:
        """Return the job of preconditioning before pauses and before rounds of demand: only writes, at the greatest demand."""
        threads, depth = self.demands[0] if self.test in DEMANDS else (self.jobs, self.depth)
        return self._job(self._pattern(0), seconds, threads=threads, depth=depth)

    def demanding(self, threads: int, depth: int, seconds: float) -> FioSetting:
        """Return the job of a number of threads and a depth."""
        return self._job(self._pattern(self.reads_percent[0]), seconds, threads=threads, depth=depth)

    @property
    def bursts_s(self) -> float:
        """Seconds of writing with each pause: its bursts, and half of one after the last pause."""
        return (self.loops + 0.5) * self.burst_s

    def pausing(self, wait_s: float) -> FioSetting:
        """Return the job of bursts with a pause of `wait_s` after each. fio 3.30 or newer keeps the times.

        fio's first burst is up to half a second too long. The job ends in the middle of a burst, so that the sum of its pauses is exact.
        """
        job = self.saturating(self.bursts_s + self.loops * wait_s)
        pause = {"thinktime": f"{wait_s * 1e6:.0f}", "thinktime_iotime": f"{self.burst_s * 1e6:.0f}us"}
        return job.model_copy(update={"options": {**job.options, **pause}})

    def stimulus(self, number: int) -> FioSetting:
        """Return the job of a load of cross-stimulus recovery, from 0."""
        way, size = STIMULI[number]
        places = {"norandommap": "1"} if way == "randwrite" else {}
        return self._job({"rw": way, "bs": size, **places}, self.stimuli_s[number], threads=1, depth=self.depth)

    @property
    def histogram(self) -> FioSetting:
        """Job of the response times after the test: random writes of 4 KiB, at the test's own demand."""
        return self._job({**access_options(0, random=True), "bs": "4k"}, self.histogram_s, threads=self.jobs, depth=self.depth)

    @property
    def preconditioning(self) -> FioSetting:
        """Job that writes the active range sequentially until `passes` times the drive's capacity are written."""
        loops = ceil(self.passes * _WHOLE / self.active_range_percent)
        size = self.block_sizes[0] if self.test == "throughput" else "128k"
        options = {"rw": "write", "bs": size, "iodepth": "32", "direct": "1", "ioengine": "libaio", "loops": str(loops), **_RANDOM_DATA}
        return FioSetting(options=options, writes=True, ramp_s=0.0, duration_s=LONGEST_TRIAL)

    def _pattern(self, reads: int) -> dict[str, str]:
        access = access_options(reads, random=True)
        return {**access, **COMPOSITE} if self.test == "composite" else {**access, "bs": self.block_sizes[0]}

    def _job(self, pattern: dict[str, str], seconds: float, *, threads: int, depth: int) -> FioSetting:
        options = {**pattern, "iodepth": str(depth), "direct": "1", "ioengine": "libaio", **_RANDOM_DATA}
        options |= {"numjobs": str(threads)} if threads > 1 else {}
        return FioSetting(options=options, writes=True, ramp_s=0.0, duration_s=seconds)
