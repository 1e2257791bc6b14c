"""Flame graphs: a box per function, as wide as its share of samples, above its caller."""

from __future__ import annotations

from dutlab.report.model.flame import Flame
from dutlab.report.plots.palette import GRID, INK, KINDS, PAPER, SERIES
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.svg import SvgDrawing, shortened, text_width

WIDTH, STEP, SIZE = 900.0, 17.0, 11.0
CHANGED = 0.005
"""Smallest change of a share that is coloured."""


def flame_plot(flame: Flame) -> Plot | None:
    """Draw a flame graph; None without samples. The outermost functions are at the bottom."""
    if not flame.boxes:
        return None
    deepest = max(box.depth for box in flame.boxes)
    d = SvgDrawing()
    for box in flame.boxes:
        x, y, wide = box.begins * WIDTH, (deepest - box.depth) * STEP, box.share * WIDTH
        d.rect(x, y, max(wide - 0.5, 0.5), STEP - 1, colour=_colour(box.change))
        if (room := int((wide - 6) / text_width("x", SIZE))) >= 4:  # noqa: PLR2004 -- fewer letters say nothing
            d.text(
                x + 3,
                y + STEP / 2,
                shortened(box.name, room),
                size=SIZE,
                colour=PAPER if box.change is not None and _moved(box.change) else INK,
            )
    described = f"{flame.title}: a box a function, as wide as its share of samples"
    return Plot(flame.slug, flame.title, described, d, (0.0, 0.0, WIDTH, (deepest + 1) * STEP), note=flame.lead)


def _moved(change: float) -> bool:
    return abs(change) >= CHANGED


def _colour(change: float | None) -> str:
    if change is None:
        return KINDS["user"]
    return GRID if not _moved(change) else KINDS["steal"] if change > 0 else SERIES[0]
