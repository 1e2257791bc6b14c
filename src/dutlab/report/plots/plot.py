"""A plot, for the page and for files."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.report.plots.explored import Explored, add_hover_values
from dutlab.report.plots.palette import QUIET
from dutlab.report.plots.svg import SvgDrawing, text_width

PNG_SCALE = 2.0
TITLE_SIZE, SOURCE_SIZE = 15.0, 11.5
BOLDER = 1.12
"""Width of bold letters, as a multiple of normal ones."""


@dataclass(frozen=True)
class Plot:
    """A drawing with its file name, and a description for screen readers."""

    name: str
    title: str
    described: str
    drawing: SvgDrawing
    box: tuple[float, float, float, float]
    """x, y, width, height of the drawing, in pixels."""
    note: str = ""
    """Text below it, on values that could not be drawn to scale."""
    below: str = ""
    """Slug of the table that it is below; empty for the end of its section."""
    source: str = ""
    """Run and date, for a separate picture."""
    explored: Explored | None = None
    """Numbers for the page's script; None for a static drawing."""

    def inline(self) -> str:
        """Return SVG to embed in a page."""
        return self.drawing.inline(self.box, self.described)

    def data(self) -> str:
        """Return its numbers as JSON; empty without any."""
        return self.explored.text() if self.explored else ""

    def svg(self) -> bytes:
        """Return an SVG file with the title above and the source below, so that it can be read alone."""
        x, y, width, height = self.box
        wide = max(width, text_width(self.title, TITLE_SIZE) * BOLDER + 12, text_width(self.source, SOURCE_SIZE) + 12)
        d = self.drawing.copy()
        if self.explored is not None:
            add_hover_values(self.explored, d, right=x + width)
        d.text(x + 6, y - 18, self.title, size=TITLE_SIZE, bold=True)
        d.text(x + 6, y + height + 14, self.source, size=SOURCE_SIZE, colour=QUIET)
        return d.file((x, y - 34, wide, height + 60), self.title, self.described).encode()

    def png(self) -> bytes:
        """Return svg() as a PNG file at twice the size, in the light colours."""
        import vl_convert  # noqa: PLC0415 - 50 ms that only PNG needs

        image: bytes = vl_convert.svg_to_png(self.svg().decode(), scale=PNG_SCALE)
        return image
