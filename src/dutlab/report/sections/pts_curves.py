"""Curves of the tests of `pts`: convergence, the measurement window, rates over time, demand, and distributions of response times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from dutlab.report.model.curve import Curve, Line, Moment
from dutlab.report.model.figures import number_in
from dutlab.report.model.groups import Group
from dutlab.report.model.words import plural
from dutlab.report.sections.fio import SHARE_TICKS, exceedance
from dutlab.report.sections.pts_tables import setting_of, state_of
from dutlab.report.sections.watched import sums_over_time
from dutlab.spec.drives import is_size, parse_size
from dutlab.spec.workloads.pts_setting import BEFORE, DEMANDS, ROUNDS, cell_name, demand_name
from dutlab.stats.steady import RANGE_SHARE
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.subject import Way, part_figure, way_figure

_WRITTEN = way_figure(Way.WRITE, "bytes_per_s")
_FEWEST = 3
"""Least number of seconds for a curve."""
_Row = Mapping[str, object]
_Points = dict[str, list[tuple[float, float]]]
"""Name of a line → round and value."""
_AXES = {"iops": "rate", "bytes_per_s": "writes", "clat_mean_ns": "mean latency"}


def curves(run: RunFolder, group: Group) -> Iterator[Curve]:
    """Yield the curves of a group's first trial."""
    for record in group.measured[:1]:
        yield from _convergence(group, record)
        yield from _windows(group, record)
        yield from _over_sizes(group, record)
        yield from _demand(group, record)
        yield from _distributions(group, record)
        yield from _over_time(run, group, record)


def _about(group: Group) -> str:
    return f"{setting_of(group).test}, {group.label}, {group.cell.link_label}"


def _over_rounds(rows: Iterable[_Row], figure: str, name: Callable[[_Row], str]) -> _Points:
    """Return the values of a figure over rounds, by the name of each row."""
    points: _Points = defaultdict(list)
    for row in rows:
        if (x := number_in(row, "round")) is not None and (y := number_in(row, figure)) is not None:
            points[name(row)].append((x, y))
    return points


def _convergence(group: Group, record: TrialRecord) -> Iterator[Curve]:
    """Yield the tracked figure over rounds: a line per block size of the cells with the fewest reads, or the greatest demand."""
    figure, rows = setting_of(group).tracked_figure, record.tables.get(ROUNDS, ())
    least = min((number_in(row, "reads_percent") or 0.0 for row in rows), default=0.0)
    lines = _over_rounds((row for row in rows if number_in(row, "reads_percent") == least), figure, lambda row: str(row.get("bs")))
    lines |= _over_rounds(record.tables.get(BEFORE, ()), "iops", lambda _: BEFORE)
    if setting_of(group).test in DEMANDS:
        most = setting_of(group).demands[0]
        greatest = (row for row in record.tables.get("demands", ()) if _demand_name(row) == demand_name(*most))
        lines |= _over_rounds(greatest, "iops", lambda _: "{} × {}".format(*most))
    first = next((row.get("first_round") for row in record.tables.get("verdict", ())), None)
    if lines and all(len(points) > 1 for points in lines.values()):
        yield Curve(
            slug=f"pts-{record.trial}",
            title=f"{_about(group)}: {state_of(group)}",
            x_title="round",
            x="round",
            y_title=_AXES[figure],
            y=figure,
            lines=tuple(Line(size, tuple(points)) for size, points in lines.items()),
            moments=(Moment(float(first), "the window begins"),) if isinstance(first, int | float) else (),
        )


def _windows(group: Group, record: TrialRecord) -> Iterator[Curve]:
    """Yield the measurement window of each tracked variable: its values, their mean, 90 and 110 % of it, and the fitted line."""
    figure = setting_of(group).tracked_figure
    for row in record.tables.get("windows", ()):
        first, last, mean = (number_in(row, name) for name in ("first_round", "last_round", f"mean_{figure}"))
        slope, intercept = number_in(row, "slope_per_round"), number_in(row, "intercept")
        if first is None or last is None or mean is None or slope is None or intercept is None:
            continue
        phase, variable = str(row.get("phase")), str(row.get("variable"))
        points = [(x, y) for x, y in _tracked(group, record, phase, variable).get(variable, ()) if first <= x <= last]
        shares = (("110 % of the mean", 1 + RANGE_SHARE / 2), ("mean", 1.0), ("90 % of the mean", 1 - RANGE_SHARE / 2))
        if len(points) > 1:
            yield Curve(
                slug=f"pts-window-{record.trial}-{phase}-{variable}",
                title=f"{_about(group)}: measurement window of {variable}, {phase}",
                x_title="round",
                x="round",
                y_title=_AXES[figure],
                y=figure,
                lines=(
                    Line("measured", tuple(points)),
                    Line("fitted line", tuple((x, slope * x + intercept) for x in (first, last))),
                    *(Line(words, ((first, mean * share), (last, mean * share)), role="asked") for words, share in shares),
                ),
            )


def _tracked(group: Group, record: TrialRecord, phase: str, variable: str) -> _Points:
    """Return the points of each tracked variable of a phase; preconditioning has one."""
    if phase == BEFORE:
        return _over_rounds(record.tables.get(BEFORE, ()), "iops", lambda _: variable)
    if setting_of(group).test in DEMANDS:
        return _over_rounds(record.tables.get("demands", ()), "iops", _demand_name)
    return _over_rounds(record.tables.get(ROUNDS, ()), setting_of(group).tracked_figure, _cell_name)


def _cell_name(row: _Row) -> str:
    return cell_name(number_in(row, "reads_percent") or 0, str(row.get("bs")))


