"""The records of a run folder as tests read them: plain JSON, with figures by place and name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dutlab.subject import Figures, Subject, Way


def record_in(path: Path) -> dict[str, Any]:
    """What a record.json holds, its lists of figures as place → figure → value, with the commands out of details.json beside it."""
    record: dict[str, Any] = json.loads(path.read_text())
    details = path.with_name("details.json")
    commands = json.loads(details.read_text())["commands"] if details.exists() else []
    return record | {"commands": commands} | {name: _by_place(record[name]) for name in ("figures", "ceilings")}


def _by_place(entries: list[dict[str, Any]]) -> Figures:
    return Figures.of((_subject(**entry["subject"]), entry["values"]) for entry in entries)


def _subject(places: list[str], way: str = "forward", part: str = "") -> Subject:
    return Subject(tuple(places), Way(way), part)
