"""Compiled templates, kept in the user's cache: compiling the page takes longer than the rest of a small report.

They are not kept next to the templates: no installer would know of them, and pip would leave their folders behind. A compiled template is
code. So one is read only if this user owns its file and no other user may write it: sudo may keep the HOME of another user. Nothing is
kept under `-B`, and a folder that cannot be written means compiling each time, as for a module (PEP 3147).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache

from dutlab.own_folder import is_private, own_folder
from dutlab.user_cache import user_cache


class KeptTemplates(BytecodeCache):
    """Implements jinja2's cache. A file in it names the template's own checksum, and another version of Python or jinja2 ignores it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_cache() / "templates"

    def load_bytecode(self, bucket: Bucket) -> None:
        """Leaves `bucket` empty when nothing is kept, or by somebody else."""
        with suppress(OSError), self._place(bucket).open("rb") as f:
            if is_private(os.fstat(f.fileno())):
                bucket.load_bytecode(f)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Whole or not at all, since another report may be written at the same time."""
        if sys.dont_write_bytecode:
            return
        place = self._place(bucket)
        part = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            own_folder(place.parent)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
                f.write(bucket.bytecode_to_string())
            part.replace(place)
        except OSError:
            with suppress(OSError):
                part.unlink()

    def _place(self, bucket: Bucket) -> Path:
        """jinja2's key is a hash of the template's name and path."""
        return self._folder / f"{bucket.key}.{sys.implementation.cache_tag}"
