"""Power of each cell, and the energy of a packet, an I/O or a gigabyte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dutlab.measures import BIT_RATES, MeasureUnit, measure_unit
from dutlab.report.model.curve import Curve
from dutlab.report.model.figures import figure_of
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import Section
from dutlab.report.model.table import Column, Missing, Table, Value
from dutlab.report.model.watched_means import SampleMeans, WatchedKey
from dutlab.report.model.words import Unit, alike_names, setting_words
from dutlab.report.sections.watched import made_up
from dutlab.workloads import plug_of

WATTS = Unit("W", 1.0, 1)
_JOULES = Unit("", 1.0, 2)
_LEAD = (
    "The mean power of each trial, the median over repeats, and that power divided by the rate. An external meter covers "
    "all that is plugged into it; a host's own readings cover a part of that."
)


class _Work(NamedTuple):
    """Unit of work of a rate, and the amount of work for which joules are given."""

    units: frozenset[MeasureUnit]
    words: str
    amount: float


_WORKS = (
    _Work(frozenset({MeasureUnit.PPS}), "J per million packets", 1e6),
    _Work(frozenset({MeasureUnit.IOPS}), "J per million I/Os", 1e6),
    _Work(frozenset({MeasureUnit.BYTES_PER_S}), "J per GB", 1e9),
    _Work(BIT_RATES, "J per GB", 8e9),
)


def power_section(
    means: SampleMeans, groups: Sequence[Group], testbed: Mapping[str, Any], curves: Sequence[Curve] = ()
) -> tuple[Section, ...]:
    """Return the section with a table per meter; none without watts. Workloads that show watts in their own section are left out."""
    groups = [g for g in groups if not plug_of(g.cell.workload).readings]
    trials = {r.trial for g in groups for r in g.measured}
    meters = sorted({w for trial, of in means.items() if trial in trials for w in of if w.unit == WATTS.name})
    tables = [_table(meter, means, groups, testbed) for meter in meters]
    return (Section("power", "", "Power", _LEAD if tables else "", tuple(tables), curves=tuple(curves)),) if tables or curves else ()


def _table(meter: WatchedKey, means: SampleMeans, groups: Sequence[Group], testbed: Mapping[str, Any]) -> Table:
    measured = [g for g in groups if any(meter in means.get(r.trial, {}) for r in g.measured)]
    works = [w for w in _WORKS if any(_work_of(g) == w for g in measured)]
    alike = alike_names(g.cell.setting for g in measured)
    asked = [setting_words(g.cell.setting, without=alike) for g in measured]
    rows = [
        g.row(
            (
                g.cell.workload,
                *([what] if any(asked) else []),
                g.cell.link_label,
                _value(g, {r.trial: means[r.trial][meter] for r in g.measured if meter in means.get(r.trial, {})}),
                *(_value(g, _joules(g, meter, means, work)) if _work_of(g) == work else "" for work in works),
            )
        )
        for g, what in zip(measured, asked, strict=True)
    ]
    columns = (
        Column("workload"),
        *([Column("asked")] if any(asked) else []),
        Column("link"),
        Column("power", "watts", WATTS),
        *(Column(work.words, unit=_JOULES, better="lower") for work in works),
    )
    name = meter.name if meter.name == meter.sensor else f"{meter.sensor}: {meter.name}"
    about = f" of {meter.where}" if meter.where != meter.sensor else ""
    return Table(f"power-{meter.sensor}-{meter.where}-{meter.name}", f"{name}{about}{_accuracy(meter, testbed)}", columns, tuple(rows))


def _accuracy(meter: WatchedKey, testbed: Mapping[str, Any]) -> str:
    """Return the resolution and accuracy of the meter, if the testbed gives them."""
    sensors = testbed.get("sensors")
    spec = sensors.get(meter.sensor) if isinstance(sensors, Mapping) else None
    step, share = (spec.get("resolution"), spec.get("accuracy")) if isinstance(spec, Mapping) else (None, None)
    resolution = f"{f', in steps of {step:g} W' if isinstance(step, int | float) else ''}{f', within {share}' if share else ''}"
    return f"{resolution}{made_up(meter.sensor, testbed)}"


def _work_of(group: Group) -> _Work | None:
    figure, _ = group.main
    return next((work for work in _WORKS if figure and measure_unit(figure) in work.units), None)


def _joules(group: Group, meter: WatchedKey, means: SampleMeans, work: _Work) -> dict[int, float]:
    figure, link = group.main
    joules_by_trial = {}
    for record in group.measured:
        watts, rate = means.get(record.trial, {}).get(meter), record.figures.get(link, {}).get(figure)
        if watts is not None and rate:
            joules_by_trial[record.trial] = watts * work.amount / rate
    return joules_by_trial


def _value(group: Group, values: Mapping[int, float]) -> Value:
    return figure_of(values, len(group.planned)) if values else Missing("no rate to divide by", tuple(group.planned))
