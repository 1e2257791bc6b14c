"""Tool `fio`: jobs on the drives of a testbed, on several hosts at once, with one section of the job file per drive.

fio gets only the job file that dutlab writes: it names the devices, the end and the logs. fio runs in a separate folder, which is removed.
Every trial finds the drives again; a trial that writes also checks that they are unused.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from dutlab.bounds import FETCHED_BYTES
from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import cancelled, run_to_end
from dutlab.errors import MeasurementError, TestbedError, ToolFailed, ToolMissing
from dutlab.events import Tell
from dutlab.hosts.host import NO_SUCH_PROGRAM, Done, Host
from dutlab.hosts.private_folder import held_folder
from dutlab.hosts.programs import Program, all_there, install_command, versions_of
from dutlab.methods.ports import Measured, ToolReading
from dutlab.plan.cell import Cell
from dutlab.spec.drives import DriveSpec
from dutlab.spec.workloads.fio import DEFAULTS, HOW, PASSED_OVER, FioSetting
from dutlab.spec.workloads.fio_job import sections
from dutlab.spec.workloads.on_drives import DriveSetting
from dutlab.subject import joined
from dutlab.tools.engine.binary import EngineFile, engine_on, find_engine
from dutlab.tools.fio.arrivals import missed
from dutlab.tools.fio.drives import FoundDrive, find, find_array, find_own_array, require_space_on_drives, require_unused_drives
from dutlab.tools.fio.meanwhile import HOST_LOG, host_cores, watched
from dutlab.tools.fio.output import JobOutput, cached_reads, jobs_of, of_results, rates_now, readings, span_of, total, version_of
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.json_text import UnreadableError, read_object
from dutlab.tools.live import run_heard

FIO = Program("fio", "fio")
TOOL = FIO.name
GRACE_S = 60.0
"""Time for work before and after the I/O, in seconds: laying out a file, writing reports."""
LAYOUT_BYTES_PER_S = 20e6
"""Slowest rate at which a file in place of a drive may be laid out before the trial."""
OLDEST = (3, 0)
"""Oldest supported version: since then latencies are in ns, and json+ has bins."""
_SAYING = ("--eta=always", "--eta-newline=1")
"""Options that make fio print its progress, one line a second."""
_IN_FOLDER = 'cd -- "$1" && shift && echo $$ >pid && exec "$@"'
_END = 'kill -INT "$(cat -- "$1/pid")"'
"""Command that ends fio: it stops its jobs and writes its report, with status 128 (backend.c, sig_int)."""
_VANISHED = 'for drive; do [ -b "$drive" ] || printf "%s\\n" "$drive"; done'
_READ_LOGS = (
    'cd -- "$1" && for log in *.log; do [ -f "$log" ] && printf "log %s %s\\n" "$(wc -c <"$log")" "$log" && cat -- "$log"; done; exit 0'
)


Found = Mapping[str, Mapping[str, FoundDrive]]
"""Host → its drives by name."""


@dataclass(frozen=True)
class FioResult:
    """Result of fio on all hosts."""

    versions: Mapping[str, str]
    jobs: Mapping[str, JobOutput]
    """`host:drive` → its output."""
    readings: Sequence[ToolReading]
    raw: Mapping[str, bytes]
    doubts: tuple[Doubt, ...]
    spans: Mapping[str, tuple[float, float]]
    """Host → start and end of its measurement, by its own clock."""
    sections: Mapping[str, Sequence[JobOutput]] = field(default_factory=dict)
    """Outputs of a job file: drives of a host → output of each job."""

    @property
    def whole(self) -> JobOutput:
        """Sum of all drives."""
        return total(list(self.jobs.values()))

    @classmethod
    def of(cls, parts: Sequence[Self]) -> Self:
        """Return the results of several hosts as one."""
        return cls(
            {host: version for part in parts for host, version in part.versions.items()},
            {name: job for part in parts for name, job in part.jobs.items()},
            [reading for part in parts for reading in part.readings],
            {name: data for part in parts for name, data in part.raw.items()},
            tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts)),
            {host: span for part in parts for host, span in part.spans.items()},
            {drives: jobs for part in parts for drives, jobs in part.sections.items()},
        )


async def check(site: GeneratorSite, cells: Sequence[Cell]) -> str:
    """Check that the drives are there, and unused if written to; return the version of fio, of each host if they differ.

    Hosts whose trials need the engine must also be able to run it.

    Raises ToolMissing, ToolsMissing, TestbedError with all reasons, HostError.
    """
    hosts = {host: site.hosts[host] for host in _by_host(site, dict.fromkeys(name for cell in cells for name in cell.links))}
    versions = versions_of(dict(zip(hosts, await all_there(_version(host) for host in hosts.values()), strict=True)))
    await look(site, cells)
    by_engine = [cell for cell in cells if isinstance(cell.setting, DriveSetting) and cell.setting.needs_engine]
    if by_engine:
        engine = await EngineFile.read(find_engine())
        for host in _by_host(site, dict.fromkeys(name for cell in by_engine for name in cell.links)):
            async with engine_on(site.hosts[host], engine):
                pass
    return versions


def _writes(cell: Cell) -> bool:
    return isinstance(cell.setting, DriveSetting) and cell.setting.writes


async def look(site: GeneratorSite, cells: Sequence[Cell]) -> None:
    """Check that every drive of `cells` is there, and unused if written to. Raises TestbedError with all reasons, HostError."""
    written = {name for cell in cells if _writes(cell) for name in cell.links}
    faults = list[str]()
    for host, drives in _by_host(site, dict.fromkeys(name for cell in cells for name in cell.links)).items():
        try:
            drive_by_name = await find(site.hosts[host], drives, written={name for name in drives if f"{host}:{name}" in written})
            require_unused_drives(drive_by_name)
            require_space_on_drives([cell for cell in cells if cell.mode not in site.arrays], drive_by_name)
        except TestbedError as error:
            faults.append(str(error))
    if faults:
        raise TestbedError("\n".join(faults))


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Run one job on every drive of the cell. Raises MeasurementError, HostError."""
    drives_by_host = await drives_of(site, cell)
    setting = cell.setting_as(FioSetting)
    async with contextlib.AsyncExitStack() as stack:
        watches = {host: await stack.enter_async_context(watched(site.hosts[host])) for host in drives_by_host}
        fio_result = await run(site, drives_by_host, setting)
    # The sections of a job file run in turn, so a mean over all of them would be the load of none.
    cores = {} if setting.job else host_cores(fio_result.spans, {host: watch.readings for host, watch in watches.items()})
    places = fio_result.sections or {name: [job] for name, job in fio_result.jobs.items()}
    whole = results_of(setting, [job for jobs in places.values() for job in jobs])
    return Measured(
        figures={
            **{name: figures_of(results_of(setting, jobs)) for name, jobs in places.items()},
            cell.link_label: {**figures_of(whole), **cores},
        },
        doubts=(*fio_result.doubts, *doubts_of(drives_by_host)),
        raw={**fio_result.raw, **{HOST_LOG.format(host): watch.raw for host, watch in watches.items()}},
        facts=facts_of(drives_by_host, fio_result),
        notes=[*filter(None, [setting.not_taken]), *(f"job {name} did no I/O" for name in setting.results if name not in whole)],
        readings=fio_result.readings,
        tables={"latency_bins": [row for result, of in whole.items() for row in of.bins_of(result)]},
    )


