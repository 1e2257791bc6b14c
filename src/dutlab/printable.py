"""Printable text: the one place that removes what a terminal would obey."""

from __future__ import annotations

import re
import unicodedata

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's general categories: control and format characters (escapes, marks of direction), lone surrogates, separators of lines."""
_TO_LOOK_AT = re.compile(r"[^ -~]")
_TO_LOOK_AT_IN_LINES = re.compile(r"[^ -~\n\t]")
"""All but ASCII's printable characters: a plan of 20,000 trials is ten million characters, of which hardly any is looked at."""


def printable(text: str) -> str:
    """`text` with `?` for each character that moves a cursor, colours, turns the direction of writing, or is invisible."""
    return _TO_LOOK_AT.sub(_shown, text)


def printable_lines(text: str) -> str:
    """Return a printable text of several lines with tabs, which both stay."""
    return _TO_LOOK_AT_IN_LINES.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    return "?" if unicodedata.category(found[0]) in _OBEYED else found[0]


def without_login(text: str) -> str:
    """Without what stands for a login in its addresses: all up to the last `@`, since a password may have one itself."""
    return re.sub(r"(?:(?<=://)|^)\S*@", "…@", text)


def about_address(address: str, error: Exception) -> str:
    """An address and what is wrong with it. Of one with a login its place alone is said: the error may quote a part of the password."""
    shown = without_login(address)
    return f"{shown}: {error}" if shown == address else shown


def value_text(value: object) -> str:
    """A value of a table as a cell of it."""
    return "" if value is None else f"{value:.7g}" if isinstance(value, float) else str(value)
