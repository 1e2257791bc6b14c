"""Workload `pts`: drives from a known state to steady state, by SNIA's Solid State Storage Performance Test Specification.

- pts:
    drives: each
    tests: [iops, throughput, latency, write-saturation]
    purge: blkdiscard
    write_cache: off
    duration: 60s

Each set of drives with each test is a trial: purge, preconditioning, then rounds until five of them are steady. Every test writes to the
drive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import TestbedBounds
from dutlab.spec.drives import DriveSpec, parse_size
from dutlab.spec.fields import Duration
from dutlab.spec.model import Loc, fault, raised
from dutlab.spec.workloads.base import LONGEST_TRIAL
from dutlab.spec.workloads.block_mix import Percent, Percents, Sizes, faults_of_lists
from dutlab.spec.workloads.fio import Value
from dutlab.spec.workloads.on_drives import DriveWorkload, levels
from dutlab.spec.workloads.pts_setting import Counts, PtsSetting, PtsTest, Purge, WriteCache
from dutlab.spec.workloads.setting import Setting
from dutlab.units import Seconds

MIXES = (100, 95, 65, 50, 35, 5, 0)
BLOCKS = ("1M", "128k", "64k", "32k", "16k", "8k", "4k", "512")
_LATENCY_MIXES, _LATENCY_BLOCKS = (100, 65, 0), ("8k", "4k", "512")
_THROUGHPUT_BLOCKS = ("1M", "128k")
_COMPOSITE_READS = 40
_FILLS = 4
"""Times that write saturation writes the drive's capacity, if the experiment names no limit."""
ROUNDS_EXPECTED = 6
_WIPC_BYTES_PER_S = 500e6
"""Write rate for the estimate of preconditioning, with a terabyte for the unknown size of the drive."""
_STIMULI = 3
_LEAST_BURST_S = 2.0
_MINUTE, _HOUR = 60.0, 3600.0


