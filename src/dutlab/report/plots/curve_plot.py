"""Plot of one figure over another, such as loss over load or rate over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dutlab.report.model.curve import Band, Curve, Line
from dutlab.report.model.words import COUNT, Unit, unit_of
from dutlab.report.plots.axis import TICK_ROW, TICK_SIZE, Scale, apart, draw_x_axis, draw_y_axis, rows_below, spread
from dutlab.report.plots.explored import Explored, ExploredLine, Point, View
from dutlab.report.plots.palette import FAINT, GRID, INK, QUIET, series_colour, series_dash, series_shape
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.svg import SvgDrawing, distinct, shortened, text_width

WIDTH, HEIGHT = 340.0, 210.0
STACKED, BETWEEN = 125.0, 26.0
"""Height of each of several stacked curves, and the space between them, in pixels."""
LEFT = 74.0
LABEL_SIZE, LABEL_GAP = 13.5, 16.5
MOST_MARKS = 40
"""Largest number of points of a line with a mark on each point."""
ABOVE = 1.08
"""Top of the vertical axis, as a multiple of the largest value."""
MOST_TOLD = 85
"""Largest number of columns of a drawing without a script that show their values under the pointer."""
STRIP = 16.0
"""Height of the strip of bands, in pixels."""
MOMENT_ROOM = 20.0
"""Space above the plot for the text of moments, in pixels."""


@dataclass(frozen=True)
class _Drawn:
    """A line in the units of the axes, with its colour and shape."""

    line: Line
    place: int
    points: tuple[tuple[float, float], ...]
    gap: float | None
    """Gap of the line, in the units of the axis."""

    @property
    def colour(self) -> str:
        return QUIET if self.line.role == "asked" else series_colour(self.place)


def curve_plot(curve: Curve, labels: Sequence[str]) -> Plot | None:
    """Draw a curve; None without points. A line has the colour of its label among the run's `labels`, or the next free one."""
    if curve.below is not None:
        return _stacked_plot(curve, labels)
    across, up = unit_of(curve.x), curve.y_unit or unit_of(curve.y)
    drawn = _drawn(curve, labels, across, up)
    if not drawn:
        return None
    xs, ys = [px for d in drawn for px, _ in d.points], [py for d in drawn for _, py in d.points]
    wide = max(xs) if max(xs) > min(xs) else min(xs) + 1
    x = _spanned(curve.x_span, across, Scale(min(xs), wide, 0.0, WIDTH, log=curve.x_scale == "log"))
    y = _spanned(curve.y_span, up, _log_scale(ys) if curve.scale == "log" else _linear_scale(ys))
    title, limits = _titled(curve.y_title, up.name), [(text, limit / up.scale) for text, limit in curve.limits]
    limits += [("", line.points[0][1]) for line in drawn if line.line.role == "bound"]
    explored_lines = [line for line in drawn if line.line.role != "bound"]

    d = SvgDrawing()
    left = max(LEFT, draw_y_axis(d, y, left=0.0, right=WIDTH, title=title))
    words = {at / across.scale: words for at, words in curve.x_ticks if x.low <= at / across.scale <= x.high}
    ticks = list(words) or _ticks(x, across)
    below = draw_x_axis(d, x, top=0.0, bottom=HEIGHT, title=_titled(curve.x_title, across.name), ticks=ticks, words=words)
    _draw_limits(d, y, curve, up)
    for line in drawn:
        _draw_line(d, x, y, line)
    _draw_moments(d, x, curve, across)
    right = _draw_labels(d, x, y, drawn)
    top = 14.0 + (MOMENT_ROOM if curve.moments else 0.0)
    return Plot(
        name=curve.slug,
        title=curve.title,
        described=f"{curve.title}: {curve.y_title} over {curve.x_title}{''.join(f'; {m.words}' for m in curve.moments if m.words)}",
        drawing=d,
        box=(-left, -top, left + WIDTH + right, HEIGHT + top + below),
        note=curve.note,
        explored=Explored(
            x_name=curve.x,
            x_title=_titled(curve.x_title, across.name),
            x_unit=across.name,
            x=x,
            whole=across is COUNT,
            lines=[
                ExploredLine(line.line.label, None if line.line.role == "asked" else line.place, apart=line.line.role == "apart")
                for line in explored_lines
            ],
            views=[View(title, up.name, up.digits, y, [_told(line) for line in explored_lines], limits)],
            ticks=[*words.items()],
            moments=[(moment.x / across.scale, moment.words) for moment in curve.moments],
        ),
    )


