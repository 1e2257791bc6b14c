"""Workload `storage-latency`: each rate in an open loop, then in fio's closed loop, with the error of the second.

A latency of the open loop counts from the instant at which the I/O was due. fio's counts from the call, which fio makes only when the
I/Os under way have ended. Raw files of a rate begin with its number in the setting: `rate-01-`.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import ended_by
from dutlab.hosts.host import Host
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.drives import parse_size
from dutlab.spec.workloads.storage_latency import StorageLatencySetting, in_turn, part_of, share_of
from dutlab.subject import of_part, part_figure
from dutlab.tools.engine.binary import EngineFile, engine_on, find_engine
from dutlab.tools.fio import open_loop
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.histogram import LEAST_BEYOND, merged, percentile, percentiles
from dutlab.tools.fio.open_loop import PERCENTILES, DriveLoad, OpenResult, figures_of
from dutlab.tools.fio.output import JobOutput, jobs_of, total
from dutlab.tools.fio.program import GRACE_S, LAYOUT_BYTES_PER_S, FioResult, Found, doubts_of, drives_of, facts_of, run
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.json_text import read_object

_CLOSED = re.compile(r"rate-(?P<number>\d+)-closed-fio-.+\.json")
_OPEN = re.compile(r"rate-(?P<number>\d+)-drive-load-.+\.json")
_MOST = re.compile(r"most-fio-.+\.json")
_Z = 1.96
"""Normal quantile of a 95 % interval."""
_SLOWER = 1.1
"""Factor between two medians from which the one at the lower rate counts as above the other."""
# An existing file is neither overwritten nor removed (sh: set -C). The data is such that no drive compresses it.
_MAKE, _FILL = 'set -C; : >"$1"', 'head -c "$2" /dev/urandom >"$1" && sync -- "$1"'
CLOSED_NAMES = ("clat_mean_ns", *(f"clat_{name}_ns" for name in PERCENTILES), "clat_max_ns")
"""Figures of the closed loop."""


@dataclass(frozen=True)
class Loops:
    """Both loops at one rate."""

    open: list[DriveLoad]
    closed: JobOutput


@dataclass(frozen=True)
class Loaded:
    """Results of all rates, by rate, in the order in which they were measured."""

    opened: Mapping[str, OpenResult]
    closed: Mapping[str, FioResult]
    most: FioResult | None
    """The most I/Os a second; None if no rate is a share of it."""

    def loops(self, rate: str) -> Loops:
        """Return both loops at a rate."""
        return Loops(list(self.opened[rate].loads.values()), self.closed[rate].whole)

    @property
    def ran(self) -> list[FioResult]:
        """Every job of fio."""
        return [*([self.most] if self.most else []), *self.closed.values()]


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Measure all rates of one cell. Raises MeasurementError, HostError."""
    setting = cell.setting_as(StorageLatencySetting)
    found = await drives_of(site, cell)
    async with _laid_out(site, found) as drives:
        loaded = await load(site, drives, setting, cell.repeat)
    loops = {rate: loaded.loops(rate) for rate in setting.rates}
    return Measured(
        figures={cell.link_label: _figures(setting, loaded.most.whole if loaded.most else None, loops)},
        doubts=(*_doubts(setting, loaded, loops), *doubts_of(found)),
        raw=_raw(setting, loaded),
        facts={**facts_of(found, loaded.ran[0]), "rates_in_order": ", ".join(loaded.opened)},
        readings=[reading for of in loaded.ran for reading in of.readings],
        tables={
            "rates": [_row(setting, rate, place, loops[rate]) for place, rate in enumerate(loaded.opened, 1)],
            "latency_bins": [row for rate, of in loops.items() for row in _bins(rate, of)],
        },
    )


