"""Workload `storage-latency`: latency of drives at given rates, in an open loop, and for comparison in fio's closed loop.

- storage-latency:
    drives: [each]
    rates: [500, 25%, 50%, 75%]
    block_sizes: 4k
    reads_percent: 100
    duration: 60s

A rate is a number of I/Os a second of each drive, or a share of the most that fio reaches on it. All rates of a trial are measured one
after another; `order: crossed` begins each repeat with another of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.drives import parse_size
from dutlab.spec.fields import Duration
from dutlab.spec.model import Loc, ValueFault, fault, fault_of_key
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
from dutlab.spec.workloads.fio import FioSetting, Value
from dutlab.spec.workloads.fio_rate import most_arrivals, nearest_poisson
from dutlab.spec.workloads.on_drives import DriveWorkload, WritingTime, levels
from dutlab.spec.workloads.setting import DurationSaid, RampSaid, Setting, Words
from dutlab.units import Seconds

MOST_IOPS = 1_000_000
MOST_DEPTH = 4096
MOST_RATES = 32
MOST_MEMORY_BYTES = 1 << 30
"""Most memory for the blocks of all I/Os that are under way on a drive."""
_RATE = re.compile(r"(?P<number>\d{1,7}(\.\d{1,3})?)(?P<share>%?)", re.ASCII)
_T = TypeVar("_T")


def _rate(text: str) -> str:
    number = float(match["number"]) if (match := _RATE.fullmatch(text)) else 0.0
    most = 100 if text.endswith("%") else MOST_IOPS
    if match is None or not 0 < number <= most or not (match["share"] or number.is_integer()):
        raise ValueFault(
            f"{text!r} is not a rate: write I/Os a second up to {MOST_IOPS}, as in 500, or a share, as in 50%", FaultKind.RANGE
        )
    return f"{number:g}{match['share']}" if match["share"] else f"{number:.0f}"


LoadRate = Annotated[Value, AfterValidator(_rate)]
"""I/Os a second of each drive (`500`), or a share of the most (`50%`)."""
Rates = Annotated[tuple[LoadRate, ...], BeforeValidator(levels, json_schema_input_type=Value | tuple[Value, ...])]
Order = Literal["crossed", "as-written"]


def share_of(rate: str) -> float | None:
    """Return a rate that is a share of the most, as a ratio; None for I/Os a second."""
    return float(rate[:-1]) / 100 if rate.endswith("%") else None


def part_of(rate: str) -> str:
    """Return the part of a rate's figures: `50%`, `500iops`."""
    return rate if share_of(rate) is not None else f"{rate}iops"


def in_turn(rates: Sequence[_T], repeat: int, order: Order) -> list[_T]:
    """Return the order of the rates in a repeat, counted from 1.

    `crossed`: in as many repeats as there are rates, each rate has each place once; every second time through all of them runs backwards.
    """
    if order == "as-written":
        return list(rates)
    rounds, first = divmod(repeat - 1, len(rates))
    turned = [*rates[first:], *rates[:first]]
    return turned[::-1] if rounds % 2 else turned


