"""Folders and files of this machine that are no other user's: keys, leases, the state of labs, what is kept to be loaded again.

Their mode is set. An inherited one is what the umask of whoever started dutlab leaves: with `umask 000` others could write there.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from dutlab import outside
from dutlab.bounds import SECRET_BYTES
from dutlab.errors import InputError

_OWN, _OF_OTHERS = 0o700, 0o077
WRITE_OF_ALL = 0o002
_ROOT = 0
"""A service is given its secrets by root."""


def own_folder(path: Path) -> None:
    """Makes `path` and what is missing above it, or takes one that is there from others. Raises OSError, also for one of another user."""
    private_parents(path)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "belongs to another user", str(path))
        if stat.S_IMODE(status.st_mode) & _OF_OTHERS:
            os.fchmod(handle, _OWN)
    finally:
        os.close(handle)


def private_parents(path: Path) -> None:
    """Makes `path` and what is missing above it, for this user alone; what is there stays as it is. Raises OSError."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            with suppress(FileExistsError):  # of two processes one makes it
                folder.mkdir(mode=_OWN)
                folder.chmod(_OWN)


def is_private(found: os.stat_result, *owners: int) -> bool:
    """Return whether a file is a plain one of this user, or of other `owners`, that no other user can read or write."""
    return stat.S_ISREG(found.st_mode) and found.st_uid in (os.geteuid(), *owners) and not found.st_mode & _OF_OTHERS


def private_text(path: Path) -> str:
    """Return the contents of the user's file of secrets. Raises InputError where others can read it, OSError."""
    try:
        with outside.opened(path, outside.AtLink.FOLLOWED) as file:
            if not is_private(os.fstat(file.fileno()), _ROOT):
                raise InputError(f"{path}: others can read it", remedy=f"chmod 600 {path}")
            return file.read(SECRET_BYTES).decode(errors="replace")
    except outside.UnfitFile as error:
        raise InputError(error.what, remedy=error.remedy) from error


def not_for_all() -> None:
    """Files and folders that this process makes from now on cannot be written by all users, whatever umask it inherited."""
    os.umask(os.umask(WRITE_OF_ALL) | WRITE_OF_ALL)
