"""Drives in a known state: each test's verdict, matrix by mix and block size, and rounds. Tables and charts never mix two states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from dutlab.measures import MeasureUnit, measure_unit
from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.figures import computed_value, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.model.table import Column, Figure, Missing, Row, Table, Value
from dutlab.report.model.words import unit_of
from dutlab.report.sections.headline import compared
from dutlab.report.sections.watched import sums_over_time
from dutlab.spec.workloads.pts_setting import PtsSetting
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.subject import Way, way_figure

_FIGURE_OF = {"throughput": "bytes_per_s", "latency": "clat_mean_ns"}
"""Test → figure of its matrix; IOPS for all others."""
_VERDICT = (
    Column("rounds", "rounds"), Column("first of the window", "first_round"), Column("mean", "mean_iops"), Column("range", "range_ratio"),
    Column("slope over it", "slope_ratio"),
)  # fmt: skip
_WRITTEN = way_figure(Way.WRITE, "bytes_per_s")
_FEWEST = 3
"""Least number of seconds for a curve."""
_STATES = ("steady", "fresh", "not reached")


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a table of verdicts, a matrix per test and state, and the curves of each first trial."""
    groups = sorted(groups, key=lambda g: (_setting(g).test, labels.index(g.label), len(g.cell.links), g.cell.link_label))
    matrices = [
        _matrix(test, state, of, book)
        for test in dict.fromkeys(_setting(g).test for g in groups)
        for state in _STATES
        if (of := [g for g in groups if _setting(g).test == test and _state(g) == state])
    ]
    return Section(
        slug="pts",
        workload="pts",
        title="Drives in a known state",
        lead="Rounds are repeated until five of them are steady: the range of their tracked IOPS is at most 20 % of the mean, the slope at "
        "most 10 %. Figures are means over that window. A test that did not get there is marked, and two states are never in one table.",
        tables=(_verdicts(groups, book), *matrices),
        curves=tuple(curve for g in groups for curve in (*_curves(g), *_over_time(read.run, g))),
        words=tuple(
            dict.fromkeys(
                f"{g.label}, {_setting(g).test}, {g.cell.link_label}: {note}." for g in groups for r in g.measured for note in r.notes
            )
        ),
        headlines=tuple(h for h in [_headline(groups, labels, book)] if h is not None),
    )


def _verdicts(groups: Sequence[Group], book: NoteBook) -> Table:
    rows = []
    for g in groups:
        values = [_told(g, column.figure, book) for column in _VERDICT]
        rows.append(Row(g.label, (_setting(g).test, g.cell.link_label, _state(g), *values), links=g.cell.link_label))
    marks = [v.marks for row in rows for v in row.cells if isinstance(v, Figure)]
    columns = (Column("test"), Column("drives"), Column("state"), *_VERDICT)
    return Table("pts-verdict", "Verdict of each test", columns, tuple(rows), book.common(marks))


def _told(group: Group, name: str, book: NoteBook) -> Value | str:
    def of(record: TrialRecord) -> float | None:
        row = next(iter(record.tables.get("verdict", ())), {})
        value = row.get(name.replace("_ratio", "_iops"))
        mean = row.get("mean_iops")
        if not isinstance(value, int | float):
            return None
        return float(value) / mean if measure_unit(name) is MeasureUnit.RATIO and isinstance(mean, int | float) and mean else float(value)

    result = computed_value(group, group.cell.link_label, name, of, book)
    return "–" if isinstance(result, Missing) and group.measured else result


def _matrix(test: str, state: str, groups: Sequence[Group], book: NoteBook) -> Table:
    """Return a table with a row per set of drives and block size, and a column per mix."""
    end = _FIGURE_OF.get(test, "iops")
    mixes = list(dict.fromkeys(mix for g in groups for mix in _setting(g).reads_percent))
    unit = unit_of(end)
    columns = (Column("drives"), Column("block"), *(Column(f"{mix} % reads", f"r{mix}_{end}", unit) for mix in mixes))
    rows = [
        Row(
            g.label,
            (g.cell.link_label, size, *(value_of(g, g.cell.link_label, f"r{mix}_{size}_{end}", book) for mix in mixes)),
            links=g.cell.link_label,
            size=size,
        )
        for g in groups
        for size in _setting(g).block_sizes
    ]
    marks = [v.marks for row in rows for v in row.cells if isinstance(v, Figure)]
    return Table(f"pts-{test}-{state}".replace(" ", "-"), f"{test}: {state}", columns, tuple(rows), book.common(marks))