def results_of(setting: FioSetting, jobs: Sequence[JobOutput]) -> dict[str, JobOutput]:
    """Return each result by its name: those of a job file, or else the sum of all jobs under an empty name."""
    return of_results(jobs, setting.results) if setting.job else {"": total(jobs)}


def figures_of(results: Mapping[str, JobOutput]) -> dict[str, float]:
    """Return the figures of every result, under its name."""
    return {name: value for result, of in results.items() for name, value in of.figures_of(result).items()}


async def drives_of(site: GeneratorSite, cell: Cell) -> Found:
    """Return the drives of the cell as they are now, or the array that its mode made of them. Drives that it writes to must be unused.

    Raises MeasurementError, HostError.
    """
    drives_by_host = dict[str, dict[str, FoundDrive]]()
    try:
        for name, drives in _by_host(site, cell.links).items():
            host, written = site.hosts[name], drives if _writes(cell) else ()
            if (array := site.arrays.get(cell.mode)) is None:
                drives_by_host[name] = await find(host, drives, written=written)
            elif array.device:
                drives_by_host[name] = await find_own_array(host, array.device, cell.mode, drives, look=bool(written))
            else:
                drives_by_host[name] = await find_array(host, array)
            if written:
                require_unused_drives(drives_by_host[name])
            require_space_on_drives([cell], drives_by_host[name])
    except TestbedError as error:
        raise MeasurementError(str(error)) from error
    return drives_by_host