def _stacked_plot(upper: Curve, run_labels: Sequence[str]) -> Plot | None:
    """Draw curves over one horizontal axis, one below another; a line has the same colour in all. None if one has no points."""
    curves = [upper]
    while (following := curves[-1].below) is not None:
        curves.append(following)
    lower = curves[-1]
    labels = list(dict.fromkeys(line.label for curve in reversed(curves) for line in curve.lines))
    labels = list(run_labels) if any(label in run_labels for label in labels) else labels
    across = unit_of(lower.x)
    panels = [(curve, up, _drawn(curve, labels, across, up)) for curve in curves for up in [curve.y_unit or unit_of(curve.y)]]
    if not all(drawn for _, _, drawn in panels):
        return None
    x = _common_scale(lower, across, [px for _, _, drawn in panels for line in drawn for px, _ in line.points])
    d, left, right, top = SvgDrawing(), LEFT, 0.0, 0.0
    for curve, up, drawn in panels:
        bottom = top + STACKED
        ys = [*(py for line in drawn for _, py in line.points), *(limit / up.scale for _, limit in curve.limits)]
        fitted = _log_scale(ys) if curve.scale == "log" else _linear_scale(ys)
        y = replace(_spanned(curve.y_span, up, fitted), at_low=bottom, at_high=top)
        left = max(left, draw_y_axis(d, y, left=0.0, right=WIDTH, title=_titled(curve.y_title, up.name)))
        if curve is lower:
            below = _draw_common_axis(d, x, lower, across, bottom)
        _draw_limits(d, y, curve, up)
        for line in drawn:
            _draw_line(d, x, y, line)
        right = max(right, _draw_labels(d, x, y, drawn, top=top, bottom=bottom))
        if curve.panel:
            d.text(0, top - 11, curve.panel, size=TICK_SIZE, colour=INK, bold=True)
        top = bottom + BETWEEN
    bottom = top - BETWEEN
    _draw_value_columns(d, x, [(up, drawn) for _, up, drawn in panels], across, bottom=bottom, right=right)
    _draw_moments(d, x, lower, across, bottom=bottom)
    above = (
        _draw_bands(d, x, upper.bands, across, bottom=bottom)
        if upper.bands
        else 14.0 + (MOMENT_ROOM if lower.moments or upper.panel else 0.0)
    )
    texts = [m.words for m in lower.moments if m.words] + [band.words for band in upper.bands]
    return Plot(
        name=upper.slug,
        title=upper.title,
        described=f"{upper.title}: {', '.join(curve.y_title for curve in curves)}, one below another, over {lower.x_title}"
        f"{''.join(f'; {words}' for words in texts)}",
        drawing=d,
        box=(-left, -above, left + WIDTH + right, bottom + above + below),
        note=upper.note,
    )


def _draw_value_columns(
    d: SvgDrawing, x: Scale, panels: Sequence[tuple[Unit, Sequence[_Drawn]]], across: Unit, *, bottom: float, right: float
) -> None:
    """Make columns that show the values of every line at one place while the pointer is on them."""
    lines = [(line, up) for up, drawn in panels for line in drawn]
    step = WIDTH / MOST_TOLD
    by_column: dict[int, list[str]] = {}
    for line, up in lines:
        last = None
        for px, py in line.points:
            if (column := int(x(px) / step)) != last:
                head = [f"{across.number(px * across.scale)} {across.name}".strip()]
                by_column.setdefault(column, head).append(f"{line.line.label}: {up.number(py * up.scale)} {up.name}".strip())
                last = column
    for column, words in by_column.items():
        left = min(max(column, 0), MOST_TOLD - 1) * step
        d.hover_text(left, 0.0, step, bottom, words, at=left + step + 6, right=WIDTH + right)


