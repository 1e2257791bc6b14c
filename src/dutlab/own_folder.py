"""Private folders and files of the user: keys, leases, lab states, caches.

Their mode is set explicitly. It does not depend on the umask: with `umask 000` others could write there.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from dutlab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_OWN, _OF_OTHERS = 0o700, 0o077
WRITE_OF_ALL = 0o002
_ROOT = 0
"""Root's user id: root gives a service its secrets."""


def own_folder(path: Path) -> None:
    """Create the folder `path` and its missing parents, or make an existing one private. Raises OSError, also for another user's folder."""
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
    """Create `path` and its missing parents, for this user alone. Existing folders are not changed. Raises OSError."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            with suppress(FileExistsError):  # another process created it first
                folder.mkdir(mode=_OWN)
                folder.chmod(_OWN)


def is_private(stat_result: os.stat_result, *owners: int) -> bool:
    """Return whether a file is plain, belongs to this user or one of `owners`, and cannot be read or written by any other user."""
    return stat.S_ISREG(stat_result.st_mode) and stat_result.st_uid in (os.geteuid(), *owners) and not stat_result.st_mode & _OF_OTHERS


def private_text(path: Path) -> str:
    """Return the contents of a user's secret file. Raises InputError where others can read it, OSError."""
    from dutlab import outside  # noqa: PLC0415 -- every command sets the umask; few read secrets
    from dutlab.bounds import SECRET_BYTES  # noqa: PLC0415 -- as above

    try:
        with outside.opened(path, outside.AtLink.FOLLOWED) as file:
            if not is_private(os.fstat(file.fileno()), _ROOT):
                raise InputError(f"{path}: others can read it", remedy=f"chmod 600 {path}")
            return file.read(SECRET_BYTES).decode(errors="replace")
    except outside.UnfitFile as error:
        raise InputError(error.what, remedy=error.remedy) from error


def restrict_umask() -> None:
    """Set the umask so that files and folders that this process creates are not writable for all users."""
    os.umask(os.umask(WRITE_OF_ALL) | WRITE_OF_ALL)