async def run(site: GeneratorSite, found: Found, setting: FioSetting) -> FioResult:
    """Run one job on every drive, on all hosts at once. Raises ToolFailed, HostError."""
    return FioResult.of(await asyncio.gather(*(_one(site.hosts[host], host, drives, setting, site.tell) for host, drives in found.items())))


async def run_during(site: GeneratorSite, found: Found, setting: FioSetting, act: Callable[[], Awaitable[None]]) -> FioResult:
    """Run fio on one host until `act` ends, with a latency histogram a second. Raises ToolFailed, HostError, and what `act` raises."""
    ((host, drives),) = found.items()
    return FioResult.of([await _one(site.hosts[host], host, drives, setting, site.tell, act=act)])


def doubts_of(found: Found) -> tuple[Doubt, ...]:
    """Return the doubts about the drives: files in place of drives, and files smaller than memory."""
    files = [d for of_host in found.values() for d in of_host.values() if d.is_file]
    small = [d for d in files if d.size_bytes < int(d.facts.get("memory_bytes", 0))]
    return (
        *(Doubt(DoubtKind.FILE_SYSTEM, detail=f"{d.name}: {d.path}, {d.facts.get('file_system')}") for d in files),
        *(Doubt(DoubtKind.PAGE_CACHE, detail=f"{d.name}: {d.size_bytes} bytes, less than the host's memory holds") for d in small),
    )


def facts_of(found: Found, ran: FioResult) -> dict[str, str]:
    """Return the facts about fio and the drives."""
    drives = [d for of_host in found.values() for d in of_host.values()]
    return {
        "fio_version": next(iter(ran.versions.values())),
        **{f"{d.name}_{key}": value for d in drives for key, value in d.facts.items()},
    }


def job_file(setting: FioSetting, drives: Mapping[str, FoundDrive], *, histograms: bool = False) -> str:
    """Return fio's job file: one section for each drive, or each section of the user's job file on all drives together."""
    common = {"runtime": f"{setting.duration_s * 1e3:.0f}ms"}
    common |= {"ramp_time": f"{setting.ramp_s * 1e3:.0f}ms"} if setting.ramp_s else {}
    common |= {"log_avg_msec": "1000", "log_unix_epoch": "1"}
    defaults = {**DEFAULTS, "thread": HOW["thread"]}
    lines = list[str]()
    for name, options in _jobs(setting, drives).items():
        kinds = ("iops", "bw", "lat", *(("hist",) if histograms else ()))
        logs = {f"write_{kind}_log": name.replace(":", "-") for kind in kinds} | ({"log_hist_msec": "1000"} if histograms else {})
        how = {key: value for key, value in HOW.items() if key != "thread" and not (key == "time_based" and "loops" in options)}
        lines.append(f"[{name}]")
        lines += [f"{key}={value}" for key, value in {**defaults, **options, **common, **how, **logs}.items()]
    return "\n".join(lines) + "\n"


