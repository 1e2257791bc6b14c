"""Safe access to files in a folder by names from outside: from an object store, another site, or a run folder of another machine.

`parts_of` decides which names may be below a folder, and only `Beneath` opens them. It keeps a descriptor of the folder, and the kernel
resolves each name below it without following a symbolic link: openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS.
If the kernel has no openat2 (before Linux 5.6), or a container's filter refuses it, each part of the name is opened with O_NOFOLLOW.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, Self

from dutlab import outside
from dutlab.bounds import RAW, FileBound
from dutlab.errors import StoreError

_OPENAT2 = 437
"""Number of the system call on every architecture of Linux except alpha (include/uapi/asm-generic/unistd.h)."""
_RESOLVE = 0x04 | 0x08  # RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH: include/uapi/linux/openat2.h
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE_BYTES = 1 << 20


class NameFault(enum.StrEnum):
    """Reason for which a name cannot be a file below a folder."""

    ABSOLUTE = "absolute"
    DOTS = "dots"
    """A part is `.` or `..`."""
    EMPTY_PART = "empty-part"
    CONTROL = "control-character"
    LINK = "link"
    """A part is a symbolic link, which may point anywhere."""
    NOT_PLAIN = "not-plain"
    """Not a plain file: a pipe or a device."""


class OutsideFolder(StoreError):
    """Error for a name from outside that must not be opened below a folder."""

    def __init__(self, name: str, kind: NameFault, folder: Path | None = None) -> None:
        where = "" if folder is None else f"{folder}: "
        super().__init__(f"{where}{name!r} is refused as a file name ({kind})", remedy="ask who made this file")
        self.name, self.kind, self.folder = name, kind, folder


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a relative name that may be below a folder. Raises OutsideFolder for every other name."""
    if name.startswith("/"):
        raise OutsideFolder(name, NameFault.ABSOLUTE)
    parts = tuple(name.split("/"))
    if not all(parts):
        raise OutsideFolder(name, NameFault.EMPTY_PART)
    if {".", ".."}.intersection(parts):
        raise OutsideFolder(name, NameFault.DOTS)
    if any(ord(c) < ord(" ") or c == "\x7f" for c in name):
        raise OutsideFolder(name, NameFault.CONTROL)
    return parts


class Beneath:
    """Open folder, and access to the files below it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path
        self._made = set[str]()

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[Self]:
        """Open `folder`. The user named it, so it may be a link. Raises OSError."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield cls(descriptor, folder)
        finally:
            os.close(descriptor)

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Return a descriptor of `name`. No link is followed. Raises OutsideFolder, OSError."""
        parts = parts_of(name)
        try:
            if _has_openat2():
                return _openat2(self._descriptor, name, flags | _SAFE, mode)
            return self._walked(parts, flags | _SAFE, mode)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EXDEV) or (error.errno == errno.ENOTDIR and self._has_link(parts)):
                raise OutsideFolder(name, NameFault.LINK, self._path) from None
            raise

    def read(self, name: str, bound: FileBound) -> bytes:
        """Return the content of a plain file. Raises OutsideFolder, UnfitFile, OSError."""
        with self.open_plain(name, bound) as file:
            return outside.read_within(file.fileno(), self._path / name, bound)

    def open_plain(self, name: str, bound: FileBound) -> BinaryIO:
        """Open a plain file for reading. A pipe or a device is refused at once. Raises OutsideFolder, UnfitFile, OSError."""
        handle = self.open(name, os.O_RDONLY | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OutsideFolder(name, NameFault.NOT_PLAIN, self._path)
        if os.fstat(handle).st_size > bound.most_bytes:
            os.close(handle)
            raise outside.UnfitFile(self._path / name, outside.Unfit.TOO_LARGE, bound)
        return os.fdopen(handle, "rb")

    def make_folder(self, name: str) -> None:
        """Make the folder `name` and its parents. Raises OutsideFolder, OSError."""
        parts = parts_of(name)
        for n, part in enumerate(parts, 1):
            if (here := "/".join(parts[:n])) in self._made:
                continue
            above = self.open("/".join(parts[: n - 1]), _FOLDER) if n > 1 else os.dup(self._descriptor)
            try:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=above)
            finally:
                os.close(above)
            os.close(self.open(here, _FOLDER))  # an existing name may be a link or a file
            self._made.add(here)

    @contextmanager
    def below(self, name: str) -> Iterator[int]:
        """Yield a descriptor of the folder `name`, which is made if it does not exist. Raises OutsideFolder, OSError."""
        self.make_folder(name)
        handle = self.open(name, _FOLDER)
        try:
            yield handle
        finally:
            os.close(handle)

    def write_new(self, name: str, source: BinaryIO) -> None:
        """Write a new file, and make its parent folders.

        Raises OutsideFolder, UnfitFile if the source is too large, FileExistsError, OSError.
        """
        if above := "/".join(parts_of(name)[:-1]):
            self.make_folder(above)
        with os.fdopen(self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            while part := source.read(_AT_ONCE_BYTES):
                if file.tell() + len(part) > RAW.most_bytes:
                    raise outside.UnfitFile(self._path / name, outside.Unfit.TOO_LARGE, RAW)
                file.write(part)

    def _walked(self, parts: tuple[str, ...], flags: int, mode: int) -> int:
        """Open the name one part at a time, without openat2(2)."""
        above = os.dup(self._descriptor)
        try:
            for part in parts[:-1]:
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
                os.close(above)
                above = below
            return os.open(parts[-1], flags, mode, dir_fd=above)
        finally:
            os.close(above)

    def _has_link(self, parts: tuple[str, ...]) -> bool:
        """Return whether a part is a link. O_DIRECTORY | O_NOFOLLOW gives ENOTDIR for links and for files."""
        for n in range(1, len(parts) + 1):
            with suppress(OSError):
                if stat.S_ISLNK(os.stat("/".join(parts[:n]), dir_fd=self._descriptor, follow_symlinks=False).st_mode):
                    return True
        return False


class _OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(folder: int, name: str, flags: int, mode: int) -> int:
    """Return a descriptor of `name` below the descriptor `folder`, by openat2(2). Raises OSError."""
    how = _OpenHow(flags, mode if flags & os.O_CREAT else 0, _RESOLVE)
    handle = _libc().syscall(
        ctypes.c_long(_OPENAT2), ctypes.c_int(folder), os.fsencode(name), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
    )
    if handle < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return int(handle)


@cache
def _has_openat2() -> bool:
    """Return whether the kernel has openat2(2), and no filter refuses it."""
    here = os.open("/", _FOLDER)
    try:
        os.close(_openat2(here, ".", _FOLDER, 0))
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(here)
