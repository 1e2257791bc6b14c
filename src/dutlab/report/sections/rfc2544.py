"""Benchmarks of RFC 2544 in the formats of its section 26: rows and curves over frame size, and separate deviations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import figure_of, rate_unit, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Figure, Row, Table, figure_text
from dutlab.report.model.words import Unit, plural
from dutlab.report.sections import latency_times
from dutlab.report.sections.rfc2544_variants import direction_of, file_words, networks, of_test, place_of, size_of, variant, variants
from dutlab.spec.workloads.rfc2544 import Rfc2544Setting
from dutlab.stats.summary import median
from dutlab.subject import part_figure

_K = TypeVar("_K")
_RATE = "throughput_pps"
"""Rate at which latency and recovery are measured."""


@dataclass(frozen=True)
class _Shown:
    """Table of a test: its name in the experiment file, its table in records, caption, and columns with their figures."""

    test: str
    table: str
    caption: str
    columns: tuple[tuple[str, str], ...]


_SHOWN = (
    _Shown(
        "throughput",
        "throughput",
        "Throughput (§26.1): the highest rate without loss",
        (
            ("throughput", "throughput_pps"),
            ("on the wire", "throughput_bps_l1"),
            ("of the highest rate", "throughput_share_ratio"),
            ("highest rate", "max_pps"),
        ),
    ),
    _Shown(
        "latency",
        "latency",
        "Latency (§26.2) at the throughput: mean of the repeats; minimum and maximum over all frames",
        (
            ("offered", "throughput_pps"),
            ("least", "latency_min_ns"),
            ("mean", "latency_mean_ns"),
            ("median", "latency_p50_ns"),
            ("99.9 %", "latency_p999_ns"),
            ("most", "latency_max_ns"),
        ),
    ),
    _Shown(
        "back-to-back",
        "back_to_back",
        "Back-to-back frames (§26.4), and the buffer that follows from them (RFC 9004 §6)",
        (
            ("mean, frames", "burst_mean_frames"),
            ("least", "burst_min_frames"),
            ("most", "burst_max_frames"),
            ("standard deviation", "burst_stddev_frames"),
            ("implied buffer", "buffer_implied_ns"),
            ("corrected buffer", "buffer_corrected_ns"),
        ),
    ),
    _Shown(
        "bursty",
        "bursty",
        "Bursty traffic (§21): the least time from the end of a burst to the start of the next without loss, by frames of a burst",
        tuple((f"{frames} frames", part_figure(str(frames), "between_bursts_ns")) for frames in (16, 64, 256, 1024)),
    ),
    _Shown(
        "recovery",
        "recovery",
        "System recovery (§26.5): from the end of an overload to the last lost frame",
        (("throughput", "throughput_pps"), ("recovery", "recovery_ns")),
    ),
    _Shown(
        "reset",
        "reset",
        "Reset (§26.6, RFC 6201): lost frames ÷ offered rate",
        (("process", "process/reset_ns"), ("software", "software/reset_ns"), ("power", "power/reset_ns")),
    ),
)


MOST_STATED = 4
"""Largest number of throughputs that have a sentence each, with both bounds."""


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a table per test with a row per mode, set of links and frame size; curves of throughput and frame loss."""
    scaled = _scale_words(groups)
    tables = [_table(shown, scaled, groups, book) for shown in _SHOWN if _asked(groups, shown.test)]
    tables += variants(groups, scaled, book)
    tables += networks(groups)
    if _asked(groups, "frame-loss"):
        tables.append(_losses(groups, "frame-loss", "Frame loss rate (§26.3), from the highest rate down" + scaled))
    if _asked(groups, "hop-by-hop"):
        hops = "Frames with a hop-by-hop options header (RFC 5180 §5.3), which each router processes"
        tables.append(_losses(groups, "hop-by-hop", hops + scaled))
    return Section(
        slug="rfc2544",
        workload="rfc2544",
        title="RFC 2544",
        lead="Rates and frames are of all links and directions of a row together. Frames that the DUT's port did not take count as lost.",
        tables=tuple(tables),
        curves=(*_throughput_curves(groups), *_latency_curves(groups), *_loss_curves(groups), *_burst_curves(groups)),
        words=(
            *(words for g in (groups if len(groups) <= MOST_STATED else ()) for words in _single_value(g, book)),
            *dict.fromkeys(f"{_about(g)}: {note}" for g in groups for r in g.measured for note in r.notes),
            *_arrivals(groups),
            *latency_times.words(groups),
        ),
        deviations=_deviations(groups),
    )


