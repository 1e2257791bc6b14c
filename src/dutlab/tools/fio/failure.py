"""Workload `array-failure`: one fio job on an array while its last drive fails, is added again and is rebuilt; figures of each phase.

Phases begin and end by the host's own clock. A second belongs to a phase if it is wholly inside it; the time that a command takes belongs
to no phase. In any case the drive is added again, and the array is complete before the trial ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor

from dutlab.dut.mdraid import Failing, array_of
from dutlab.ending import run_to_end
from dutlab.errors import HostError, MeasurementError
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.array_failure import PHASES, ArrayFailureSetting
from dutlab.subject import of_part, part_figure
from dutlab.tools.fio.histogram import percentiles
from dutlab.tools.fio.meanwhile import HostReading, HostReadings, cores_between, read_lines, rebuilds, watched
from dutlab.tools.fio.output import histograms_over_time
from dutlab.tools.fio.program import doubts_of, drives_of, facts_of, run_during
from dutlab.tools.generator_tool import GeneratorSite

_HOST, _SPANS = "array-host.txt", "array-phases.json"
"""Raw files: the host's readings, and start and end of each phase by the host's clock. `again` reads both."""
BEGINS_S = 120.0
"""Time limit of the first I/O, in seconds."""
Spans = Mapping[str, tuple[float, float]]


@dataclass
class _Film:
    """The failure of an array under load, phase by phase. Times are of the host's clock."""

    setting: ArrayFailureSetting
    failing: Failing
    watch: HostReadings
    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Phase → its start and end."""

    async def play(self) -> None:
        """Run all phases. Raises MeasurementError, HostError."""
        first = await self._seen(lambda _: True, BEGINS_S, "its state cannot be read")
        began = await self._seen(lambda now: now.ios > first.ios, BEGINS_S, f"no I/O was done in {BEGINS_S:g} s")
        healthy_s = began.at_s + self.setting.ramp_s
        await asyncio.sleep(self.setting.ramp_s + self.setting.phase_s)
        failed_s, lost_s = await self.failing.lose()
        self.spans["healthy"] = healthy_s, failed_s
        await asyncio.sleep(self.setting.phase_s)
        added_s, back_s = await self.failing.give_back(self.setting.rebuild_bytes_per_s)
        self.spans["degraded"] = lost_s, added_s
        slow = f"its rebuild took longer than {self.setting.rebuild_s:g} s"
        whole = await self._seen(lambda now: now.at_s > back_s and now.whole, self.setting.rebuild_s, slow)
        self.spans["rebuilding"] = back_s, whole.at_s
        await asyncio.sleep(self.setting.phase_s)
        ended = await self._seen(lambda _: True, BEGINS_S, "its state cannot be read")
        self.spans["rebuilt"] = whole.at_s, ended.at_s

    async def _seen(self, holds: Callable[[HostReading], bool], limit_s: float, why: str) -> HostReading:
        if (reading := await self.watch.until(holds, limit_s)) is None:
            raise MeasurementError(f"{self.failing.dut.name}: array: {why}", remedy="see /proc/mdstat there; raise `rebuild` if it is slow")
        return reading


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Measure one load through all phases. Raises MeasurementError, HostError."""
    setting = cell.setting_as(ArrayFailureSetting)
    drives_by_host = await drives_of(site, cell)
    if len(drives_by_host) != 1:
        raise MeasurementError(f"drives of {' and '.join(drives_by_host)} are not in one array")
    (name,) = drives_by_host
    host = site.hosts[name]
    if (mode_array := site.arrays.get(cell.mode)) is None:
        raise MeasurementError(f"mode {cell.mode} makes no array")
    failing = Failing(host, site.testbed.hosts[name], mode_array)
    array = await array_of(host, mode_array)
    async with watched(host, array.path, await failing.path()) as watch:
        film = _Film(setting, failing, watch)
        try:
            fio_result = await run_during(site, drives_by_host, setting.load, film.play)
        finally:
            with contextlib.suppress(HostError):  # the trial's own error is raised; the check of the mode reports this one
                await run_to_end(failing.heal())
    raw = {**fio_result.raw, _HOST: watch.raw, _SPANS: json.dumps(film.spans).encode()}
    facts = facts_of(drives_by_host, fio_result)
    rows = _timeline_of(raw, watch.readings, film.spans)
    figures = figures_of(rows, film.spans, watch.readings, member_bytes(facts))
    return Measured(
        figures={cell.link_label: figures},
        doubts=(*fio_result.doubts, *doubts_of(drives_by_host)),
        raw=raw,
        facts=facts,
        notes=[f"phase {phase} has no whole second: make it longer" for phase in PHASES if part_figure(phase, "iops") not in figures],
        readings=fio_result.readings,
        tables={"film": [row.table_row(film.spans["healthy"][0]) for row in rows], "phases": _phases(film.spans)},
    )


