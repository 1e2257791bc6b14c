"""Output as the text that a reader would see: what is kept from programs lest they write colours, and what is taken out if they do."""

from __future__ import annotations

import re

COLOURFUL = ("LANGUAGE", "CLICOLOR_FORCE", "FORCE_COLOR")
"""Variables that count for more than LC_ALL and NO_COLOR; no command of ours has them."""

# ECMA-48: control sequences, operating system commands (titles), and the escapes of two characters.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def plain(text: str) -> str:
    """Without colours, titles and cursor movements; carriage returns before a newline go too."""
    return _ESCAPES.sub("", text).replace("\r\n", "\n")
