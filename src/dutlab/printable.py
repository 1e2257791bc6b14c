"""What a text may show: the one place that takes out of it what a terminal would obey."""

from __future__ import annotations

import unicodedata

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's general categories: control and format characters (escapes, marks of direction), lone surrogates, separators of lines."""


def printable(text: str) -> str:
    """`text` with `?` for each character that moves a cursor, colours, turns the direction of writing, or is invisible."""
    return "".join("?" if unicodedata.category(c) in _OBEYED else c for c in text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines with tabs, which both stay."""
    return "".join(c if c in "\n\t" else printable(c) for c in text)
