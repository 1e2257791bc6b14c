"""Plots of factor experiments: a bar for each combination of levels on one axis, and the effects of factors as ratios."""

from __future__ import annotations

from dutlab.report.model.table import Cell, Figure, Table, number_text
from dutlab.report.plots.axis import Scale, draw_x_axis
from dutlab.report.plots.palette import INK, QUIET, series_colour
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.ratio_plot import RatioRow, Side, ratio_plot
from dutlab.report.plots.svg import SvgDrawing, shortened, text_width

WIDTH, HEAD, STEP, AFTER = 320.0, 22.0, 19.0, 7.0
HEAD_SIZE, TEXT_SIZE = 12.5, 13.0
_MODE = "mode"
_LONGEST_HEAD = 66
_NOT_PROVEN = "not"
"""Begin of the words of an effect that is not proven, or not tested."""


def factor_plot(table: Table) -> Plot | None:
    """Draw a bar for each row, modes in their colours below the levels of all other factors. None without any figure."""
    at = next(n for n, c in enumerate(table.columns) if c.figure)
    rows = [(row.cells[:at], value) for row in table.rows if isinstance(value := row.cells[at], Figure)]
    if not rows:
        return None
    names = [c.head for c in table.columns[:at]]
    modes = list(dict.fromkeys(str(levels[0]) for levels, _ in rows)) if names[0] == _MODE else []
    unit = table.units[at]

    def others(of: tuple[tuple[Cell, ...], Figure]) -> str:
        levels = list(zip(names, of[0], strict=True))[1 if modes else 0 :]
        return ", ".join(f"{name} {level}" for name, level in levels if level != "")

    by_levels: dict[str, list[tuple[tuple[Cell, ...], Figure]]] = {}
    for row in rows:
        by_levels.setdefault(others(row), []).append(row)
    groups = list(by_levels.items())
    height = sum(HEAD + AFTER + STEP * len(same) for _, same in groups)
    x = Scale(0.0, max(v.high for _, v in rows) / unit.scale * 1.04 or 1.0, 0.0, WIDTH)
    d = SvgDrawing()
    below = draw_x_axis(d, x, top=0.0, bottom=height, title=f"{table.title}, {unit.name}", ticks=x.ticks())
    y, widest = 0.0, 40.0
    for words, same in groups:
        d.text(4, y + HEAD / 2 + 2, shortened(words, _LONGEST_HEAD), size=HEAD_SIZE, colour=INK, halo=True)
        y += HEAD
        for levels, value in same:
            middle, name = y + STEP / 2, str(levels[0]) if modes else ""
            colour = series_colour(modes.index(name)) if modes else QUIET
            low, median, high = (x(v / unit.scale) for v in (value.low, value.median, value.high))
            d.text(-10, middle, shortened(name), size=TEXT_SIZE, colour=colour, anchor="end")
            d.rect(0, middle - STEP / 3, median, STEP / 1.5, colour=colour)
            if value.n > 1:
                d.line(low, middle, high, middle, colour=INK, width=1.5)
            d.text(max(high, median) + 7, middle, number_text(value, unit), size=TEXT_SIZE, colour=INK, halo=True)
            widest = max(widest, text_width(shortened(name), TEXT_SIZE))
            y += STEP
        y += AFTER
    title = f"{table.title} by every combination of {', '.join(names)}"
    longest = max(text_width(shortened(words, _LONGEST_HEAD), HEAD_SIZE) for words, _ in groups)
    box = (-widest - 18, -6.0, widest + 18 + max(WIDTH + 60.0, longest + 12), height + below + 6.0)
    return Plot(table.slug, title, f"{title}: a bar each, {unit.name}", d, box)


def effects_plot_of(table: Table) -> Plot | None:
    """Draw the ratios of a table of effects with their intervals. None without effects."""
    rows = []
    for factor, change, ratio, low, high, proven, _ in (row.cells for row in table.rows):
        if not isinstance(ratio, float):
            continue
        is_proven = not str(proven).startswith(_NOT_PROVEN)
        side: Side = ("better" if ratio > 1 else "worse") if is_proven else "neither"
        ends = (low, high) if isinstance(low, float) and isinstance(high, float) else (ratio, ratio)
        rows.append(RatioRow(f"{factor}: {change}", ratio, *ends, side, "" if is_proven else "not proven"))
    return ratio_plot(table.slug, table.title, rows) if rows else None
