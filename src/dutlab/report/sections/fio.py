"""Jobs of fio: all figures, the distribution of latencies from bins, IOPS and latency over depth, and bytes a second over time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import number_in, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import alike_names, latency_text, setting_words
from dutlab.report.sections import tool_figures
from dutlab.report.sections.watched import sums_over_time
from dutlab.spec.workloads.on_drives import options_of
from dutlab.stats.summary import median
from dutlab.store.run_folder import RunFolder
from dutlab.subject import Way, way_figure

SHARES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
"""Percentiles of latency that are printed, in percent of all I/Os."""
LEAST_BEYOND = 10
"""Least number of I/Os above a percentile for it to be printed."""
_DEPTH = "iodepth"
SHARE_TICKS = tuple((1 / (1 - share / 100), f"{share:g} %") for share in (50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999))
_JOBS = "numjobs"
_AXES = {_DEPTH: "depth", _JOBS: "jobs"}
"""Numeric options that figures are drawn over → name of the axis."""
_OVER = (("iops", "iops", "IOPS", "rate", "all_iops"), ("clat", "clat_mean_ns", "mean latency", "mean latency", "clat_mean_ns"))
"""Slug, measure, words, axis title, and name of the axis's figure."""
_DRAWN = {Way.READ: "read", Way.WRITE: "written"}
MOST_OPEN = 24
"""Most rows of a table of all cells that is not folded below a table over depth and jobs."""
MOST_LINES = 8
"""Largest number of lines in a plot; more are hard to distinguish."""


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: the tool's figures, percentiles and plots."""
    base = tool_figures.section(read, groups, labels, book)
    grids = tuple(_grids(groups, book))
    rows = tuple(replace(table, folded=bool(grids) and len(table.rows) > MOST_OPEN) for table in base.tables)
    over = [curve for option in _AXES for curve in _over(option, groups)]
    curves = (*over, *_distributions(groups), *_over_time(read.run, groups))
    return replace(base, tables=(*grids, *rows, *_percentiles(groups)), curves=curves)


def bins_of(group: Group) -> dict[str, Counter[int]]:
    """Return direction → midpoint of a bin in ns → I/Os, added over all repeats."""
    bins: dict[str, Counter[int]] = defaultdict(Counter)
    for row in (row for r in group.measured for row in r.tables.get("latency_bins", ())):
        if (value := number_in(row, "clat_ns")) is not None and (count := number_in(row, "ios")) is not None:
            bins[str(row.get("direction"))][round(value)] += round(count)
    return bins


def percentile_of(bins: Mapping[int, int], percent: float) -> int | None:
    """Return the bin of a percentile, in ns; None if fewer than ten I/Os are above it."""
    count = sum(bins.values())
    if round(count * (1 - percent / 100), 6) < LEAST_BEYOND:
        return None
    reached = 0
    for value in sorted(bins):
        reached += bins[value]
        if reached >= count * percent / 100:
            return value
    return None


def _percentiles(groups: Sequence[Group]) -> tuple[Table, ...]:
    names = _set_names(groups)
    rows = [
        group.row(
            (
                names[group.cell.link_label],
                _asked(group, groups),
                way,
                *(_told(percentile_of(bins, share)) for share in SHARES),
                f"{bins.total():,}",
            ),
            link=group.cell.link_label,
        )
        for group in groups
        for way, bins in bins_of(group).items()
    ]
    columns = (Column("drives"), Column("asked"), Column("of"), *(Column(f"{share:g} %") for share in SHARES), Column("I/Os"))
    title = "Completion latency: percentiles of all repeats, from bins that were added"
    return (Table("fio-percentiles", title, columns, tuple(rows)),) if rows else ()


def _told(value: int | None) -> str:
    return "–" if value is None else latency_text(value)


