"""Block sizes and mixes of reads and writes: the settings and checks that workloads with both share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.drives import parse_size
from dutlab.spec.model import Loc, fault, raised
from dutlab.spec.workloads.fio import FioSetting, Value, access_options
from dutlab.spec.workloads.on_drives import DriveSetting, levels
from dutlab.spec.workloads.setting import Words
from dutlab.units import Seconds

LARGEST_BLOCK = 64 << 20
_SECTOR, _ALL = 512, 100

Access = Literal["random", "sequential"]
Sizes = Annotated[tuple[Value, ...], BeforeValidator(levels, json_schema_input_type=Value | tuple[Value, ...])]
Percent = Annotated[int, Field(ge=0, le=100)]
Percents = Annotated[tuple[Percent, ...], BeforeValidator(levels, json_schema_input_type=Percent | tuple[Percent, ...])]


class BlockMixSetting(DriveSetting):
    """Setting of a trial with one block size and one mix."""

    access: Annotated[Access, Words("access {}", place=1)]
    bs: Annotated[str, Words("blocks of {}")]
    reads_percent: Annotated[Percent, Words("{} % reads")]

    @property
    def random_block(self) -> int | None:
        """Bytes of a block at a random place; None for sequential access."""
        return parse_size(self.bs) if self.access == "random" else None

    def job(self, depth: int, *, ramp: Seconds, duration: Seconds, engine: str = "libaio") -> FioSetting:
        """Return the job of one depth."""
        access = access_options(self.reads_percent, random=self.access == "random")
        options = {**access, "bs": self.bs, "iodepth": str(depth), "direct": "1", "ioengine": engine}
        return FioSetting(options=options, writes=self.writes, ramp_s=ramp, duration_s=duration)


def writes(reads_percent: int) -> bool:
    """Return whether a mix has writes."""
    return reads_percent < _ALL


def place_of_writes(reads_percent: Sequence[int]) -> Loc | None:
    """Return the place of the mixes if one has writes; None otherwise."""
    return ("reads_percent",) if any(map(writes, reads_percent)) else None


def faults_of_lists(lists: Mapping[str, Sequence[object] | None]) -> Iterator[InitErrorDetails]:
    """Yield a fault for each list that is empty or has a value twice; None is a list that was not written."""
    for name, values in lists.items():
        if values is not None and not values:
            yield fault((name,), "empty; write a value", FaultKind.MISSING)
        elif values is not None and len(set(values)) < len(values):
            yield fault((name,), "a value is written twice", FaultKind.DUPLICATE)


def faults_of_blocks(sizes: Sequence[str]) -> Iterator[InitErrorDetails]:
    """Yield a fault for each block size that is not a multiple of a sector or is too large."""
    for size in sizes:
        try:
            if parse_size(size) % _SECTOR or not 0 < parse_size(size) <= LARGEST_BLOCK:
                yield fault(("block_sizes",), f"{size} is not a multiple of 512 bytes up to 64M")
        except ValueError as error:
            yield raised(("block_sizes",), error)
