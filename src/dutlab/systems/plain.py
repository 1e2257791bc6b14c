"""Plain text of programs: variables that make them write colours, and the removal of escape sequences."""

from __future__ import annotations

import re

COLOURFUL = ("LANGUAGE", "CLICOLOR_FORCE", "FORCE_COLOR")
"""Variables that override LC_ALL and NO_COLOR; our commands run without them."""

# ECMA-48: control sequences, operating system commands (titles), and escapes of two characters.
_ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])"


def plain(text: str) -> str:
    """Return the text without colours, titles, cursor movements, and carriage returns before a newline."""
    return re.sub(_ESCAPES, "", text).replace("\r\n", "\n")
