"""Import of fio's reports: json+, json, text (see `fio_text`) or terse lines (see `fio_terse`).

A report from a run of dutlab, whose jobs have the names of drives (`server:d1`), is one trial. In any other report, jobs that ran at the
same time with the same options are one trial: all jobs of one name (`numjobs` without group_reporting), jobs that differ in name or file
only, and the clients of one fio. Each client or name is then a place, and their sum is a place too. Other jobs are separate trials.
Options are the settings, with the names of a measured run.

The device is named after the file. If the file name has options only, as from bench-fio (`randread-16-1.json`), the device is named after
the nearest folder whose name has something else.

`--status-interval` writes several objects, each for the whole time so far; the last one counts. Objects of several runs of fio in one
file are separate tests.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.fio_terse import is_terse, read_terse
from dutlab.interop.fio_text import read_texts
from dutlab.interop.imported_run import (
    AssumedUnit,
    Imported,
    ImportOptions,
    LeftOut,
    Omission,
    imported_cell,
    left_out_of,
    moment,
    repair_doubts,
)
from dutlab.measures import MeasureUnit, measure_unit
from dutlab.methods.ports import Measured, Row
from dutlab.spec.workloads.fio import READS, WRITES, params_of
from dutlab.spec.workloads.setting import Params
from dutlab.subject import joined, plain_place
from dutlab.tools.fio.output import ALL_CLIENTS, FioDirection, JobOutput, cached_reads, jobs_of, sum_of_clients, total, version_of
from dutlab.tools.json_text import UnreadableError, number, read_cut_object

STORAGE = "storage"
"""Place of figures where other tools name a link."""
_OBJECT = re.compile(rb"^\{", re.MULTILINE)
_TEXT = re.compile(rb"^\S.*: \(groupid=\d+, jobs=", re.MULTILINE)
_CLIENT_NOTE = "text before the report: 'hostname="
"""Begin of the note on the lines that `fio --client` prints about its servers."""
_DRIVE = re.compile(r"[^\s:/]+:[^\s:/]+")
_WAYS = re.compile(rf"{'|'.join(sorted(READS | WRITES))}|seq\w*|rand\w*|mix\w*", re.IGNORECASE)
_OPTIONS = re.compile(
    r"(?:qd|iodepth|depth|numjobs|jobs|nj|bs|rwmix|run|repeat|rep|round|iter|try|test)?\d+(?:[kmg]i?b?|b|s)?|fio|bench|results?|output|json|bs"
    r"|qd|iodepth|numjobs|jobs",
    re.IGNORECASE,
)
"""Words in a name that describe the measurement, not the device."""
_REMEDY = "keep what fio prints, or writes with --output-format=json"
_SAME_START_S = 1.5
"""Largest difference between start times in reports of one run, which are rounded to whole seconds."""
_LONGEST_SHARE = 2.0
"""Largest latency as a share of the job's time, which fio may count without ramp-up and the last I/Os."""
_LONGER = 1.02
"""Least ratio of lengths that counts as longer. Two runs of the same length differ by less."""


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read the file `name`. Raises InputError."""
    try:
        trials = [trial for report in _reports(data) for trial in _trials(device_of(name), report)]
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy=_REMEDY) from error
    if not trials:
        raise InputError(f"{name}: no job in it did any I/O", remedy=_REMEDY)
    return trials


def device_of(name: str) -> str:
    """Return the name of the device from the path of a file."""
    path = Path(name)
    words = _words(path.stem)
    first = next((n for n, word in enumerate(words) if _WAYS.fullmatch(word)), None)
    if first is None or any(word.isdecimal() for word in words[:first]) or not all(map(_describes_options, words)):
        return path.stem
    folders = reversed(path.absolute().parent.parts[1:])
    return next((f for f in folders if f.isdecimal() or not all(map(_describes_options, _words(f)))), path.stem)


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[-_. ]+", name) if word]


def _describes_options(word: str) -> bool:
    return bool(_WAYS.fullmatch(word) or _OPTIONS.fullmatch(word))


@dataclass(frozen=True)
class _Report:
    document: Mapping[str, Any]
    repairs: Sequence[str]
    states_options: bool = True
    """True if the report has every option of its jobs."""
    left_out: tuple[LeftOut, ...] = ()
    assumed: tuple[AssumedUnit, ...] = ()

    @property
    def ended_s(self) -> float | None:
        return number(self.document, "timestamp")

    def is_earlier(self, other: _Report) -> bool:
        """Return True if this is an earlier report of the same run of fio as `other`: the same jobs and start, a shorter time."""
        mine, theirs = jobs_of(self.document), jobs_of(other.document)
        if [(job.client, job.name, job.group) for job in mine] != [(job.client, job.name, job.group) for job in theirs]:
            return False
        lasted_s = [max(job.lasted_ms for job in jobs) / 1e3 for jobs in (mine, theirs)]
        if self.ended_s is None or other.ended_s is None:
            return lasted_s[0] * _LONGER < lasted_s[1]
        return abs(other.ended_s - lasted_s[1] - self.ended_s + lasted_s[0]) <= _SAME_START_S


def _reports(data: bytes) -> list[_Report]:
    """Return the reports that count: the last one of each run. Raises UnreadableError if there is none."""
    begins = [match.start() for match in _OBJECT.finditer(data)]
    if not begins and _TEXT.search(data):
        return [
            _Report(document, (), states_options=False, assumed=_assumed_text_units(version_of(document))) for document in read_texts(data)
        ]
    if not begins and is_terse(data):
        return _latest_reports([_Report(document, unsure, states_options=False) for document, unsure in read_terse(data)])
    if len(begins) < 2:  # noqa: PLR2004 -- a single one, as without --status-interval
        document, repairs = read_cut_object(data)
        has_text_report = is_terse(data) or _TEXT.search(data)  # --output-format=json,normal
        expected_notes = ("text before", "text after") if has_text_report else (_CLIENT_NOTE,)
        return [_Report(document, [words for words in repairs if not words.startswith(expected_notes)])]
    reports, broken = list[_Report](), list[str]()
    for begin, end in zip(begins, (*begins[1:], len(data)), strict=True):
        line = data.count(b"\n", 0, begin) + 1
        try:
            report = _Report(*read_cut_object(data[begin:end]))
            jobs_of(report.document)
        except UnreadableError as error:
            broken.append(f"from line {line} on: {error}")
        else:
            reports.append(report)
    if not reports:
        raise UnreadableError("; ".join(broken))
    latest = _latest_reports(reports)
    return [replace(latest[0], left_out=(*latest[0].left_out, *left_out_of("reports", Omission.UNREADABLE, broken))), *latest[1:]]


def _assumed_text_units(version: str) -> tuple[AssumedUnit, ...]:
    """Return the assumed units for fio's text."""
    old = version.startswith(("fio-1", "fio-2", "fio 1", "fio 2"))
    kilo = (AssumedUnit("bw", "1024 bytes for KB", f"{version} means it so"),) if old else ()
    return (*kilo, AssumedUnit("date", "UTC", "fio names no zone"))