def again(raw: Mapping[str, bytes], facts: Mapping[str, str]) -> dict[str, float]:
    """Recompute the figures from a trial's raw files and facts. Raises ValueError if a file is missing or contradicts another."""
    if missing := [name for name in (_HOST, _SPANS) if name not in raw]:
        raise ValueError(f"{' and '.join(missing)} is not kept")
    document, readings = json.loads(raw[_SPANS]), read_lines(raw[_HOST])
    if not isinstance(document, dict) or set(document) != set(PHASES):
        raise ValueError(f"{_SPANS} does not have each phase")
    spans = {phase: (float(document[phase][0]), float(document[phase][1])) for phase in PHASES}
    begin_s, end_s = spans["rebuilding"]
    if next((one.at_s for one in readings if one.at_s > begin_s and one.whole), None) != end_s:
        raise ValueError("the array was complete at a time other than in the phases")
    return figures_of(_timeline_of(raw, readings, spans), spans, readings, member_bytes(facts))


def member_bytes(facts: Mapping[str, str]) -> int:
    """Return the bytes of a drive that a rebuild writes, in the array or in its set that loses a drive; 0 if unknown."""
    sizes = {key.partition("array_")[2]: value for key, value in facts.items() if key.endswith("_component_size")}
    return 1024 * int(sizes.get("dutlab-2_component_size") or sizes.get("dutlab_component_size") or 0)


def _timeline_of(raw: Mapping[str, bytes], readings: Sequence[HostReading], spans: Spans) -> list[Second]:
    logs = [data for log, data in raw.items() if log.endswith("_clat_hist.log")]
    return timeline([row for data in logs for row in histograms_over_time(data)], readings, spans)


@dataclass(frozen=True)
class Second:
    """One second of the trial, which begins at `at_s`."""

    at_s: int
    phase: str
    """Phase; empty between two phases."""
    ios: float
    bins: Mapping[int, int]
    cores: float | None
    rebuild_bytes_per_s: float | None

    def table_row(self, zero_s: float) -> Row:
        """Return the second as a table row; `at_s` counts from the start of the first phase."""
        return {
            "at_s": round(self.at_s - zero_s, 3),
            "phase": self.phase,
            "iops": self.ios,
            "clat_p99_ns": percentiles(self.bins).get("p99"),
            "host_cpu_cores": self.cores,
            "rebuild_bytes_per_s": self.rebuild_bytes_per_s,
        }


def timeline(rows: Sequence[tuple[float, float, Counter[int]]], readings: Sequence[HostReading], spans: Spans) -> list[Second]:
    """Return each second from the first phase to the last.

    The I/Os of a row are spread evenly over its time; its latencies count in the second at its middle.
    """
    ios: dict[int, float] = defaultdict(float)
    bins: dict[int, Counter[int]] = defaultdict(Counter)
    for begin_s, end_s, counts in rows:
        each_s = counts.total() / (end_s - begin_s) if end_s > begin_s else 0.0
        for second in range(floor(begin_s), ceil(end_s)):
            ios[second] += each_s * max(0.0, min(second + 1.0, end_s) - max(float(second), begin_s))
        bins[floor((begin_s + end_s) / 2)].update(counts)
    speeds = rebuilds(readings)
    begin_s, end_s = spans[PHASES[0]][0], spans[PHASES[-1]][1]
    last = min(floor(end_s), floor(max((end for _, end, _ in rows), default=0.0)))
    return [
        Second(
            at_s=second,
            phase=next((phase for phase, (a, b) in spans.items() if a <= second and second + 1 <= b), ""),
            ios=ios[second],
            bins=bins[second],
            cores=cores_between(readings, second - 0.5, second + 1.5),
            rebuild_bytes_per_s=next((speed for a, b, speed in speeds if a <= second + 0.5 < b), None),
        )
        for second in range(ceil(begin_s), last)
    ]


def figures_of(rows: Sequence[Second], spans: Spans, readings: Sequence[HostReading], member: int) -> dict[str, float]:
    """Return the figures of each phase, and of the rebuild of `member` bytes. A phase without a whole second has none."""
    figures: dict[str, float] = {}
    for phase, span in spans.items():
        of = [row for row in rows if row.phase == phase]
        bins = sum((Counter(row.bins) for row in of), Counter[int]())
        phase_figures = {"iops": sum(row.ios for row in of) / len(of), "least_iops": min(row.ios for row in of)} if of else {}
        phase_figures |= {f"clat_{name}_ns": value for name, value in percentiles(bins).items() if name in ("p50", "p99")}
        if (cores := cores_between(readings, *span)) is not None:
            phase_figures["host_cpu_cores"] = cores
        figures |= of_part(phase, phase_figures)
    begin_s, end_s = spans["rebuilding"]
    return {**figures, "rebuild_s": end_s - begin_s, **({"rebuild_bytes_per_s": member / (end_s - begin_s)} if member else {})}


def _phases(spans: Spans) -> list[Row]:
    zero_s = spans[PHASES[0]][0]
    return [{"phase": phase, "began_s": round(a - zero_s, 3), "ended_s": round(b - zero_s, 3)} for phase, (a, b) in spans.items()]
