"""Meanings of the column heads of reports: the terms of docs/glossary.md, as scripts/docs writes them into glossary.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

MEANINGS: Final[dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""Term in lower case → its meaning."""


def meaning(head: str) -> str:
    """Return the glossary's meaning of a column head, with or without a unit after a comma; empty for other words."""
    words = head.replace("\u00ad", "").casefold()
    return MEANINGS.get(words) or MEANINGS.get(words.partition(",")[0], "")