def _latest_reports(reports: Sequence[_Report]) -> list[_Report]:
    """Return the last report of each run of fio."""
    latest: list[_Report] = []
    superseded = 0
    for report in reports:
        is_next = bool(latest) and latest[-1].is_earlier(report)
        superseded = superseded + 1 if is_next else 0
        if is_next:
            latest.pop()
        latest.append(replace(report, left_out=(LeftOut("reports", Omission.SUPERSEDED, superseded),)) if superseded else report)
    return latest


def _trials(device: str, report: _Report) -> Iterator[Imported]:
    jobs = [job for job in jobs_of(report.document) if job.ways]
    params = [dict(params_of(job.options)) for job in jobs]
    if jobs and all(_DRIVE.fullmatch(job.name) and of == params[0] for job, of in zip(jobs, params, strict=True)):
        yield _trial(device, params[0], {plain_place(job.name): [job] for job in jobs}, report)
        return
    tests: list[tuple[Params, list[JobOutput]]] = []
    for job, of in zip(jobs, params, strict=True):
        same = next((test for settings, test in tests if settings == of and _at_once(test[0], job)), None)
        if same is None:
            tests.append((of, [job]))
        else:
            same.append(job)
    for settings, test in tests:
        names = dict.fromkeys(job.name for job in test)
        name = {"job": next(iter(names))} if len(names) == 1 else {}
        yield _trial(device, {**name, **settings}, _places(test), report)


def _at_once(one: JobOutput, other: JobOutput) -> bool:
    """Return True if two jobs with equal settings ran at the same time and belong together: equal names, or known options."""
    return one.group == other.group and (one.name == other.name or not {"rw", "readwrite"}.isdisjoint(one.options))


def _places(test: Sequence[JobOutput]) -> dict[str, list[JobOutput]]:
    """Return the jobs of a test by client, and by name if there are several names."""
    names = {job.name for job in test}
    jobs_by_place: dict[str, list[JobOutput]] = {}
    for job in test:
        words = [*([job.client] if job.client else []), *([job.name] if len(names) > 1 else [])]
        jobs_by_place.setdefault(plain_place(":".join(words)) if words else STORAGE, []).append(job)
    return jobs_by_place


