"""Checks of imported figures, for all importers: impossible figures, rates above the line rate, seconds without arrivals.

This module also computes the ceilings from `--line-rate`, for all importers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from math import ceil, isfinite

from dutlab.bounds import LARGEST_NUMBER
from dutlab.doubts import Doubt, DoubtKind
from dutlab.interop.imported_run import Imported, Omission, left_out_of
from dutlab.measures import MeasureKind, MeasureUnit, in_unit, measure_of, measure_unit, value_of_many
from dutlab.methods.ports import Row
from dutlab.physics.ceilings import frames, tcp_goodput
from dutlab.physics.ceilings.assumed import COUNTED, OFFERED, USUAL_MTU, above_line
from dutlab.physics.ceilings.ethernet import AROUND_PACKET_BYTES, UDP_HEADER_BYTES, Ip, udp_goodput
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.subject import FigureName, by_part, figure_name, part_figure, subject_of
from dutlab.units import ETH_L1_OVERHEAD_BYTES, BpsL1

_LOST = frozenset({"loss_ratio", "loss_at_max_ratio", "lost_frames", "lost_pps"})
_SHARES = frozenset({"loss_ratio", "loss_at_max_ratio", "refused_ratio", "queue_full_ratio", "failed_ratio", "backpressure_ratio"})
"""Measures between 0 and 1."""
_NEVER_BELOW_ZERO = frozenset({MeasureKind.RATE, MeasureKind.COUNT, MeasureKind.SIZE, MeasureKind.TIME})
_RANKS = {"min": 0, "mean": 1, "avg": 1, "max": 2}
_LEAST_MTU, _LONGEST_FRAME = 68, 1 << 20  # RFC 791; larger than any frame of pkt-gen
_ROUNDED = 1.02
"""Largest ratio of equal figures that were printed in three digits, or whose counters were read one after the other."""
_WHOLE_TEST = ("goodput_bps", "sent_bps")
_BETWEEN_FRAMES = ("received_pps", "offered_pps")
"""Columns of seconds that may begin and end with zeros: programs that count frames may start before the first one and end after the last.
iperf3 may not."""


def checked(trial: Imported, line: BpsL1 | None) -> Imported:
    """Return the trial with ceilings from its line rate, without impossible figures, and with a doubt for each suspect figure.

    A trial whose figures are all impossible has no result.
    """
    if trial.why:
        return trial
    figures: dict[str, dict[str, float]] = {}
    doubts, out = list[Doubt](), list[str]()
    for place, of in trial.measured.figures.items():
        wrong = dict(_impossible(of))
        below = {name: value for name, value in of.items() if name not in wrong and _is_below_zero(name, value)}
        figures[place] = {name: 0.0 if name in below else value for name, value in of.items() if name not in wrong}
        doubts += [Doubt(DoubtKind.NEGATIVE_LOSS, f"{name} {value:g}", place) for name, value in below.items()]
        doubts += [Doubt(DoubtKind.NEGATIVE_LOSS, words, place) for words in _received_exceeds_offered(figures[place])]
        doubts += [Doubt(DoubtKind.IMPOSSIBLE_FIGURE, words, place) for words in wrong.values()]
        out += wrong.values()
    ceilings = trial.ceilings or ({} if line is None else line_ceilings(trial.cell, figures, line, trial))
    doubts += [Doubt(DoubtKind.ABOVE_LINE_RATE, words, place) for place, words in _above_line(trial, figures, ceilings, line)]
    doubts += [Doubt(DoubtKind.STALLED, words) for words in _stalls(trial.measured.tables.get("seconds", ()))]
    return replace(
        trial,
        measured=replace(trial.measured, figures=figures, doubts=(*trial.measured.doubts, *doubts)),
        ceilings=ceilings,
        left_out=(*trial.left_out, *left_out_of("figures", Omission.IMPOSSIBLE, out)),
        why="" if not out or any(figures.values()) else f"all of its figures are impossible: {'; '.join(out)[:200]}",
    )


def line_ceilings(
    cell: Cell, figures: Mapping[str, Mapping[str, float]], line: BpsL1, of: Imported | None = None
) -> dict[str, dict[str, float]]:
    """Return the ceilings of a link of this rate: for goodput by the cell's protocol and MTU, for frames if their size is known.

    TCP is assumed to have timestamps. Without an `mtu` among the parameters the MTU is 1500.
    """
    goodput = _goodput(cell, line, None if of is None else of.datagram_bytes)
    out: dict[str, dict[str, float]] = {}
    for place, of_place in figures.items():
        mean = _mean_frame(cell, of_place)
        each = {"goodput_bps": goodput, **({"received_pps": float(frames(line, mean).pps)} if mean else {})}
        subject = subject_of(place)
        out |= dict.fromkeys(subject.places, each)
        out |= {place: {name: len(subject.flows) * most for name, most in each.items()}}
    return out


def _goodput(cell: Cell, line: BpsL1, datagram: float | None) -> float:
    setting = cell.setting
    stated_mtu = setting.mtu if isinstance(setting, ImportedSetting) else None
    mtu = stated_mtu if stated_mtu is not None and stated_mtu >= _LEAST_MTU else USUAL_MTU
    if not isinstance(setting, ImportedSetting) or setting.protocol != "udp":
        return float(tcp_goodput(line, mtu=mtu))
    if datagram is None:
        return float(udp_goodput(line, mtu=mtu))
    fragments = ceil((datagram + UDP_HEADER_BYTES) / ((mtu - Ip.V4.value) // 8 * 8))  # RFC 791: in units of 8 bytes
    return line * datagram / (datagram + UDP_HEADER_BYTES + fragments * (Ip.V4.value + AROUND_PACKET_BYTES))


def _mean_frame(cell: Cell, figures: Mapping[str, float]) -> float | None:
    """Return the mean frame size in bytes with FCS; None if it is not known."""
    if (size := cell.setting.size).isdecimal() and 0 < float(size) <= _LONGEST_FRAME:
        return float(size)
    for name, bits in figures.items():
        if measure_unit(name) is MeasureUnit.BPS_L1 and (pps := figures.get(in_unit(name, MeasureUnit.PPS))):
            mean = bits / pps / 8 - ETH_L1_OVERHEAD_BYTES
            return mean if 0 < mean <= _LONGEST_FRAME else None
    return None


def _impossible(figures: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Yield each impossible figure with the reason."""
    for name, value in figures.items():
        measure = measure_of(name)
        if not isfinite(value) or abs(value) > LARGEST_NUMBER:
            yield name, f"{name} {value:g}"
        elif measure is not None and measure.name in _SHARES and value > 1:
            yield name, f"{name} {value:g} is a share above 1"
        elif measure is not None and measure.better and measure.unit.kind in _NEVER_BELOW_ZERO and value < 0 and measure.name not in _LOST:
            yield name, f"{name} {value:g} is below 0"
    for of in _of_many(figures):
        if any(figures[low] > figures[high] * _ROUNDED for low, high in pairwise(of)):
            yield from ((name, f"{name} {figures[name]:g}, while {' ≤ '.join(of)} must be true") for name in of)


