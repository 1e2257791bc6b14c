"""SVG drawing of lines, marks and text at positions in pixels.

Colours are attributes with values of the light scheme, so that any viewer shows them; a style may replace them by dark ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import takewhile
from typing import Literal

from dutlab.report.plots.palette import FAINT, GRID, INK, PAPER, dark_rules

FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"
TOLD_SIZE, TOLD_STEP = 12.5, 16.0
TOLD_RULE = ".told:hover>g{display:inline}"
"""CSS that shows the values of an area while the pointer is on it."""
WIDE = 0.58
"""Width of an average letter, in font sizes; a safe estimate, since text is not measured."""
Anchor = Literal["start", "middle", "end"]


def text_width(text: str, size: float) -> float:
    """Return the approximate width of `text` in pixels."""
    return len(text) * size * WIDE


def shortened(text: str, most: int = 30) -> str:
    """Shorten a name for a drawing; tables have the whole name."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def distinct(texts: Iterable[str], most: int = 30) -> dict[str, str]:
    """Return name → name for a drawing: of at most `most` letters where names stay different, else whole.

    The end is cut first. If that makes names equal, the middle is cut instead, and otherwise the beginning.
    """
    names = list(dict.fromkeys(texts))
    if not names:
        return {}
    half = (most - 1) // 2
    begun = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))) if len(names) > 1 else 0
    begun = names[0].rfind(" ", 0, begun) + 1 or begun  # at a word, so that no number is cut
    cuts = (
        {t: shortened(t, most) for t in names},
        {t: t if len(t) <= most else f"{t[:half]}…{t[half + 1 - most :]}" for t in names},
        {t: t if len(t) <= most else shortened(f"…{t[begun:]}", most) for t in names},
    )
    return next((cut for cut in cuts if len(set(cut.values())) == len(names)), {name: name for name in names})


class SvgDrawing:
    """Elements of a drawing in drawing order: later ones cover earlier ones."""

    def __init__(self) -> None:
        self._elements: list[str] = []
        self._hover_texts: list[str] = []

    def copy(self) -> SvgDrawing:
        """Return a copy to draw on."""
        drawing = SvgDrawing()
        drawing._elements, drawing._hover_texts = [*self._elements], [*self._hover_texts]
        return drawing

    def line(self, x1: float, y1: float, x2: float, y2: float, *, colour: str = GRID, width: float = 1, dash: str = "") -> None:
        """Draw a straight line."""
        self._elements.append(f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" {_stroke(colour, width, dash)}/>')

    def path(self, points: Sequence[tuple[float, float]], *, colour: str, width: float = 2, dash: str = "") -> None:
        """Draw a line through points."""
        if len(points) > 1:
            d = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
            self._elements.append(f'<path d="{d}" {_stroke(colour, width, dash)} stroke-linejoin="round"/>')

    def rect(self, x: float, y: float, width: float, height: float, *, colour: str) -> None:
        """Draw a filled box."""
        self._elements.append(f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="{colour}"/>')

    def mark(self, x: float, y: float, shape: str, *, colour: str, size: float = 4, hollow: bool = False) -> None:
        """Draw a mark centred on a point: circle, square, triangle-up, triangle-down, diamond or cross."""
        paint = f'fill="{PAPER}" stroke="{colour}" stroke-width="1.5"' if hollow else f'fill="{colour}"'
        if shape == "circle":
            self._elements.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(size)}" {paint}/>')
            return
        corners = " ".join(f"{_n(x + dx * size)},{_n(y + dy * size)}" for dx, dy in _CORNERS[shape])
        self._elements.append(f'<polygon points="{corners}" {paint}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        colour: str = INK,
        anchor: Anchor = "start",
        bold: bool = False,
        italic: bool = False,
        halo: bool = False,
    ) -> None:
        """Draw text whose middle is at `y`; `halo` hides lines behind it."""
        style = (' font-weight="600"' if bold else "") + (' font-style="italic"' if italic else "")
        style += f' stroke="{PAPER}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if halo else ""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        # The baseline of Latin letters is a third of the size below their middle; viewers differ in how they draw dominant-baseline.
        at = f'x="{_n(x)}" y="{_n(y + size * 0.35)}"'
        self._elements.append(f'<text {at} font-size="{_n(size)}" fill="{colour}"{place}{style}>{escape(text, quote=False)}</text>')

    def turned_text(self, x: float, y: float, text: str, *, size: float = 12, colour: str = INK) -> None:
        """Draw text that reads upwards, centred on the point."""
        self._elements.append(
            f'<text transform="translate({_n(x)} {_n(y)}) rotate(-90)" font-size="{_n(size)}" fill="{colour}" text-anchor="middle">'
            f"{escape(text, quote=False)}</text>"
        )

    def hover_text(self, x: float, y: float, width: float, height: float, lines: Sequence[str], *, at: float, right: float) -> None:
        """Make an area that shows `lines` while the pointer is on it, from `at` on, but not beyond `right`. It needs no script."""
        wide = max(text_width(line, TOLD_SIZE) for line in lines) + 14
        left = min(at, right - wide)
        high = len(lines) * TOLD_STEP + 8
        top = y + height / 2 - high / 2
        words = "".join(
            f'<text x="{_n(left + 7)}" y="{_n(top + 4 + TOLD_STEP * (n + 0.72))}" font-size="{_n(TOLD_SIZE)}" fill="{INK}">'
            f"{escape(line, quote=False)}</text>"
            for n, line in enumerate(lines)
        )
        box = f'x="{_n(left)}" y="{_n(top)}" width="{_n(wide)}" height="{_n(high)}" rx="3" fill="{PAPER}" stroke="{FAINT}"'
        area = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="none" pointer-events="all"'
        self._hover_texts.append(f'<g class="told"><rect {area}/><g display="none"><rect {box}/>{words}</g></g>')

    def inline(self, box: tuple[float, float, float, float], described: str) -> str:
        """Return SVG for a page, which decides its size, with a label for screen readers. `box` is x, y, width, height."""
        label = f'role="img" aria-label="{escape(described)}"'
        return f'<svg {label} {_view(box)} font-family="{FONT}">{"".join((*self._elements, *self._hover_texts))}</svg>'

    def file(self, box: tuple[float, float, float, float], title: str, described: str) -> str:
        """Return a standalone SVG file, in the colours of the reader's scheme."""
        x, y, width, height = box
        dark = f"@media (prefers-color-scheme:dark){{{dark_rules('svg')}}}"
        paper = f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" fill="{PAPER}"/>'
        size = f'{_view(box)} width="{_n(width)}" height="{_n(height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} font-family="{FONT}">'
            f"<title>{escape(title, quote=False)}</title><desc>{escape(described, quote=False)}</desc>"
            f"<style>{dark}{TOLD_RULE}</style>{paper}{''.join((*self._elements, *self._hover_texts))}</svg>\n"
        )


def corners(shape: str) -> Sequence[tuple[float, float]]:
    """Return the corners of a mark of size 1 around 0, 0; a circle has none."""
    return _CORNERS.get(shape, ())


_CORNERS = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle-up": ((0, -1.2), (1.15, 0.85), (-1.15, 0.85)),
    "triangle-down": ((0, 1.2), (1.15, -0.85), (-1.15, -0.85)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "cross": (
        (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
        (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
    ),
}  # fmt: skip


def _n(value: float) -> str:
    """Format a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _stroke(colour: str, width: float, dash: str) -> str:
    return f'fill="none" stroke="{colour}" stroke-width="{_n(width)}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _view(box: tuple[float, float, float, float]) -> str:
    return f'viewBox="{" ".join(_n(v) for v in box)}"'
