"""Plot of one figure over frame size: a line for each mode, the range of repeats on each point, mixes in separate columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dutlab.report.model.table import Cell, Figure, Row, Table
from dutlab.report.model.words import Unit, unit_of
from dutlab.report.plots.axis import TICK_SIZE, Scale, draw_words_below, draw_y_axis, spread
from dutlab.report.plots.explored import Explored, ExploredLine, Point, View
from dutlab.report.plots.palette import FAINT, GRID, INK, QUIET, series_colour, series_dash, series_shape
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.svg import SvgDrawing, distinct, text_width
from dutlab.store.loads import BACKPRESSURE, DELIVERED
from dutlab.subject import apart

WIDTH, HEIGHT = 300.0, 210.0
LABEL_SIZE, LABEL_GAP = 13.5, 16.5
LEFT = 74.0
"""Least width of the vertical axis's values and title, in pixels."""
GENERATOR = "generator sent"
RANGE_STEP, RANGES_WIDE = 5.0, 9.0
"""Distance of the ranges of two modes at one size, and most of the first and the last one, in pixels."""
MIX_ROOM = 0.8
"""Octaves between the longest frame and a column of mixes, and between such columns."""


@dataclass(frozen=True)
class SizePlot:
    """Figure of a plot, and the plot's texts."""

    figure: str
    slug: str
    title: str
    axis: str
    log: bool = False
    sent: str = ""
    """Figure of the rate that the generator sent; empty for none."""


SIZE_PLOTS = (
    SizePlot("received_pps", "kpps", "Forwarding rate", "kpps", sent="offered_pps"),
    SizePlot(DELIVERED, "delivered", "Frames delivered", "% of what the generator made"),
    SizePlot("loss_ratio", "lost", "Frames lost", "% of frames sent"),
    SizePlot(BACKPRESSURE, "refused", "Frames that could not be sent (backpressure)", "% of what the generator made"),
    SizePlot("received_bps_l1", "mbps-l1", "Bit rate on the wire (L1: with preamble and gap)", "Mb/s, L1", sent="offered_bps_l1"),
    SizePlot("received_bps_l2", "mbps-l2", "Bit rate of frames (L2: with FCS, no gap)", "Mb/s, L2"),
    SizePlot("latency_p50_ns", "latency-p50", "Latency of the median frame", "µs", log=True),
    SizePlot("latency_p99_ns", "latency-p99", "Latency, 99th percentile", "µs", log=True),
)

_RATES = ("received_pps", "received_bps_l1", "received_bps_l2")
"""Rates of the same frames in three units."""
_OF_INTEREST = {"loss_ratio", BACKPRESSURE}
"""Figures that are not plotted if all values are 0: nothing was lost, or nothing refused."""


@dataclass(frozen=True)
class _Point:
    x: float
    y: float
    low: float
    high: float
    mix: bool
    joined: bool = True
    """True if joined to the point before it; false after a size without a figure."""


@dataclass(frozen=True)
class _Label:
    text: str
    x: float
    y: float
    colour: str
    bold: bool


