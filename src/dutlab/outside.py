"""The only reader of files that others may have made: files of a run, of a site, of another tool, or named by the user.

It reads plain files only, opened with O_NONBLOCK and O_CLOEXEC, so that it never waits for a pipe or device. The size is checked before and
during reading, since a file may grow. A link is followed only where the user named it. A pipe is read only as an experiment or testbed,
within a time limit.
"""

from __future__ import annotations

import csv
import enum
import errno
import io
import json
import os
import select
import stat
import time
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from dutlab import bounds
from dutlab.bounds import FileBound
from dutlab.errors import InputError, StoreError

_AT_ONCE_BYTES = 1 << 20
_LARGEST = 2**64
"""Largest integer that is accepted: no count, size or time in dutlab's files exceeds it."""
DASH, STANDARD_INPUT = Path("-"), Path("/dev/stdin")
_STEP_S = 0.5
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class AtLink(enum.Enum):
    """Treatment of a path that is a symbolic link."""

    REFUSED = "refused"
    """For folders that others may write to: a link could show them a file that they may not read."""
    FOLLOWED = "followed"
    """For a file that the user named."""


class AtPipe(enum.Enum):
    """Treatment of a path that is a pipe."""

    REFUSED = "refused"
    """For a file that is read more than once, or by others."""
    READ = "read"
    """Read to its end, within PIPE_S. `-` is the standard input."""


class Unfit(enum.StrEnum):
    """Reason why a file is not read."""

    LINK = "link"
    NOT_PLAIN = "not-plain"
    """A pipe, a device, a socket or a folder."""
    TOO_LARGE = "too-large"
    TOO_LATE = "too-late"
    """A pipe that was not closed within PIPE_S."""


class UnfitFile(StoreError):
    """A file from outside was not read. `most_bytes` is the size limit, or None where size is not the reason."""

    def __init__(self, path: Path | str, kind: Unfit, bound: FileBound | None = None) -> None:
        if bound is not None:
            what, remedy = f"has more than {bound.most_bytes} bytes, which no {bound.what} has", "ask who made it"
        elif kind is Unfit.TOO_LATE:
            what = f"a pipe that was not written and closed within {bounds.PIPE_S:g} s"
            remedy = "check whether its writer runs, or name a plain file"
        else:
            what = "a symbolic link" if kind is Unfit.LINK else "not a plain file"
            remedy = "the file was changed; verify the run with its MANIFEST.sha256" if kind is Unfit.LINK else "name a plain file"
        super().__init__(f"{path}: {what}", remedy=remedy)
        self.path, self.kind, self.most_bytes = Path(path), kind, None if bound is None else bound.most_bytes


def read(path: Path | str, bound: FileBound, links: AtLink = AtLink.REFUSED, pipes: AtPipe = AtPipe.REFUSED) -> bytes:
    """Return the contents of a file. Raises UnfitFile, OSError."""
    handle = descriptor(path, links, pipes)
    try:  # without a Python file object, to save time: a report reads tens of thousands of files
        return read_within(handle, path, bound)
    finally:
        os.close(handle)


def opened(path: Path, links: AtLink = AtLink.REFUSED, *, most: FileBound | None = None) -> BinaryIO:
    """Open a file for a reader that streams it. Raises UnfitFile, OSError."""
    handle = descriptor(path, links)
    if most is not None and os.fstat(handle).st_size > most.most_bytes:
        os.close(handle)
        raise UnfitFile(path, Unfit.TOO_LARGE, most)
    return os.fdopen(handle, "rb")


def tail(path: Path, most_bytes: int) -> bytes:
    """Return the last `most_bytes` of a file; empty for a missing file. Raises UnfitFile, OSError."""
    try:
        with opened(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most_bytes))
            return file.read(most_bytes)
    except FileNotFoundError:
        return b""