def _common_scale(lower: Curve, across: Unit, xs: Sequence[float]) -> Scale:
    wide = max(xs) if max(xs) > min(xs) else min(xs) + 1
    return _spanned(lower.x_span, across, Scale(min(xs), wide, 0.0, WIDTH, log=lower.x_scale == "log"))


def _draw_common_axis(d: SvgDrawing, x: Scale, lower: Curve, across: Unit, bottom: float) -> float:
    words = {at / across.scale: text for at, text in lower.x_ticks if x.low <= at / across.scale <= x.high}
    title = _titled(lower.x_title, across.name)
    return draw_x_axis(d, x, top=0.0, bottom=bottom, title=title, ticks=list(words) or _ticks(x, across), words=words)


def _draw_bands(d: SvgDrawing, x: Scale, bands: Sequence[Band], across: Unit, *, bottom: float) -> float:
    """Draw a strip above the plot: a bar as high as the load for each band, with its text above. Returns the height that they take."""
    middles = [((x(band.start / across.scale) + x(band.end / across.scale)) / 2, shortened(band.words)) for band in bands]
    rows = rows_below(middles)
    for band, (middle, words), row in zip(bands, middles, rows, strict=True):
        start, end = x(band.start / across.scale), x(band.end / across.scale)
        d.rect(start, -STRIP - 6, end - start, STRIP, colour=GRID)
        high = STRIP * min(max(band.load, 0.0), 1.0)
        d.rect(start, -6 - high, end - start, high, colour=FAINT)
        d.line(start, -STRIP - 6, start, bottom, colour=GRID)
        d.line(middle, -STRIP - 7, middle, -STRIP - 9 - TICK_ROW * row, colour=GRID)
        d.text(middle, -STRIP - 15 - TICK_ROW * row, words, size=TICK_SIZE, colour=INK, anchor="middle")
    d.text(-8, -STRIP / 2 - 6, "load", size=TICK_SIZE, colour=QUIET, anchor="end")
    return STRIP + 26 + TICK_ROW * max(rows, default=0)


def _drawn(curve: Curve, labels: Sequence[str], across: Unit, up: Unit) -> list[_Drawn]:
    """Return the lines to draw. Labels of the run keep their colours, other lines get the next ones; reference lines take none."""
    drawable = [drawable for line in curve.lines if (drawable := _drawable(line, curve)).points]
    own = [line.label for line in drawable if line.label not in labels and line.role in {"found", "apart"}]
    first = 0 if all(line.label not in labels for line in drawable) else len(labels)
    out = []
    for line in drawable:
        found_at = labels.index(line.label) if line.label in labels else first + own.index(line.label) if line.label in own else 0
        out.append(
            _Drawn(
                line, found_at, tuple((px / across.scale, py / up.scale) for px, py in line.points), line.gap and line.gap / across.scale
            )
        )
    return out


def _drawable(line: Line, curve: Curve) -> Line:
    logs = tuple(i for i, scale in enumerate((curve.x_scale, curve.scale)) if scale == "log")
    return replace(line, points=tuple(p for p in line.points if all(p[i] > 0 for i in logs)))


def _linear_scale(ys: Sequence[float]) -> Scale:
    """Return a scale from 0, or the smallest negative value, to just above the largest value."""
    high = max(ys) * ABOVE if max(ys) > 0 else 0.0
    return Scale(min(0.0, *ys), high or (0.0 if min(ys) < 0 else 1.0), HEIGHT, 0.0)


def _log_scale(ys: Sequence[float]) -> Scale:
    return Scale(min(ys) / 1.35, max(ys) * 1.35, HEIGHT, 0.0, log=True)


def _spanned(span: tuple[float, float] | None, unit: Unit, scale: Scale) -> Scale:
    """Return `scale` with the ends of `span`, if a standard prescribes them."""
    return scale if span is None else replace(scale, low=span[0] / unit.scale, high=span[1] / unit.scale)


def _draw_limits(d: SvgDrawing, y: Scale, curve: Curve, up: Unit) -> None:
    for words, limit in curve.limits:
        if y.low <= limit / up.scale <= y.high:
            at = y(limit / up.scale)
            d.line(0, at, WIDTH, at, colour=QUIET, width=1.5, dash="2 3")
            d.text(4, at - 8, words, size=12.0, colour=QUIET, halo=True)


