"""Plots of rows: goodput by link and load by core under the name of their mode, and plain bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.report.model.cpu import Cpu
from dutlab.report.model.table import Figure, Table, figure_text, number_text, spread_text
from dutlab.report.model.words import Unit, column_words, plural, unit_for
from dutlab.report.plots.axis import Scale, draw_x_axis
from dutlab.report.plots.palette import GRID, INK, KINDS, QUIET, series_colour, series_shape
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.svg import SvgDrawing, distinct, text_width

WIDTH = 300.0
HEAD, STEP, AFTER = 27.0, 21.0, 6.0
CORE_STEP = 17.0
HEAD_SIZE, TEXT_SIZE, SMALL_SIZE = 13.5, 13.0, 12.0
NEAR = 1.3
"""Largest ratio of a ceiling to the largest figure at which the ceiling is drawn."""
SEEN_PERCENT = 0.5
"""Least share on some core of a kind of work in the legend, in percent."""


def link_plot(table: Table, labels: Sequence[str]) -> Plot | None:
    """Draw a mark for each figure with its range, links below their modes. None without any figure."""
    rows = [row for row in table.rows if row.label]
    figures = [v for row in rows for v in row.cells if isinstance(v, Figure)]
    if not figures:
        return None
    figure = table.columns[0].figure
    unit = unit_for(figure, (v.median for v in figures))
    words = [column_words(c.links, c.link) for c in table.columns]
    ceilings = [c for c in rows[0].ceilings if c is not None]
    height = len(rows) * (HEAD + STEP * len(words) + AFTER)
    most = max(v.high for v in figures)
    most = max(most, *(c for c in ceilings if c <= most * NEAR), most)
    x = Scale(0.0, most / unit.scale * 1.04 or 1.0, 0.0, WIDTH)
    d, short = SvgDrawing(), distinct(row.label for row in rows)
    below = draw_x_axis(d, x, top=0.0, bottom=height, title=f"{table.title}, {unit.name}", ticks=x.ticks())
    for limit in sorted({c / unit.scale for c in ceilings if c / unit.scale <= x.high}):
        d.line(x(limit), 0, x(limit), height, colour=QUIET, width=1.5, dash="2 3")
        d.text(x(limit), -9, "ceiling", size=SMALL_SIZE, colour=QUIET, anchor="middle")
    y = 0.0
    for row in rows:
        place = labels.index(row.label)
        colour = series_colour(place)
        d.text(-10, y + HEAD / 2 + 1, short[row.label], size=HEAD_SIZE, colour=colour, anchor="end", bold=True)
        y += HEAD
        for word, value in zip(words, row.cells, strict=True):
            middle = y + STEP / 2
            d.text(-10, middle, word, size=TEXT_SIZE, colour=QUIET, anchor="end")
            if isinstance(value, Figure):
                low, at, high = (x(v / unit.scale) for v in (value.low, value.median, value.high))
                d.line(0, middle, at, middle, colour=GRID)
                d.line(low, middle, high, middle, colour=colour, width=3)
                d.mark(at, middle, series_shape(place), colour=colour, size=4.5)
                d.text(max(high, at) + 9, middle, number_text(value, unit), size=TEXT_SIZE, colour=INK, halo=True)
                d.hover_text(0.0, y, WIDTH, STEP, _value_words(f"{row.label}, {word}", value, unit), at=at + 70, right=WIDTH + 52.0)
            else:
                d.text(6, middle, "no result", size=TEXT_SIZE, colour=QUIET, italic=True)
            y += STEP
        y += AFTER
    left = 18 + max(text_width(w, HEAD_SIZE) for w in [*words, *short.values()])
    title = f"{table.title} by mode and link"
    return Plot(
        name=table.slug,
        title=title,
        described=f"{title}, {table.asked}: medians and spread of the repeats",
        drawing=d,
        box=(-left, -20.0, left + WIDTH + 52.0, height + below + 20.0),
    )


def _value_words(about: str, value: Figure, unit: Unit) -> list[str]:
    """Return a figure with its spread and repeats, for the pointer."""
    spread = spread_text(value, unit)
    return [about, f"{figure_text(value, unit)}{f' ({spread})' if spread else ''}, {value.n} of {plural(value.planned, 'repeat')}"]


def cpu_plot(cpu: Cpu, labels: Sequence[str]) -> Plot | None:
    """Draw a bar for each core, split by kind of work, cores below their modes. None without samples."""
    kinds = [k for k in KINDS if any(row.shares.get(k, 0.0) >= SEEN_PERCENT for row in cpu.rows)]
    if not cpu.rows or not kinds:
        return None
    modes = list(dict.fromkeys(row.label for row in cpu.rows))
    height = len(modes) * (HEAD + AFTER) + len(cpu.rows) * CORE_STEP
    x = Scale(0.0, 100.0, 0.0, WIDTH)
    d, short = SvgDrawing(), distinct(modes)
    below = draw_x_axis(d, x, top=0.0, bottom=height, title="% of each core, mean of all trials", ticks=[0, 25, 50, 75, 100])
    at = 0.0
    for kind in kinds:
        d.rect(at, -21, 10, 10, colour=KINDS[kind])
        d.text(at + 15, -16, kind, size=SMALL_SIZE, colour=QUIET)
        at += 33 + text_width(kind, SMALL_SIZE)
    y = 0.0
    for mode in modes:
        d.text(-10, y + HEAD / 2 + 1, short[mode], size=HEAD_SIZE, colour=series_colour(labels.index(mode)), anchor="end", bold=True)
        y += HEAD
        for row in (r for r in cpu.rows if r.label == mode):
            d.text(-10, y + CORE_STEP / 2, f"core {row.core}", size=TEXT_SIZE, colour=QUIET, anchor="end")
            start = 0.0
            for kind in kinds:
                share = min(row.shares.get(kind, 0.0), 100.0 - start)
                d.rect(x(start), y + 2, x(share), CORE_STEP - 4, colour=KINDS[kind])
                start += share
            d.text(x(start) + 6, y + CORE_STEP / 2, f"{row.busy:.0f}", size=SMALL_SIZE, colour=INK)
            lines = [f"{mode}, core {row.core}: {row.busy:.1f} %", ", ".join(f"{kind} {row.shares.get(kind, 0.0):.1f} %" for kind in kinds)]
            d.hover_text(0.0, y, WIDTH, CORE_STEP, lines, at=x(start) + 30, right=WIDTH + 34.0)
            y += CORE_STEP
        y += AFTER
    left = 18 + max(text_width(w, HEAD_SIZE) for w in [*short.values(), "core 00"])
    title = f"Load of the cores of {cpu.host} during {cpu.workload}"
    return Plot(
        name=f"cpu-{cpu.host}-{cpu.workload}",
        title=title,
        described=f"{title}, by mode and kind of work",
        drawing=d,
        box=(-left, -30.0, left + WIDTH + 34.0, height + below + 30.0),
    )


@dataclass(frozen=True)
class Bar:
    """A row of a bar plot. `place` decides its colour."""

    label: str
    place: int
    value: Figure


def bar_plot(name: str, title: str, bars: Sequence[Bar], unit: Unit) -> Plot:
    """Draw a bar for each row from 0, with the range of its repeats. `bars` is not empty."""
    x = Scale(0.0, max(b.value.high for b in bars) / unit.scale * 1.04 or 1.0, 0.0, WIDTH)
    step = 1.5 * STEP
    d, short = SvgDrawing(), distinct(b.label for b in bars)
    below = draw_x_axis(d, x, top=0.0, bottom=len(bars) * step, title=unit.name, ticks=x.ticks())
    for n, bar in enumerate(bars):
        middle = (n + 0.5) * step
        low, at, high = (x(v / unit.scale) for v in (bar.value.low, bar.value.median, bar.value.high))
        d.text(-10, middle, short[bar.label], size=HEAD_SIZE, colour=series_colour(bar.place), anchor="end", bold=True)
        d.rect(0, middle - step / 3, at, step / 1.5, colour=series_colour(bar.place))
        if bar.value.n > 1:
            d.line(low, middle, high, middle, colour=INK, width=1.5)
        d.text(max(high, at) + 9, middle, number_text(bar.value, unit), size=TEXT_SIZE, colour=INK, halo=True)
        d.hover_text(0.0, middle - step / 2, WIDTH, step, _value_words(bar.label, bar.value, unit), at=at + 70, right=WIDTH + 62.0)
    left = 18 + max(text_width(label, HEAD_SIZE) for label in short.values())
    return Plot(name, title, f"{title}: a bar a row, {unit.name}", d, (-left, -6.0, left + WIDTH + 62.0, len(bars) * step + below + 6.0))
