"""Tables of the tests of `pts`: tracked windows, matrices of cells, saturation, pauses, loads, demands and operating points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dutlab.report.model.figures import computed_value, number_in, value_or_dash
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.table import Column, Missing, Table, Value
from dutlab.report.model.words import TIMES, Unit, unit_of
from dutlab.spec.workloads.pts_setting import DEMANDS, HISTOGRAM, NAMES, POINTS, STIMULI, PtsSetting, cell_name, demand_name
from dutlab.store.record import TrialRecord
from dutlab.subject import figure_name, part_figure

STATES = tuple(NAMES)
_MATRICES = {
    "throughput": ("bytes_per_s",),
    "latency": ("clat_mean_ns", "clat_p99999_ns", "clat_max_ns", "iops"),
}
"""Test → figures of its matrices; IOPS for all others."""
_WORDS = {"clat_mean_ns": "mean latency", "clat_p99999_ns": "latency, 99.999 %", "clat_max_ns": "longest latency"}
_TIMES = (
    ("mean", "clat_mean_ns"),
    ("p99", "clat_p99_ns"),
    ("99.9 %", "clat_p999_ns"),
    ("99.999 %", "clat_p99999_ns"),
    ("max", "clat_max_ns"),
)
_PARTS = {"range_ratio": "range", "slope_ratio": "slope"}
"""Ratio of a verdict → the part of the tracked figure that is divided by its mean."""
_Row = tuple[Group, tuple[str, ...], tuple[Value | str, ...]]
"""Cell, the texts after its drives, and its values."""


def setting_of(group: Group) -> PtsSetting:
    """Return the setting of a group's trials."""
    return group.cell.setting_as(PtsSetting)


def state_of(group: Group) -> str:
    """Return the common state of all repeats; if they differ, `not reached`; empty if no trial has a verdict."""
    states = {str(row.get("state")) for r in shown(group) for row in r.tables.get("verdict", ())}
    return "not reached" if len(states) > 1 else next(iter(states), "")


def shown(group: Group) -> list[TrialRecord]:
    """Return the records that count, or the disturbed ones where none does: tables show their figures in brackets."""
    return group.measured or group.disturbed


def tables(groups: Sequence[Group], book: NoteBook) -> tuple[Table, ...]:
    """Return all tables; those of one test and state are together."""
    return (_verdicts(groups, book), *_windows(groups, book), *_of_tests(groups, book))


def _of_tests(groups: Sequence[Group], book: NoteBook) -> Iterator[Table]:
    for test in dict.fromkeys(setting_of(g).test for g in groups):
        for state in STATES:
            if of := [g for g in groups if setting_of(g).test == test and state_of(g) == state]:
                yield from _of_test(test, state, of, book)
    if timed := [g for g in groups if any(name.startswith(f"{HISTOGRAM}/") for name in _names(g))]:
        columns = (Column("rate", f"{HISTOGRAM}/iops"), *(Column(words, f"{HISTOGRAM}/{name}") for words, name in _TIMES))
        rows: list[_Row] = [(g, (setting_of(g).test,), tuple(value_or_dash(g, c.figure, book) for c in columns)) for g in timed]
        title = "Response times of random writes of 4 KiB after the test"
        yield _table("pts-response-times", title, (Column("test"), *columns), rows, book)


def _of_test(test: str, state: str, groups: Sequence[Group], book: NoteBook) -> Iterator[Table]:
    if test in DEMANDS:
        yield from _demands(test, state, groups, book)
    elif test == "host-idle-recovery":
        yield _pauses(state, groups, book)
    elif test == "cross-stimulus-recovery":
        yield _loads(groups, book)
    elif test == "write-saturation":
        yield _saturation(state, groups, book)
    else:
        known = {figure_name(name).measure for g in groups for name in _names(g)}
        for figure in _MATRICES.get(test, ("iops",)):
            if figure in known:
                yield _matrix(test, state, figure, groups, book)


def _names(group: Group) -> set[str]:
    return {name for r in shown(group) for name in r.figures.get(group.cell.link_label, ())}


def _table(slug: str, title: str, columns: Sequence[Column], rows: Sequence[_Row], book: NoteBook) -> Table:
    """Return a table whose rows begin with the drives."""
    made = [g.row((g.cell.link_label, *texts, *values)) for g, texts, values in rows]
    return book.table(slug.replace(" ", "-"), title, (Column("drives"), *columns), made)


