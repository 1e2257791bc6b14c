"""What limited drives: a measured rate beside what the testbed says that they are rated for, and beside other sets of drives and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from dutlab.analysis.ceilings.ladder import Load, rated_iops
from dutlab.analysis.ceilings.storage import DriveRating
from dutlab.analysis.limited.storage import ArrayFacts, Subset, what_limited_array
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import LimitRow
from dutlab.report.sections.watched import CoreMeans
from dutlab.stats.summary import median

_BLOCK = 4096
"""fio's own, where a job does not say it."""
_WAYS = {"read": 0.0, "randread": 0.0, "write": 1.0, "randwrite": 1.0}
"""`rw` → share of writes; nothing is rated for mixes."""
_POWERS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_RATED = ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s")


def drive_limits(groups: Sequence[Group], testbed: Mapping[str, Any], means: CoreMeans) -> tuple[LimitRow, ...]:
    """One row a cell of drives that have a rating for what was asked of them."""
    rated = _ratings(testbed)
    known = {id(g): found for g in groups if g.measured and (found := _sum(g, g.cell.links, rated)) is not None}
    held = [g for g in groups if id(g) in known]
    return tuple(_row(g, held, known, means) for g in held)


def _row(group: Group, held: Sequence[Group], known: Mapping[int, float], means: CoreMeans) -> LimitRow:
    figure, link = group.main
    alike = [g for g in held if g is not group and _asked(g) == _asked(group)]
    fewer = [g for g in alike if g.label == group.label and len(g.cell.links) < len(group.cell.links)]
    found = what_limited_array(
        ArrayFacts(
            value=_value(group),
            unit="IOPS",
            drives=len(group.cell.links),
            drive_sum=known[id(group)],
            cpu_percent=_cpu(group, means),
            fewer=tuple(Subset(len(g.cell.links), _value(g), known[id(g)]) for g in fewer),
            other_engines={g.label: _value(g) for g in alike if g.label != group.label and g.cell.links == group.cell.links},
        )
    )
    return LimitRow(
        label=group.label, workload=group.cell.workload, links=link, size=str(group.cell.params.get("bs", "")), figure=figure,
        value=_value(group), words=found.words, confidence=found.confidence.word, evidence=found.evidence, missing=found.missing,
        others=found.others, next_experiment=found.next_experiment, trials=tuple(r.trial for r in group.measured),
    )  # fmt: skip


def _ratings(testbed: Mapping[str, Any]) -> dict[str, DriveRating]:
    """`host:drive` → what the testbed says."""
    hosts = testbed.get("hosts")
    return {
        f"{host}:{name}": DriveRating(**{key: rated.get(key) for key in _RATED})
        for host, of in (hosts.items() if isinstance(hosts, Mapping) else ())
        if isinstance(of, Mapping) and isinstance(drives := of.get("drives"), Mapping)
        for name, drive in drives.items()
        if isinstance(drive, Mapping) and isinstance(rated := drive.get("rated"), Mapping)
    }


def _sum(group: Group, drives: Sequence[str], rated: Mapping[str, DriveRating]) -> float | None:
    """The ratings of all its drives; None where one has none for such requests."""
    load = _load(group.cell.params)
    if load is None or not group.main[0].endswith("_iops") or not all(name in rated for name in drives):
        return None
    found = [rated_iops(rated[name], load) for name in drives]
    return sum(one for one in found if one) if all(found) else None


def _load(params: Mapping[str, Any]) -> Load | None:
    share = _WAYS.get(str(params.get("rw"))) if "rw" in params else {100: 0.0, 0: 1.0}.get(params.get("reads_percent", -1))
    size = str(params.get("bs", _BLOCK)).lower()
    number, power = (size[:-1], _POWERS[size[-1]]) if size[-1:] in _POWERS else (size, 1)
    return Load(int(number) * power, share) if share is not None and number.isdecimal() and int(number) else None


def _asked(group: Group) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(group.cell.params.items(), key=lambda item: item[0]))


def _value(group: Group) -> float:
    figure, link = group.main
    return median([r.figures[link][figure] for r in group.measured if figure in r.figures.get(link, {})])


def _cpu(group: Group, means: CoreMeans) -> float | None:
    """Mean of all cores of the hosts whose drives these are, in percent; None where nobody watched."""
    hosts = {name.partition(":")[0] for name in group.cell.links}
    busy = list(_busy(group, means, hosts))
    return fmean(busy) if busy else None


def _busy(group: Group, means: CoreMeans, hosts: set[str]) -> Iterator[float]:
    for record in group.measured:
        for (host, _), kinds in means.get(record.trial, {}).items():
            if host in hosts:
                yield sum(kinds.values())