def _jobs(setting: FioSetting, drives: Mapping[str, FoundDrive]) -> dict[str, dict[str, str]]:
    """Return section → its options."""
    if not setting.job:
        return {drive.name: {**setting.options, **_place([drive])} for drive in drives.values()}
    return {
        name: {**{key: value for key, value in of.items() if key not in PASSED_OVER}, **setting.options, **_place(list(drives.values()))}
        for name, of in sections(setting.job).items()
    }


def _place(drives: Sequence[FoundDrive]) -> dict[str, str]:
    """Return the options for the devices of a job, and for its size within the limit of the testbed."""
    sizes = {drive.size_bytes for drive in drives}
    return {"filename": ":".join(drive.path.replace(":", "\\:") for drive in drives), "size": str(min(sizes) * len(drives))}


async def _during(running: Coroutine[None, None, Done], act: Callable[[], Awaitable[None]], end: Callable[[], Awaitable[object]]) -> Done:
    """Wait for `act`, then end fio and return its result. If fio ends first, `act` is cancelled."""
    fio, acting = asyncio.ensure_future(running), asyncio.ensure_future(act())
    try:
        await asyncio.wait((fio, acting), return_when=asyncio.FIRST_COMPLETED)
        if not fio.done():
            acting.result()
            await end()
        return await fio
    finally:
        await cancelled(acting, fio)


async def _one(
    host: Host,
    name: str,
    drives: Mapping[str, FoundDrive],
    setting: FioSetting,
    tell: Tell,
    *,
    act: Callable[[], Awaitable[None]] | None = None,
) -> FioResult:
    """Run fio on one host. Raises ToolFailed with fio's message, HostError, and what `act` raises."""
    text = job_file(setting, drives, histograms=act is not None)
    laid_out_s = sum(d.size_bytes for d in drives.values() if d.is_file and not d.stays) / LAYOUT_BYTES_PER_S
    async with held_folder(host) as folder:
        await host.put(text.encode(), f"{folder}/job.fio")
        argv = ["sh", "-c", _IN_FOLDER, "dutlab", folder, TOOL, *_SAYING, "--output-format=json+", "--output=report.json", "job.fio"]
        try:
            timeout_s = setting.loaded_s + laid_out_s + GRACE_S
            running = run_heard(host, argv, lambda line: _hear(line, name, tell), timeout_s=timeout_s)
            done = await (running if act is None else _during(running, act, lambda: host.run(["sh", "-c", _END, "dutlab", folder])))
            report = (
                await host.run(["sh", "-c", 'cat -- "$1/report.json" 2>/dev/null', "dutlab", folder], check=False, most_bytes=FETCHED_BYTES)
            ).stdout
            logs = _logs((await host.run(["sh", "-c", _READ_LOGS, "dutlab", folder], most_bytes=FETCHED_BYTES)).stdout)
        finally:
            if files := [d.path for d in drives.values() if d.is_file and not d.stays]:
                await run_to_end(host.run(["rm", "-f", "--", *files], check=False))
    raw = {f"fio-{name}.json": report, f"fio-{name}-job.fio": text.encode()}
    raw |= {f"fio-{name}-{log}": data for log, data in logs.items()}
    version, jobs, cached = _jobs_of(name, done, report, raw, ended=act is not None)
    if missing := await _gone(host, drives):
        why = f"{', '.join(missing)} is gone at the end of the trial, although fio could read until then"
        raise ToolFailed(why, tool=TOOL, host=name, remedy="see the kernel's log of that host", raw=raw)
    doubts = [Doubt(DoubtKind.PAGE_CACHE, detail=why) for why in (*(job.buffered for job in jobs), cached) if why]
    if errors := sum(job.errors for job in jobs):
        doubts.append(Doubt(DoubtKind.STORAGE_ERRORS, detail=f"{name}: {errors} I/Os"))
    doubts += [Doubt(DoubtKind.ARRIVALS_MISSED, detail=what) for what in missed(jobs)]
    spans = {name: span_of(read_object(report)[0], jobs)}
    if setting.job:
        place = joined(drive.name for drive in drives.values())
        return FioResult({name: version}, {place: total(jobs)}, (), raw, tuple(doubts), spans, {place: jobs})
    read = [r for job in jobs for r in readings(_of(logs, job.name), job.name)]
    return FioResult({name: version}, {job.name: job for job in jobs}, read, raw, tuple(doubts), spans)


