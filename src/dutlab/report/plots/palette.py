"""Colours of plots and page. A mode has one colour and one shape in every plot; colour is never the only distinction.

The hues follow Okabe and Ito's set (Color Universal Design, 2008), which the common colour-vision deficiencies keep apart: darkened to
a contrast of at least 4.5 : 1 with white, and lightened for the dark scheme. Plots are drawn in the light colours; in the
dark scheme, the page's style replaces each of them by its counterpart.
"""

from __future__ import annotations

SERIES = ("#0067a8", "#b84a00", "#00734f", "#9c3f78", "#7a6000", "#4a4fa8")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
DASHES = ("", "9 3", "2.5 2.5", "9 3 2.5 3", "5 2", "14 3")
"""Dashes of lines, so that they are distinguishable in grey print."""
INK, QUIET, FAINT, GRID, PAPER = "#1a2029", "#59636f", "#98a1ab", "#e1e5ea", "#ffffff"
KINDS = {"softirq": "#2f5f8f", "irq": "#6f9fc8", "system": "#a8743a", "user": "#d9b989", "steal": "#b3323c"}

DARK = {
    "#0067a8": "#62b5f0",
    "#b84a00": "#ff9a5c",
    "#00734f": "#45cf9f",
    "#9c3f78": "#e897c6",
    "#7a6000": "#dcbc4a",
    "#4a4fa8": "#a9adff",
    INK: "#e8ebef",
    QUIET: "#a3adb8",
    FAINT: "#6c7681",
    GRID: "#2c333b",
    PAPER: "#14181d",
    "#2f5f8f": "#5d97cf",
    "#6f9fc8": "#9cc4e6",
    "#a8743a": "#c99657",
    "#d9b989": "#ead3ae",
    "#b3323c": "#ef6f78",
}
"""Colour above → its counterpart in the dark scheme."""


def dark_rules(prefix: str) -> str:
    """Return CSS that replaces drawn colours by their dark counterparts inside `prefix`."""
    rules = [f"{prefix} [{attribute}='{light}']{{{attribute}:{dark}}}" for light, dark in DARK.items() for attribute in ("fill", "stroke")]
    return "\n".join(rules)


def series_colour(place: int) -> str:
    """Return the colour of the label at `place`; after the last one, colours begin again with another shape."""
    return SERIES[place % len(SERIES)]


def series_dash(place: int) -> str:
    """Return the dashes of the line of the label at `place`; they shift with each round of colours."""
    return DASHES[(place + place // len(SERIES)) % len(DASHES)]


def series_shape(place: int) -> str:
    """Return the shape of the label at `place`; it shifts with each round of colours."""
    return SHAPES[(place + place // len(SERIES)) % len(SHAPES)]
