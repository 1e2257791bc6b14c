"""Compiled templates, kept in the user's cache: compiling the page takes longer than the rest of a small report.

They are not next to the templates, because pip would not remove them there. A compiled template is code, so it is read only if this user
owns the file and no other user may write it: sudo may keep the HOME of another user. Nothing is kept under `-B`. If the folder cannot be
written, templates are compiled each time, as modules are (PEP 3147).
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
    """Bytecode cache of jinja2, in files. Each has the template's checksum; other versions of Python or jinja2 ignore it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or user_cache() / "templates"

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load `bucket`; it stays empty if there is no file, or if another user may have written it."""
        with suppress(OSError), self._place(bucket).open("rb") as f:
            if is_private(os.fstat(f.fileno())):
                bucket.load_bytecode(f)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write `bucket` atomically, since another report may be written at the same time."""
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
        """Return the file of a template; jinja2's key is a hash of its name and path."""
        return self._folder / f"{bucket.key}.{sys.implementation.cache_tag}"
