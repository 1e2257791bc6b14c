"""Scales and their ticks."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from dutlab.report.model.words import NARROW_SPACE
from dutlab.report.plots.palette import FAINT, GRID, QUIET
from dutlab.report.plots.svg import SvgDrawing, text_width

TICK_SIZE = 13.0
"""Font size at axes, in pixels; a plot shrinks to three quarters on a phone."""
TICK_GAP, TICK_ROW = 9.0, 16.0
"""Space between two tick labels, and distance of two lines of them, in pixels."""
OUTSIDE = 16.0
"""Distance by which the texts of ticks may lie beyond the ends of the axis, in pixels."""


@dataclass(frozen=True)
class Scale:
    """Map from values to pixels; either end may be larger, so an axis can point upwards."""

    low: float
    high: float
    at_low: float
    at_high: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of `value`; a logarithmic scale takes values above 0 only."""
        share = math.log(value / self.low) / math.log(self.high / self.low) if self.log else (value - self.low) / (self.high - self.low)
        return self.at_low + share * (self.at_high - self.at_low)

    def ticks(self) -> list[float]:
        """Return about five round values within the scale."""
        return _log_ticks(self.low, self.high) if self.log else _linear_ticks(self.low, self.high)


def tick_words(value: float) -> str:
    """Return the shortest exact text: 0.5, 20, 12 000."""
    return f"{value:,.10g}".replace(",", NARROW_SPACE)


def apart(scale: Scale, ticks: Sequence[float]) -> list[float]:
    """Return the ticks of a horizontal axis whose labels do not overlap."""
    out: list[float] = []
    for tick in sorted(ticks, key=lambda t: abs(math.log(t)) if scale.log else 0.0):
        room = text_width(tick_words(tick), TICK_SIZE) / 2 + 4
        if all(abs(scale(tick) - scale(other)) >= room + text_width(tick_words(other), TICK_SIZE) / 2 + 4 for other in out):
            out.append(tick)
    return sorted(out)


def rows_below(wanted: Sequence[tuple[float, str]]) -> list[int]:
    """Return the line number below an axis for each (place, text); texts that would overlap go a line lower."""
    taken: list[tuple[int, float, float]] = []
    for place, words in wanted:
        half = text_width(words, TICK_SIZE) / 2 + TICK_GAP / 2
        row = next(n for n in range(len(wanted)) if all(at != n or abs(place - of) >= half + other for at, of, other in taken))
        taken.append((row, place, half))
    return [row for row, _, _ in taken]


def named(title: str, scale: Scale) -> str:
    """Return the title of an axis, with the name of a logarithmic scale."""
    return f"{title} (log)" if scale.log else title


def draw_y_axis(d: SvgDrawing, scale: Scale, *, left: float, right: float, title: str) -> float:
    """Draw horizontal grid lines with values and a title. Returns how far left of `left` the text reaches."""
    ticks = scale.ticks()
    widest = max((text_width(tick_words(t), TICK_SIZE) for t in ticks), default=0.0)
    for tick in ticks:
        d.line(left, scale(tick), right, scale(tick), colour=GRID)
        d.text(left - 8, scale(tick), tick_words(tick), size=TICK_SIZE, colour=QUIET, anchor="end")
    d.turned_text(left - widest - 16, (scale.at_low + scale.at_high) / 2, named(title, scale), size=TICK_SIZE, colour=QUIET)
    return widest + 32


def draw_x_axis(
    d: SvgDrawing, scale: Scale, *, top: float, bottom: float, title: str, ticks: Sequence[float], words: Mapping[float, str] | None = None
) -> float:
    """Draw vertical grid lines with values or `words`, and a title below. Returns how far below `bottom` the text reaches."""
    for tick in ticks:
        d.line(scale(tick), top, scale(tick), bottom, colour=GRID)
    if words:
        lower = draw_words_below(
            d, [(scale(t), words.get(t) or tick_words(t), QUIET) for t in ticks], bottom, (scale.at_low, scale.at_high)
        )
    else:
        lower = 0.0
        for tick in ticks:
            d.text(scale(tick), bottom + 14, tick_words(tick), size=TICK_SIZE, colour=QUIET, anchor="middle")
    d.line(scale.at_low, bottom, scale.at_high, bottom, colour=FAINT)
    middle = (scale.at_low + scale.at_high) / 2
    d.text(middle, bottom + 34 + lower, named(title, scale), size=TICK_SIZE, colour=QUIET, anchor="middle")
    return 46 + lower