class StorageLatencySetting(BlockMixSetting):
    """Setting of a trial: all rates with one block size and mix on one set of drives."""

    kind: Literal["storage-latency"] = "storage-latency"

    rates: Annotated[tuple[LoadRate, ...], Field(min_length=1), Words("rates {}", read=", ".join)]
    order: Annotated[Order, Words("rates {}", {"crossed": ""}, place=1)]
    depth: Annotated[int, Field(ge=1, le=MOST_DEPTH), Words("up to {} at once")]
    duration_s: DurationSaid
    """Duration of each rate in each loop."""
    ramp_s: RampSaid

    @property
    def options(self) -> dict[str, str]:
        """Options of fio at the highest rate."""
        return self.at_most.options

    @property
    def at_most(self) -> FioSetting:
        """The job that finds the most I/Os a second."""
        return self.job(self.depth, ramp=self.ramp_s, duration=self.duration_s)

    def closed(self, iops: float) -> FioSetting:
        """Return the closed-loop job with the same rate and arrivals. fio's rate is of reads and of writes separately."""
        most = self.at_most
        shares = (self.reads_percent, 100 - self.reads_percent)
        rates = ",".join(str(nearest_poisson(iops * share / 100)) if share else "" for share in shares).rstrip(",")
        return most.model_copy(update={"options": {**most.options, "rate_iops": rates, "rate_process": "poisson"}})

    @property
    def finds_most(self) -> bool:
        """True if a rate is a share, so that the most is measured first."""
        return any(share_of(rate) is not None for rate in self.rates)

    @property
    def needs_engine(self) -> bool:
        """True: it makes the I/Os of the open loop."""
        return True

    @property
    def parts_s(self) -> float:
        """Seconds of the whole trial."""
        return (2 * len(self.rates) + self.finds_most) * (self.ramp_s + self.duration_s)

    @property
    def writing(self) -> tuple[WritingTime, ...]:
        """Time of the writes in both loops at each rate, with the most bytes a second; a share has no such limit, nor has the most."""
        if not self.writes:
            return ()
        block, each_s = parse_size(self.bs), self.ramp_s + self.duration_s
        own = [WritingTime(2 * each_s, self.random_block, self._most_bytes_per_s(rate, block, 2 * each_s)) for rate in self.rates]
        return (*own, *([WritingTime(each_s, self.random_block)] if self.finds_most else []))

    def _most_bytes_per_s(self, rate: str, block: int, seconds: float) -> float | None:
        if share_of(rate) is not None:
            return None
        asked = int(rate) * (100 - self.reads_percent) / 100
        return block * most_arrivals(asked, seconds)


class StorageLatencyWorkload(DriveWorkload):
    """One trial per set of drives, block size and mix."""

    setting: ClassVar[type[Setting]] = StorageLatencySetting

    rates: Rates = ("10%", "25%", "50%", "75%")
    access: Access = "random"
    block_sizes: Sizes = ("4k",)
    reads_percent: Percents = (100,)
    depth: Annotated[int, Field(ge=1, le=MOST_DEPTH)] = 256
    """Most I/Os under way on a drive: rate × longest stall, with a reserve."""
    order: Order = "crossed"
    ramp: Duration = Seconds(1.0)
    duration: Duration = Seconds(60.0)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that lists have values without duplicates, and that sizes and times are possible."""
        yield from super().own_faults()
        if not 0 < self.duration <= LONGEST_TRIAL:
            yield fault_of_key("duration", f"must be above 0 and at most {LONGEST_TRIAL:g} s", FaultKind.RANGE)
        yield from faults_of_lists({"rates": self.rates, "block_sizes": self.block_sizes, "reads_percent": self.reads_percent})
        if len(self.rates) > MOST_RATES:
            yield fault(("rates",), f"has {len(self.rates)} values; at most {MOST_RATES} are possible", FaultKind.RANGE)
        for size in self.block_sizes:
            yield from (faults := list(faults_of_blocks([size])))
            if not faults and parse_size(size) * self.depth > MOST_MEMORY_BYTES:
                yield fault(("depth",), f"{self.depth} blocks of {size} need more than 1 GiB of memory; lower it", FaultKind.CONFLICT)

    def settings(self) -> Iterator[tuple[StorageLatencySetting, float]]:
        """Yield each block size with each mix, with the time of all rates."""
        for reads, size in product(self.reads_percent, self.block_sizes):
            setting = StorageLatencySetting(
                access=self.access, bs=size, reads_percent=reads, rates=self.rates, order=self.order, depth=self.depth,
                writes=writes(reads), ramp_s=self.ramp, duration_s=self.duration,
            )  # fmt: skip
            yield setting, setting.parts_s

    def writing_key(self) -> Loc | None:
        """Return the place of `reads_percent` if a mix has writes; None otherwise."""
        return place_of_writes(self.reads_percent)
