"""A report of fio (json+, json, or its text, see `fio_text`) as trials of ours.

A report that dutlab had fio write, whose jobs are called as drives (`server:d1`), is one trial, in the cell of the run that it is of. Of
any other each job is a trial, also of each client, and its options are its settings, under the names that a measured run has.
`--status-interval` writes one object after the other, each of the whole time so far: the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.fio_text import read_text
from dutlab.interop.imported_run import Imported, ImportOptions, imported_cell, mended, moment
from dutlab.methods.ports import Measured, Row
from dutlab.spec.workloads.fio import params_of
from dutlab.subject import plain_place
from dutlab.tools.fio.output import JobOutput, jobs_of, total, version_of
from dutlab.tools.json_text import UnreadableError, number, read_cut_object

STORAGE = "storage"
"""What to write where other tools name a link."""
_OBJECT = re.compile(rb"^\{", re.MULTILINE)
_TEXT = re.compile(rb"^\S.*: \(groupid=\d+, jobs=", re.MULTILINE)
_DRIVE = re.compile(r"[^\s:/]+:[^\s:/]+")
_REMEDY = "keep what fio prints, or writes with --output-format=json"


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A file called `name`: its name without ending stands for the device. Raises InputError."""
    del options
    try:
        document, repairs = _last_report(data)
        jobs = [job for job in jobs_of(document) if job.ways]
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy=_REMEDY) from error
    if not jobs:
        raise InputError(f"{name}: no job in it did any I/O", remedy=_REMEDY)
    device = PurePath(name).stem
    params = [dict(params_of(job.options)) for job in jobs]
    if all(_DRIVE.fullmatch(job.name) and of == params[0] for job, of in zip(jobs, params, strict=True)):
        return [_trial(device, params[0], {plain_place(job.name): job for job in jobs}, document, repairs)]
    return [
        _trial(device, {"job": job.name, **({"client": job.client} if job.client else {}), **of}, {STORAGE: job}, document, repairs)
        for job, of in zip(jobs, params, strict=True)
    ]


def _last_report(data: bytes) -> tuple[dict[str, Any], list[str]]:
    begins = [found.start() for found in _OBJECT.finditer(data)]
    if not begins and _TEXT.search(data):
        return read_text(data), []
    if len(begins) < 2:  # noqa: PLR2004 -- a single one, as without --status-interval
        return read_cut_object(data)
    document, repairs = read_cut_object(data[begins[-1] :])
    line = data.count(b"\n", 0, begins[-1]) + 1
    return document, [*repairs, f"{len(begins)} reports; that from line {line} on, the last, counts"]


def _trial(
    device: str,
    params: dict[str, str | float | int | None],
    jobs: Mapping[str, JobOutput],
    document: Mapping[str, Any],
    repairs: Sequence[str],
) -> Imported:
    """`jobs` by the names of their links."""
    cell = imported_cell(device, workload="fio", tool="fio", link="", params=params).model_copy(update={"links": tuple(jobs)})
    whole = total(list(jobs.values()))
    wrong = [f"job {job.name} ended with error {job.error}" for job in jobs.values() if job.error]
    cached = dict.fromkeys(why for job in jobs.values() if (why := job.buffered))
    ended_s = number(document, "timestamp")
    return Imported(
        cell,
        Measured(
            figures={**{name: job.figures for name, job in jobs.items()}, cell.link_label: whole.figures},
            doubts=(*mended([*repairs, *wrong], cell.link_label), *(Doubt(DoubtKind.PAGE_CACHE, detail=why) for why in cached)),
            facts={"fio_version": version_of(document)},
            notes=tuple(dict.fromkeys(job.steady for job in jobs.values() if job.steady)),
            tables={"latency": _told(whole), "latency_bins": whole.bins},
        ),
        started=moment(None if ended_s is None else ended_s - whole.lasted_ms / 1e3),
        ended=moment(ended_s),
    )


def _told(job: JobOutput) -> list[Row]:
    """Fio's own percentiles, all that it gives."""
    return [
        {"direction": way, "share_percent": share, "clat_ns": value}
        for way, of in job.ways.items()
        for share, value in of.clat.told.items()
    ]
