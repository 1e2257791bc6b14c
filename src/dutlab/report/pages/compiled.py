"""Compiled templates, kept where Python keeps its own bytecode: to compile the page takes longer than all else that a small report takes.

The place, and that nothing is kept under `-B`, are Python's (PEP 3147, PYTHONPYCACHEPREFIX), and so is the trust: who may write there may
write our modules' bytecode too. A folder that is not ours to write to means compiling each time, as for a module.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache


class BesideTemplates(BytecodeCache):
    """Implements jinja2's cache. A file in it names the template's own checksum, and another version of Python or jinja2 ignores it."""

    def __init__(self, templates: Path) -> None:
        self._templates = templates

    def load_bytecode(self, bucket: Bucket) -> None:
        """Leaves `bucket` empty when nothing is kept."""
        with suppress(OSError), self._place(bucket).open("rb") as f:
            bucket.load_bytecode(f)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Whole or not at all, since another report may be written at the same time."""
        if sys.dont_write_bytecode:
            return
        place = self._place(bucket)
        part = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(bucket.bytecode_to_string())
            part.replace(place)
        except OSError:
            with suppress(OSError):
                part.unlink()

    def _place(self, bucket: Bucket) -> Path:
        """jinja2's key is a hash of the template's name and path."""
        return Path(cache_from_source(str(self._templates / f"{bucket.key}.j2")))