async def load(site: GeneratorSite, found: Found, setting: StorageLatencySetting, repeat: int) -> Loaded:
    """Load the drives at each rate, in the order of this repeat. Raises MeasurementError, HostError."""
    opened, closed = dict[str, OpenResult](), dict[str, FioResult]()
    async with contextlib.AsyncExitStack() as stack:
        engine = await EngineFile.read(find_engine())
        engines = {host: await stack.enter_async_context(engine_on(site.hosts[host], engine)) for host in found}
        most = await run(site, found, setting.at_most) if setting.finds_most else None
        for rate in in_turn(setting.rates, repeat, setting.order):
            iops = {drive.name: _iops(rate, drive, most) for of in found.values() for drive in of.values()}
            seed = (repeat * len(setting.rates) + setting.rates.index(rate) + 1) << 16
            opened[rate] = await open_loop.run(site.hosts, engines, found, setting, iops, seed=seed)
            closed[rate] = await run(site, found, setting.closed(sum(iops.values()) / len(iops)))
    return Loaded(opened, closed, most)


def _raw(setting: StorageLatencySetting, loaded: Loaded) -> dict[str, bytes]:
    raw = {f"most-{name}": data for name, data in (loaded.most.raw if loaded.most else {}).items()}
    for number, rate in enumerate(setting.rates, 1):
        raw |= {f"rate-{number:02d}-{name}": data for name, data in loaded.opened[rate].raw.items()}
        raw |= {f"rate-{number:02d}-closed-{name}": data for name, data in loaded.closed[rate].raw.items()}
    return raw


async def _remove(host: Host, path: str) -> None:
    await host.run(["rm", "-f", "--", path], check=False)


@contextlib.asynccontextmanager
async def _laid_out(site: GeneratorSite, found: Found) -> AsyncIterator[Found]:
    """Write the files in place of drives, and remove them afterwards. Both loops use the same file, full of data. Raises HostError."""
    files = [(site.hosts[host], drive) for host, of in found.items() for drive in of.values() if drive.is_file and not drive.stays]
    async with contextlib.AsyncExitStack() as stack:
        for host, drive in files:
            await host.run(["sh", "-c", _MAKE, "dutlab", drive.path])
            await stack.enter_async_context(ended_by(partial(_remove, host, drive.path)))
            timeout_s = drive.size_bytes / LAYOUT_BYTES_PER_S + GRACE_S
            await host.run(["sh", "-c", _FILL, "dutlab", drive.path, str(drive.size_bytes)], timeout_s=timeout_s)
        yield {host: {name: replace(drive, stays=True) for name, drive in of.items()} for host, of in found.items()}


def again(setting: StorageLatencySetting, raw: Mapping[str, bytes]) -> dict[str, float]:
    """Compute the figures from a trial's raw files. Raises UnreadableError, ToolFailed; ValueError if reports are missing."""
    opened, closed, most = defaultdict[int, list[DriveLoad]](list), defaultdict[int, list[JobOutput]](list), list[JobOutput]()
    for name, data in sorted(raw.items()):
        if (of := _OPEN.fullmatch(name)) is not None:
            opened[int(of["number"])].append(open_loop.read(data, name))
        elif (of := _CLOSED.fullmatch(name)) is not None:
            closed[int(of["number"])] += jobs_of(read_object(data)[0])
        elif _MOST.fullmatch(name):
            most += jobs_of(read_object(data)[0])
    wanted = set(range(1, len(setting.rates) + 1))
    if set(opened) != wanted or set(closed) != wanted or bool(most) != setting.finds_most:
        raise ValueError(f"reports of {len(opened)} open and {len(closed)} closed loops are kept, of {len(wanted)} rates")
    loops = {rate: Loops(opened[number], total(closed[number])) for number, rate in enumerate(setting.rates, 1)}
    return _figures(setting, total(most) if most else None, loops)


def _iops(rate: str, drive: FoundDrive, most: FioResult | None) -> float:
    share = share_of(rate)
    if share is None or most is None:
        return float(rate)
    return max(1.0, share * most.jobs[drive.name].both.figures["iops"])


def _figures(setting: StorageLatencySetting, most: JobOutput | None, loops: Mapping[str, Loops]) -> dict[str, float]:
    figures = {} if most is None else {part_figure("most", "iops"): most.both.figures["iops"]}
    for rate, of in loops.items():
        figures |= of_part(part_of(rate), both_figures(setting, of))
    return figures


def both_figures(setting: StorageLatencySetting, of: Loops) -> dict[str, float]:
    """Return the figures of both loops at one rate, and the closed loop's error."""
    opened, closed = figures_of(of.open, setting.duration_s), closed_figures(of.closed)
    return {**opened, **closed, **errors(opened, closed)}