def descriptor(path: Path | str, links: AtLink = AtLink.REFUSED, pipes: AtPipe = AtPipe.REFUSED) -> int:
    """Open a plain file, or a pipe where `pipes` allows it, and return its descriptor. Raises UnfitFile, OSError."""
    flags = _FLAGS if links is AtLink.FOLLOWED else _FLAGS | os.O_NOFOLLOW
    try:
        handle = os.open(STANDARD_INPUT if pipes is AtPipe.READ and path == DASH else path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and links is AtLink.REFUSED:
            raise UnfitFile(path, Unfit.LINK) from None
        if error.errno in (errno.ENXIO, errno.ENODEV):  # a socket, or a device that has no driver
            raise UnfitFile(path, Unfit.NOT_PLAIN) from None
        raise
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or (pipes is AtPipe.READ and stat.S_ISFIFO(mode))):
        os.close(handle)
        raise UnfitFile(path, Unfit.NOT_PLAIN)
    return handle


def read_given(path: Path, bound: FileBound) -> bytes:
    """Return the contents of a file that the user named; it may be a link. Raises InputError."""
    try:
        return read(path, bound, AtLink.FOLLOWED)
    except UnfitFile as error:
        raise InputError(error.what, remedy=error.remedy) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_within(handle: int, path: Path | str, bound: FileBound) -> bytes:
    """Return the rest of an open file or pipe. Raises UnfitFile, OSError."""
    at = os.fstat(handle)
    if stat.S_ISFIFO(at.st_mode):
        return _read_pipe(handle, path, bound)
    size = at.st_size
    if size > bound.most_bytes:
        raise UnfitFile(path, Unfit.TOO_LARGE, bound)
    content = os.read(handle, size + 1)
    if len(content) == size:
        return content
    parts, length = [content], len(content)  # it grew meanwhile, or it reports no size (/proc)
    while part := os.read(handle, _AT_ONCE_BYTES):
        parts.append(part)
        length += len(part)
        if length > bound.most_bytes:
            raise UnfitFile(path, Unfit.TOO_LARGE, bound)
    return b"".join(parts)


def _read_pipe(handle: int, path: Path | str, bound: FileBound) -> bytes:
    """Return the data of a pipe up to its end, when its last writer closes it. Raises UnfitFile."""
    ready, left_s, parts, length = select.poll(), bounds.PIPE_S, list[bytes](), 0
    ready.register(handle, select.POLLIN)
    while left_s > 0:
        began_s = time.monotonic()
        can_read = ready.poll(min(left_s, _STEP_S) * 1000)
        left_s -= min(time.monotonic() - began_s, 2 * _STEP_S)  # without the time in which this process was stopped
        if not can_read:
            continue
        try:
            part = os.read(handle, _AT_ONCE_BYTES)
        except BlockingIOError:  # another reader took the data
            continue
        if not part:
            return b"".join(parts)
        parts.append(part)
        length += len(part)
        if length > bound.most_bytes:
            raise UnfitFile(path, Unfit.TOO_LARGE, bound)
    raise UnfitFile(path, Unfit.TOO_LATE)


def json_of(read: bytes) -> Any:  # noqa: ANN401 - JSON is anything until its reader has checked it
    """Decode JSON; refuse NaN, infinity and integers beyond 2^64. Raises ValueError, RecursionError."""
    return _DECODER.decode(read.decode(json.detect_encoding(read), "surrogatepass"))


def csv_of(text: str) -> list[list[str]]:
    """Return the rows of a CSV table, with the line ends of any system. Raises ValueError."""
    try:
        return list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise ValueError(f"not a table: {error}") from error


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _integer(digits: str) -> int:
    if (value := int(digits)) > _LARGEST or value < -_LARGEST:
        raise ValueError(f"a number of {len(digits)} digits")
    return value


def _number(text: str) -> float:
    if (value := float(text)) in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=_integer, parse_float=_number)
"""Shared decoder, made once: an index reads three files of each of a hundred thousand runs."""
