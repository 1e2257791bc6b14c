"""Folders of this machine that no other user may enter: keys, leases, the state of labs, what is kept to be loaded again.

Their mode is set. An inherited one is what the umask of whoever started dutlab leaves: with `umask 000` others could write there.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_OWN, _OF_OTHERS = 0o700, 0o077
WRITE_OF_ALL = 0o002


def own_folder(path: Path) -> None:
    """Makes `path` and what is missing above it, or takes one that is there from others. Raises OSError, also for one of another user."""
    private_parents(path)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "belongs to another user", str(path))
        if stat.S_IMODE(found.st_mode) & _OF_OTHERS:
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


def not_for_all() -> None:
    """Files and folders that this process makes from now on cannot be written by all users, whatever umask it inherited."""
    os.umask(os.umask(WRITE_OF_ALL) | WRITE_OF_ALL)
