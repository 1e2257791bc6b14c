"""What a plot is to the page and to files."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.report.plots.svg import SvgDrawing

PNG_SCALE = 2.0


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

    def inline(self) -> str:
        """SVG for inside a page."""
        return self.drawing.inline(self.box, self.described)

    def svg(self) -> bytes:
        """An SVG file."""
        return self.drawing.file(self.box, self.title, self.described).encode()

    def png(self) -> bytes:
        """A PNG file at twice the size, in the colours for light."""
        import vl_convert  # noqa: PLC0415 - 50 ms that only PNG needs

        found: bytes = vl_convert.svg_to_png(self.drawing.file(self.box, self.title, self.described), scale=PNG_SCALE)
        return found