def _median(group: Group, figure: str, of: Callable[[TrialRecord], float | None], book: NoteBook) -> Value | str:
    """Return the median of what `of` reads from each record's tables, or a dash."""
    result = computed_value(group, group.cell.link_label, figure, of, book)
    return "–" if isinstance(result, Missing) and group.measured else result


def _of_verdict(record: TrialRecord, figure: str, tracked: str) -> float | None:
    """Return a number of a record's verdict, of which `tracked` is the figure that had to be steady."""
    row = next(iter(record.tables.get("verdict", ())), {})
    if (part := _PARTS.get(figure)) is None:
        return number_in(row, figure)
    value, mean = number_in(row, f"{part}_{tracked}"), number_in(row, f"mean_{tracked}")
    return value / mean if value is not None and mean else None


def _of_window(record: TrialRecord, figure: str, number: int) -> float | None:
    windows = record.tables.get("windows", ())
    return number_in(windows[number], figure) if number < len(windows) else None


def _verdicts(groups: Sequence[Group], book: NoteBook) -> Table:
    columns = (Column("rounds", "rounds"), Column("first of the window", "first_round"), Column("range", "range_ratio"),
               Column("slope over it", "slope_ratio"))  # fmt: skip
    rows = []
    for g in groups:
        first = next((row for r in shown(g) for row in r.tables.get("verdict", ())), {})
        setting = setting_of(g)
        cache = str(first.get("write_cache") or "unknown")
        texts = (setting.test, state_of(g) or "–", setting.purge, cache, f"{setting.active_range_percent} %", _demand(setting))
        tracked = setting.tracked_figure
        rows.append((g, texts, tuple(_median(g, c.figure, partial(_of_verdict, figure=c.figure, tracked=tracked), book) for c in columns)))
    heads = map(Column, ("test", "state", "purge", "write cache", "active range", "threads × depth"))
    return _table("pts-verdict", "Verdict of each test", (*heads, *columns), rows, book)


def _demand(setting: PtsSetting) -> str:
    return "–" if setting.test in DEMANDS else f"{setting.jobs} × {setting.depth}"


def _windows(groups: Sequence[Group], book: NoteBook) -> Iterator[Table]:
    """Yield the determination of steady state: a row for each tracked variable, a table for each figure."""
    for figure in dict.fromkeys(setting_of(g).tracked_figure for g in groups):
        columns = (
            Column("first", "first_round"), Column("last", "last_round"), Column("mean", f"mean_{figure}", unit_of(figure)),
            Column("range", "range_ratio"), Column("slope over it", "slope_ratio"), Column("correlation", "correlation", Unit("", 1.0, 3)),
        )  # fmt: skip
        rows = []
        for g in groups:
            windows = next((r.tables["windows"] for r in shown(g) if r.tables.get("windows")), ())
            for number, window in enumerate(windows if setting_of(g).tracked_figure == figure else ()):
                texts = (setting_of(g).test, str(window.get("phase")), str(window.get("variable")))
                values = (_median(g, c.figure, partial(_of_window, figure=c.figure, number=number), book) for c in columns)
                rows.append((g, texts, tuple(values)))
        if rows:
            title = "Determination of steady state: range at most 20 %, slope at most 10 % of the mean"
            heads = map(Column, ("test", "phase", "tracked"))
            yield _table(f"pts-windows-{figure}", title, (*heads, *columns), rows, book)


def _matrix(test: str, state: str, figure: str, groups: Sequence[Group], book: NoteBook) -> Table:
    """Return a table with a row per set of drives and block size, and a column per mix."""
    mixes = list(dict.fromkeys(mix for g in groups for mix in setting_of(g).reads_percent))
    unit = unit_of(figure)
    columns = tuple(Column(f"{mix} % reads", part_figure(f"r{mix}", figure), unit) for mix in mixes)
    rows = [
        (g, (size,), tuple(value_or_dash(g, part_figure(cell_name(mix, size), figure), book) for mix in mixes))
        for g in groups
        for size in setting_of(g).block_sizes
    ]
    words = f", {_WORDS[figure]}" if figure in _WORDS else ""
    end = f"-{figure}" if test == "latency" else ""
    return _table(f"pts-{test}-{state}{end}", f"{test}: {state}{words}", (Column("block"), *columns), rows, book)


