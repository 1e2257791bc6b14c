"""What was watched beside the figures: the DUT's cores while it worked, counters that grew, and what verify found of each mode."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dutlab.errors import StoreError
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import CheckLine, CounterRow, Cpu, CpuRow
from dutlab.stats.summary import median
from dutlab.store.run_folder import RunFolder
from dutlab.store.samples import damaged_samples, query_samples

KINDS = ("softirq", "irq", "system", "user", "steal")
"""Kinds of work, in the order in which they are drawn; `nice` counts as user, and what is none of these is idle."""
_OF_CORE = re.compile(r"cpu(?P<core>\d+)_(?P<kind>[a-z]+)_percent")
_OfCore = dict[tuple[str, int], list[Mapping[str, float]]]
"""(label, core) → kind of work → mean percentage, of each trial."""
_AS = {**{kind: kind for kind in KINDS}, "nice": "user", "guest": "user"}
DUT = "dut"
_MEANS = """
SELECT file, host, name, CASE WHEN count(*) > 1 THEN (sum(value) - arg_min(value, t_s)) / (count(*) - 1) ELSE avg(value) END
FROM samples WHERE name LIKE 'cpu%percent' AND isfinite(value) GROUP BY ALL ORDER BY ALL
"""
"""Without the first sample where there are more: it begins before the load does."""
CoreMeans = Mapping[int, Mapping[tuple[str, int], Mapping[str, float]]]
"""Trial → (host, core) → kind of work → mean percentage."""


def core_means(run: RunFolder, groups: Sequence[Group], faults: list[str]) -> CoreMeans:
    """Load of each core in each trial, aggregated where the samples lie (in DuckDB), so that a million of them cost no time.

    A trial whose samples are damaged is reported without them, and `faults` says so.
    """
    of_file = [(r.trial, path) for g in groups for r in g.measured if (path := run.samples_path(r.trial))]
    found: dict[int, dict[tuple[str, int], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for file, host, name, mean in _rows_of(of_file, faults):
        if m := _OF_CORE.fullmatch(name):
            shares = found[of_file[file][0]][host, int(m["core"])]
            if kind := _AS.get(m["kind"]):
                shares[kind] = shares.get(kind, 0.0) + mean
    return found


def _rows_of(of_file: list[tuple[int, Path]], faults: list[str]) -> list[tuple[Any, ...]]:
    """Drops from `of_file` what cannot be read."""
    try:
        return query_samples([path for _, path in of_file], _MEANS)
    except StoreError:
        damaged = damaged_samples([path for _, path in of_file])
    faults += [f"{path}: its samples cannot be read, trial {trial} is reported without them: {damaged[path]}" for trial, path in of_file
               if path in damaged]  # fmt: skip
    of_file[:] = [(trial, path) for trial, path in of_file if path not in damaged]
    return query_samples([path for _, path in of_file], _MEANS)


def cpus(means: CoreMeans, groups: Sequence[Group], labels: Sequence[str]) -> tuple[Cpu, ...]:
    """Load of each core by workload and mode: the DUT's, or of every host where none is called that."""
    found: dict[tuple[str, str], _OfCore] = defaultdict(lambda: defaultdict(list))
    for group in groups:
        for record in group.measured:
            for (host, core), shares in means.get(record.trial, {}).items():
                found[group.cell.workload, host][group.label, core].append(shares)
    hosts = {host for _, host in found}
    shown = [DUT] if DUT in hosts else sorted(hosts)
    return tuple(
        Cpu(workload=workload, host=host, rows=_rows(found[workload, host], labels))
        for workload, host in sorted(k for k in found if k[1] in shown)
    )


def _rows(found: _OfCore, labels: Sequence[str]) -> tuple[CpuRow, ...]:
    out = []
    for label, core in sorted(found, key=lambda k: (labels.index(k[0]), k[1])):
        trials = found[label, core]
        shares = {kind: fmean(t.get(kind, 0.0) for t in trials) for kind in KINDS}  # means, because medians of parts do not add up
        out.append(CpuRow(label, core, {kind: share for kind, share in shares.items() if any(kind in t for t in trials)}, len(trials)))
    return tuple(out)


def counters(groups: Sequence[Group]) -> tuple[CounterRow, ...]:
    """Counters that grew in any trial, by mode: the median over trials of their growth."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for group in groups:
        for record in group.measured:
            for host, of_host in record.counters.items():
                for counter, growth in of_host.items():
                    found[host, counter][group.label].append(growth)
    return tuple(
        CounterRow(host, counter, {label: median(grown) for label, grown in of.items()})
        for (host, counter), of in sorted(found.items())
        if any(growth for grown in of.values() for growth in grown)
    )


def checks(groups: Sequence[Group]) -> tuple[CheckLine, ...]:
    """Each thing that verify looks at, with how often it held; the words are those of the last time, or of a failure."""
    found: dict[tuple[str, str], list[tuple[bool, str]]] = defaultdict(list)
    for group in groups:
        for record in group.records:
            for check in record.checks:
                what, passed, said = str(check.get("what", "")), bool(check.get("passed")), str(check.get("found", ""))
                found[group.cell.mode, what].append((passed, said))
    out = []
    for (mode, what), seen in found.items():
        said = next((said for passed, said in seen if not passed), seen[-1][1])
        out.append(CheckLine(mode, what, sum(passed for passed, _ in seen), len(seen), said))
    return tuple(out)