def _about(group: Group) -> str:
    return f"{group.label}, {size_of(group)} bytes, {place_of(group)}"


def _single_value(group: Group, book: NoteBook) -> Iterator[str]:
    """Yield the throughput as section 26.1 states a single value: with its frame size and the highest rate."""
    value = value_of(group, group.cell.link_label, "throughput_pps", book)
    most = value_of(group, group.cell.link_label, "max_pps", book)
    if isinstance(value, Figure) and isinstance(most, Figure) and most.median:
        unit = rate_unit([group], "throughput_pps")
        share = f"{value.median / most.median:.1%} of the highest rate, {figure_text(most, unit)}"
        yield f"{_about(group)}: throughput {figure_text(value, unit)}{_bounds(group, unit)}, {share}."


def _bounds(group: Group, unit: Unit) -> str:
    """Return the two rates that the throughput lies between, of all links and directions, over all repeats; empty if one was not found."""
    bounds = []
    for record in group.measured:
        total = record.figures.get(group.cell.link_label, {}).get("throughput_pps")
        for row in record.tables.get("throughput", ()):  # of each direction
            low, high = row.get("lower_pps"), row.get("upper_pps")
            if total and isinstance(low, int | float) and isinstance(high, int | float) and low:
                bounds.append((total, total / low * high))
    if not bounds:
        return ""
    low, high = min(lower for lower, _ in bounds), max(upper for _, upper in bounds)
    return f" (no loss at {unit.text(low)}, loss at {unit.text(high)})"


def _arrivals(groups: Sequence[Group]) -> Iterator[str]:
    """Yield a sentence on reordered, duplicated and corrupted frames over all trials, which section 10 asks for."""
    counts = Counter[str]()
    for row in (row for g in groups for r in g.measured for row in r.tables.get("arrivals", ())):
        counts.update({name: int(value) for name, value in row.items() if isinstance(value, int | float)})
    if counts["trials"]:
        reordered, duplicated, corrupted = (counts[f"{name}_frames"] for name in ("reordered_at_least", "duplicated", "corrupted"))
        unknown = counts["trials_order_unknown"]
        order = f"{reordered} arrived out of order"
        if unknown:
            order = f"at least {reordered} arrived out of order (of {unknown} loads the order is not known)"
        yield (
            f"Frames of all {counts['trials']} loads (§10): {order}, {duplicated} twice, {corrupted} altered; "
            "every one that did not arrive is a gap in the numbering, and counted as lost."
        )


def _asked(groups: Sequence[Group], test: str) -> bool:
    return any(of_test(g, test) for g in groups)


def _scale_words(groups: Sequence[Group]) -> str:
    """Return the note for tables of a suite with scaled durations; empty without scaling."""
    scales = sorted({g.cell.setting_as(Rfc2544Setting).scale for g in groups} - {1.0})
    return f" — durations × {', '.join(f'{scale:g}' for scale in scales)}" if scales else ""


