"""What was watched beside the figures: the DUT's cores while it worked, counters that grew, and what verify found of each mode."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from dutlab.analysis.statistics import median
from dutlab.report.groups import Group
from dutlab.report.model import CheckLine, CounterRow, Cpu, CpuRow
from dutlab.store.run_folder import RunFolder
from dutlab.store.samples import query_samples

KINDS = ("softirq", "irq", "system", "user", "steal")
"""Kinds of work, in the order in which they are drawn; `nice` counts as user, and what is none of these is idle."""
_OF_CORE = re.compile(r"cpu(?P<core>\d+)_(?P<kind>[a-z]+)_percent")
_AS = {**{kind: kind for kind in KINDS}, "nice": "user", "guest": "user"}
DUT = "dut"
_MEANS = "SELECT file, host, name, avg(value) FROM samples WHERE name LIKE 'cpu%percent' AND isfinite(value) GROUP BY ALL ORDER BY ALL"
_OfCore = dict[tuple[str, int], dict[int, dict[str, float]]]
"""(label, core) → file → kind → mean percentage."""


def cpus(run: RunFolder, groups: Sequence[Group], labels: Sequence[str]) -> tuple[Cpu, ...]:
    """Load of each core by workload and mode, aggregated where the samples lie (in DuckDB), so that a million of them cost no time."""
    of_file: list[tuple[str, str]] = []
    paths = []
    for group in groups:
        for record in group.measured:
            if path := run.samples_path(record.trial):
                paths.append(path)
                of_file.append((group.cell.workload, group.label))
    rows = query_samples(paths, _MEANS)
    found: dict[tuple[str, str], _OfCore] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for file, host, name, mean in rows:
        if m := _OF_CORE.fullmatch(name):
            workload, label = of_file[file]
            shares = found[workload, host][label, int(m["core"])][file]
            if kind := _AS.get(m["kind"]):
                shares[kind] = shares.get(kind, 0.0) + mean
    hosts = {host for _, host in found}
    shown = [DUT] if DUT in hosts else sorted(hosts)
    return tuple(
        Cpu(workload=workload, host=host, rows=_rows(found[workload, host], labels))
        for workload, host in sorted(k for k in found if k[1] in shown)
    )


def _rows(found: _OfCore, labels: Sequence[str]) -> tuple[CpuRow, ...]:
    out = []
    for label, core in sorted(found, key=lambda k: (labels.index(k[0]), k[1])):
        trials = list(found[label, core].values())
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