async def _gone(host: Host, drives: Mapping[str, FoundDrive]) -> list[str]:
    """Return the drives whose device has vanished: a program that holds one open may continue without an error."""
    names = {d.path: d.name for d in drives.values() if not d.is_file}
    paths = (await host.run(["sh", "-c", _VANISHED, "dutlab", *names])).text.splitlines() if names else ()
    return [f"{names[path]}: {path}" for path in paths if path in names]


def _hear(line: str, name: str, tell: Tell) -> None:
    if rates := rates_now(line):
        tell(name, TOOL, rates)


def _jobs_of(name: str, done: Done, report: bytes, raw: Mapping[str, bytes], *, ended: bool = False) -> tuple[str, list[JobOutput], str]:
    """Return version, jobs, and the evidence that memory answered reads. `ended`: dutlab ended fio, so its status is not a fault.

    Raises ToolFailed.
    """
    try:
        document, _ = read_object(report)
        version, jobs = version_of(document), jobs_of(document)
    except UnreadableError as error:
        complaint = done.complaint
        raise ToolFailed(f"{error}{f'; its error output: {complaint}' if complaint else ''}", tool=TOOL, host=name, raw=raw) from error
    for job in jobs:
        if (job.error or (done.status != 0 and not ended)) and not job.continued_after_errors:
            why = os.strerror(job.error) if job.error in errno.errorcode else f"status {done.status}"
            raise ToolFailed(f"{job.name}: {why}{f': {done.complaint}' if done.complaint else ''}", tool=TOOL, host=name, raw=raw)
    if not any(job.ios for job in jobs):
        raise ToolFailed("did no I/O", tool=TOOL, host=name, raw=raw)
    return version, jobs, cached_reads(document, jobs)


def _of(logs: Mapping[str, bytes], job: str) -> dict[str, bytes]:
    """Return the logs of one job, by the ending of their name."""
    stem = job.replace(":", "-")
    return {log.removeprefix(f"{stem}_").removesuffix(".log"): data for log, data in logs.items() if log.startswith(f"{stem}_")}


def _logs(data: bytes) -> dict[str, bytes]:
    logs, at = dict[str, bytes](), 0
    while at < len(data) and (end := data.find(b"\n", at)) >= 0:
        word, length, name = data[at:end].split(b" ", 2)
        if word != b"log":
            break
        logs[name.decode()] = data[end + 1 : end + 1 + int(length)]
        at = end + 1 + int(length)
    return logs


def _by_host(site: GeneratorSite, names: Iterable[str]) -> dict[str, dict[str, DriveSpec]]:
    drives_by_host: dict[str, dict[str, DriveSpec]] = defaultdict(dict)
    for name in names:
        host, _, drive = name.partition(":")
        drives_by_host[host][drive] = site.testbed.hosts[host].drives[drive]
    return drives_by_host


async def _version(host: Host) -> str:
    done = await host.run([TOOL, "--version"], check=False)
    if done.status == NO_SUCH_PROGRAM:
        raise ToolMissing("fio is not installed", tool=TOOL, host=host.name, remedy=install_command(host, FIO.package))
    text = done.text.strip().removeprefix("fio-")
    numbers = tuple(int(word) for word in text.split("-")[0].split(".")[:2] if word.isdecimal())
    if len(numbers) < len(OLDEST) or numbers < OLDEST:
        raise ToolMissing(f"fio {text or '(no version)'} is too old", tool=TOOL, host=host.name, remedy="install fio 3.0 or newer")
    return text