def size_plot(table: Table, wanted: SizePlot, labels: Sequence[str]) -> Plot | None:
    """Draw a figure over frame size; None without any figure."""
    unit, places = unit_of(wanted.figure), _places(table)
    modes = list(dict.fromkeys(row.label for row in table.rows))
    lines = {label: line_points for label in modes if (line_points := _points(table, label, wanted, unit, places))}
    if not lines or (wanted.figure in _OF_INTEREST and not any(p.high for line_points in lines.values() for p in line_points)):
        return None
    reach = _reach(table, wanted.sent, unit, places)
    limits = _ceilings(table, wanted.figure)
    limited = [s for s in places if s in limits]
    ceiling = [_at(limits[s], s, unit, places) for s in limited]
    drawn = [p for line_points in lines.values() for p in line_points]
    y = _value_scale(drawn, reach, log=wanted.log)
    x = Scale(min(places.values()) - 0.25, max(places.values()) + 0.25, 0.0, WIDTH)

    d = SvgDrawing()
    left = max(LEFT, draw_y_axis(d, y, left=0.0, right=WIDTH, title=wanted.axis))
    below = _draw_sizes(d, x, places)
    inside = [p for p in ceiling if p.y <= y.high]
    _draw_line(d, x, y, _clipped(ceiling, y.high), colour=QUIET, width=1.5, dash="2 3")
    _draw_line(d, x, y, reach, colour=FAINT, width=1.0)
    shifts, short = _side_by_side(lines), distinct(labels)
    for label, points in lines.items():
        _draw_series(d, x, y, points, place=labels.index(label), shift=shifts[label])
    named = [
        _Label(short[label], x(p[-1].x) + shifts[label], y(p[-1].y), series_colour(labels.index(label)), bold=True)
        for label, p in lines.items()
    ]
    named += [_Label("ceiling", x(inside[-1].x), y(inside[-1].y), QUIET, bold=False)] if inside and inside[-1] is ceiling[-1] else []
    named += [_Label(GENERATOR, x(reach[-1].x), y(reach[-1].y), QUIET, bold=False)] if reach else []
    named += [_Label(f"{distinct(modes, 20)[m]}: no result", WIDTH, HEIGHT, QUIET, bold=False) for m in modes if m not in lines]
    right = _draw_labels(d, named, labels)

    title = f"{wanted.title}, {_of_links(table)}"
    above = [(p.y, size) for p, size in zip(ceiling, limited, strict=True) if p.y > y.high]
    return Plot(
        name=f"{table.slug}-{wanted.slug}",
        title=title,
        described=f"{title}, {table.asked}: {wanted.axis} against frame size, one line a mode",
        drawing=d,
        box=(-left, -14.0, left + WIDTH + right, HEIGHT + 14.0 + below),
        note=_beyond(above, len(places), unit),
        explored=_explored(table, wanted, places, x, {label: labels.index(label) for label in modes}, shifts=shifts),
    )


def _explored(
    table: Table, wanted: SizePlot, places: Mapping[str, float], x: Scale, modes: Mapping[str, int], *, shifts: Mapping[str, float]
) -> Explored:
    """Return the views of a figure: itself, other rates of the same frames, and its share of the ceiling, if the table has them."""
    others = [other for other in SIZE_PLOTS if other.figure in _RATES and other is not wanted] if wanted.figure in _RATES else []
    views = [view for of in (wanted, *others) for view in _views(table, of, places, modes)]
    lines = [
        *(ExploredLine(label, place, shifts.get(label, 0.0)) for label, place in modes.items()),
        ExploredLine("ceiling", None),
        ExploredLine(GENERATOR, None),
    ]
    indices = [n for n in range(len(lines)) if any(view.points[n] for view in views)]
    return Explored(
        x_name="frame size", x_title="frame size, bytes with FCS", x_unit="bytes", x=x, fixed=True,
        lines=[lines[n] for n in indices],
        views=[replace(view, points=[view.points[n] for n in indices]) for view in views],
        ticks=[(place, size) for size, place in places.items()],
    )  # fmt: skip


def _views(table: Table, wanted: SizePlot, places: Mapping[str, float], modes: Mapping[str, int]) -> list[View]:
    """Return the views of one figure: none without points; for frames a second, also the share of the ceiling."""
    unit = unit_of(wanted.figure)
    lines = [_points(table, label, wanted, unit, places) for label in modes]
    if not any(lines):
        return []
    reach = _reach(table, wanted.sent, unit, places)
    limits = {places[size]: limit / unit.scale for size, limit in _ceilings(table, wanted.figure).items() if size in places}
    scale = _value_scale([p for points in lines for p in points], reach, log=wanted.log)
    ceiling = [_Point(at, y, y, y, mix=False) for at, y in sorted(limits.items())]
    out = [View(wanted.axis, unit.name, unit.digits, scale, [*map(_told, lines), _told(ceiling), _told(reach)])]
    if wanted.figure == _RATES[0] and any(limits.values()):
        shares = [
            [replace(p, y=100 * p.y / most, low=100 * p.low / most, high=100 * p.high / most) for p in points if (most := limits.get(p.x))]
            for points in (*lines, ceiling, reach)
        ]
        out.append(
            View("% of the link's ceiling", "%", 1, replace(scale, low=0.0, high=108.0, log=False), [_told(points) for points in shares])
        )
    return out