def _saturation(state: str, groups: Sequence[Group], book: NoteBook) -> Table:
    level = part_figure(NAMES[state], "iops")
    columns = (Column("first minute", "first/iops"), Column(state, level), Column("written", "written_bytes"))
    rows = [(g, (), tuple(value_or_dash(g, column.figure, book) for column in columns)) for g in groups]
    return _table(f"pts-saturation-{state}", f"Random writes of 4 KiB from a fresh drive: {state}", columns, rows, book)


def _pauses(state: str, groups: Sequence[Group], book: NoteBook) -> Table:
    measures = (("in bursts", "iops"), ("÷ without pause", "after_idle_ratio"), *_TIMES)
    columns = (
        *(Column(words, f"pause/{name}", TIMES if name == "after_idle_ratio" else unit_of(name)) for words, name in measures),
        Column("without pause, after it", "base/iops"),
    )
    rows = [
        (g, (f"{wait:g} s",), (
            *(value_or_dash(g, part_figure(f"pause{wait:g}s", name), book) for _, name in measures),
            value_or_dash(g, part_figure(f"base{wait:g}s", "iops"), book),
        ))
        for g in groups
        for wait in setting_of(g).waits_s
    ]  # fmt: skip
    bursts = ", ".join(dict.fromkeys(f"{setting_of(g).loops} bursts of {setting_of(g).burst_s:g} s" for g in groups))
    return _table(f"pts-idle-{state}", f"Host idle recovery: {bursts} with each pause, {state}", (Column("pause"), *columns), rows, book)


def _loads(groups: Sequence[Group], book: NoteBook) -> Table:
    measures = (("mean rate", "bytes_per_s"), ("mean latency", "clat_mean_ns"), ("longest latency", "clat_max_ns"))
    columns = (*(Column(words, f"load/{name}", unit_of(name)) for words, name in measures),
               Column("rate at its end", "load_end/bytes_per_s"), Column("recovered after", "recovery_s"))  # fmt: skip
    rows = []
    for g in groups:
        for number, (way, size) in enumerate(STIMULI, 1):
            load = f"{number}: {'random' if way == 'randwrite' else 'sequential'} writes of {size}"
            values = [value_or_dash(g, part_figure(f"load{number}", name), book) for _, name in measures]
            end = value_or_dash(g, part_figure(f"load{number}_end", "bytes_per_s"), book)
            recovery = value_or_dash(g, "recovery_s", book) if number == len(STIMULI) else ""
            rows.append((g, (load, f"{setting_of(g).stimuli_s[number - 1]:g} s"), (*values, end, recovery)))
    return _table(
        "pts-loads", "Cross stimulus recovery: three loads without a pause", (Column("load"), Column("lasts"), *columns), rows, book
    )


def _demands(test: str, state: str, groups: Sequence[Group], book: NoteBook) -> Iterator[Table]:
    """Yield IOPS and mean latency of each number of threads and depth, and the operating points."""
    depths = sorted({depth for g in groups for depth in setting_of(g).depths})
    for figure, words in (("iops", "IOPS"), ("clat_mean_ns", "mean latency")):
        columns = tuple(Column(f"depth {depth}", f"q{depth}/{figure}", unit_of(figure)) for depth in depths)
        rows = [
            (g, (str(threads),), tuple(value_or_dash(g, part_figure(demand_name(threads, depth), figure), book) for depth in depths))
            for g in groups
            for threads in sorted(setting_of(g).threads)
        ]
        yield _table(f"pts-{test}-{state}-{figure}", f"{test}: {state}, {words}", (Column("threads"), *columns), rows, book)
    columns = (Column("rate", "point/iops"), *(Column(words, f"point/{name}", unit_of(name)) for words, name in _TIMES))
    points = []
    for g in groups:
        of = {row.get("point"): row for r in shown(g)[:1] for row in r.tables.get("points", ())}
        for name in POINTS:
            row = of.get(name, {})
            demand = f"{row.get('threads') or 0:g} × {row.get('depth') or 0:g}" if row else "–"
            values = (value_or_dash(g, part_figure(name, measure), book) for measure in ("iops", *(figure for _, figure in _TIMES)))
            points.append((g, (name, demand), tuple(values)))
    title = f"{test}: {state}, response times at three operating points"
    yield _table(f"pts-{test}-{state}-points", title, (Column("point"), Column("threads × depth"), *columns), points, book)
