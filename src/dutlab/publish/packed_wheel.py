"""Comparison of a wheel of dutlab with the dutlab that runs: two commits may have one version, and runs that only one of them reads."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_MOST_BYTES = 4 << 20
"""Largest module that is compared; a larger one counts as different. dutlab's have 40 kB."""
_MOST_MODULES = 10_000


def note_on(wheel: bytes) -> str:
    """Return what the maker of an artifact should know about the wheel in it; empty if its modules are those that run now."""
    ours = {f"dutlab/{path.relative_to(_PACKAGE).as_posix()}": path for path in _PACKAGE.rglob("*.py")}
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            theirs = [entry for entry in archive.infolist() if entry.filename.startswith("dutlab/") and entry.filename.endswith(".py")]
            differing = {*(ours.keys() ^ {entry.filename for entry in theirs})}
            if len(theirs) <= _MOST_MODULES:
                differing |= {
                    entry.filename for entry in theirs if entry.filename in ours and not _same(archive, entry, ours[entry.filename])
                }
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        return f"note: the package cannot be read as a wheel, so it cannot be installed: {error}"
    if not differing:
        return ""
    return (
        f"note: the package has another dutlab than this one ({len(differing)} modules differ); it may not read these runs. "
        "Make it again with scripts/wheel, from the commit that measured"
    )


def _same(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> bool:
    if entry.file_size > _MOST_BYTES:
        return False
    with archive.open(entry) as module:
        return module.read(_MOST_BYTES + 1) == path.read_bytes()