def closed_figures(closed: JobOutput) -> dict[str, float]:
    """Return fio's completion latencies of reads and writes together."""
    figures = {
        **closed.both.figures,
        **{f"clat_{name}_ns": value for name, value in percentiles(closed.both.clat.bins, PERCENTILES).items()},
    }
    return {name: figures[name] for name in CLOSED_NAMES if name in figures}


def errors(opened: Mapping[str, float], closed: Mapping[str, float]) -> dict[str, float]:
    """Return how much the closed loop's latency differs from the open loop's, in percent of the latter."""
    pairs = ((name, opened.get(f"lat_{name}_ns"), closed.get(f"clat_{name}_ns")) for name in ("mean", *PERCENTILES, "max"))
    return {f"closed_error_{name}_percent": 100 * (shown / true - 1) for name, true, shown in pairs if true and shown is not None}


def _row(setting: StorageLatencySetting, rate: str, place: int, of: Loops) -> Row:
    late = merged(load.late.bins for load in of.open)
    return {
        "rate": rate,
        "place": place,
        "due": float(sum(load.due for load in of.open)),
        "closed_iops": of.closed.both.figures["iops"],
        **both_figures(setting, of),
        "late_p99_ns": float(percentile(late, 0.99)) if late else 0.0,
        "most_under_way": float(max(load.most_under_way for load in of.open)),
    }


def _bins(rate: str, of: Loops) -> list[Row]:
    opened = merged(part.latency.bins for load in of.open for part in (load.reads, load.writes))
    every = ((f"{rate}, open loop", opened), (f"{rate}, closed loop", of.closed.both.clat.bins))
    return [{"direction": words, "clat_ns": value, "ios": count} for words, bins in every for value, count in sorted(bins.items())]


def _doubts(setting: StorageLatencySetting, loaded: Loaded, loops: Mapping[str, Loops]) -> list[Doubt]:
    doubts = [doubt for of in loaded.ran for doubt in of.doubts]
    block = parse_size(setting.bs)
    for rate, of in loaded.opened.items():
        for name, drive_load in of.loads.items():
            doubts += [Doubt(DoubtKind.ARRIVALS_MISSED, detail=f"{part_of(rate)}: {what}") for what in open_loop.missed(name, drive_load)]
            if why := open_loop.answered_by_memory(name, drive_load, of.counted[name], block):
                doubts.append(Doubt(DoubtKind.PAGE_CACHE, detail=f"{part_of(rate)}: {why}"))
            if failed := drive_load.reads.errors + drive_load.writes.errors:
                detail = f"{part_of(rate)}: {name}: {failed} I/Os, {drive_load.first_error}"
                doubts.append(Doubt(DoubtKind.STORAGE_ERRORS, detail=detail))
    doubts += [Doubt(DoubtKind.SLOWER_WHEN_IDLE, detail=what) for what in slower_when_idle(loops)]
    return list(dict.fromkeys(doubts))


def slower_when_idle(loops: Mapping[str, Loops]) -> list[str]:
    """Return a sentence if the median at a rate is above that at the next higher one, beyond chance and by more than a tenth."""
    bins = {rate: merged(part.latency.bins for load in of.open for part in (load.reads, load.writes)) for rate, of in loops.items()}
    rising = sorted((rate for rate in loops if sum(bins[rate].values()) >= 2 * LEAST_BEYOND), key=lambda rate: sum(bins[rate].values()))
    sentences = []
    for low, high in pairwise(rising):
        (least, _), (_, most) = _median_between(bins[low]), _median_between(bins[high])
        medians = percentile(bins[low], 0.5), percentile(bins[high], 0.5)
        if least > most and medians[0] > _SLOWER * medians[1]:
            sentences.append(f"median {medians[0] / 1e3:.0f} µs at {part_of(low)}, {medians[1] / 1e3:.0f} µs at {part_of(high)}")
    return sentences


def _median_between(bins: Mapping[int, int]) -> tuple[int, int]:
    """Return the 95 % interval of the median by the ranks of a binomial distribution."""
    margin = _Z / 2 / sum(bins.values()) ** 0.5
    return percentile(bins, max(0.0, 0.5 - margin)), percentile(bins, min(1.0, 0.5 + margin))
