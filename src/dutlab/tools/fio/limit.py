"""Workload `storage-limit`: one fio job per depth, until `knee` finds that a greater depth gives no more IOPS."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Mapping

from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.storage_limit import StorageLimitSetting
from dutlab.subject import of_part
from dutlab.tools.fio.knee import Sweep, sweep
from dutlab.tools.fio.meanwhile import HOST_LOG, host_cores, read_lines, watched
from dutlab.tools.fio.output import JobOutput, jobs_of, span_of, total
from dutlab.tools.fio.program import FioResult, doubts_of, drives_of, facts_of, run
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.json_text import read_object

_REPORT = re.compile(r"depth-(?P<depth>\d+)-fio-(?P<host>.+)\.json")


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Run the sweep of one cell. Raises MeasurementError, HostError."""
    setting = cell.setting_as(StorageLimitSetting)
    drives_by_host = await drives_of(site, cell)
    result_by_depth: dict[int, FioResult] = {}

    async def at(depth: int) -> float:
        result_by_depth[depth] = await run(site, drives_by_host, setting.at(depth))
        return figures_at(result_by_depth[depth].whole)["iops"]

    async with contextlib.AsyncExitStack() as stack:
        watches = {host: await stack.enter_async_context(watched(site.hosts[host])) for host in drives_by_host}
        swept = await sweep(at, setting.deepest)
    readings_by_host = {host: watch.readings for host, watch in watches.items()}
    figures_by_depth = {depth: {**figures_at(of.whole), **host_cores(of.spans, readings_by_host)} for depth, of in result_by_depth.items()}
    host_logs = {HOST_LOG.format(host): watch.raw for host, watch in watches.items()}
    return Measured(
        figures={cell.link_label: _figures(swept, figures_by_depth)},
        doubts=(*dict.fromkeys(doubt for of in result_by_depth.values() for doubt in of.doubts), *doubts_of(drives_by_host)),
        raw={f"depth-{depth:04d}-{name}": data for depth, of in result_by_depth.items() for name, data in of.raw.items()} | host_logs,
        facts=facts_of(drives_by_host, result_by_depth[swept.peak]),
        notes=_notes(swept, setting),
        readings=[reading for of in result_by_depth.values() for reading in of.readings],
        tables={
            "depths": [{"depth": depth, **figures_by_depth[depth]} for depth in sorted(result_by_depth)],
            "latency_bins": result_by_depth[swept.least].whole.bins,
        },
    )


def again(raw: Mapping[str, bytes]) -> dict[str, float]:
    """Compute the figures from a trial's raw files. Raises UnreadableError; ValueError if there is no report of fio."""
    jobs, spans = defaultdict[int, list[JobOutput]](list), defaultdict[int, dict[str, tuple[float, float]]](dict)
    for name, data in raw.items():
        if (of := _REPORT.fullmatch(name)) is not None:
            document, _ = read_object(data)
            depth, outputs = int(of["depth"]), jobs_of(document)
            jobs[depth] += outputs
            spans[depth][of["host"]] = span_of(document, outputs)
    if not jobs:
        raise ValueError("no report of fio is kept")
    readings_by_host = {host: read_lines(raw.get(HOST_LOG.format(host), b"")) for of in spans.values() for host in of}
    figures_by_depth = {depth: {**figures_at(total(of)), **host_cores(spans[depth], readings_by_host)} for depth, of in jobs.items()}
    return _figures(Sweep({depth: of["iops"] for depth, of in figures_by_depth.items()}, still_rising=False), figures_by_depth)


def figures_at(whole: JobOutput) -> dict[str, float]:
    """Return the figures of one job: reads and writes together, and fio's CPU time in cores."""
    cores = {} if whole.cpu_cores is None else {"fio_cpu_cores": whole.cpu_cores}
    return {**whole.both.figures, **cores}


def _figures(swept: Sweep, readings: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for word, depth in (("peak", swept.peak), ("knee", swept.knee), ("least", swept.least)):
        names = ("iops", "bytes_per_s", "clat_mean_ns", "clat_p99_ns")
        figures |= of_part(word, {"depth": float(depth), **{name: readings[depth][name] for name in names if name in readings[depth]}})
    return {**figures, **{name: readings[swept.peak][name] for name in ("fio_cpu_cores", "host_cpu_cores") if name in readings[swept.peak]}}


def _notes(swept: Sweep, setting: StorageLimitSetting) -> list[str]:
    if swept.still_rising:
        return [f"IOPS still rose at the greatest depth, {setting.deepest}: the peak is at a greater depth; raise `deepest`"]
    return []