def _demand_name(row: _Row) -> str:
    return demand_name(number_in(row, "threads") or 0, number_in(row, "depth") or 0)


def _over_sizes(group: Group, record: TrialRecord) -> Iterator[Curve]:
    """Yield IOPS over block size with a line for each mix of reads and writes."""
    setting, figures = setting_of(group), record.figures.get(group.cell.link_label, {})
    if setting.test != "iops" or len(setting.block_sizes) < _FEWEST:
        return
    lines = []
    for mix in setting.reads_percent:
        points = [
            (float(parse_size(size)), value)
            for size in sorted(filter(is_size, setting.block_sizes), key=parse_size)
            if (value := figures.get(part_figure(cell_name(mix, size), "iops"))) is not None
        ]
        lines.append(Line(f"{mix} % reads", tuple(points)))
    ticks = tuple((float(parse_size(size)), size) for size in setting.block_sizes if is_size(size))
    yield Curve(
        slug=f"pts-sizes-{record.trial}",
        title=f"{_about(group)}: IOPS over block size, {state_of(group)}",
        x_title="block size",
        x="block_bytes",
        y_title="rate",
        y="iops",
        lines=tuple(line for line in lines if line.points),
        scale="log",
        x_scale="log",
        x_ticks=ticks,
    )


def _demand(group: Group, record: TrialRecord) -> Iterator[Curve]:
    """Yield IOPS over depth (demand variation) and mean latency over IOPS (demand intensity), with a line for each number of threads."""
    setting, figures = setting_of(group), record.figures.get(group.cell.link_label, {})
    if setting.test not in DEMANDS:
        return
    variation, intensity = [], []
    for threads in sorted(setting.threads):
        of = {depth: demand_name(threads, depth) for depth in sorted(setting.depths)}
        known = [
            (float(depth), iops, latency)
            for depth, name in of.items()
            if (iops := figures.get(part_figure(name, "iops"))) is not None
            and (latency := figures.get(part_figure(name, "clat_mean_ns"))) is not None
        ]
        variation.append(Line(plural(threads, "thread"), tuple((depth, iops) for depth, iops, _ in known)))
        intensity.append(Line(plural(threads, "thread"), tuple((iops, latency) for _, iops, latency in known)))
    yield Curve(
        slug=f"pts-variation-{record.trial}", title=f"{_about(group)}: demand variation, {state_of(group)}", x_title="depth", x="depth",
        y_title="rate", y="iops", lines=tuple(variation), x_scale="log",
        x_ticks=tuple((float(depth), str(depth)) for depth in sorted(setting.depths)),
    )  # fmt: skip
    yield Curve(
        slug=f"pts-intensity-{record.trial}", title=f"{_about(group)}: demand intensity, {state_of(group)}", x_title="rate", x="iops",
        y_title="mean latency", y="clat_mean_ns", lines=tuple(intensity), scale="log",
    )  # fmt: skip


def _distributions(group: Group, record: TrialRecord) -> Iterator[Curve]:
    """Yield the response time that a share of I/Os stays below, with a line for each operating point or for the writes after the test."""
    bins: dict[str, dict[int, int]] = defaultdict(dict)
    for row in record.tables.get("response_times", ()):
        if (value := number_in(row, "clat_ns")) is not None and (count := number_in(row, "ios")) is not None:
            bins[str(row.get("part"))][int(value)] = int(count)
    lines = [Line(name, points) for name, of in bins.items() if len(points := exceedance(of)) > 1]
    if lines:
        yield Curve(
            slug=f"pts-response-{record.trial}", title=f"{_about(group)}: response time that a share of I/Os stays below",
            x_title="share of I/Os", x="of_all", y_title="completion latency", y="clat_ns", lines=tuple(lines), scale="log", x_scale="log",
            x_ticks=SHARE_TICKS,
        )  # fmt: skip


def _over_time(run: RunFolder, group: Group, record: TrialRecord) -> Iterator[Curve]:
    """Yield bytes written each second, with stages marked; for write saturation, over all bytes written before."""
    points = sums_over_time(run, [record.trial], _WRITTEN).get(record.trial, ())
    if len(points) < _FEWEST:
        return
    capacity = next((row.get("capacity_bytes") for row in record.tables.get("verdict", ())), None)
    saturated = setting_of(group).test == "write-saturation" and isinstance(capacity, int | float) and capacity > 0
    written = list(accumulate(value for _, value in points))
    by_capacity = tuple((of / float(capacity or 1), value) for of, (_, value) in zip(written, points, strict=True))
    yield Curve(
        slug=f"pts-written-{record.trial}",
        title=f"{_about(group)}: bytes written, {state_of(group)}",
        x_title="written before, times the capacity" if saturated else "time",
        x="capacities" if saturated else "time_s",
        y_title="writes",
        y=_WRITTEN,
        lines=(Line("writes", by_capacity if saturated else points),),
        moments=() if saturated else _moments(record),
    )


def _moments(record: TrialRecord) -> tuple[Moment, ...]:
    """Return the beginnings of stages. Preconditioning, the first round and the steady window are named, and parts that are no rounds."""
    first = next((row.get("first_round") for row in record.tables.get("verdict", ())), None)
    named = {"preconditioning": "preconditioning", "round 01": "rounds", "pre 01": "preconditioning"} | (
        {f"round {first:02.0f}": "window"} if isinstance(first, float) else {}
    )
    zero = record.started.timestamp()
    return tuple(
        Moment(began - zero, named.get(stage := str(row.get("stage")), stage if stage.startswith(("pause", "load", "m")) else ""))
        for row in record.tables.get("stages", ())
        if isinstance(began := row.get("began_s"), int | float)
    )