def _draw_line(d: SvgDrawing, x: Scale, y: Scale, drawn: _Drawn) -> None:
    role = drawn.line.role
    if role != "apart":
        width, dash = {"asked": (1.5, "5 4"), "bound": (1.0, "2 3")}.get(role, (2, series_dash(drawn.place)))
        for points in _unbroken(drawn.points, drawn.gap):
            d.path([(x(px), y(py)) for px, py in points], colour=drawn.colour, width=width, dash=dash)
    few = len(drawn.points) <= MOST_MARKS and role == "found"
    if few or role == "apart" or len(drawn.points) == 1:
        for n, (px, py) in enumerate(drawn.points):
            missed = n in drawn.line.missed
            d.mark(x(px), y(py), series_shape(drawn.place), colour=drawn.colour, size=3.0 if role == "apart" else 3.5, hollow=missed)


def _unbroken(points: Sequence[tuple[float, float]], gap: float | None) -> Iterator[Sequence[tuple[float, float]]]:
    """Yield the runs of points without a gap between them."""
    ends = [n for n, (before, after) in enumerate(pairwise(points), 1) if gap is not None and after[0] - before[0] > gap]
    yield from (points[first:last] for first, last in pairwise([0, *ends, len(points)]))


def _told(drawn: _Drawn) -> list[Point]:
    """Return the points for the page; the first point after a gap, and points apart, are marked as not joined."""
    if drawn.line.role == "apart":
        return [(px, py, py, py, 0.0, *([1.0] if n in drawn.line.missed else [])) for n, (px, py) in enumerate(drawn.points)]
    first, *others = _unbroken(drawn.points, drawn.gap)
    return [*first, *(point for (x, y), *more in others for point in ((x, y, y, y, 0.0), *more))]


def _draw_moments(d: SvgDrawing, x: Scale, curve: Curve, across: Unit, *, bottom: float = HEIGHT) -> None:
    """Draw vertical lines with text above the plot, on the side that has room; text that would overlap is left out."""
    taken: list[tuple[float, float]] = []
    for moment in curve.moments:
        at = moment.x / across.scale
        if x.low <= at <= x.high:
            right_half = x(at) > WIDTH / 2
            d.line(x(at), -6, x(at), bottom, colour=INK, width=1.25, dash="3 3")
            place = x(at) + (5 if right_half else -5)
            wide = text_width(moment.words, 12.5) * 1.1
            room = (place - wide, place) if right_half else (place, place + wide)
            if moment.words and all(room[1] < low or high < room[0] for low, high in taken):
                taken.append(room)
                d.text(place, -14, moment.words, size=12.5, colour=INK, anchor="end" if right_half else "start", bold=True)


def _draw_labels(d: SvgDrawing, x: Scale, y: Scale, drawn: Sequence[_Drawn], *, top: float = 0.0, bottom: float = HEIGHT) -> float:
    """Draw labels to the right of each line's end, moved apart if they would overlap. Returns the width they take."""
    named = [line for line in drawn if line.line.role != "bound"]
    ends, short = sorted(named, key=lambda line: y(line.points[-1][1])), distinct(line.line.label for line in named)
    places = [top + place for place in spread([y(line.points[-1][1]) - top for line in ends], LABEL_GAP, bottom - top)]
    for line, at in zip(ends, places, strict=True):
        px, py = line.points[-1]
        d.line(x(px) + 5, y(py), WIDTH + 12, at, colour=FAINT, width=0.75)
        d.text(WIDTH + 16, at, short[line.line.label], size=LABEL_SIZE, colour=line.colour, bold=line.line.role != "asked")
    return 28 + max(text_width(label, LABEL_SIZE) for label in short.values())


def _titled(title: str, unit: str) -> str:
    """Return the title of an axis with its unit, unless the title names it already."""
    return f"{title}, {unit}" if unit and unit not in title.replace(",", "").split() else title


def _ticks(x: Scale, across: Unit) -> list[float]:
    """Return the ticks of a horizontal axis; an axis that counts has whole numbers."""
    return apart(x, [tick for tick in x.ticks() if across is not COUNT or tick.is_integer()])
