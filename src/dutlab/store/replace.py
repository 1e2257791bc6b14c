"""Files that follow from others and may be written again: reports, plots, caches. Whole or as before, and never outside their folder.

A run folder may have come from anywhere. So a name out of a record becomes a file name here and nowhere else, and a symbolic link that
lies in a run is not followed: what it points to belongs to somebody else.
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
from dutlab.store.write import as_store_error

_LONGEST = 100
_MODE = 0o666
"""Less the umask, as of any file that a program writes."""


def file_name(text: str) -> str:
    """`text` as one part of a path: what cannot be in a name becomes `-`, `..` and an empty text included."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).strip("-.+")[:_LONGEST].rstrip("-.") or "unnamed"


def file_names(texts: Iterable[str]) -> list[str]:
    """Return a file name for each text, each name once: `x`, `x-2`."""
    names, taken = list[str](), set[str]()
    for base in map(file_name, texts):
        free = (name for n in count(1) if (name := base if n == 1 else f"{base}-{n}").lower() not in taken)
        names.append(next(free))
        taken.add(names[-1].lower())  # there are file systems that do not tell cases apart
    return names


def folder_in(run: Path, *names: str) -> Path:
    """A folder inside a run, made when it is not there. Raises InputError for a symbolic link on the way, StoreError."""
    folder = run
    for name in names:
        folder = folder / file_name(name)
        if folder.is_symlink():
            raise InputError(
                f"{folder}: is a symbolic link, and nothing is written through it", remedy="remove it, or name a folder with -o"
            )
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise as_store_error(error, folder, None) from error
    return folder


def replace_file(path: Path, data: bytes) -> Path:
    """Writes `path` whole, in the place of what was there; a link in its place is replaced, not followed. Raises StoreError."""
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
        with contextlib.suppress(OSError):  # its folder may be none
            part.unlink()
    return path
