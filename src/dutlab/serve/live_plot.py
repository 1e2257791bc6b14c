"""Plots of a running run: offered, received and lost over the last two minutes, one for each link, with the bounds of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dutlab.report.model.trial_words import LIVE_RATES
from dutlab.report.plots.axis import Scale, draw_x_axis, draw_y_axis
from dutlab.report.plots.palette import FAINT, QUIET, SERIES
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.svg import SvgDrawing
from dutlab.units import si

SHOWN_S = 120.0
"""Length of the time axis in seconds."""
_LEFT, _RIGHT, _TOP, _BOTTOM, _WORDS = 0.0, 520.0, 0.0, 200.0, 150.0
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_STYLES = {"offered": (SERIES[0], ""), "received": (SERIES[2], ""), "lost": (SERIES[1], "5 4"), "read": (SERIES[0], ""),
           "written": (SERIES[1], "5 4"), "goodput": (SERIES[0], ""), "arriving": (SERIES[2], "5 4")}  # fmt: skip
"""Word of a rate → colour and dashes: no two lines of a plot differ in colour alone."""
_WIDTHS = {"offered": 3.5}
"""Lines that another usually covers are wider."""
_LINE_ROOM = 15.0


@dataclass(frozen=True)
class RateLine:
    """One rate of one place: seconds before now (negative) and values."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class TrialStart:
    """Start of a trial, in seconds before now (negative)."""

    at_s: float
    number: int


def rate_plot(place: int, title: str, lines: Sequence[RateLine], bounds: Mapping[str, float], starts: Sequence[TrialStart]) -> Plot | None:
    """Draw the rates of one place; None without a value. `bounds` is name → rate in the unit of the rates: `ndr lower` → 466e3."""
    known = {name: (unit, word) for name, unit, word in LIVE_RATES}
    drawn = [(known[of.name][1], [p for p in of.points if p[0] >= -SHOWN_S]) for of in lines if of.name in known]
    drawn = [(word, points) for word, points in drawn if points]
    if not drawn:
        return None
    unit = known[lines[0].name][0]
    most = max([v for _, points in drawn for _, v in points] + list(bounds.values())) or 1.0
    factor, prefix = next(((f, p) for f, p in _PREFIXES if most >= f), _PREFIXES[-1])
    x, y = Scale(-SHOWN_S, 0.0, _LEFT, _RIGHT), Scale(0.0, 1.08 * most / factor, _BOTTOM, _TOP)
    d = SvgDrawing()
    left = draw_y_axis(d, y, left=_LEFT, right=_RIGHT, title=f"{prefix}{unit}")
    below = draw_x_axis(d, x, top=_TOP, bottom=_BOTTOM, title="seconds before now", ticks=[-120.0, -90.0, -60.0, -30.0, 0.0])
    for start in starts:
        if start.at_s >= -SHOWN_S:
            d.line(x(start.at_s), _TOP, x(start.at_s), _BOTTOM, colour=FAINT, dash="2 3")
            d.text(x(start.at_s) + 3, _TOP + 6, f"trial {start.number}", size=11, colour=QUIET)
    for rate in bounds.values():
        d.line(_LEFT, y(rate / factor), _RIGHT, y(rate / factor), colour=SERIES[3], width=1.5, dash="9 3 2 3")
    for word, points in drawn:
        colour, dash = _STYLES[word]
        d.path([(x(t), y(v / factor)) for t, v in points], colour=colour, width=_WIDTHS.get(word, 2), dash=dash)
        d.mark(x(points[-1][0]), y(points[-1][1] / factor), "circle", colour=colour, size=3)
    ends = [(y(points[-1][1] / factor), word, _STYLES[word][0]) for word, points in drawn]
    ends += [(y(rate / factor), name, SERIES[3]) for name, rate in bounds.items()]
    for at, (_, words, colour) in zip(_apart([at for at, _, _ in sorted(ends)]), sorted(ends), strict=True):
        d.text(_RIGHT + 8, at, words, size=12, colour=colour, bold=True)
    newest = ", ".join(f"{word} {si(points[-1][1], unit)}" for word, points in drawn)
    bounds_words = "".join(f"; {name} {si(rate, unit)}" for name, rate in bounds.items())
    box = (_LEFT - left - 4, _TOP - 10, _RIGHT + _WORDS + left + 4, _BOTTOM + below + 10)
    return Plot(f"live-{place}", title, f"{title}, the last two minutes. Now {newest}{bounds_words}.", d, box)


def _apart(wanted: Sequence[float]) -> Iterator[float]:
    """Yield heights near the wanted ones, ascending, so that words do not overlap."""
    taken = float("-inf")
    for height in wanted:
        taken = max(height, taken + _LINE_ROOM)
        yield taken
