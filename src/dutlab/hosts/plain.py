"""Output of a program that writes for a terminal, as the text that a reader would see."""

from __future__ import annotations

import re

# ECMA-48: control sequences, operating system commands (titles), and the escapes of two characters.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


def plain(text: str) -> str:
    """Without colours, titles and cursor movements; carriage returns before a newline go too."""
    return _ESCAPES.sub("", text).replace("\r\n", "\n")
