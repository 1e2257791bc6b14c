"""Limits of drives: the measured rate against the testbed file's rating, and against other sets of drives and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from dutlab.analysis.limited.storage import ArrayFacts, Subset, limit_of_array
from dutlab.physics.ceilings.ladder import ARITHMETIC
from dutlab.physics.ceilings.path import SHARED
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import LimitRow
from dutlab.report.sections.drive_ladder import DriveLadders, value_of_main
from dutlab.report.sections.watched import CoreMeans
from dutlab.spec.drives import host_of_drive
from dutlab.spec.workloads.on_drives import options_of
from dutlab.spec.workloads.setting import identity_of


def drive_limits(groups: Sequence[Group], ladders: DriveLadders, means: CoreMeans) -> tuple[LimitRow, ...]:
    """Return a row for each cell whose drives have a rating for its requests."""
    rating_of = {id(g): rating for g in groups if g.measured and (rating := ladders.rating(g)) is not None}
    rated = [g for g in groups if id(g) in rating_of]
    return tuple(_row(g, rated, rating_of, ladders, means) for g in rated)


def _row(group: Group, rated: Sequence[Group], rating_of: Mapping[int, float], ladders: DriveLadders, means: CoreMeans) -> LimitRow:
    load, ladder = ladders.load(group), ladders.of(group)
    rungs = {} if ladder is None else {rung.name: rung.iops for rung in ladder.rungs}
    alike = [g for g in rated if g is not group and identity_of(g.cell.params) == identity_of(group.cell.params)]
    fewer = [g for g in alike if g.label == group.label and len(g.cell.links) < len(group.cell.links)]
    finding = limit_of_array(
        ArrayFacts(
            value=value_of_main(group),
            unit="IOPS",
            drives=len(group.cell.links),
            drive_sum=rating_of[id(group)],
            arithmetic=rungs.get(ARITHMETIC) if load is not None and load.writes else None,
            uplinks=rungs.get(SHARED),
            cpu_percent=_cpu(group, means),
            fewer=tuple(Subset(len(g.cell.links), value_of_main(g), rating_of[id(g)]) for g in fewer),
            other_engines={g.label: value_of_main(g) for g in alike if g.label != group.label and g.cell.links == group.cell.links},
        )
    )
    return LimitRow.of(group, finding, value=value_of_main(group), size=options_of(group.cell.setting).get("bs", ""))


def _cpu(group: Group, means: CoreMeans) -> float | None:
    """Return the mean load of all cores of the drives' hosts, in percent; None if they were not watched."""
    hosts = {host_of_drive(name) for name in group.cell.links}
    busy = list(_busy(group, means, hosts))
    return fmean(busy) if busy else None


def _busy(group: Group, means: CoreMeans, hosts: set[str]) -> Iterator[float]:
    for record in group.measured:
        for (host, _), kinds in means.get(record.trial, {}).items():
            if host in hosts:
                yield sum(kinds.values())
