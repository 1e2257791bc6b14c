"""Workload `pts`: purge, write cache, preconditioning, and the parts of one test of SNIA's specification.

A part is a run of fio on all drives of the trial. The report of every part is kept raw, so `again` can compute the verdict from them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from statistics import fmean

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MeasurementError
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.fio import FioSetting
from dutlab.spec.workloads.pts_setting import BEFORE, HISTOGRAM, NOT_REACHED, ROUNDS, STIMULI, PtsSetting
from dutlab.stats.steady import RANGE_SHARE, SLOPE_SHARE, Steadiness
from dutlab.tools.fio import write_cache
from dutlab.tools.fio.output import JobOutput, jobs_of, readings, total
from dutlab.tools.fio.program import FioResult, Found, doubts_of, drives_of, facts_of, run
from dutlab.tools.fio.pts_verdict import (
    Parts,
    before_part,
    bin_s,
    demand_part,
    figures_of,
    operating_points,
    part_of,
    state_of,
    steady_round,
    tables_of,
    windows_of,
    written_bytes,
)  # fmt: skip
from dutlab.tools.fio.purge import purge
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.json_text import read_object

_REPORT = re.compile(r"(?P<part>[\w.-]+?)-fio-(?P<host>.+)\.json")
_RATES = re.compile(r"(?P<part>load-\d)-fio-.+_bw\.log")
_REST, _FILL = "rest", "preconditioning"
_LEAST_S = 0.05
"""Shortest time that fio is started for."""
_ALIGNED = 1 << 20


@dataclass
class PtsParts:
    """The parts of one trial so far."""

    site: GeneratorSite
    drives: Found
    setting: PtsSetting
    results: list[tuple[str, FioResult]] = field(default_factory=list)
    outputs: dict[str, JobOutput] = field(default_factory=dict)

    @property
    def parts(self) -> Parts:
        """The outputs of all parts, with the rates within the loads of cross-stimulus recovery."""
        return _parts(self.setting, self.outputs, self.raw)

    @property
    def raw(self) -> dict[str, bytes]:
        """Files to keep: the report of each part, and the rates of each second of a load."""
        kept = {f"{name}-{file}": data for name, result in self.results for file, data in result.raw.items()}
        return {name: data for name, data in kept.items() if name.endswith(".json") or _RATES.fullmatch(name)}

    async def run(self, name: str, job: FioSetting) -> JobOutput:
        """Run fio as the next part. Raises ToolFailed, HostError."""
        result = await run(self.site, self.drives, job)
        self.results.append((name, result))
        self.outputs[name] = result.whole
        return result.whole

    def is_steady(self, phase: str) -> bool:
        """Return whether a phase has reached steady state."""
        return steady_round(self.setting, self.parts, phase) is not None


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Run one test on one set of drives. Raises MeasurementError, HostError."""
    setting = cell.setting_as(PtsSetting)
    drives = await drives_of(site, cell)
    if setting.purge != "none":
        for host, of_host in drives.items():
            for drive in of_host.values():
                await purge(site.hosts[host], drive, setting.purge)
    caches = await _set_caches(site, drives, setting)
    course = PtsParts(site, _within(drives, setting.active_range_percent), setting)
    before = await run(site, course.drives, setting.preconditioning) if setting.passes else None
    await _COURSES[setting.test](course)
    return _measured(cell, course, before, drives, caches)


async def _set_caches(site: GeneratorSite, drives: Found, setting: PtsSetting) -> dict[str, str]:
    """Set the write caches as the setting says; return drive → state of its cache. Raises MeasurementError, HostError."""
    states = dict[str, str]()
    for host, of_host in drives.items():
        if setting.write_cache != "as-found":
            await write_cache.set_all(site.hosts[host], list(of_host.values()), setting.write_cache, site.announce)
        states |= {drive.name: await write_cache.state_of(site.hosts[host], drive) for drive in of_host.values()}
    return states