def _on_off(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


_Durations = Annotated[tuple[Duration, ...], BeforeValidator(levels, json_schema_input_type=Duration | tuple[Duration, ...])]
_Counts = Annotated[Counts, BeforeValidator(levels, json_schema_input_type=int | Counts)]


class PtsWorkload(DriveWorkload):
    """One trial per set of drives and test; for throughput, one per block size too."""

    kind: ClassVar[str] = "pts"
    setting: ClassVar[type[Setting]] = PtsSetting

    tests: Annotated[tuple[PtsTest, ...], BeforeValidator(levels, json_schema_input_type=PtsTest | tuple[PtsTest, ...])] = (
        "iops",
        "throughput",
        "latency",
        "write-saturation",
    )
    purge: Purge = "none"
    passes: Annotated[int, Field(ge=0, le=10)] = 2
    active_range: Annotated[int, Field(ge=1, le=100)] = 100
    """Part of each drive in percent, from its beginning."""
    write_cache: Annotated[WriteCache, BeforeValidator(_on_off)] = "as-found"
    depth: Annotated[int, Field(ge=1, le=1024)] = 32
    jobs: Annotated[int, Field(ge=1, le=64)] = 4
    block_sizes: Sizes | None = None
    reads_percent: Percents | None = None
    most_rounds: Annotated[int, Field(ge=5, le=25)] = 25
    duration: Duration = Seconds(_MINUTE)
    interval: Duration = Seconds(30 * _MINUTE)
    """Time from one tracked minute to the next, in tests that write without pause."""
    saturation: Duration = Seconds(6 * _HOUR)
    saturation_passes: Annotated[int | None, Field(ge=1, le=20)] = None
    histogram: Duration = Seconds(20 * _MINUTE)
    """Writes of 4 KiB after write saturation and latency, for a histogram; 0 for none."""
    burst: Duration = Seconds(5.0)
    bursts: Annotated[int, Field(ge=1, le=10_000)] = 360
    pauses: _Durations = (Seconds(5.0), Seconds(10.0), Seconds(15.0), Seconds(25.0), Seconds(50.0))
    stimuli: _Durations = (Seconds(8 * _HOUR), Seconds(6 * _HOUR), Seconds(8 * _HOUR))
    """Duration of each load of cross-stimulus recovery: sequential, random, sequential writes."""
    threads: _Counts = (32, 16, 8, 6, 4, 2, 1)
    depths: _Counts = (32, 16, 8, 6, 4, 2, 1)
    demand_block: Value = "8k"
    demand_reads: Percent = 65
    prewrite: Duration = Seconds(5 * _MINUTE)
    point: Duration = Seconds(10 * _MINUTE)
    """Duration of each operating point of demand, for its histogram."""
    point_prewrite: Duration = Seconds(60 * _MINUTE)
    most_latency: Duration = Seconds(0.005)
    """Highest mean latency of an operating point."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check times, sizes and lists."""
        yield from super().own_faults()
        yield from self._faults_of_times()
        names = ("tests", "block_sizes", "reads_percent", "pauses", "threads", "depths")
        yield from faults_of_lists({name: getattr(self, name) for name in names})
        for name, sizes in (("block_sizes", self.block_sizes or ()), ("demand_block", (self.demand_block,))):
            for size in sizes:
                try:
                    parse_size(size)
                except ValueError as error:
                    yield raised((name,), error)

    def _faults_of_times(self) -> Iterator[InitErrorDetails]:
        if self.burst < _LEAST_BURST_S:
            yield fault(
                ("burst",), f"must be at least {_LEAST_BURST_S:g} s, since fio may be late by a fraction of a second", FaultKind.RANGE
            )
        for name in ("duration", "saturation", "interval", "burst", "point", "most_latency", "pauses", "stimuli"):
            of = getattr(self, name)
            if not all(0 < lasts <= LONGEST_TRIAL for lasts in (of if isinstance(of, tuple) else (of,))):
                yield fault((name,), f"must be above 0 and at most {LONGEST_TRIAL:g} s", FaultKind.RANGE)
        for name in ("histogram", "prewrite", "point_prewrite"):
            if getattr(self, name) > LONGEST_TRIAL:
                yield fault((name,), f"must be at most {LONGEST_TRIAL:g} s", FaultKind.RANGE)
        if "interval" in self.model_fields_set and self.interval < self.duration:
            yield fault(("interval",), "must be at least `duration`, which is its first part", FaultKind.RANGE)
        if len(self.stimuli) != _STIMULI:
            yield fault(("stimuli",), "must be three durations: of sequential, random and again sequential writes", FaultKind.RANGE)
        if self.saturation_passes and self._is_timed:
            yield fault(("saturation_passes",), "write `saturation` or `saturation_passes`, not both")

    @property
    def _is_timed(self) -> bool:
        """True if the experiment limits write saturation by time."""
        return bool(self.saturation != type(self).model_fields["saturation"].default)

    def settings(self) -> Iterator[tuple[PtsSetting, float]]:
        """Yield each test's settings with the estimated time, for a terabyte per pass and the usual number of rounds."""
        for test in self.tests:
            for own in self._own(test):
                setting = PtsSetting.model_validate(
                    {
                        "test": test, "purge": self.purge, "passes": 0, "depth": self.depth, "jobs": self.jobs, "writes": True,
                        "most_rounds": self.most_rounds, "duration_s": self.duration, "active_range_percent": self.active_range,
                        "write_cache": self.write_cache, **own,
                    }
                )  # fmt: skip
                yield setting, setting.passes * 1e12 / _WIPC_BYTES_PER_S * (self.duration >= _MINUTE) + _expected_s(setting)

    def _own(self, test: PtsTest) -> list[dict[str, Any]]:
        """Return the settings of each trial of a test that differ from those of other tests."""
        own: dict[str, Any]
        writes = {"block_sizes": ("4k",), "reads_percent": (0,)}
        match test:
            case "throughput":
                own = {"passes": self.passes, "jobs": 1, "reads_percent": (100, 0)}
                return [{**own, "block_sizes": (size,)} for size in self.block_sizes or _THROUGHPUT_BLOCKS]
            case "latency":
                own = {"passes": self.passes, "depth": 1, "jobs": 1, "histogram_s": self.histogram}
                own |= {"block_sizes": self.block_sizes or _LATENCY_BLOCKS, "reads_percent": self.reads_percent or _LATENCY_MIXES}
            case "write-saturation":
                own = {**writes, "duration_s": self.saturation, "cell_s": self.duration, "interval_s": self.interval}
                own |= {"histogram_s": self.histogram, "capacities": self.saturation_passes or (0 if self._is_timed else _FILLS)}
            case "host-idle-recovery":
                own = {**writes, "interval_s": self.interval, "burst_s": self.burst, "loops": self.bursts, "waits_s": self.pauses}
            case "cross-stimulus-recovery":
                own = {"block_sizes": ("1M", "8k"), "reads_percent": (0,), "jobs": 1, "stimuli_s": self.stimuli}
            case "demand-intensity" | "composite":
                size, reads = ("composite", _COMPOSITE_READS) if test == "composite" else (self.demand_block, self.demand_reads)
                own = {"block_sizes": (size,), "reads_percent": (reads,), "depth": max(self.depths), "jobs": max(self.threads)}
                own |= {"threads": self.threads, "depths": self.depths, "interval_s": self.interval, "prewrite_s": self.prewrite}
                own |= {"point_s": self.point, "point_prewrite_s": self.point_prewrite, "most_latency_s": self.most_latency}
            case _:
                own = {"passes": self.passes, "block_sizes": self.block_sizes or BLOCKS, "reads_percent": self.reads_percent or MIXES}
        return [own]

    def writing_key(self) -> Loc | None:
        """Return the place of the whole workload, since every test writes."""
        return ()

    def incompatibilities(self, bounds: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for drives that must not be purged."""
        yield from super().incompatibilities(bounds)
        of_testbed: Mapping[str, DriveSpec] = bounds.drives if isinstance(bounds, TestbedBounds) else {}
        used = {name for names in self.sets(of_testbed) for name in names} & of_testbed.keys()
        for name in sorted(used):
            if self.purge != "none" and not of_testbed[name].purge:
                yield ("purge",), f"purges {name}, and the testbed lacks `purge: yes` there: all of the drive would be erased"
            if self.write_cache != "as-found" and of_testbed[name].file is not None:
                yield ("write_cache",), f"{name} is a file, which has no separate write cache"


def _expected_s(setting: PtsSetting) -> float:
    """Return the estimated time of a test without its preconditioning by passes."""
    before = ROUNDS_EXPECTED * max(setting.interval_s, setting.duration_s)
    match setting.test:
        case "write-saturation":
            return setting.duration_s + setting.histogram_s
        case "host-idle-recovery":
            return before + sum(2 * setting.bursts_s + setting.loops * wait for wait in setting.waits_s)
        case "cross-stimulus-recovery":
            return sum(setting.stimuli_s)
        case "demand-intensity" | "composite":
            rounds = ROUNDS_EXPECTED * (setting.prewrite_s + len(setting.demands) * setting.duration_s)
            return before + rounds + 3 * (setting.point_s + setting.point_prewrite_s)
    return ROUNDS_EXPECTED * len(setting.cells) * setting.duration_s + setting.histogram_s