def _told(points: Sequence[_Point]) -> list[Point]:
    return [(p.x, p.y, p.low, p.high, float(p.joined and not p.mix)) for p in points]


def _places(table: Table) -> dict[str, float]:
    """Return size → position: its binary logarithm; mixes are to the right of the longest frame."""
    sizes = list(dict.fromkeys(row.size for row in table.rows))
    fixed = {s: math.log2(float(s)) for s in sizes if s.isdigit()}
    end = max(fixed.values(), default=6.0)
    mixes = [s for s in sizes if not s.isdigit()]
    return fixed | {s: end + MIX_ROOM * n for n, s in enumerate(mixes, 1)}


def _points(table: Table, label: str, wanted: SizePlot, unit: Unit, places: Mapping[str, float]) -> list[_Point]:
    out, joined = [], False
    for size, value in ((row.size, cell) for row, cell in _cells(table, wanted.figure) if row.label == label):
        there = isinstance(value, Figure) and (value.low > 0 or not wanted.log)
        if isinstance(value, Figure) and there:
            y, low, high = (v / unit.scale for v in (value.median, value.low, value.high))
            out.append(_Point(places[size], y, low, high, mix=not size.isdigit(), joined=joined))
        joined = there
    return out


def _cells(table: Table, figure: str) -> Iterator[tuple[Row, Cell]]:
    """Yield the rows and cells of a figure's column; nothing without such a column."""
    for i, column in enumerate(table.columns):
        if column.figure == figure and figure:
            yield from ((row, row.cells[i]) for row in table.rows)


def _ceilings(table: Table, figure: str) -> dict[str, float]:
    """Return size → ceiling of a figure."""
    at = [i for i, column in enumerate(table.columns) if column.figure == figure]
    return {row.size: limit for i in at for row in table.rows if (limit := row.ceilings[i]) is not None}


def _at(value: float, size: str, unit: Unit, places: Mapping[str, float]) -> _Point:
    y = value / unit.scale
    return _Point(places[size], y, y, y, mix=not size.isdigit())


def _reach(table: Table, figure: str, unit: Unit, places: Mapping[str, float]) -> list[_Point]:
    """Return the most that the generator sent at each size in any mode."""
    out = []
    for size in places:
        sent = [cell.median for row, cell in _cells(table, figure) if row.size == size and isinstance(cell, Figure)]
        if sent:
            out.append(_at(max(sent), size, unit, places))
    return out


def _value_scale(drawn: Sequence[_Point], reach: Sequence[_Point], *, log: bool) -> Scale:
    """Return a scale from 0 to just above the data, or around the data if logarithmic. Ceilings do not extend it."""
    high = max(p.high for p in [*drawn, *reach])
    if log:
        return Scale(min(p.low for p in drawn) / 1.35, high * 1.35, HEIGHT, 0.0, log=True)
    return Scale(0.0, high * 1.08 or 1.0, HEIGHT, 0.0)


def _clipped(points: Sequence[_Point], top: float) -> list[_Point]:
    """Clip a line at `top`, with an interpolated point where it crosses."""
    out: list[_Point] = []
    for n, after in enumerate(points):
        before = points[n - 1] if n else None
        if before and not before.mix and not after.mix and (before.y > top) != (after.y > top):
            share = (top - before.y) / (after.y - before.y)
            out.append(_Point(before.x + share * (after.x - before.x), top, top, top, mix=False))
        if after.y <= top:
            out.append(after)
    return out