def _of_many(figures: Mapping[str, float]) -> Iterator[list[str]]:
    """Yield the names of the least, mean and greatest value of each measure, in this order, as far as they exist."""
    names_by_figure: dict[FigureName, dict[int, str]] = {}
    for name in figures:
        if (measure := measure_of(name)) is not None and (rank := _RANKS.get(value_of_many(name))) is not None:
            names_by_figure.setdefault(figure_name(name)._replace(measure=measure.name), {})[rank] = name
    yield from ([of[rank] for rank in sorted(of)] for of in names_by_figure.values())


def _is_below_zero(name: str, value: float) -> bool:
    measure = measure_of(name)
    return measure is not None and measure.name in _LOST and value < 0


def _received_exceeds_offered(figures: Mapping[str, float]) -> Iterator[str]:
    for part, of in by_part(figures).items():
        sent, came = of.get("offered_pps"), of.get("received_pps")
        if sent is not None and came is not None and came > sent * _ROUNDED:
            yield f"{part_figure(part, 'received_pps')} {came:g} of {sent:g} offered"


def _above_line(
    trial: Imported, figures: Mapping[str, Mapping[str, float]], ceilings: Mapping[str, Mapping[str, float]], line: BpsL1 | None
) -> Iterator[tuple[str, str]]:
    """Yield rates above the line, of whole figures and of each part."""
    counted = {**COUNTED, **OFFERED}
    for place, of in figures.items():
        flows = len(subject_of(place).flows)
        for part, values in by_part(of).items():
            limits = dict(ceilings.get(place, {}))
            if line is not None:
                limits["received_bps_l1"] = line * flows
            if line is not None and (mean := _mean_frame(trial.cell, values)):
                limits["received_bps_l2"] = line * flows * mean / (mean + ETH_L1_OVERHEAD_BYTES)
            for _, words in above_line({place: values}, {place: limits}, counted):
                yield place, f"{part}: {words}" if part else words


def _stalls(rows: object) -> Iterator[str]:
    """Yield a sentence on seconds without arrivals, for each column and direction."""
    entries: list[Row] = list(rows) if isinstance(rows, (list, tuple)) else []
    for name in (*_WHOLE_TEST, *_BETWEEN_FRAMES):
        of = [
            (row.get("direction"), float(value))
            for row in entries
            if isinstance(value := row.get(name), int | float) and _is_asked(row, name)
        ]
        for direction in dict.fromkeys(d for d, _ in of):
            values = [value for d, value in of if d == direction]
            there = [n for n, value in enumerate(values) if value]
            if there and name in _BETWEEN_FRAMES:
                values = values[there[0] : there[-1] + 1]
            if there and (still := values.count(0.0)):
                yield f"{name}{f' of {direction}' if direction else ''}: 0 in {still} of {len(values)} seconds"


def _is_asked(row: Row, name: str) -> bool:
    """Return False for a rate of arrivals in a second without offered frames. A ramp begins at a rate of 0."""
    return name != "received_pps" or row.get("offered_pps") != 0
