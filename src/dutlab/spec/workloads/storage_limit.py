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
from itertools import product
from math import ceil, log2
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import Duration
from dutlab.spec.model import Loc, fault, fault_of_key
from dutlab.spec.workloads.base import LONGEST_TRIAL
from dutlab.spec.workloads.block_mix import (
    Access,
    BlockMixSetting,
    Percents,
    Sizes,
    faults_of_blocks,
    faults_of_lists,
    place_of_writes,
    writes,
)
from dutlab.spec.workloads.fio import FioSetting
from dutlab.spec.workloads.on_drives import DriveWorkload
from dutlab.spec.workloads.setting import DurationSaid, RampSaid, Setting, Words
from dutlab.units import Seconds

MOST_DEPTH = 4096
BISECTIONS = 4
"""Number of depths in addition to the doublings, for the estimate."""


class StorageLimitSetting(BlockMixSetting):
    """Setting of a trial: one block size and mix on one set of drives."""

    kind: Literal["storage-limit"] = "storage-limit"

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
        return ((self.points * (self.ramp_s + self.duration_s), self.random_block),) if self.writes else ()

    def at(self, depth: int) -> FioSetting:
        """Return the job of one depth."""
        job = self.job(depth, ramp=self.ramp_s, duration=self.duration_s, engine=self.engine)
        return job.model_copy(update={"options": {**job.options, "numjobs": str(self.jobs)}}) if self.jobs > 1 else job


class StorageLimitWorkload(DriveWorkload):
    """One trial per set of drives, block size and mix."""

    setting: ClassVar[type[Setting]] = StorageLimitSetting

    access: Access = "random"
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
        yield from faults_of_lists({"block_sizes": self.block_sizes, "reads_percent": self.reads_percent})
        yield from faults_of_blocks(self.block_sizes)
        if self.jobs > 1 and self.access == "sequential":
            yield fault(
                ("jobs",),
                "several sequential jobs would use the same blocks; leave `jobs` out, or use access: random",
                FaultKind.CONFLICT,
            )

    def settings(self) -> Iterator[tuple[StorageLimitSetting, float]]:
        """Yield each block size with each mix, with the time of a sweep to the deepest."""
        for reads, size in product(self.reads_percent, self.block_sizes):
            setting = StorageLimitSetting(
                access=self.access, bs=size, reads_percent=reads, jobs=self.jobs, deepest=self.deepest, engine=self.engine,
                writes=writes(reads), ramp_s=self.ramp, duration_s=self.duration,
            )  # fmt: skip
            yield setting, setting.points * (self.ramp + self.duration)

    def writing_key(self) -> Loc | None:
        """Return the place of `reads_percent` if a mix has writes; None otherwise."""
        return place_of_writes(self.reads_percent)