def _curves(group: Group) -> Iterator[Curve]:
    """Yield the curve of tracked IOPS over rounds."""
    for record in group.measured[:1]:
        by_size = defaultdict(list)
        rows = record.tables.get("rounds", ())
        for row in rows:
            if isinstance(iops := row.get("iops"), int | float) and row.get("reads_percent") == min(
                float(r.get("reads_percent") or 0) for r in rows
            ):
                by_size[str(row.get("bs"))].append((float(row.get("round") or 0), float(iops)))
        first = next((row.get("first_round") for row in record.tables.get("verdict", ())), None)
        if all(len(points) > 1 for points in by_size.values()) and by_size:
            yield Curve(
                slug=f"pts-{record.trial}",
                title=f"{_setting(group).test}, {group.label}, {group.cell.link_label}: {_state(group)}",
                x_title="round",
                x="round",
                y_title="IOPS",
                y="iops",
                lines=tuple(Line(size, tuple(points)) for size, points in by_size.items()),
                moments=(Moment(float(first), "the window begins"),) if isinstance(first, int | float) else (),
            )


def _over_time(run: RunFolder, group: Group) -> Iterator[Curve]:
    """Yield bytes written each second, with preconditioning and rounds marked; for write saturation, over all bytes written before."""
    for record in group.measured[:1]:
        points = sums_over_time(run, [record.trial], _WRITTEN).get(record.trial, ())
        if len(points) < _FEWEST:
            continue
        capacity = next((row.get("capacity_bytes") for row in record.tables.get("verdict", ())), None)
        saturated = _setting(group).test == "write-saturation" and isinstance(capacity, int | float) and capacity > 0
        written = list(accumulate(value for _, value in points))
        yield Curve(
            slug=f"pts-written-{record.trial}",
            title=f"{_setting(group).test}, {group.label}, {group.cell.link_label}: bytes written, {_state(group)}",
            x_title="written before, times the capacity" if saturated else "time",
            x="capacities" if saturated else "time_s",
            y_title="writes",
            y=_WRITTEN,
            lines=(
                Line(
                    "writes",
                    tuple((of / float(capacity or 1), value) for of, (_, value) in zip(written, points, strict=True))
                    if saturated
                    else points,
                ),
            ),
            moments=() if saturated else _moments(record),
        )


def _moments(record: TrialRecord) -> tuple[Moment, ...]:
    """Return the beginnings of stages; preconditioning, the first round and the steady window are named."""
    first = next((row.get("first_round") for row in record.tables.get("verdict", ())), None)
    named = {"preconditioning": "preconditioning", "round 01": "rounds"} | (
        {f"round {first:02.0f}": "window"} if isinstance(first, float) else {}
    )
    zero = record.started.timestamp()
    return tuple(
        Moment(began - zero, named.get(str(row.get("stage")), ""))
        for row in record.tables.get("stages", ())
        if isinstance(began := row.get("began_s"), int | float)
    )


def _headline(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Headline | None:
    """Return the comparison of modes, or of drives if there is one mode, in the first test that all brought to steady state."""
    for test in dict.fromkeys(_setting(g).test for g in groups):
        same = [g for g in groups if _setting(g).test == test and _state(g) == "steady"]
        one_mode = len({g.label for g in same}) == 1
        named = [(g.cell.link_label if one_mode else g.label, value_of(g, g.cell.link_label, "steady/iops", book)) for g in same]
        if (
            len({name for name, _ in named}) == len(named)
            and (headline := compared(f"pts {test}, steady", named, "steady/iops", book)) is not None
        ):
            return headline
    del labels
    return None


def _setting(group: Group) -> PtsSetting:
    return group.cell.setting_as(PtsSetting)


def _state(group: Group) -> str:
    """Return the common state of all repeats; if they differ, `not reached`."""
    states = {str(row.get("state")) for r in group.measured for row in r.tables.get("verdict", ())}
    return states.pop() if len(states) == 1 else "not reached"