def _trial(device: str, params: Mapping[str, Any], places: Mapping[str, Sequence[JobOutput]], report: _Report) -> Imported:
    """Return the trial of a test. `places`: name of the place → its jobs."""
    cell = imported_cell(device, workload="fio", tool="fio", link="", params=dict(params)).model_copy(update={"links": tuple(places)})
    jobs, label = [job for of in places.values() for job in of], joined(places)
    of_clients = sum_of_clients(report.document)
    whole = _with_percentiles(total(jobs), of_clients)
    reads = any("read" in job.ways for job in jobs)
    memory = [job.buffered for job in jobs if job.options] if report.states_options else []
    memory += [cached_reads(report.document, jobs_of(report.document))] if reads else []
    figures = {**{place: total(of).figures for place, of in places.items()}, label: whole.figures}
    beyond = {name: words for of in figures.values() for name, words in _longer_than_the_job(of, whole.lasted_ms)}
    return Imported(
        cell,
        Measured(
            figures={place: {name: value for name, value in of.items() if name not in beyond} for place, of in figures.items()},
            doubts=(
                *repair_doubts(report.repairs, label),
                *(Doubt(DoubtKind.STORAGE_ERRORS, _error_of(job), label) for job in jobs if job.error or job.errors),
                *(Doubt(DoubtKind.PAGE_CACHE, detail=why) for why in dict.fromkeys(memory) if why),
                *(Doubt(DoubtKind.IMPOSSIBLE_FIGURE, words, label) for words in beyond.values()),
            ),
            facts={"fio_version": version_of(report.document)},
            notes=tuple(_notes(places, report)),
            tables={"latency": _percentile_rows(whole), "latency_bins": whole.bins, **_jobs_table(places)},
        ),
        started=moment(None if report.ended_s is None else report.ended_s - whole.lasted_ms / 1e3),
        ended=moment(report.ended_s),
        left_out=(
            *report.left_out,
            *left_out_of("figures", Omission.IMPOSSIBLE, [*beyond]),
            *((LeftOut("sums", Omission.COMPUTED, 1, ALL_CLIENTS),) if of_clients is not None else ()),
        ),
        assumed=report.assumed,
    )


def _longer_than_the_job(figures: Mapping[str, float], lasted_ms: float) -> Iterator[tuple[str, str]]:
    """Yield each latency that the job was too short for, with the reason: fio 2.1 with `gtod_reduce` prints the time since boot."""
    for name, value in figures.items():
        if lasted_ms and measure_unit(name) is MeasureUnit.NS and value > lasted_ms * 1e6 * _LONGEST_SHARE:
            yield name, f"{name} {value:g}, while the job ran for {lasted_ms / 1e3:g} s"


def _with_percentiles(whole: JobOutput, of_clients: JobOutput | None) -> JobOutput:
    """Return `whole` with fio's own latencies of all clients together, if they are of the same I/Os."""
    if of_clients is None:
        return whole

    def better(way: str, own: FioDirection) -> FioDirection:
        theirs = of_clients.ways.get(way)
        return own if own.clat.percentiles or theirs is None or theirs.ios != own.ios else replace(own, clat=theirs.clat)

    return replace(whole, ways={way: better(way, own) for way, own in whole.ways.items()})


def _error_of(job: JobOutput) -> str:
    words = [f"job {job.name}"]
    why = f" ({os.strerror(job.error)})" if job.error in errno.errorcode else ""
    words += [f"ended with error {job.error}{why}"] if job.error else []
    words += [f"{job.errors} I/Os failed"] if job.errors else []
    return ", ".join(words)


def _notes(places: Mapping[str, Sequence[JobOutput]], report: _Report) -> Iterator[str]:
    jobs = [job for of in places.values() for job in of]
    yield from dict.fromkeys(job.steady for job in jobs if job.steady)
    if not report.states_options or not all(job.options for job in jobs):
        yield "this form of fio's output does not state whether I/O was direct, nor all of the jobs' options"
    own = dict.fromkeys(job.name for job in jobs)
    others = dict.fromkeys(job.name for job in jobs_of(report.document) if job.ways and job.group == jobs[0].group and job.name not in own)
    if others:
        yield f"{', '.join(own)} ran at the same time as {', '.join(others)}"


def _jobs_table(places: Mapping[str, Sequence[JobOutput]]) -> dict[str, list[Row]]:
    """Return a row for each job of a place with several jobs."""
    rows: list[Row] = [
        {"place": place, "job": n, "direction": way, "iops": of.iops, "bytes_per_s": of.bytes_per_s, "clat_mean_ns": of.clat.mean_ns}
        for place, jobs in places.items()
        if len(jobs) > 1
        for n, job in enumerate(jobs, 1)
        for way, of in job.ways.items()
    ]
    return {"jobs": rows} if rows else {}


def _percentile_rows(job: JobOutput) -> list[Row]:
    """Return all percentiles that fio reports."""
    return [
        {"direction": way, "share_percent": share, "clat_ns": value}
        for way, of in job.ways.items()
        for share, value in of.clat.reported.items()
    ]
