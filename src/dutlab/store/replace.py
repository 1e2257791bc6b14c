"""Write derived files that may be written again, such as reports, plots and caches: atomically, and never outside their folder.

A run folder may be from anywhere. So only this module turns a name in a record into a file name, and it follows no symbolic link in
a run, because its target may be another user's file.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from dutlab.errors import InputError
from dutlab.store.write import as_store_error, stored_at

_LONGEST = 100
_MODE = 0o666
"""Mode of new files before the umask."""


def file_name(text: str) -> str:
    """Return `text` as one part of a path. Characters that cannot be in a name become `-`; an empty result becomes `unnamed`."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).strip("-.+")[:_LONGEST].rstrip("-.") or "unnamed"


def file_names(texts: Iterable[str]) -> list[str]:
    """Return a file name for each text, without duplicates: `x`, `x-2`."""
    names, taken = list[str](), set[str]()
    for base in map(file_name, texts):
        free = (name for n in count(1) if (name := base if n == 1 else f"{base}-{n}").lower() not in taken)
        names.append(next(free))
        taken.add(names[-1].lower())  # some file systems ignore case
    return names


def folder_in(run: Path, *names: str) -> Path:
    """Return a folder inside a run; make it if needed. Raises InputError if a part of its path is a symbolic link, StoreError."""
    folder = run
    for name in names:
        folder = folder / file_name(name)
        if folder.is_symlink():
            raise InputError(
                f"{folder}: is a symbolic link, and nothing is written through it", remedy="remove it, or name a folder with -o"
            )
        with stored_at(folder):
            folder.mkdir(exist_ok=True)
    return folder


def replace_file(path: Path, data: bytes) -> Path:
    """Write or replace `path` atomically. A link is replaced, not followed. Raises StoreError."""
    part = path.with_name(f".{file_name(path.name)}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        with open(handle, "wb") as f:  # noqa: PTH123 - a descriptor
            f.write(data)
        part.replace(path)
    except OSError as error:
        raise as_store_error(error, path, len(data)) from error
    finally:
        with contextlib.suppress(OSError):  # its folder may not exist
            part.unlink()
    return path
