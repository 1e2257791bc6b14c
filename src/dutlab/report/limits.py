"""What limited each cell: from the records' figures, ledgers, counters and watched cores to one verdict (analysis.limited)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from dutlab.analysis.compare import main_figures
from dutlab.analysis.limited import Core, Facts, Neighbour, what_limited
from dutlab.analysis.statistics import median
from dutlab.report.groups import Group
from dutlab.report.model import LimitRow
from dutlab.report.tables import size_order
from dutlab.report.watched import DUT, CoreMeans
from dutlab.store.record import FlowRecord
from dutlab.units import ETH_L1_OVERHEAD_BYTES

_ONE_LOAD = ("goodput_bps", "received_pps")
"""Figures of trials with one steady load. Only beside these do the cores' mean load and the ledger tell what happened at that rate: a
search or a ramp goes through many rates in one trial."""
_LIKE_RECEIVED = "received_pps"
"""Under this name stands the ceiling of whatever else is frames a second."""
_SHARED = "in an embedded lab the generator and the sink work on these cores too"
_TABLE_SIZE = "net.netfilter.nf_conntrack_max"
_Place = tuple[str, tuple[str, ...], str]
"""Workload, links, and all parameters but the frame size."""


def limits(groups: Sequence[Group], means: CoreMeans, hosts: Mapping[str, Mapping[str, Any]], *, lab: bool) -> tuple[LimitRow, ...]:
    """One row a cell that has a figure which can be limited by anything: goodput, or frames received, found or sustained."""
    measured = [g for g in groups if g.measured and _main(g)[0]]
    labels = list(dict.fromkeys(g.label for g in groups))
    by_place: dict[_Place, list[Group]] = defaultdict(list)
    for group in measured:
        by_place[_place(group)].append(group)
    ordered = sorted(
        measured, key=lambda g: (labels.index(g.label), g.cell.workload, len(g.cell.links), g.cell.links, size_order(_size(g)))
    )
    return tuple(_row(g, by_place, _cores(g, means), _table_size(hosts), lab=lab) for g in ordered)


def _row(group: Group, by_place: Mapping[_Place, Sequence[Group]], cores: Sequence[Core], table: float | None, *, lab: bool) -> LimitRow:
    figure, link = _main(group)
    found = what_limited(_facts(group, figure, by_place, cores if figure in _ONE_LOAD else (), table, lab=lab))
    return LimitRow(
        label=group.label, workload=group.cell.workload, links=link, size=str(group.cell.params.get("frame_size", "")), figure=figure,
        value=_figure(group, link, figure) or 0.0, words=found.words, confidence=found.confidence.word, evidence=found.evidence,
        others=found.others, next_experiment=found.next_experiment, trials=tuple(r.trial for r in group.measured),
    )  # fmt: skip


def _facts(
    group: Group, figure: str, by_place: Mapping[_Place, Sequence[Group]], cores: Sequence[Core], table: float | None, *, lab: bool
) -> Facts:
    link = _main(group)[1]
    near = by_place[_place(group)]
    same_size = [g for g in near if _size(g) == _size(group)]
    frames = figure.endswith("_pps")
    flows = [f for r in group.measured for f in r.flows] if figure in _ONE_LOAD else []
    streams = group.cell.params.get("streams")
    alone = len(group.cell.links) == 1
    return Facts(
        value=_figure(group, link, figure) or 0.0,
        unit="pps" if frames else "bit/s",
        line=_ceiling(group, link, figure),
        pps=_figure(group, link, figure if frames else _LIKE_RECEIVED),
        mean_bytes=_mean_bytes(group),
        asked=_figure(group, link, "asked_pps") if frames else None,
        sent=_figure(group, link, "sent_pps") if frames else None,
        loss_ratio=_figure(group, link, "loss_ratio") if figure in _ONE_LOAD else None,
        refused_ratio=_refused(flows),
        generator_best=_generator_best(group, same_size, figure) if frames else None,
        generator_core=_figure(group, link, "sender_cpu_percent") if alone else None,
        sink_core=_figure(group, link, "receiver_cpu_percent") if alone else None,
        dut_cores=cores,
        shared_cores=_SHARED if lab else "",
        places=_places(flows),
        table_entries=median([r.counters.get(DUT, {}).get("conntrack_entries", 0.0) for r in group.measured]),
        table_size=table,
        streams=int(streams) if isinstance(streams, (int, float)) and not frames else None,
        neighbours=tuple(_neighbours(group, near, figure)),
        other_modes={g.label: v for g in same_size if g.label != group.label and (v := _figure(g, link, figure)) is not None},
        together=_together(group, by_place, figure) if alone else None,
    )


def _cores(group: Group, means: CoreMeans) -> tuple[Core, ...]:
    """The DUT's, each kind of work as the mean over repeats."""
    trials = [means[r.trial] for r in group.measured if r.trial in means]
    numbers = sorted({core for of in trials for host, core in of if host == DUT})
    out = []
    for number in numbers:
        shares = [of[DUT, number] for of in trials if (DUT, number) in of]
        out.append(Core(number, {kind: fmean(s.get(kind, 0.0) for s in shares) for kind in sorted({k for s in shares for k in s})}))
    return tuple(out)


