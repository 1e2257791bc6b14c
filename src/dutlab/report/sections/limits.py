"""Limit of each cell: one verdict from the records' figures, ledgers, counters and watched cores (analysis.limited)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Self

from dutlab.analysis.limited import Core, Facts, Neighbour, limit_of_result
from dutlab.measures import MeasureUnit, in_unit, measure_unit
from dutlab.physics.ceilings.assumed import USUAL_MTU, other_goodputs
from dutlab.physics.ceilings.ethernet import AROUND_PACKET_BYTES
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import DoubtNote, NoteBook
from dutlab.report.model.packets import GOODPUT, mtu_of, segments_per_s
from dutlab.report.model.run_report import LimitRow
from dutlab.report.model.words import SIZES, folded, size_order
from dutlab.report.sections.watched import CoreMeans
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.setting import Identity, identity_of
from dutlab.stats.summary import median
from dutlab.store.loads import held_back
from dutlab.store.record import FlowRecord
from dutlab.subject import subject_of
from dutlab.systems.card_counters import BUFFER_LATE, OVER_ALLOWANCE, PLACES
from dutlab.systems.sample_names import frames_and_calls, has_polls, poll_cycle_shares
from dutlab.systems.vpp import MOST_A_CALL
from dutlab.systems.watched import POLLING_CORES
from dutlab.units import ETH_L1_OVERHEAD_BYTES

_ONE_LOAD = ("goodput_bps", "received_pps")
"""Figures of trials with one steady load. Only for these do the cores' mean load and the ledger refer to that rate: a
search or a ramp goes through many rates in one trial."""
_LIMITED = frozenset({MeasureUnit.PPS, MeasureUnit.BPS})
"""Units of figures with a verdict; these rules do not cover drives."""
_LIKE_RECEIVED = "received_pps"
"""Name of the ceiling of all other figures in frames a second."""
_SHARED = "in an embedded lab the generator and the sink work on these cores too"
_OF_DUT = ("THROTTLED", "POWER_LIMITED")
"""Doubts that name the limit of the DUT, if they are about the DUT's processor."""
_VOID = ("DISTURBED", "CPU_STOLEN")
"""Doubts below the highest grade that forbid a verdict, as all of the highest grade do."""
_RIG = ("RIG_LIMITED", "LIMIT_OF_GENERATOR")
_UNTESTED = "NO_UPPER_BOUND"
_TABLE_SIZE = "net.netfilter.nf_conntrack_max"
_Place = tuple[str, tuple[str, ...], Identity]
"""Workload, links, and all parameters except the frame size."""


@dataclass(frozen=True)
class LimitContext:
    """Facts about the testbed and the run that verdicts need."""

    means: CoreMeans
    hosts: Mapping[str, Mapping[str, Any]]
    book: NoteBook
    dut: str = "dut"
    """Host that is measured."""
    mtus: Mapping[str, int] = field(default_factory=dict)
    """Link → its MTU in the testbed file."""
    lab: bool = False
    one: bool = True
    """True if all modes were measured on this testbed; otherwise modes are not compared with one another."""
    busy: str = ""
    """Sentence that other work left nearly nothing to measure; empty otherwise."""


def limits(groups: Sequence[Group], bed: LimitContext) -> tuple[LimitRow, ...]:
    """Return a row for each cell whose main figure can have a limit: goodput, or frames received, found or sustained."""
    measured = [g for g in groups if g.measured and measure_unit(g.main[0]) in _LIMITED]
    labels = {label: n for n, label in enumerate(dict.fromkeys(g.label for g in groups))}
    near = _CellIndex.of(measured, bed)
    ordered = sorted(measured, key=lambda g: (labels[g.label], g.cell.workload, len(g.cell.links), g.cell.links, size_order(g.size)))
    return tuple(_row(g, near, bed) for g in ordered)