def _draw_line(d: SvgDrawing, x: Scale, y: Scale, points: Sequence[_Point], *, colour: str, width: float, dash: str = "") -> None:
    """Draw fixed sizes as a joined line, and a mix or a single size as a short stroke."""
    d.path([(x(p.x), y(p.y)) for p in points if not p.mix], colour=colour, width=width, dash=dash)
    alone = sum(not p.mix for p in points) == 1
    for p in points:
        if p.mix or alone:
            d.line(x(p.x) - 11, y(p.y), x(p.x) + 11, y(p.y), colour=colour, width=width, dash=dash)


def _side_by_side(lines: Mapping[str, Sequence[_Point]]) -> dict[str, float]:
    """Return label → horizontal shift in pixels, so that ranges at one size are next to one another; 0 without ranges."""
    ranged = any(p.low < p.high for points in lines.values() for p in points)
    step = min(RANGE_STEP, RANGES_WIDE / max(1, len(lines) - 1)) if ranged else 0.0
    return {label: step * (n - (len(lines) - 1) / 2) for n, label in enumerate(lines)}


def _draw_series(d: SvgDrawing, x: Scale, y: Scale, points: Sequence[_Point], *, place: int, shift: float) -> None:
    colour = series_colour(place)
    pieces: list[list[tuple[float, float]]] = []
    for p in points:
        if not p.joined or p.mix or not pieces:
            pieces.append([])
        if not p.mix:
            pieces[-1].append((x(p.x) + shift, y(p.y)))
    for piece in pieces:
        d.path(piece, colour=colour, dash=series_dash(place))
    for p in points:
        d.line(x(p.x) + shift, y(p.low), x(p.x) + shift, y(p.high), colour=colour, width=1.5)
        d.mark(x(p.x) + shift, y(p.y), series_shape(place), colour=colour)


def _draw_sizes(d: SvgDrawing, x: Scale, places: Mapping[str, float]) -> float:
    """Draw a tick and text at every size. Returns the height they take."""
    d.line(0, HEIGHT, WIDTH, HEIGHT, colour=FAINT)
    fixed = [p for s, p in places.items() if s.isdigit()]
    mixes = [p for s, p in places.items() if not s.isdigit()]
    if fixed and mixes:
        between = x(min(mixes) - MIX_ROOM / 2)
        d.line(between, 0, between, HEIGHT, colour=GRID)
    ticks = [(x(place), size, INK if place in mixes else QUIET) for size, place in places.items()]
    lower = draw_words_below(d, ticks, HEIGHT, (0.0, WIDTH))
    d.text(WIDTH / 2, HEIGHT + 36 + lower, "frame size, bytes with FCS", size=TICK_SIZE, colour=QUIET, anchor="middle")
    return 48.0 + lower


def _draw_labels(d: SvgDrawing, named: Sequence[_Label], labels: Sequence[str]) -> float:
    """Draw labels on the right, moved apart if they would overlap, each with a thin line to its curve.

    Returns the width that any label of the run could take, so that adjacent plots have the same scale.
    """
    ordered = sorted(named, key=lambda n: n.y)
    for label, at in zip(ordered, spread([n.y for n in ordered], LABEL_GAP, HEIGHT), strict=True):
        d.line(label.x + 7, label.y, WIDTH + 12, at, colour=FAINT, width=0.75)
        d.text(WIDTH + 16, at, label.text, size=LABEL_SIZE, colour=label.colour, bold=label.bold)
    return 20 + max(text_width(text, LABEL_SIZE) for text in (*distinct(labels).values(), GENERATOR, *(n.text for n in named)))


def _beyond(above: Sequence[tuple[float, str]], sizes: int, unit: Unit) -> str:
    if not above:
        return ""
    most, size = max(above)
    limit = f"{unit.text(most * unit.scale)} at {size}"
    return f"The link's ceiling is above this plot for {len(above)} of {sizes} sizes ({limit}); the table has it."


def _of_links(table: Table) -> str:
    links = apart(table.rows[0].links)
    return f"link {links[0]}" if len(links) == 1 else f"links {' and '.join(links)} together"