def _table(shown: _Shown, scaled: str, groups: Sequence[Group], book: NoteBook) -> Table:
    asked = [g for g in groups if of_test(g, shown.test)]
    cut = any(row["kind"] == "power" for g in asked for r in g.measured for row in r.tables.get("reset", ()))
    shows = [one for one in shown.columns if cut or one[1] != "power/reset_ns"]
    if not any(figure in of for g in asked for r in g.measured for of in r.figures.values() for _, figure in shows if figure != _RATE):
        shows = [one for one in shows if one[1] != _RATE]  # nothing was measured at that rate
    columns = (Column("links"), Column("frame size"), *(Column(*one) for one in shows), Column("trial"))
    rows = []
    for g in asked:
        link = g.cell.link_label
        values = tuple(value_of(g, link, figure, book) for _, figure in shows)
        rows.append(Row(g.label, (place_of(g), size_of(g), *values, _how(g, shown.table)), links=link, link=link, size=size_of(g)))
    return book.table(f"rfc2544-{shown.test}", shown.caption + scaled, columns, rows)


def _how(group: Group, table: str) -> str:
    """Return the duration or the number of repeats, as the test's table has it."""
    rows = [row for r in group.measured for row in r.tables.get(table, ())]
    if not rows:
        return ""
    first = rows[0]
    if "trial_s" in first:
        return f"{float(first['trial_s'] or 0):g} s"
    if "resolution_ns" in first:
        apart = max((float(row["resolution_ns"] or 0) for row in rows), default=0.0) / 1e9
        return f"{plural(len(rows), 'repeat')}, {float(first['overload_s'] or 0):g} s of overload, read every {apart:.1f} s"
    if "kind" in first:
        return f"{plural(len(rows), 'reset')}"
    return plural(len(rows), "repeat") if "repeat" in first else ""


def _losses(groups: Sequence[Group], test: str, caption: str) -> Table:
    """Return a table with a row per rate; a rate that only some repeats reached has only their values."""
    rows = []
    for g in groups:
        for share, results in _by_share(g, test.replace("-", "_")).items():
            planned = len(g.planned)
            rate, lost = (
                figure_of({t: m for t, (m, _) in results.items()}, planned),
                figure_of({t: r for t, (_, r) in results.items()}, planned),
            )
            offered = figure_of(dict.fromkeys(results, share), planned)
            link = g.cell.link_label
            rows.append(Row(g.label, (place_of(g), size_of(g), offered, rate, lost), links=link, link=link, size=size_of(g)))
    columns = (
        Column("links"),
        Column("frame size"),
        Column("of the highest rate", "offered_share_ratio"),
        Column("offered in each direction", "made_pps"),
        Column("lost", "loss_ratio"),
    )
    return Table(f"rfc2544-{test}", caption, columns, tuple(rows))


def _by_share(group: Group, table: str) -> dict[float, dict[int, tuple[float, float]]]:
    """Return share of the highest rate → trial → (rate made, loss ratio), from the highest share down."""
    out: dict[float, dict[int, tuple[float, float]]] = {}
    for record in group.measured:
        for row in record.tables.get(table, ()):
            share, rate, lost = row["offered_share_ratio"], row["made_pps"], row["loss_ratio"]
            if isinstance(share, int | float) and isinstance(rate, int | float) and isinstance(lost, int | float):
                out.setdefault(float(share), {})[record.trial] = (rate, lost)
    return dict(sorted(out.items(), reverse=True))


def _throughput_curves(groups: Sequence[Group]) -> list[Curve]:
    """Return throughput over frame size with the theoretical limit in one graph, as section 26.1 asks; one per set of links."""
    if not _asked(groups, "throughput"):
        return []
    curves = []
    for direction, cells in _by(groups, direction_of).items():
        lines = [Line(label, _over_size(of_label, "throughput_pps")) for label, of_label in _by(cells, _line).items()]
        lines.append(Line("highest rate", _over_size(cells, "max_pps"), "asked"))
        note = "" if any(g.records and g.records[0].ceilings for g in cells) else "The medium has no rate: see the deviations."
        slug = "-".join(["rfc2544-throughput", *file_words(cells[0])])
        drawn = [line for line in lines if line.points]
        curves.append(_size_curve(slug, f"Throughput, {direction}", "throughput", "throughput_pps", drawn, note=note))
    return [curve for curve in curves if curve.lines]