def _within(drives: Found, percent: int) -> Found:
    """Return the drives with only the first `percent` of each, in whole MiB. Raises MeasurementError if nothing is left of one."""
    if percent == 100:  # noqa: PLR2004 -- all of it
        return drives
    ranged = {
        host: {name: replace(drive, size_bytes=drive.size_bytes * percent // 100 // _ALIGNED * _ALIGNED) for name, drive in of_host.items()}
        for host, of_host in drives.items()
    }
    if small := [drive.name for of_host in ranged.values() for drive in of_host.values() if not drive.size_bytes]:
        raise MeasurementError(f"{percent} % of {', '.join(small)} is less than 1 MiB", remedy="raise `active_range`")
    return ranged


async def _rounds(course: PtsParts) -> None:
    """Repeat rounds of all cells until the tracked cells are steady, then measure response times."""
    setting = course.setting
    for number in range(1, setting.most_rounds + 1):
        for reads, size in setting.cells:
            await course.run(part_of(number, reads, size), setting.at(reads, size))
        if course.is_steady(ROUNDS):
            break
    await _histogram(course)


async def _histogram(course: PtsParts) -> None:
    if course.setting.histogram_s:
        await course.run(HISTOGRAM, course.setting.histogram)


async def _saturation(course: PtsParts) -> None:
    """Write until steady, for the time or until the capacities are written, until the first of these; then measure response times."""
    setting = course.setting
    cell_s = setting.cell_s or setting.duration_s
    for number in range(1, ceil(setting.duration_s / cell_s) + 1):
        left_s, left = _left(course)
        await course.run(part_of(number, *setting.cells[0]), setting.filling(min(cell_s, left_s), left))
        if course.is_steady(ROUNDS):
            break
        left_s, left = _left(course)
        if (rest_s := min(setting.interval_s - cell_s, left_s)) > _LEAST_S and left > 0:
            await course.run(f"{_REST}-{number:02d}", setting.filling(rest_s, left))
            left_s, left = _left(course)
        if left_s < min(cell_s, max(_LEAST_S, 0.5 * cell_s)) or left <= 0:
            break
    await _histogram(course)


def _left(course: PtsParts) -> tuple[float, int]:
    """Return the seconds of write saturation that are left, and the bytes to write to the smallest drive."""
    setting = course.setting
    sizes = [drive.size_bytes for of_host in course.drives.values() for drive in of_host.values()]
    written = sum(map(written_bytes, course.outputs.values())) / len(sizes)
    left_s = setting.duration_s - sum(output.lasted_ms for output in course.outputs.values()) / 1e3
    limit = setting.capacities * min(sizes) - written if setting.capacities else min(sizes)
    return left_s, int(limit) if limit > _ALIGNED / 2 else 0


async def _precondition(course: PtsParts) -> None:
    """Write at the test's own demand until five tracked minutes are steady."""
    setting = course.setting
    for number in range(1, setting.most_rounds + 1):
        await course.run(before_part(number), setting.saturating(setting.duration_s))
        if course.is_steady(BEFORE):
            break
        if (rest_s := setting.interval_s - setting.duration_s) > _LEAST_S:
            await course.run(f"{_REST}-{number:02d}", setting.saturating(rest_s))


async def _pauses(course: PtsParts) -> None:
    setting = course.setting
    await _precondition(course)
    for wait_s in setting.waits_s:
        await course.run(f"pause-{wait_s:g}s", setting.pausing(wait_s))
        await course.run(f"base-{wait_s:g}s", setting.saturating(setting.bursts_s))


async def _loads(course: PtsParts) -> None:
    for number in range(len(STIMULI)):
        await course.run(f"load-{number + 1}", course.setting.stimulus(number))


async def _demand(course: PtsParts) -> None:
    """Precondition, repeat rounds of all demands until the greatest is steady, then measure response times at three of them."""
    setting = course.setting
    await _precondition(course)
    for number in range(1, setting.most_rounds + 1):
        if setting.prewrite_s:
            await course.run(f"prewrite-{number:02d}", setting.saturating(setting.prewrite_s))
        for threads, depth in setting.demands:
            await course.run(demand_part(number, threads, depth), setting.demanding(threads, depth, setting.duration_s))
        if course.is_steady(ROUNDS):
            break
    for point, (threads, depth) in operating_points(setting, course.parts).items():
        if setting.point_prewrite_s:
            await course.run(f"prewrite-{point}", setting.saturating(setting.point_prewrite_s))
        await course.run(point, setting.demanding(threads, depth, setting.point_s))


_COURSES: Mapping[str, Callable[[PtsParts], Awaitable[None]]] = {
    "iops": _rounds,
    "throughput": _rounds,
    "latency": _rounds,
    "write-saturation": _saturation,
    "host-idle-recovery": _pauses,
    "cross-stimulus-recovery": _loads,
    "demand-intensity": _demand,
    "composite": _demand,
}


def again(setting: PtsSetting, raw: Mapping[str, bytes]) -> Parts:
    """Return the parts from a trial's raw files. Raises UnreadableError; ValueError if one is missing."""
    jobs: dict[str, list[JobOutput]] = defaultdict(list)
    for name, data in raw.items():
        if (of := _REPORT.fullmatch(name)) is not None:
            jobs[of["part"]] += jobs_of(read_object(data)[0])
    parts = _parts(setting, {name: total(of) for name, of in sorted(jobs.items())}, raw)
    try:
        figures_of(setting, parts)
    except (KeyError, ValueError, StopIteration) as error:
        raise ValueError(f"{len(jobs)} parts of the test are kept, and not all that its figures need ({error})") from error
    return parts


def _parts(setting: PtsSetting, outputs: Mapping[str, JobOutput], raw: Mapping[str, bytes]) -> Parts:
    logs: dict[str, list[bytes]] = defaultdict(list)
    for name, data in raw.items():
        if (of := _RATES.fullmatch(name)) is not None:
            logs[of["part"]].append(data)
    return Parts(outputs, {name: _rates(of, bin_s(setting)) for name, of in logs.items()})


def _rates(logs: Sequence[bytes], every_s: float) -> list[float]:
    """Return the bytes per second written by all drives, averaged over each whole `every_s` of their logs."""
    sums: dict[float, float] = defaultdict(float)
    for data in logs:
        for reading in readings({"bw": data}, ""):
            sums[reading.at_s] += reading.value
    bins: dict[int, list[float]] = defaultdict(list)
    for at_s, value in sums.items():
        bins[int((at_s - min(sums)) // every_s)].append(value)
    return [fmean(values) for number, values in sorted(bins.items()) if number < max(bins) or len(values) >= every_s]


def _measured(cell: Cell, course: PtsParts, before: FioResult | None, found: Found, caches: Mapping[str, str]) -> Measured:
    setting, parts = course.setting, course.parts
    state = state_of(setting, parts)
    results = [result for _, result in course.results]
    doubts = _once_each([doubt for result in results for doubt in result.doubts])
    if state == NOT_REACHED:
        doubts.append(Doubt(DoubtKind.NOT_STEADY, detail=_words_of_windows(setting, parts)))
    if setting.purge == "none":
        doubts.append(Doubt(DoubtKind.NOT_PURGED))
    drives = [drive for of_host in found.values() for drive in of_host.values()]
    figures = figures_of(setting, parts)
    verdict: dict[str, float | str | None] = {
        "state": state,
        "purge": setting.purge,
        "write_cache": ", ".join(sorted(set(caches.values()))),
        "active_range_percent": float(setting.active_range_percent),
        "capacity_bytes": float(sum(drive.size_bytes for drive in drives)),
    }
    verdict |= {"rounds": figures["rounds"]} if "rounds" in figures else {}
    if windows := windows_of(setting, parts):
        window, figure = max((window for *_, window in windows), key=_excess), setting.tracked_figure
        verdict |= {
            "first_round": float(window.first),
            f"mean_{figure}": window.mean,
            f"range_{figure}": window.spread,
            f"slope_{figure}": window.excursion,
        }
    stages = _stages(before, course.results)
    return Measured(
        figures={cell.link_label: figures},
        doubts=(*doubts, *doubts_of(found)),
        raw=course.raw,
        facts={**facts_of(found, results[0]), **{f"{name}_write_cache": of for name, of in caches.items()}, "state": state},
        notes=[_words(setting, state, parts)],
        readings=[reading for result in ([] if before is None else [before]) + results for reading in result.readings],
        tables={"verdict": [verdict], **tables_of(setting, parts), **({"stages": stages} if stages else {})},
    )


def _once_each(doubts: Sequence[Doubt]) -> list[Doubt]:
    """Return one doubt of each kind: its first detail, and how many parts have another."""
    details: dict[DoubtKind, dict[str, None]] = defaultdict(dict)
    for doubt in doubts:
        details[doubt.kind][doubt.detail] = None
    return [
        Doubt(kind, detail=f"{next(iter(of))}, and in {len(of) - 1} other parts" if len(of) > 1 else next(iter(of)))
        for kind, of in details.items()
    ]


def _excess(window: Steadiness) -> float:
    """Return how far a window is from steady: above 1, its range or slope is too large."""
    return max(window.spread / RANGE_SHARE, window.excursion / SLOPE_SHARE) / window.mean if window.mean else inf


def _stages(before: FioResult | None, results: Sequence[tuple[str, FioResult]]) -> list[Row]:
    """Return the time of the first reading of preconditioning and of each round or part, in seconds since 1970."""
    start_by_stage: dict[str, float] = {}
    for name, result in ([] if before is None else [(_FILL, before)]) + list(results):
        if result.readings and not name.startswith(_REST):
            stage = re.sub(r"-(reads|t\d+)-.*", "", name)
            start_by_stage.setdefault(stage, min(reading.at_s for reading in result.readings))
    return [{"stage": name.replace("-", " "), "began_s": at} for name, at in start_by_stage.items()]


def _words(setting: PtsSetting, state: str, parts: Parts) -> str:
    purged = "not purged" if setting.purge == "none" else f"purged by {setting.purge}"
    before = f"{purged}, {setting.passes} times its capacity written in order" if setting.passes else purged
    windows = _words_of_windows(setting, parts)
    return f"{state}: {before}{f', {windows}' if windows else ''}"


def _words_of_windows(setting: PtsSetting, parts: Parts) -> str:
    """Return the worst window of each phase in words."""
    clauses = []
    windows = windows_of(setting, parts)
    for phase in dict.fromkeys(phase for phase, *_ in windows):
        of = [window for name, _, window in windows if name == phase]
        if all(window.mean for window in of):
            spread = max(window.spread / window.mean for window in of)
            slope = max(window.excursion / window.mean for window in of)
            clauses.append(f"{phase} {of[0].first} to {of[0].last}: range {spread:.1%}, slope {slope:.1%} of the mean")
    return "; ".join(clauses)