@dataclass(frozen=True)
class _CellIndex:
    """Index of cells that give evidence for one another, built once, since a run may have as many cells as imported files."""

    of_label: Mapping[tuple[_Place, str], Sequence[Group]]
    """Place and label → cells of all frame sizes."""
    fastest: Mapping[tuple[_Place, str, str], Sequence[tuple[float, str]]]
    """Place, frame size and figure → the two labels with the highest values, highest first."""
    sums: Mapping[tuple[str, Identity, str, str], Sequence[tuple[tuple[str, ...], float]]]
    """Workload, parameters, label and frame size → links that were driven at once, and their sum."""
    others: Mapping[_Place, Sequence[Group]]
    """Place → cells of all modes and sizes, if they were measured on one testbed."""
    most: Mapping[tuple[str, int | None, float, str], float]
    """Link, MTU, ceiling and figure → highest measured value."""

    @classmethod
    def of(cls, groups: Sequence[Group], bed: LimitContext) -> Self:
        of_label: dict[tuple[_Place, str], list[Group]] = defaultdict(list)
        fastest: dict[tuple[_Place, str, str], list[tuple[float, str]]] = defaultdict(list)
        sums: dict[tuple[str, Identity, str, str], list[tuple[tuple[str, ...], float]]] = defaultdict(list)
        others: dict[_Place, list[Group]] = defaultdict(list)
        most: dict[tuple[str, int | None, float, str], float] = defaultdict(float)
        for group in groups:
            place, size, (figure, link) = _place(group), group.size, group.main
            of_label[place, group.label].append(group)
            others[place].append(group)
            if (key := _line_key(group, bed)) is not None:
                most[key] = max(most[key], _figure(group, link, figure) or 0.0)
            for name in {figure, "offered_pps"}:
                if (value := _figure(group, link, name)) is not None:
                    best = {label: v for v, label in fastest[place, size, name]}
                    best[group.label] = max(value, best.get(group.label, value))
                    fastest[place, size, name] = sorted(((v, label) for label, v in best.items()), reverse=True)[:2]
                    if name == figure and len(group.cell.links) > 1:
                        sums[group.cell.workload, place[2], group.label, size].append((group.cell.links, value))
        return cls(of_label, fastest if bed.one else {}, sums, others if bed.one else {}, most)


def _row(group: Group, near: _CellIndex, bed: LimitContext) -> LimitRow:
    finding, (figure, link) = limit_of_result(_facts(group, near, bed)), group.main
    return LimitRow.of(group, finding, value=_figure(group, link, figure) or 0.0, size=group.size or _pair(group))


def _facts(group: Group, near: _CellIndex, bed: LimitContext) -> Facts:
    (figure, link), place, size = group.main, _place(group), group.size
    line, mtu, doubts = _ceiling(group, link, figure), mtu_of(group.cell, bed.mtus), _doubts(group, bed.book)
    tcp = figure == "goodput_bps"
    frames, steady = _is_frames(figure), figure in _ONE_LOAD
    flows = [f for r in group.measured for f in r.flows] if steady else []
    streams = getattr(group.cell.setting, "streams", None)
    hot = {n.kind: _said(n, group) for n in doubts if n.kind in _OF_DUT and _about_dut(n, group, bed.dut)}
    alone = len(group.cell.links) == 1
    at_cards = _at_cards(group, flows, bed)
    polled = has_polls(set[str]().union(*(r.counters.get(bed.dut, ()) for r in group.measured)))
    return Facts(
        value=_figure(group, link, figure) or 0.0,
        unit="pps" if frames else "b/s",
        line=line,
        assumed=f"{USUAL_MTU} bytes assumed" if tcp and mtu is None else "",
        other_lines=other_goodputs(line, mtu=mtu) if tcp and line else {},
        most_seen=near.most.get(key) if (key := _line_key(group, bed)) is not None else None,
        void=tuple(filter(None, (bed.busy, *(_said(n, group) for n in doubts if _forbids(n, hot))))),
        rig=next((_said(n, group) for n in doubts if n.kind in _RIG), ""),
        untested=next((n.text for n in doubts if n.kind == _UNTESTED), ""),
        pps=packets_per_s(group, bed.mtus),
        mean_bytes=_mean_bytes(group, bed.mtus),
        asked=_figure(group, link, "intended_pps") if frames else None,
        sent=_figure(group, link, "offered_pps") if frames else None,
        loss_ratio=_figure(group, link, "loss_ratio") if steady else None,
        refused_ratio=_refused(flows, at_full_speed=_figure(group, link, "intended_pps") is None),
        generator_best=_generator_best(group, near) if frames else None,
        generator_core=_figure(group, link, "sender_cpu_percent") if alone else None,
        sink_core=_figure(group, link, "receiver_cpu_percent") if alone else None,
        dut_cores=_cores(group, bed) if steady else (),
        polling=frozenset(bed.hosts.get(bed.dut, {}).get(POLLING_CORES, ())).union(*(r.polling for r in group.measured)),
        call_share=_call_share(group, bed.dut) if polled else None,
        cycle_share=_cycle_share(group, bed.dut) if polled else None,
        shared_cores=_SHARED if bed.lab else "",
        places=_places(flows),
        at_cards={PLACES[place]: share for place, share in at_cards.items() if place != OVER_ALLOWANCE},
        over_allowance=at_cards.get(OVER_ALLOWANCE, 0.0),
        table_entries=median([r.counters.get(bed.dut, {}).get("conntrack_entries", 0.0) for r in group.measured]),
        table_size=_table_size(bed.hosts.get(bed.dut, {})),
        throttled=hot.get("THROTTLED", ""),
        power_limited=hot.get("POWER_LIMITED", ""),
        streams=streams if isinstance(streams, int) and not frames else None,
        neighbours=tuple(_neighbours(group, near, bed)),
        other_modes={label: v for v, label in near.fastest.get((place, size, figure), ()) if label != group.label},
        together=_together(group, near) if alone else None,
        imported=isinstance(group.cell.setting, ImportedSetting),
        one_testbed=bed.one,
    )


