"""Workload `storage-limit`: I/O at rising depth, until more depth brings no more IOPS.

- storage-limit:
    drives: [each, together]
    block_sizes: [512, 4k, 64k, 128k, 1M]
    reads_percent: [100, 0, 70]
    duration: 10s

Each block size with each mix is a trial, which finds its own knee. Without `reads_percent`, nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.drives import parse_size
from dutlab.spec.fields import Duration
from dutlab.spec.model import Loc, fault, fault_of_key, raised
from dutlab.spec.workloads.base import LONGEST_TRIAL
from dutlab.spec.workloads.fio import FioSetting, Value, access_options
from dutlab.spec.workloads.on_drives import DriveSetting, DriveWorkload, levels
from dutlab.spec.workloads.setting import DurationSaid, RampSaid, Setting, Words
from dutlab.units import Seconds

MOST_DEPTH = 4096
BISECTIONS = 4
"""Number of depths in addition to the doublings, for the estimate."""
LARGEST_BLOCK = 64 << 20

Sizes = Annotated[tuple[Value, ...], BeforeValidator(levels, json_schema_input_type=Value | tuple[Value, ...])]
Percent = Annotated[int, Field(ge=0, le=100)]
Percents = Annotated[tuple[Percent, ...], BeforeValidator(levels, json_schema_input_type=Percent | tuple[Percent, ...])]


class StorageLimitSetting(DriveSetting):
    """Setting of a trial: one block size and mix on one set of drives."""

    kind: Literal["storage-limit"] = "storage-limit"

    access: Annotated[Literal["random", "sequential"], Words("access {}", place=1)]
    bs: Annotated[str, Words("blocks of {}")]
    reads_percent: Annotated[Percent, Words("{} % reads")]
    jobs: Annotated[int, Words("jobs {}", place=1)]
    deepest: Annotated[int, Words("up to depth {}")]
    engine: Annotated[str, Words("by {}")]
    duration_s: DurationSaid
    """Duration of each depth."""
    ramp_s: RampSaid

    @property
    def options(self) -> dict[str, str]:
        """Options of all depths, with the depth at which the sweep begins."""
        return self.at(1).options

    @property
    def points(self) -> int:
        """Number of depths of a sweep to the deepest."""
        return ceil(log2(self.deepest)) + 1 + BISECTIONS

    @property
    def writing(self) -> tuple[tuple[float, int | None], ...]:
        """Time of the writes at all depths, with the block size."""
        block = parse_size(self.bs) if self.access == "random" else None
        return ((self.points * (self.ramp_s + self.duration_s), block),) if self.writes else ()

    def at(self, depth: int) -> FioSetting:
        """Return the job of one depth."""
        access = access_options(self.reads_percent, random=self.access == "random")
        options = {**access, "bs": self.bs, "iodepth": str(depth), "direct": "1", "ioengine": self.engine}
        options |= {"numjobs": str(self.jobs)} if self.jobs > 1 else {}
        return FioSetting(options=options, writes=self.writes, ramp_s=self.ramp_s, duration_s=self.duration_s)


class StorageLimitWorkload(DriveWorkload):
    """One trial per set of drives, block size and mix."""

    setting: ClassVar[type[Setting]] = StorageLimitSetting

    access: Literal["random", "sequential"] = "random"
    block_sizes: Sizes = ("512", "4k", "64k", "128k", "1M")
    reads_percent: Percents = (100,)
    jobs: Annotated[int, Field(ge=1, le=64)] = 1
    """Threads per drive, each with the depth of the sweep. One thread of fio makes some 450,000 I/Os a second."""
    deepest: Annotated[int, Field(ge=1, le=MOST_DEPTH)] = 1024
    engine: Literal["libaio", "io_uring"] = "libaio"
    ramp: Duration = Seconds(1.0)
    duration: Duration = Seconds(10.0)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that lists have values without duplicates, and that jobs do not access the same blocks."""
        yield from super().own_faults()
        if not 0 < self.duration <= LONGEST_TRIAL:
            yield fault_of_key("duration", f"must be above 0 and at most {LONGEST_TRIAL:g} s", FaultKind.RANGE)
        for name, values in (("block_sizes", self.block_sizes), ("reads_percent", self.reads_percent)):
            if not values or len(set(values)) < len(values):
                yield fault(
                    (name,),
                    "a value is written twice" if values else "empty; write a value",
                    FaultKind.DUPLICATE if values else FaultKind.MISSING,
                )
        for size in self.block_sizes:
            try:
                if parse_size(size) % 512 or not 0 < parse_size(size) <= LARGEST_BLOCK:
                    yield fault(("block_sizes",), f"{size} is not a multiple of 512 bytes up to 64M")
            except ValueError as error:
                yield raised(("block_sizes",), error)
        if self.jobs > 1 and self.access == "sequential":
            yield fault(
                ("jobs",),
                "several sequential jobs would use the same blocks; leave `jobs` out, or use access: random",
                FaultKind.CONFLICT,
            )

    def settings(self) -> Iterator[tuple[StorageLimitSetting, float]]:
        """Yield each block size with each mix, with the time of a sweep to the deepest."""
        for reads in self.reads_percent:
            for size in self.block_sizes:
                setting = StorageLimitSetting(
                    access=self.access, bs=size, reads_percent=reads, jobs=self.jobs, deepest=self.deepest, engine=self.engine,
                    writes=reads < 100, ramp_s=self.ramp, duration_s=self.duration,  # noqa: PLR2004 -- percent
                )  # fmt: skip
                yield setting, setting.points * (self.ramp + self.duration)

    def writing_key(self) -> Loc | None:
        """Return the place of `reads_percent` if a mix has writes; None otherwise."""
        return ("reads_percent",) if any(reads < 100 for reads in self.reads_percent) else None  # noqa: PLR2004 -- percent
