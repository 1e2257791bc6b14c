"""Write files once and atomically: a file is whole or absent, even if the machine stops meanwhile."""

from __future__ import annotations

import enum
import errno
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from dutlab.errors import StoreError


class Sync(enum.Enum):
    """Time from which written data survives a crash of the machine."""

    EACH = "each"
    """When the call has returned: for measured data."""
    AT_END = "at-end"
    """When the run is closed: for data that can be made again from other files."""


class DiskFull(StoreError):
    """Error: no space for a file. No part of it remains. `needed_bytes` is None if unknown."""

    def __init__(self, *, path: Path, needed_bytes: int | None, free_bytes: int) -> None:
        needed = "" if needed_bytes is None else f"{needed_bytes} bytes needed, "
        super().__init__(
            f"{path}: no space left ({needed}{free_bytes} bytes free)",
            remedy="free some space and continue with `dutlab resume`, or write elsewhere with --runs",
        )
        self.path, self.needed_bytes, self.free_bytes = path, needed_bytes, free_bytes


class AlreadyWritten(StoreError):
    """Error: a file of a run exists already. It is never rewritten."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: exists already, and a run's files are never rewritten", remedy="start a new run, or resume this one")
        self.path = path


def disk_full(path: Path, needed_bytes: int | None) -> DiskFull:
    """Return the error for `path`, with the bytes that are free on its file system now."""
    where = next(p for p in (path, *path.parents) if p.exists())
    return DiskFull(path=path, needed_bytes=needed_bytes, free_bytes=shutil.disk_usage(where).free)


_HALF_MADE = re.compile(r"\..+\.(?P<pid>\d+)\.part")
_SYNCS_AT_ONCE = 4
_OWNER_AND_MODE = "check the owner and the mode of the folder"
_IN_THE_WAY = "a file is where a folder is needed; name another place"
_REMEDIES = {
    errno.EEXIST: _IN_THE_WAY,
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EROFS: "the file system is mounted read-only; name another place",
}


def as_store_error(error: OSError, path: Path, needed_bytes: int | None) -> StoreError:
    """Return the user's error for a failed system call on `path`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(path, needed_bytes)
    return StoreError(f"{path}: cannot be written: {error.strerror}", remedy=_REMEDIES.get(error.errno or 0, _OWNER_AND_MODE))


@contextmanager
def stored_at(path: Path) -> Iterator[None]:
    """Raise an OSError of the block as the StoreError of `path`."""
    try:
        yield
    except OSError as error:
        raise as_store_error(error, path, None) from error


def rename_folder(folder: Path, new: Path) -> None:
    """Rename a folder durably. Raises StoreError."""
    with stored_at(new):
        folder.rename(new)
        sync_directory(new.parent)


def sync_directory(path: Path) -> None:
    """Make the names in the folder `path` durable (fsync(2): a file's own fsync does not cover its directory entry)."""
    _sync(path)


def sync_all(paths: Iterable[Path]) -> None:
    """Make contents of files and names in folders durable, several at a time, because file systems commit them together."""
    with ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
        for _ in pool.map(_sync, paths):
            pass


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_once(path: Path, data: bytes, sync: Sync = Sync.EACH, *, folder: int | None = None) -> None:
    """Write `data` to the new file `path`, atomically and durably.

    `folder` is a descriptor of the folder of `path`, if that must not be looked up again. Raises AlreadyWritten, DiskFull, StoreError.
    """
    at = path if folder is None else Path(path.name)
    part = at.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder), "wb") as f:
            f.write(data)
            if sync is Sync.EACH:
                f.flush()
                os.fsync(f.fileno())
        _publish(part, at, path, folder)
        if sync is Sync.EACH:
            sync_directory(path.parent)
    except OSError as error:
        raise as_store_error(error, path, len(data)) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)


def opened_to_append(path: Path) -> BinaryIO:
    """Open a plain file to append to it. Raises OSError."""
    return os.fdopen(open_to_append(path), "ab")


def open_to_append(path: Path, access: int = os.O_WRONLY) -> int:
    """Return a descriptor of a plain file, made if it does not exist. Raises OSError, also for a link, a pipe or a device."""
    handle = os.open(path, access | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a plain file", str(path))
    return handle


def publish(part: Path, path: Path, sync: Sync = Sync.EACH) -> None:
    """Give the finished file `part` its final name. Raises AlreadyWritten, OSError."""
    _publish(part, path, path, None)
    if sync is Sync.EACH:
        sync_directory(path.parent)


def _publish(part: Path, at: Path, path: Path, folder: int | None) -> None:
    """Give `part` the name `at`. Both are relative to the descriptor `folder`, if given; errors name `path`."""
    try:
        os.link(part, at, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        raise AlreadyWritten(path) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        # A file system without hard links (FAT, some network shares): the check and the rename are then two steps.
        with suppress(FileNotFoundError):
            os.stat(at, dir_fd=folder, follow_symlinks=False)
            raise AlreadyWritten(path) from None
        os.rename(part, at, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Lock a half-made folder, to show that its writer is alive. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks: no process removes leftovers there
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def sweep(runs: Path) -> None:
    """Remove the half-made run folders of killed writers, of this or another machine. Unreadable folders stay."""
    for part in runs.glob(".*.part"):
        if part.is_symlink() or not (match := _HALF_MADE.fullmatch(part.name)) or Path("/proc", match["pid"]).exists():
            continue
        with suppress(OSError):
            handle = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(part, ignore_errors=True)
            finally:
                os.close(handle)


def as_json(value: Mapping[str, Any]) -> bytes:
    """Return indented JSON that people can read and `diff`. Raises ValueError for NaN and infinity, which JSON does not have.

    Bytes of a path that are not UTF-8 (surrogates in Python) become the equivalent escapes of JSON.
    """
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n").encode(errors="backslashreplace")
