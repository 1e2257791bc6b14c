"""Zip files of artifacts: the same files give the same bytes, and a file from a stranger is unpacked within limits.

Zip, because every system opens it without another program, and viewers of RO-Crate read it. A tar.zst would be smaller.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from dutlab import outside
from dutlab.bounds import ARTIFACT, ARTIFACT_FILES, ARTIFACT_INDEX_BYTES
from dutlab.errors import InputError
from dutlab.outside import AtLink, UnfitFile
from dutlab.store.beneath import Beneath, OutsideFolder, parts_of
from dutlab.store.replace import file_name
from dutlab.store.write import as_store_error

_AT_ONCE_BYTES = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Earliest time that zip can state."""
_MODE, _FOLDER_MODE = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755
_UNIX = 3
_ENCRYPTED = 0x1
_REMEDY = "ask its author for another copy"
_END = struct.Struct("<4s4H2LH")
"""End of the index (APPNOTE 4.3.16): signature, disk numbers, numbers of entries, size and place of the index, length of the comment."""
_END_SIGNATURE, _LOCATOR_SIGNATURE = b"PK\5\6", b"PK\6\7"
_LONGEST_COMMENT = 1 << 16
_END_64, _LOCATOR_64 = struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
"""End record of zip64, whose last but one field is the size of the index, and the locator between it and the usual end (4.3.14, 4.3.15)."""


def files_below(folder: Path) -> list[str]:
    """Return the relative names of all files below a folder, sorted by their bytes."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def pack(folder: Path, path: Path) -> None:
    """Write all files below `folder` to the zip file `path`, which appears whole.

    Raises InputError for too many files or bytes, StoreError.
    """
    names = files_below(folder)
    if len(names) > ARTIFACT_FILES or sum((folder / name).stat().st_size for name in names) > ARTIFACT.most_bytes:
        raise InputError(
            f"these runs have more than {ARTIFACT_FILES} files or {ARTIFACT.most_bytes >> 30} GiB", remedy="make an artifact of fewer runs"
        )
    part = path.with_name(f".{file_name(path.name)}.{os.getpid()}.part")
    try:
        with part.open("xb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for name in sorted([*names, *_folders_of(names)]):
                entry = zipfile.ZipInfo(name, _EPOCH)
                if entry.is_dir():  # readers of RO-Crate look for the folders that its metadata describe
                    entry.create_system, entry.external_attr = _UNIX, _FOLDER_MODE << 16
                    archive.writestr(entry, b"")
                    continue
                entry.create_system, entry.external_attr, entry.compress_type = _UNIX, _MODE << 16, zipfile.ZIP_DEFLATED
                entry.file_size = (folder / name).stat().st_size  # zip needs to know beforehand whether it is above 4 GiB
                with (folder / name).open("rb") as source, archive.open(entry, "w") as goal:
                    while data := source.read(_AT_ONCE_BYTES):
                        goal.write(data)
        part.replace(path)
    except OSError as error:
        raise as_store_error(error, path, None) from error
    finally:
        part.unlink(missing_ok=True)


def _folders_of(names: list[str]) -> set[str]:
    """Return the folders of files, as zip writes them: with `/` at the end."""
    return {name[: n + 1] for name in names for n, c in enumerate(name) if c == "/"}


def unpack(path: Path, folder: Path) -> list[str]:
    """Unpack an artifact into an empty folder, and return the names of its files.

    Raises InputError for a file that is not zip, is cut or damaged, has links, odd names, too many files or too much in them; StoreError.
    """
    try:
        with outside.opened(path, AtLink.FOLLOWED, most=ARTIFACT) as file, _opened(file, path) as archive:
            entries = archive.infolist()
            faults = list(_faults(entries))
            if faults:
                raise InputError("\n".join(f"{path}: {fault}" for fault in faults[:10]), remedy="nothing was unpacked; ask who made it")
            left = ARTIFACT.most_bytes
            with Beneath.opened(folder) as below:
                for entry in entries:
                    if entry.is_dir():
                        below.make_folder(entry.filename.removesuffix("/"))
                        continue
                    with archive.open(entry) as data:
                        source = _Limited(cast("BinaryIO", data), left)
                        below.write_new(entry.filename, cast("BinaryIO", source))
                    left = source.left
    except UnfitFile as error:
        raise InputError(error.what, remedy=error.remedy) from error
    except _TooMuch:
        raise InputError(f"{path}: has more than {ARTIFACT.most_bytes >> 30} GiB in its files", remedy="ask who made it") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeError, struct.error) as error:
        raise InputError(f"{path}: is damaged: {error}", remedy=_REMEDY) from error
    except FileExistsError as error:
        raise InputError(f"{path}: two of its files have one name", remedy="ask who made it") from error
    except OSError as error:
        raise as_store_error(error, folder, None) from error
    return [entry.filename for entry in entries if not entry.is_dir()]


@contextmanager
def _opened(file: BinaryIO, path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the zip file if its index is small enough to be held in memory."""
    if (size := _index_bytes(file)) is None:
        raise InputError(f"{path}: is not a zip file, or is cut", remedy=_REMEDY)
    if size > ARTIFACT_INDEX_BYTES:
        raise InputError(f"{path}: its index has {size} bytes, which no artifact has", remedy="ask who made it")
    with zipfile.ZipFile(file) as archive:
        yield archive


def _index_bytes(file: BinaryIO) -> int | None:
    """Return the size of the index by its end record, and by that of zip64 where it has one; None without an end record."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _END.size - _LONGEST_COMMENT - _LOCATOR_64.size - _END_64.size))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(_END_SIGNATURE)
    if at < 0 or len(tail) - at < _END.size:
        return None
    *_, size, _place, _comment = _END.unpack_from(tail, at)
    if (before := at - _LOCATOR_64.size - _END_64.size) >= 0:
        size = max(size, _END_64.unpack_from(tail, before)[-2]) if tail[at - _LOCATOR_64.size :].startswith(_LOCATOR_SIGNATURE) else size
    return int(size)


def _faults(entries: list[zipfile.ZipInfo]) -> Iterator[str]:
    """Yield each reason to refuse an archive by its index."""
    if len(entries) > ARTIFACT_FILES:
        yield f"has {len(entries)} files, more than {ARTIFACT_FILES}"
        return
    if sum(entry.file_size for entry in entries) > ARTIFACT.most_bytes:
        yield f"has more than {ARTIFACT.most_bytes >> 30} GiB in its files"
    names = set[str]()
    for entry in entries:
        try:
            parts_of(entry.filename.removesuffix("/"))
        except OutsideFolder as error:
            yield error.what
        kind = stat.S_IFMT(entry.external_attr >> 16) if entry.create_system == _UNIX else 0
        if kind not in {0, stat.S_IFDIR if entry.is_dir() else stat.S_IFREG}:
            yield f"{entry.filename!r} is not a plain file or folder"
        if entry.flag_bits & _ENCRYPTED:
            yield f"{entry.filename!r} is encrypted"
        if entry.filename in names:
            yield f"{entry.filename!r} is in it twice"
        names.add(entry.filename)


class _TooMuch(Exception):
    """More bytes come out of an archive than its limit."""


class _Limited:
    """Reader of a stream that raises _TooMuch beyond a number of bytes. The index states sizes too, but may lie."""

    def __init__(self, source: BinaryIO, left: int) -> None:
        self._source, self.left = source, left

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise _TooMuch
        return data
