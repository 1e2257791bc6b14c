"""Notes, pictures and files that people added to a run, each file with its hash."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from dutlab import outside
from dutlab.bounds import ADDITION
from dutlab.report.model.run_report import ShownAddition
from dutlab.store.additions import additions_of
from dutlab.store.manifest import ADDITIONS

_PICTURES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
_LARGEST_INSIDE = 4 * 2**20
"""Largest picture in bytes that the page contains; larger ones are linked."""


def shown_additions(run: Path, folder: str, faults: list[str]) -> Iterator[ShownAddition]:
    """Yield additions, oldest first; `folder` is the run's path relative to the report. Pictures are recognised by their first bytes."""
    for of in additions_of(run, faults):
        added = of.added.strftime("%Y-%m-%d %H:%M UTC")
        if of.file is None:
            yield ShownAddition(of.text, of.by, added)
            continue
        content, href = outside.read(run / ADDITIONS / of.file, ADDITION), f"{folder}/{ADDITIONS}/{quote(of.file)}"
        kind = next((kind for first, kind in _PICTURES.items() if content.startswith(first)), "")
        shown = kind and len(content) <= _LARGEST_INSIDE
        picture = f"data:image/{kind};base64,{b64encode(content).decode('ascii')}" if shown else ""
        facts = tuple((of.facts or {}).items())
        yield ShownAddition(of.text, of.by, added, of.file, href, of.sha256 or "", of.size_bytes or 0, picture, of.host or "", facts)
