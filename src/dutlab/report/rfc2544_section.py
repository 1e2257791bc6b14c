"""The benchmarks of RFC 2544 in the formats that its section 26 prescribes: rows and curves over frame size, deviations by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dutlab.report.figures import value_of
from dutlab.report.groups import Group
from dutlab.report.model import Curve, Figure, Grid, GridColumn, GridRow, Line, Section
from dutlab.report.notes import NoteBook
from dutlab.report.words import plural
from dutlab.store.run_folder import RunFolder

_K = TypeVar("_K")


@dataclass(frozen=True)
class _Shown:
    """A test's grid: its name in the experiment file, its table in records, what it says, and its columns with their figures."""

    test: str
    table: str
    caption: str
    columns: tuple[tuple[str, str], ...]


_SHOWN = (
    _Shown(
        "throughput",
        "throughput",
        "Throughput (§26.1): the fastest rate at which not one frame is lost",
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
        "Latency (§26.2) at the throughput: the mean of the repeats; the least and the most of any frame",
        (
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
        "recovery",
        "recovery",
        "System recovery (§26.5): from the end of an overload to the last lost frame",
        (("recovery", "recovery_ns"),),
    ),
    _Shown(
        "reset",
        "reset",
        "Reset (§26.6, RFC 6201): lost frames ÷ offered rate",
        (("process", "reset_process_ns"), ("software", "reset_software_ns")),
    ),
)


def section(run: RunFolder, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """A grid a test that was asked for, with one row a mode, set of links and frame size; the curves of throughput and of frame loss."""
    del run, labels
    scaled = _scale_words(groups)
    grids = [_grid(shown, scaled, groups, book) for shown in _SHOWN if _asked(groups, shown.test)]
    if _asked(groups, "frame-loss"):
        grids.append(_losses(groups, scaled))
    return Section(
        slug="rfc2544",
        workload="rfc2544",
        title="RFC 2544",
        lead="Rates and frames are of all links and directions of a row together. Frames that the DUT's port did not take count as lost.",
        grids=tuple(grids),
        curves=(*_throughput_curves(groups), *_loss_curves(groups)),
        words=tuple(dict.fromkeys(f"{g.label}, {_size(g)} bytes: {note}" for g in groups for r in g.measured for note in r.notes)),
        deviations=_deviations(groups),
    )


def _asked(groups: Sequence[Group], test: str) -> bool:
    return any(test in str(g.cell.params.get("tests")).split(",") for g in groups)


def _scale_words(groups: Sequence[Group]) -> str:
    """What every table must say of a suite that took less time than the text has."""
    scales = sorted({float(g.cell.params.get("scale") or 1) for g in groups} - {1.0})
    return f" — durations × {', '.join(f'{scale:g}' for scale in scales)}" if scales else ""


def _size(group: Group) -> str:
    return str(group.cell.params["frame_size"])


def _place(group: Group) -> str:
    both = group.cell.params.get("directions") == "both"
    return group.cell.link_label + (", both ways" if both else "")


def _grid(shown: _Shown, scaled: str, groups: Sequence[Group], book: NoteBook) -> Grid:
    columns = (GridColumn("links"), GridColumn("frame size"), *(GridColumn(*one) for one in shown.columns), GridColumn("trial"))
    rows = []
    for g in groups:
        link = g.cell.link_label
        values = tuple(value_of(g, link, figure, book) for _, figure in shown.columns)
        rows.append(GridRow(g.label, (_place(g), _size(g), *values, _how(g, shown.table)), links=link, link=link, size=_size(g)))
    marks = [cell.marks for row in rows for cell in row.cells if isinstance(cell, Figure)]
    return Grid(f"rfc2544-{shown.test}", shown.caption + scaled, columns, tuple(rows), book.common(marks))


def _how(group: Group, table: str) -> str:
    """How long or how often, in the words of the test's table."""
    rows = [row for r in group.measured for row in r.tables.get(table, ())]
    if not rows:
        return ""
    first = rows[0]
    if "trial_s" in first:
        return f"{float(first['trial_s'] or 0):g} s"
    if "repeat" in first:
        return plural(len(rows), "repeat")
    if "resolution_ns" in first:
        return f"{float(first['overload_s'] or 0):g} s of overload, read every {float(first['resolution_ns'] or 0) / 1e9:.1f} s"
    return ""


def _losses(groups: Sequence[Group], scaled: str) -> Grid:
    """One row a rate. Of repeats the first is shown: each may have ended at another rate, and the curve has them all."""
    rows = []
    for g in groups:
        for record in g.measured[:1]:
            for row in record.tables.get("frame_loss", ()):
                ratio, made = row["loss_ratio"], row["made_pps"]
                if not isinstance(ratio, int | float) or not isinstance(made, int | float):
                    continue
                values = (_single(float(row["offered_share_ratio"] or 0), record.trial), _single(made, record.trial))
                rows.append(
                    GridRow(
                        g.label,
                        (_place(g), _size(g), *values, _single(ratio, record.trial)),
                        links=g.cell.link_label,
                        link=g.cell.link_label,
                        size=_size(g),
                    )
                )
    columns = (
        GridColumn("links"),
        GridColumn("frame size"),
        GridColumn("of the highest rate", "offered_share_ratio"),
        GridColumn("offered each way", "made_pps"),
        GridColumn("lost", "loss_ratio"),
    )
    return Grid("rfc2544-frame-loss", "Frame loss rate (§26.3), from the highest rate down" + scaled, columns, tuple(rows))


def _single(value: float, trial: int) -> Figure:
    return Figure(value, value, value, interval=False, n=1, planned=1, trials=(trial,))


def _throughput_curves(groups: Sequence[Group]) -> list[Curve]:
    """Throughput over frame size with the theoretical limit, which section 26.1 wants in one graph; one a set of links."""
    if not _asked(groups, "throughput"):
        return []
    curves = []
    for place, kept in _by(groups, _place).items():
        lines = [Line(label, _over_size(of_label, "throughput_pps")) for label, of_label in _by(kept, lambda g: g.label).items()]
        lines.append(Line("highest rate", _over_size(kept, "max_pps")))
        note = "" if any(g.records and g.records[0].ceilings for g in kept) else "The medium has no rate of its own: see the deviations."
        curves.append(
            Curve(
                f"rfc2544-throughput-{kept[0].cell.link_label}-{kept[0].cell.params.get('directions')}",
                f"Throughput, {place}",
                "frame size, bytes",
                "frame_size",
                "throughput",
                "throughput_pps",
                tuple(line for line in lines if line.points),
                note=note,
            )
        )
    return [curve for curve in curves if curve.lines]


def _over_size(groups: Sequence[Group], figure: str) -> tuple[tuple[float, float], ...]:
    points = {}
    for g in groups:
        found = [v for r in g.measured if (v := r.figures.get(g.cell.link_label, {}).get(figure)) is not None]
        if found and _size(g).isdigit():
            points[float(_size(g))] = sorted(found)[len(found) // 2]
    return tuple(sorted(points.items()))


def _loss_curves(groups: Sequence[Group]) -> list[Curve]:
    """Frame loss over the offered rate, both in percent; one plot a mode and set of links, one line a frame size (section 26.3)."""
    curves = []
    for (label, place), kept in _by(groups, lambda g: (g.label, _place(g))).items():
        lines = tuple(Line(f"{_size(g)} bytes", points) for g in kept if (points := _loss_points(g)))
        if lines:
            slug = "-".join(
                ["rfc2544-loss", *label.replace(" · ", " ").split(), kept[0].cell.link_label, str(kept[0].cell.params["directions"])]
            )
            title = f"Frame loss rate, {label}, {place}"
            whole = (0.0, 1.0)  # RFC 2544 section 26.3: both axes from 0 to 100 %
            curves.append(
                Curve(slug, title, "of the highest rate", "offered_share_ratio", "lost", "loss_ratio", lines, x_span=whole, y_span=whole)
            )
    return curves


def _loss_points(group: Group) -> tuple[tuple[float, float], ...]:
    return tuple(
        (float(share), float(ratio))
        for record in group.measured[:1]
        for row in record.tables.get("frame_loss", ())
        if isinstance(share := row["offered_share_ratio"], int | float) and isinstance(ratio := row["loss_ratio"], int | float)
    )


def _by(groups: Sequence[Group], key: Callable[[Group], _K]) -> dict[_K, list[Group]]:
    out: dict[_K, list[Group]] = {}
    for g in groups:
        out.setdefault(key(g), []).append(g)
    return out


def _deviations(groups: Sequence[Group]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(row["text"]) for g in groups for r in g.measured for row in r.tables.get("deviations", ())))