def _distributions(groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield the latency that a share of I/Os stays below, up to the last bin with ten above it; both axes are logarithmic."""
    distributions = [(g, way, bins) for g in groups for way, bins in bins_of(g).items()]
    for (links, way), same in groupby(
        sorted(distributions, key=lambda of: (of[0].cell.link_label, of[1])), key=lambda of: (of[0].cell.link_label, of[1])
    ):
        of = list(same)
        lines = [Line(_line(g, [other for other, *_ in of]), exceedance(bins)) for g, _, bins in of]
        if lines := [line for line in lines if len(line.points) > 1][:MOST_LINES]:
            yield Curve(
                slug=f"fio-latency-{way}-{links}",
                title=f"Latency that a share of the {way}s stays below, {drives_words(of[0][0])}",
                x_title="share of I/Os",
                x="of_all",
                y_title="completion latency",
                y="clat_ns",
                lines=tuple(lines),
                scale="log",
                x_scale="log",
                x_ticks=SHARE_TICKS,
            )


def exceedance(bins: Mapping[int, int]) -> tuple[tuple[float, float], ...]:
    """Return points (N, ns), one for each bin with at least ten I/Os above it: one I/O in N takes longer than ns."""
    count, reached, points = sum(bins.values()), 0, []
    for value in sorted(bins):
        reached += bins[value]
        if count - reached < LEAST_BEYOND:
            break
        points.append((count / (count - reached), float(value)))
    return tuple(p for p in points if p[0] >= 2)  # noqa: PLR2004 - the median: below it such an axis shows nothing


def _number(group: Group, option: str) -> float | None:
    text = options_of(group.cell.setting).get(option, "")
    return float(text) if text.isdecimal() else None


def _over(option: str, groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield curves over a numeric option of fio, with a line per mode and other settings. Too many lines make a plot for each of these."""
    usable = [g for g in groups if g.measured and _number(g, option) is not None]
    for links in dict.fromkeys(g.cell.link_label for g in usable):
        same = [g for g in usable if g.cell.link_label == links]
        panels = dict[str, list[Group]]()
        for g in same:
            panels.setdefault(_line(g, same, without=_AXES), []).append(g)
        whole = len(_lines_over(option, same, links, _OVER[0][1])) <= MOST_LINES
        for n, (panel, of_panel) in enumerate([("", same)] if whole else panels.items()):
            for slug, measure, words, title, axis in _OVER:
                lines = _lines_over(option, of_panel, links, measure)
                if not lines:
                    continue
                left_out = len(lines) - MOST_LINES
                yield Curve(
                    slug=f"fio-{_AXES[option]}-{slug}-{links}{f'-{n}' if n else ''}",
                    title=f"{words[0].upper()}{words[1:]} over {_AXES[option]}: {', '.join(filter(None, (drives_words(same[0]), panel)))}",
                    x_title=_AXES[option],
                    x=_AXES[option],
                    y_title=title,
                    y=axis,
                    lines=tuple(Line(label, tuple(points)) for label, points in list(lines.items())[:MOST_LINES]),
                    scale="log",
                    x_scale="log",
                    x_ticks=tuple((x, f"{x:g}") for x in sorted({x for points in lines.values() for x, _ in points})),
                    note=f"The table has {left_out} more lines." if left_out > 0 else "",
                )


def _lines_over(option: str, groups: Sequence[Group], links: str, measure: str) -> dict[str, list[tuple[float, float]]]:
    """Return label → points over an option, those with two or more points."""
    lines = dict[str, list[tuple[float, float]]]()
    for group in groups:
        for way in _DRAWN:
            values = [v for r in group.measured if (v := r.figures.get(links, {}).get(way_figure(way, measure))) is not None]
            if values:
                label = _line(group, groups, without=(option,)) + (f", {way.value}s" if len(_ways(group)) > 1 else "")
                lines.setdefault(label, []).append((_number(group, option) or 0.0, median(values)))
    return {label: sorted(points) for label, points in lines.items() if len(points) > 1}


def _grids(groups: Sequence[Group], book: NoteBook) -> Iterator[Table]:
    """Yield a shaded table of IOPS for each mode and other settings: a row per number of jobs, a column per depth."""
    usable = [g for g in groups if g.measured and all(_number(g, option) is not None for option in _AXES)]
    panels = dict[tuple[str, str], list[Group]]()
    for g in usable:
        panels.setdefault((g.cell.link_label, _line(g, usable, without=_AXES)), []).append(g)
    for n, ((links, panel), same) in enumerate(panels.items(), 1):
        cells = {(_number(g, _JOBS) or 0.0, _number(g, _DEPTH) or 0.0): g for g in same}
        all_jobs, depths = (sorted({key[at] for key in cells}) for at in (0, 1))
        if len(all_jobs) < 2 or len(depths) < 2:  # noqa: PLR2004 -- one of either is a line, not a grid
            continue
        for way in sorted(set.union(*map(_ways, same)), key=list(_DRAWN).index):
            figure = way_figure(way, "iops")
            columns = (Column("jobs"), *(Column(f"depth {depth:g}", figure, spread=False) for depth in depths))
            rows = tuple(
                Row("", (f"{jobs:g}", *(value_of(cells.get((jobs, d)), links, figure, book) for d in depths))) for jobs in all_jobs
            )
            about = ", ".join(filter(None, (drives_words(same[0]), panel or f"{way.value}s")))
            title = f"Rate over depth and jobs: {about}"
            table = book.table(f"fio-grid-{n}-{way.value}", title, columns, rows)
            yield replace(table, first="", shaded=True, again=True)


def _over_time(run: RunFolder, groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield curves of bytes a second over time, from the first repeat of each cell."""
    first = {g.measured[0].trial: g for g in groups if g.measured}
    for way, moved in _DRAWN.items():
        name = way_figure(way, "bytes_per_s")
        points_by_trial = {t: points for t, points in sums_over_time(run, list(first), name).items() if len(points) > 1}
        for links in dict.fromkeys(first[trial].cell.link_label for trial in points_by_trial):
            same = [trial for trial in points_by_trial if first[trial].cell.link_label == links]
            yield Curve(
                slug=f"fio-{way.value}-over-time-{links}",
                title=f"Bytes {moved} over time, {drives_words(first[same[0]])}",
                x_title="time",
                x="time_s",
                y_title=f"{way.value}s",
                y=name,
                lines=tuple(Line(_line(first[trial], [first[t] for t in same]), points_by_trial[trial]) for trial in same[:MOST_LINES]),
            )


def _ways(group: Group) -> set[Way]:
    """Return the directions with a rate."""
    return {way for r in group.measured for of in r.figures.values() for way in _DRAWN if way_figure(way, "iops") in of}


def drives_words(group: Group) -> str:
    """Return the drives in words: `d1`, `4 drives`."""
    return group.cell.link_label if len(group.cell.links) == 1 else f"{len(group.cell.links)} drives"


def _set_names(groups: Sequence[Group]) -> dict[str, str]:
    """Return a short name of each set of drives, by its label: the number of drives, where no two sets have the same number."""
    names = {g.cell.link_label: drives_words(g) for g in groups}
    return names if len(set(names.values())) == len(names) else {label: label for label in names}


def _line(group: Group, groups: Sequence[Group], *, without: Collection[str] = ()) -> str:
    """Return the mode, if there are several, and those settings of this group that differ between groups."""
    mode = group.label if len({g.label for g in groups}) > 1 else ""
    return ", ".join(word for word in (mode, _asked(group, groups, without=without)) if word) or group.label


def _asked(group: Group, groups: Sequence[Group], *, without: Collection[str] = ()) -> str:
    return setting_words(group.cell.setting, without={*alike_names(g.cell.setting for g in groups), *without})
