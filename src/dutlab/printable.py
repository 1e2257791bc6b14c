"""Printable text: the only place that removes characters that control a terminal."""

from __future__ import annotations

import re
import unicodedata

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode general categories: control and format characters (escapes, marks of direction), lone surrogates, line separators."""
_TO_LOOK_AT = re.compile(r"[^ -~]")
_TO_LOOK_AT_IN_LINES = re.compile(r"[^ -~\n\t]")
"""All but ASCII's printable characters, to save time: a plan of 20,000 trials has ten million characters, and hardly any needs a check."""


def printable(text: str) -> str:
    """Return `text` with `?` for each character that moves the cursor, sets a colour, changes the writing direction, or is invisible."""
    return _TO_LOOK_AT.sub(_shown, text)


def printable_lines(text: str) -> str:
    """Return `text` as printable() does, but keep its line ends and tabs."""
    return _TO_LOOK_AT_IN_LINES.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    return "?" if unicodedata.category(match[0]) in _OBEYED else match[0]


def without_login(text: str) -> str:
    """Return `text` without the logins in its addresses: all up to the last `@`, since a password may contain one."""
    return re.sub(r"(?:(?<=://)|^)\S*@", "…@", text)


def about_address(address: str, error: Exception) -> str:
    """Return an address with its error. For an address with a login, omit the error, which may quote a part of the password."""
    shown = without_login(address)
    return f"{shown}: {error}" if shown == address else shown


def value_text(value: object) -> str:
    """Return a value as the text of a table cell."""
    return "" if value is None else f"{value:.7g}" if isinstance(value, float) else str(value)
