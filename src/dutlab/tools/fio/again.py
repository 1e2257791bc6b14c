"""Recompute a trial's figures from the kept reports of fio, to check the record: one function per workload."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from dutlab.errors import ToolFailed
from dutlab.spec.workloads.fio import FioSetting
from dutlab.spec.workloads.pts_setting import PtsSetting
from dutlab.spec.workloads.storage_latency import StorageLatencySetting
from dutlab.tools.fio import failure, latency, limit, pts, pts_verdict
from dutlab.tools.fio.meanwhile import HOST_LOG, host_cores, read_lines
from dutlab.tools.fio.output import jobs_of, span_of, total
from dutlab.tools.fio.program import figures_of, results_of
from dutlab.tools.json_text import UnreadableError, read_object
from dutlab.tools.raw_figures import CannotRecompute, KeptTrial, Recomputed

_REPORT = re.compile(r"fio-(?P<host>.+)\.json")


def fio_again(kept: KeptTrial) -> Recomputed:
    """Return the figures of one job, of all drives of the cell together. Raises CannotRecompute."""
    with _readable():
        named = ((_REPORT.fullmatch(name), data) for name, data in kept.raw.items())
        reports = {name["host"]: read_object(data)[0] for name, data in named if name is not None}
        if not reports:
            raise ValueError("no report of fio is kept")
        by_host = {host: jobs_of(document) for host, document in reports.items()}
        jobs = [job for of in by_host.values() for job in of]
        setting = kept.cell.setting
        if isinstance(setting, FioSetting) and setting.job:
            return {kept.cell.link_label: figures_of(results_of(setting, jobs))}
        spans = {host: span_of(reports[host], of) for host, of in by_host.items()}
        readings = {host: read_lines(kept.raw[HOST_LOG.format(host)]) for host in reports if HOST_LOG.format(host) in kept.raw}
        return {kept.cell.link_label: {**figures_of({"": total(jobs)}), **host_cores(spans, readings)}}


def limit_again(kept: KeptTrial) -> Recomputed:
    """Return the figures of a sweep of depths. Raises CannotRecompute."""
    with _readable():
        return {kept.cell.link_label: limit.again(kept.raw)}


def latency_again(kept: KeptTrial) -> Recomputed:
    """Return the figures of both loops at each rate. Raises CannotRecompute."""
    with _readable():
        return {kept.cell.link_label: latency.again(kept.cell.setting_as(StorageLatencySetting), kept.raw)}


def failure_again(kept: KeptTrial) -> Recomputed:
    """Return the figures of each phase of an array failure. Raises CannotRecompute."""
    with _readable():
        return {kept.cell.link_label: failure.again(kept.raw, kept.facts)}


def pts_again(kept: KeptTrial) -> Recomputed:
    """Return the figures of a test. Raises CannotRecompute, also if its rounds give another verdict than the record."""
    with _readable():
        setting = kept.cell.setting_as(PtsSetting)
        parts, state = pts.again(setting, kept.raw), kept.facts.get("state", "")
        if (verdict := pts_verdict.state_of(setting, parts)) != state:
            raise ValueError(f"its rounds are {verdict}, and the record says {state}")
        return {kept.cell.link_label: pts_verdict.figures_of(setting, parts)}


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (UnreadableError, ToolFailed, ValueError, TypeError) as error:
        raise CannotRecompute(f"its raw files cannot be read: {error}") from error