def _neighbours(group: Group, near: Iterable[Group], figure: str) -> Iterable[Neighbour]:
    link = _main(group)[1]
    for other in near:
        if other.label != group.label or _size(other) == _size(group) or not figure.endswith("_pps"):
            continue
        mean, pps = _mean_bytes(other), _figure(other, link, figure)
        if mean and pps:
            line = _ceiling(other, link, figure)
            name = f"{_size(other)}-byte frames" if _size(other).isdigit() else _size(other)
            yield Neighbour(name, mean, pps, pps / line if line else None)


def _together(group: Group, by_place: Mapping[_Place, Sequence[Group]], figure: str) -> float | None:
    """The sum over several links of which this one was a part, in the same mode."""
    workload, links, params = _place(group)
    sums = [
        v
        for (of, with_links, same), others in by_place.items()
        if (of, same) == (workload, params) and len(with_links) > 1 and links[0] in with_links
        for g in others
        if g.label == group.label and _size(g) == _size(group) and (v := _figure(g, "+".join(with_links), figure)) is not None
    ]
    return max(sums, default=None)


def _places(flows: Sequence[FlowRecord]) -> dict[str, float]:
    """Where frames got lost, as shares of all whose place is known."""
    lost: dict[str, int] = defaultdict(int)
    for flow in flows:
        for place, count in flow.places.items():
            lost[place] += count
    total = sum(lost.values())
    return {place: count / total for place, count in lost.items()} if total else {}


def _refused(flows: Sequence[FlowRecord]) -> float | None:
    """Share of all asked frames that a full DUT did not take; of records that do not tell it apart, all refused ones."""
    asked = sum(f.asked_frames for f in flows)
    by_peer = sum(f.refused_by_peer_frames for f in flows)
    return (by_peer or sum(f.refused_frames for f in flows)) / asked if asked else None


def _mean_bytes(group: Group) -> float | None:
    """Of the frames, with FCS; where a method keeps no ledger of its whole trial, as asked for, or as its rates tell."""
    if flows := [f for r in group.measured for f in r.flows]:
        return median([f.mean_frame_bytes for f in flows])
    if _size(group).isdigit():
        return float(_size(group))
    figure, link = _main(group)
    pps, bits = _figure(group, link, figure), _figure(group, link, figure.replace("_pps", "_bps_l1"))
    return bits / pps / 8 - ETH_L1_OVERHEAD_BYTES if figure.endswith("_pps") and pps and bits else None


def _generator_best(group: Group, same_size: Sequence[Group], figure: str) -> float | None:
    """The most that it sent of such frames in any mode; of what a search found, what the rig does without the DUT."""
    link = _main(group)[1]
    if figure in _ONE_LOAD:
        return max((v for g in same_size if (v := _figure(g, link, "sent_pps")) is not None), default=None)
    headroom, value = _figure(group, link, "headroom_ratio"), _figure(group, link, figure)
    return value * headroom if headroom is not None and value is not None else None


def _main(group: Group) -> tuple[str, str]:
    """The figure that is judged, and of what: the links together, and of a load that goes both ways, both."""
    names = {name: None for r in group.measured for name in r.figures}
    link = max(names, key=lambda name: (name.count("+"), name == group.cell.link_label), default=group.cell.link_label)
    there = main_figures(name for r in group.measured for name in r.figures.get(link, ()))
    return (there[0], link) if there else ("", link)


def _figure(group: Group, link: str, figure: str) -> float | None:
    values = [r.figures[link][figure] for r in group.measured if figure in r.figures.get(link, ())]
    return median(values) if values else None


def _ceiling(group: Group, link: str, figure: str) -> float | None:
    """Of a figure that has none under its own name, frames a second of each of the ways."""
    for r in group.measured:
        if (limit := r.ceilings.get(link, {}).get(figure)) is not None:
            return limit
        of_ways = [r.ceilings.get(way.removesuffix(".back"), {}).get(_LIKE_RECEIVED) for way in link.split("+")]
        if figure.endswith("_pps") and all(limit is not None for limit in of_ways):
            return sum(limit for limit in of_ways if limit is not None)
    return None


def _table_size(hosts: Mapping[str, Mapping[str, Any]]) -> float | None:
    sysctls = hosts.get(DUT, {}).get("sysctls")
    said = sysctls.get(_TABLE_SIZE) if isinstance(sysctls, Mapping) else None
    return float(said) if isinstance(said, (str, int)) and str(said).isdigit() else None


def _size(group: Group) -> str:
    return str(group.cell.params.get("frame_size", ""))


def _place(group: Group) -> _Place:
    varied = {"frame_size", "frame_mix"}
    params = repr(sorted((k, v) for k, v in group.cell.params.items() if k not in varied))
    return (group.cell.workload, group.cell.links, params)