def _latency_curves(groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield mean latency over frame size, with the least and the most of all frames; a plot per mode and set of links."""
    for (label, place), cells in _by([g for g in groups if of_test(g, "latency")], lambda g: (g.label, place_of(g))).items():
        ends = (("least", "latency_min_ns"), ("most", "latency_max_ns"))
        lines = [Line("mean", _over_size(cells, "latency_mean_ns")), *(Line(words, _over_size(cells, of), "asked") for words, of in ends)]
        lines = [line for line in lines if len(line.points) > 1]
        if lines:
            slug = "-".join(["rfc2544-latency", label, *file_words(cells[0])])
            yield _size_curve(slug, f"Latency at the throughput, {label}, {place}", "latency", "latency_mean_ns", lines, scale="log")


def _burst_curves(groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield the mean longest burst over frame size, one line per mode; a plot per set of links."""
    for direction, cells in _by([g for g in groups if of_test(g, "back-to-back")], direction_of).items():
        of_label = _by(cells, _line).items()
        lines = [Line(label, points) for label, same in of_label if len(points := _over_size(same, "burst_mean_frames")) > 1]
        if lines:
            slug = "-".join(["rfc2544-back-to-back", *file_words(cells[0])])
            yield _size_curve(slug, f"Back-to-back frames, {direction}", "mean burst without loss, frames", "burst_mean_frames", lines)


def _size_curve(
    slug: str, title: str, axis: str, figure: str, lines: Sequence[Line], *, note: str = "", scale: Literal["linear", "log"] = "linear"
) -> Curve:
    """Return a curve over frame size with a tick at each measured size."""
    ticks = tuple(dict.fromkeys((size, f"{size:.0f}") for line in lines for size, _ in line.points))
    return Curve(
        slug, title, "frame size, bytes", "frame_size", axis, figure, tuple(lines),
        note=note, scale=scale, x_scale="log", x_ticks=tuple(sorted(ticks)),
    )  # fmt: skip


def _line(group: Group) -> str:
    return ", ".join(filter(None, (group.label, variant(group))))


def _over_size(groups: Sequence[Group], figure: str) -> tuple[tuple[float, float], ...]:
    points = {}
    for g in groups:
        values = [v for r in g.measured if (v := r.figures.get(g.cell.link_label, {}).get(figure)) is not None]
        if values and size_of(g).isdigit():
            points[float(size_of(g))] = sorted(values)[len(values) // 2]
    return tuple(sorted(points.items()))


def _loss_curves(groups: Sequence[Group]) -> list[Curve]:
    """Return frame loss over offered rate, both in percent: a plot per mode and set of links, a line per frame size (section 26.3)."""
    curves = []
    for (label, place), cells in _by(groups, lambda g: (g.label, place_of(g))).items():
        lines = tuple(Line(f"{size_of(g)} bytes", points) for g in cells if (points := _loss_points(g)))
        if lines:
            slug = "-".join(["rfc2544-loss", label, *file_words(cells[0])])
            title = f"Frame loss rate, {label}, {place}"
            whole = (0.0, 1.0)  # RFC 2544 section 26.3: both axes from 0 to 100 %
            curves.append(
                Curve(slug, title, "of the highest rate", "offered_share_ratio", "lost", "loss_ratio", lines, x_span=whole, y_span=whole)
            )
    return curves


def _loss_points(group: Group) -> tuple[tuple[float, float], ...]:
    by_share = _by_share(group, "frame_loss")
    return tuple((share, median([lost for _, lost in results.values()])) for share, results in sorted(by_share.items()))


def _by(groups: Sequence[Group], key: Callable[[Group], _K]) -> dict[_K, list[Group]]:
    out: dict[_K, list[Group]] = {}
    for g in groups:
        out.setdefault(key(g), []).append(g)
    return out


def _deviations(groups: Sequence[Group]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(row["text"]) for g in groups for r in g.measured for row in r.tables.get("deviations", ())))