def draw_words_below(d: SvgDrawing, ticks: Sequence[tuple[float, str, str]], bottom: float, ends: tuple[float, float]) -> float:
    """Draw (place, text, colour) of each tick below an axis, its texts in one line and moved apart, with lines that do not cross.

    Texts that do not fit in one line get several, and short ticks. Returns the height that they take beyond one line without lines.
    """
    ordered = sorted(ticks)
    places = spread_words([(place, words) for place, words, _ in ordered], ends[0] - OUTSIDE, ends[1] + OUTSIDE)
    if places is None:
        rows = rows_below([(place, words) for place, words, _ in ordered])
        for (place, words, colour), row in zip(ordered, rows, strict=True):
            d.line(place, bottom, place, bottom + 5, colour=FAINT)
            d.text(place, bottom + 15 + TICK_ROW * row, words, size=TICK_SIZE, colour=colour, anchor="middle")
        return TICK_ROW * max(rows, default=0) + 2
    moved = any(abs(at - place) > 1 for (place, _, _), at in zip(ordered, places, strict=True))
    for (place, words, colour), at in zip(ordered, places, strict=True):
        d.path([(place, bottom), (place, bottom + 4), *([(at, bottom + 11)] if moved else [])], colour=FAINT, width=1)
        d.text(at, bottom + (20 if moved else 15), words, size=TICK_SIZE, colour=colour, anchor="middle")
    return 7.0 if moved else 2.0


def spread_words(wanted: Sequence[tuple[float, str]], low: float, high: float) -> list[float] | None:
    """Return the middles of texts in one line, as near to the `wanted` ones (ascending) as possible; None without room."""
    widths = [text_width(words, TICK_SIZE) + TICK_GAP for _, words in wanted]
    if not widths:
        return []
    offsets = list(accumulate(((a + b) / 2 for a, b in pairwise(widths)), initial=widths[0] / 2))
    room = high - low - sum(widths)
    if room < 0:
        return None
    starts = spread([place - low - of for (place, _), of in zip(wanted, offsets, strict=True)], 0.0, room)
    return [low + start + of for start, of in zip(starts, offsets, strict=True)]


def spread(wanted: Sequence[float], gap: float, end: float) -> list[float]:
    """Return positions as near to `wanted` (ascending) as possible, at least `gap` apart, and inside 0…`end` if they fit.

    Pool-adjacent-violators: neighbours that would overlap form a block around the mean of their wanted positions.
    """
    blocks: list[tuple[float, int]] = []  # sum of the wanted starts, how many
    for n, want in enumerate(wanted):
        total, count = want - n * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before, more = blocks.pop()
            total, count = total + before, count + more
        blocks.append((total, count))
    starts = [total / count for total, count in blocks for _ in range(count)]
    room = max(0.0, end - (len(wanted) - 1) * gap)
    return [min(max(start, 0.0), room) + n * gap for n, start in enumerate(starts)]


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5
    if rough < sys.float_info.min:  # a fifth of the range is below full precision
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.8)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{n * step:.12g}") for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [m * 10.0**e for e in decades for m in steps if low <= m * 10.0**e <= high]
        if len(ticks) >= 4:  # noqa: PLR2004 - fewer ticks are too few
            break
    if len(ticks) < 2:  # noqa: PLR2004 - over so small a range, a linear scale is the same
        return _linear_ticks(low, high)
    return [float(f"{v:.6g}") for v in ticks]
