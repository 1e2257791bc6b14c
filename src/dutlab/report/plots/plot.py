"""A plot, for the page and for files."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.report.plots.explored import Explored
from dutlab.report.plots.palette import QUIET
from dutlab.report.plots.svg import SvgDrawing, text_width

PNG_SCALE = 2.0
TITLE_SIZE, SOURCE_SIZE = 15.0, 11.5
BOLDER = 1.12
"""Width of bold letters, as a multiple of normal ones."""


@dataclass(frozen=True)
class Plot:
    """A drawing with its name for files and its words for people who do not see it."""

    name: str
    title: str
    described: str
    drawing: SvgDrawing
    box: tuple[float, float, float, float]
    """x, y, width, height of what was drawn, in pixels."""
    note: str = ""
    """Said below it: what could not be drawn to scale."""
    below: str = ""
    """Slug of the table that it is below; empty for the end of its section."""
    source: str = ""
    """Run and date, for a separate picture."""
    explored: Explored | None = None
    """Its numbers, for the page's script; None for a drawing that stays as it is."""

    def inline(self) -> str:
        """SVG for inside a page."""
        return self.drawing.inline(self.box, self.described)

    def data(self) -> str:
        """JSON of its numbers; empty without any."""
        return self.explored.text() if self.explored else ""

    def svg(self) -> bytes:
        """An SVG file with its title above and its source below, so that it can be read alone."""
        x, y, width, height = self.box
        wide = max(width, text_width(self.title, TITLE_SIZE) * BOLDER + 12, text_width(self.source, SOURCE_SIZE) + 12)
        d = self.drawing.copy()
        d.text(x + 6, y - 18, self.title, size=TITLE_SIZE, bold=True)
        d.text(x + 6, y + height + 14, self.source, size=SOURCE_SIZE, colour=QUIET)
        return d.file((x, y - 34, wide, height + 60), self.title, self.described).encode()

    def png(self) -> bytes:
        """A PNG file of the same at twice the size, in the colours for light."""
        import vl_convert  # noqa: PLC0415 - 50 ms that only PNG needs

        image: bytes = vl_convert.svg_to_png(self.svg().decode(), scale=PNG_SCALE)
        return image