def _cores(group: Group, bed: LimitContext) -> tuple[Core, ...]:
    """Return the DUT's cores with the mean load of each kind of work over repeats."""
    trials = [bed.means[r.trial] for r in group.measured if r.trial in bed.means]
    numbers = sorted({core for of in trials for host, core in of if host == bed.dut})
    out = []
    for number in numbers:
        shares = [of[bed.dut, number] for of in trials if (bed.dut, number) in of]
        out.append(Core(number, {kind: fmean([s.get(kind, 0.0) for s in shares]) for kind in sorted({k for s in shares for k in s})}))
    return tuple(out)


def _call_share(group: Group, dut: str) -> float | None:
    """Return frames per call of the input with most, as a share of the largest possible number; the median over repeats."""
    shares = []
    for of in (r.counters.get(dut, {}) for r in group.measured):
        inputs = frames_and_calls(of)
        if inputs and max(inputs)[1] > 0:
            shares.append(max(inputs)[0] / max(inputs)[1] / MOST_A_CALL)
    return median(shares) if shares else None


def _cycle_share(group: Group, dut: str) -> float | None:
    """Return the share of cycles with frames of the busiest polling thread; the median over repeats."""
    shares = [max(of) for r in group.measured if (of := poll_cycle_shares(r.counters.get(dut, {})))]
    return median(shares) if shares else None


def _neighbours(group: Group, near: _CellIndex, bed: LimitContext) -> Iterable[Neighbour]:
    """Yield results with other frame sizes: of this mode, or, if it has none, of any mode on the same testbed."""
    figure, link = group.main
    own = [g for g in near.of_label[_place(group), group.label] if g.size != group.size]
    for other in own or [g for g in near.others.get(_place(group), ()) if g.size != group.size]:
        mean, pps, value = _mean_bytes(other, bed.mtus), packets_per_s(other, bed.mtus), _figure(other, link, figure)
        if mean and pps and value:
            line = _ceiling(other, link, figure)
            name = f"{other.size}-byte frames" if other.size.isdigit() else other.size
            yield Neighbour(
                name if own else f"{name} in mode {other.label}", mean, pps, value / line if line else None, same_mode=bool(own)
            )


def _together(group: Group, near: _CellIndex) -> float | None:
    """Return the largest sum over several links that includes this link, in the same mode."""
    workload, (link,), params = _place(group)
    return max((value for links, value in near.sums.get((workload, params, group.label, group.size), ()) if link in links), default=None)


def _places(flows: Sequence[FlowRecord]) -> dict[str, float]:
    """Return place → share of the frames that were lost there, among those with a known place."""
    lost: dict[str, int] = defaultdict(int)
    for flow in flows:
        for place, count in flow.places.items():
            lost[place] += count
    total = sum(lost.values())
    return {place: count / total for place, count in lost.items()} if total else {}


def _at_cards(group: Group, flows: Sequence[FlowRecord], bed: LimitContext) -> dict[str, float]:
    """Return place at the DUT's cards → frames that drivers counted there, as a share of all lost frames."""
    lost = sum(flow.lost_frames for flow in flows)
    if not lost:
        return {}
    ports = bed.hosts.get(bed.dut, {}).get("interfaces") or {}
    place_of = {f"{port}_{place}": place for port in ports for place in PLACES.keys() - {BUFFER_LATE}}
    counted: dict[str, float] = defaultdict(float)
    for of in (r.counters.get(bed.dut, {}) for r in group.measured):
        for name in place_of.keys() & of.keys():
            counted[place_of[name]] += of[name]
    return {place: min(1.0, frames / lost) for place, frames in sorted(counted.items()) if frames}


def _refused(flows: Sequence[FlowRecord], *, at_full_speed: bool) -> float | None:
    """Return the share of made frames that a full DUT did not take. Frames that the generator made too late are its own fault."""
    refused_frames = held_back(flows, at_full_speed=at_full_speed)
    offered_frames = sum(f.sent_frames for f in flows) + refused_frames
    return refused_frames / offered_frames if offered_frames else None


