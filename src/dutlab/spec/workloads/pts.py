"""Workload `pts`: drives from a known state to steady state, by SNIA's Solid State Storage Performance Test Specification.

- pts:
    drives: each
    tests: [iops, throughput, latency, write-saturation]
    purge: blkdiscard
    duration: 60s

Each set of drives with each test is a trial: purge, workload-independent preconditioning, then rounds until five of them are steady. Every
test writes to the whole drive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import TestbedBounds
from dutlab.spec.drives import DriveSpec, parse_size
from dutlab.spec.fields import Duration
from dutlab.spec.model import Loc, fault, raised
from dutlab.spec.workloads.base import LONGEST_TRIAL
from dutlab.spec.workloads.fio import FioSetting, access_options
from dutlab.spec.workloads.on_drives import DriveSetting, DriveWorkload, levels
from dutlab.spec.workloads.setting import DurationSaid, Setting, Words
from dutlab.spec.workloads.storage_limit import Percent, Percents, Sizes
from dutlab.units import Seconds

PtsTest = Literal["iops", "throughput", "latency", "write-saturation"]
Purge = Literal["none", "blkdiscard", "nvme-format", "nvme-sanitize"]
MIXES = (100, 95, 65, 50, 35, 5, 0)
BLOCKS = ("1M", "128k", "64k", "32k", "16k", "8k", "4k", "512")
_LATENCY_MIXES, _LATENCY_BLOCKS = (100, 65, 0), ("8k", "4k", "512")
_THROUGHPUT_BLOCKS = ("1M", "128k")
TRACKED = (0, "4k")
"""Reads in percent and block size of the cell that must reach steady state, where a test has it."""
ROUNDS_EXPECTED = 6
_WIPC_BYTES_PER_S = 500e6
"""Write rate for the estimate of preconditioning, with a terabyte for the unknown size of the drive."""


class PtsSetting(DriveSetting):
    """Setting of a trial: one test on one set of drives."""

    kind: Literal["pts"] = "pts"
    left_out: ClassVar[frozenset[str]] = frozenset({"capacities"})

    test: Annotated[PtsTest, Words("test {}", place=1)]
    purge: Annotated[Purge, Words("purge {}", place=1)]
    passes: Annotated[int, Words("passes {}", place=1)]
    """Number of sequential writes of the drive's whole capacity, before the rounds."""
    depth: Annotated[int, Words("depth {}", place=1)]
    jobs: Annotated[int, Words("jobs {}", place=1)]
    block_sizes: Annotated[tuple[str, ...], Words("block sizes {}", place=1)]
    reads_percent: Annotated[tuple[Percent, ...], Words("{} % reads")]
    most_rounds: Annotated[int, Words("most rounds {}", place=1)]
    duration_s: DurationSaid
    """Duration of each cell of a round; for write saturation, duration of the whole test."""
    capacities: Annotated[int, Words("capacities {}", place=1)] = 0
    """Number of times that write saturation writes the drive's capacity; 0 to limit it by time instead."""

    @property
    def cells(self) -> tuple[tuple[int, str], ...]:
        """Reads in percent and block size of each cell of a round, in the order of measurement."""
        return tuple((reads, size) for reads in self.reads_percent for size in self.block_sizes)

    @property
    def tracked(self) -> tuple[int, str]:
        """Cell that must reach steady state."""
        return TRACKED if TRACKED in self.cells else (min(self.reads_percent), self.block_sizes[-1])

    @property
    def writing(self) -> tuple[tuple[float, int | None], ...]:
        """Time and block size of each cell with writes, over the most possible rounds."""
        if self.capacities:
            return ()
        rounds = 1 if self.test == "write-saturation" else self.most_rounds
        of = [parse_size(size) if self.test != "throughput" else None for reads, size in self.cells if reads < 100]  # noqa: PLR2004
        return tuple((rounds * self.duration_s, block) for block in of)

    @property
    def fills(self) -> int:
        """Passes of preconditioning and of write saturation."""
        return self.passes + self.capacities

    def at(self, reads: int, size: str) -> FioSetting:
        """Return the job of one cell."""
        access = access_options(reads, random=self.test != "throughput")
        options = {**access, "bs": size, "iodepth": str(self.depth), "direct": "1", "ioengine": "libaio"}
        options |= {"numjobs": str(self.jobs)} if self.jobs > 1 else {}
        if self.capacities:  # each loop writes as many bytes as the drive has, at newly drawn places
            options |= {"loops": str(self.capacities), "norandommap": "1"}
            return FioSetting(options=options, writes=True, ramp_s=0.0, duration_s=LONGEST_TRIAL)
        return FioSetting(options=options, writes=True, ramp_s=0.0, duration_s=self.duration_s)

    @property
    def preconditioning(self) -> FioSetting:
        """Job that writes the whole drive sequentially, `passes` times."""
        options = {"rw": "write", "bs": "128k", "iodepth": "32", "direct": "1", "ioengine": "libaio", "loops": str(self.passes)}
        return FioSetting(options=options, writes=True, ramp_s=0.0, duration_s=LONGEST_TRIAL)


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
    depth: Annotated[int, Field(ge=1, le=1024)] = 32
    jobs: Annotated[int, Field(ge=1, le=64)] = 1
    block_sizes: Sizes | None = None
    reads_percent: Percents | None = None
    most_rounds: Annotated[int, Field(ge=5, le=25)] = 25
    duration: Duration = Seconds(60.0)
    saturation: Duration = Seconds(21600.0)
    saturation_passes: Annotated[int | None, Field(ge=1, le=20)] = None

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check times, sizes and lists."""
        yield from super().own_faults()
        for name, lasts in (("duration", self.duration), ("saturation", self.saturation)):
            if not 0 < lasts <= LONGEST_TRIAL:
                yield fault((name,), f"must be above 0 and at most {LONGEST_TRIAL:g} s", FaultKind.RANGE)
        timed = self.saturation != type(self).model_fields["saturation"].default
        if self.saturation_passes and (self.jobs > 1 or timed):
            what = "write `saturation` or `saturation_passes`, not both" if timed else "each of several jobs would write so much"
            yield fault(("saturation_passes",), what)
        for name, values in (("tests", self.tests), ("block_sizes", self.block_sizes), ("reads_percent", self.reads_percent)):
            if values is not None and (not values or len(set(values)) < len(values)):
                yield fault(
                    (name,),
                    "a value is written twice" if values else "empty; write a value",
                    FaultKind.DUPLICATE if values else FaultKind.MISSING,
                )
        for size in self.block_sizes or ():
            try:
                parse_size(size)
            except ValueError as error:
                yield raised(("block_sizes",), error)

    def settings(self) -> Iterator[tuple[PtsSetting, float]]:
        """Yield each test's settings with the estimated time, for a terabyte per pass and the usual number of rounds."""
        for test in self.tests:
            for sizes, mixes in self._matrices(test):
                lasts = self.saturation if test == "write-saturation" else self.duration
                depth, jobs = (1, 1) if test == "latency" else (self.depth, 1 if test == "throughput" else self.jobs)
                capacities = (self.saturation_passes or 0) if test == "write-saturation" else 0
                passes = 0 if test == "write-saturation" else self.passes
                setting = PtsSetting(
                    test=test, purge=self.purge, passes=passes, depth=depth, jobs=jobs, block_sizes=sizes, reads_percent=mixes,
                    most_rounds=self.most_rounds, duration_s=lasts, capacities=capacities, writes=True,
                )  # fmt: skip
                rounds = 1 if test == "write-saturation" else ROUNDS_EXPECTED
                yield setting, passes * 1e12 / _WIPC_BYTES_PER_S * (self.duration >= 60) + rounds * len(setting.cells) * lasts  # noqa: PLR2004

    def _matrices(self, test: PtsTest) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
        """Return block sizes and mixes of each trial of a test."""
        if test == "write-saturation":
            return [(("4k",), (0,))]
        if test == "throughput":
            return [((size,), (100, 0)) for size in self.block_sizes or _THROUGHPUT_BLOCKS]
        usual = (_LATENCY_BLOCKS, _LATENCY_MIXES) if test == "latency" else (BLOCKS, MIXES)
        return [(self.block_sizes or usual[0], self.reads_percent or usual[1])]

    def what_writes(self) -> Loc | None:
        """Return the place of the whole workload, since every test writes."""
        return ()

    def incompatibilities(self, bounds: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
        """Yield also faults for drives that must not be purged."""
        yield from super().incompatibilities(bounds)
        of_testbed: Mapping[str, DriveSpec] = bounds.drives if isinstance(bounds, TestbedBounds) else {}
        if self.purge != "none":
            for name in sorted({name for names in self.sets(of_testbed) for name in names} & of_testbed.keys()):
                if not of_testbed[name].purge:
                    yield ("purge",), f"purges {name}, and the testbed does not say `purge: yes` there: all of the drive would be erased"