def _is_frames(figure: str) -> bool:
    return measure_unit(figure) is MeasureUnit.PPS


def packets_per_s(group: Group, mtus: Mapping[str, int]) -> float | None:
    """Return frames a second; for goodput, its segments a second, if the MTU of the path is known."""
    figure, link = group.main
    if _is_frames(figure):
        return _figure(group, link, figure)
    if (counted := _figure(group, link, _LIKE_RECEIVED)) is not None:
        return counted
    mtu, bits = mtu_of(group.cell, mtus), _figure(group, link, GOODPUT)
    return segments_per_s(bits, mtu) if mtu and bits else None


def _line_key(group: Group, bed: LimitContext) -> tuple[str, int | None, float, str] | None:
    """Return a key that cells over the same link share; None if the link is not known."""
    figure, link = group.main
    line = _ceiling(group, link, figure)
    return None if line is None or not bed.one else (link, mtu_of(group.cell, bed.mtus), line, figure)


def _doubts(group: Group, book: NoteBook) -> list[DoubtNote]:
    """Return the doubts about the figure of the verdict."""
    figure, link = group.main
    marks = book.touching(tuple(r.trial for r in group.measured), link, figure)
    return [note for note in book.notes if note.number in marks]


def _said(note: DoubtNote, group: Group) -> str:
    """Return a doubt's text with the details from the cell's trials."""
    details = folded(d.detail for r in group.measured for d in r.doubts if d.kind == note.kind and d.detail)
    return f"{note.text} ({'; '.join(details)})" if details else note.text


def _forbids(note: DoubtNote, handled_kinds: Collection[str]) -> bool:
    """Return whether a doubt forbids a verdict; not if it names the limit of the DUT."""
    return (note.grade == "severe" and note.kind not in handled_kinds) or note.kind in _VOID


def _about_dut(note: DoubtNote, group: Group, dut: str) -> bool:
    """Return whether a doubt is about the DUT alone."""
    return {d.about for r in group.measured for d in r.doubts if d.kind == note.kind} == {dut}


def _mean_bytes(group: Group, mtus: Mapping[str, int]) -> float | None:
    """Return the mean frame size with FCS, from the ledger; without one, from the settings or the rates."""
    if flows := [f for r in group.measured for f in r.flows]:
        return median([f.mean_frame_bytes for f in flows])
    if group.size.isdigit():
        return float(group.size)
    figure, link = group.main
    if figure == "goodput_bps" and (mtu := mtu_of(group.cell, mtus)):
        return float(mtu + AROUND_PACKET_BYTES - ETH_L1_OVERHEAD_BYTES)
    pps, bits = (_figure(group, link, name) for name in (figure, in_unit(figure, MeasureUnit.BPS_L1)))
    return bits / pps / 8 - ETH_L1_OVERHEAD_BYTES if _is_frames(figure) and pps and bits else None


def _generator_best(group: Group, near: _CellIndex) -> float | None:
    """Return the highest rate of such frames that the generator sent in any mode; for a search, the rig's rate without the DUT."""
    figure, link = group.main
    if figure in _ONE_LOAD:
        return max((v for v, _ in near.fastest.get((_place(group), group.size, "offered_pps"), ())), default=None)
    headroom, value = _figure(group, link, "headroom_ratio"), _figure(group, link, figure)
    return value * headroom if headroom is not None and value is not None else None


def _figure(group: Group, link: str, figure: str) -> float | None:
    return group.median(link, figure)


def _ceiling(group: Group, link: str, figure: str) -> float | None:
    """Return the ceiling of a figure; without its own, that of frames a second in each direction."""
    for ceilings in group.ceilings:
        if (limit := ceilings.get(link, {}).get(figure)) is not None:
            return limit
        of_directions = [ceilings.get(place, {}).get(_LIKE_RECEIVED) for place in subject_of(link).place_of_flows]
        if _is_frames(figure) and all(limit is not None for limit in of_directions):
            return sum(limit for limit in of_directions if limit is not None)
    return None


def _table_size(facts: Mapping[str, Any]) -> float | None:
    sysctls = facts.get("sysctls")
    value = sysctls.get(_TABLE_SIZE) if isinstance(sysctls, Mapping) else None
    return float(value) if isinstance(value, (str, int)) and str(value).isdigit() else None


def _pair(group: Group) -> str:
    """Return the two hosts of a pair, in a matrix."""
    return " to ".join(group.cell.setting.ends)


def _place(group: Group) -> _Place:
    return (group.cell.workload, group.cell.links, identity_of(group.cell.params, without=(*SIZES, "mtu")))
