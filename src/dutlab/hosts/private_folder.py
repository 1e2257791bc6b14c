"""Private folders on hosts, which only the login user can enter. All files that dutlab copies to a host are in such a folder.

Other users of a host may write to /var/tmp too. They could change a file of theirs, or rename a path, after it was checked. So each use
makes a new folder under an unpredictable name, by one mkdir(2) with mode 0700, which fails if the name exists in any form. The system
prevents others from renaming folders there.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from dutlab.ending import ended_by, run_to_end
from dutlab.errors import HostError, InputError
from dutlab.hosts.host import Host, Process

PLACE = "/var/tmp"  # noqa: S108 private folders are made there
_NAME = re.compile(re.escape(PLACE) + r"/dutlab-[0-9a-f]{32}")
_REMEDY = f"check that {PLACE} can be written, and that it is root's with the sticky bit (chmod 1777 {PLACE})"
# The sticky bit, or write permission for the owner only, keeps others from renaming our folders (POSIX, XBD 4.3). `$2/` follows a link.
_MAKE = """
case $(ls -ldn -- "$2/") in d????????[tT]*|d????-??-*) ;; *) echo "$2: every user may rename files of others there" >&2; exit 1 ;; esac
umask 077
mkdir -m 700 -- "$1" || exit 1
"""
# Standard input ends when the starting process or the connection ends. The process group is then killed (keeper.py, ssh_link.py), so the
# command that removes the folder is in a new session, by setsid(1), which every Linux has.
_HOLD = """
exec 3<&0
own=$(command -v setsid)
$own sh -c 'trap "" HUP INT TERM; cat >/dev/null; rm -rf -- "$1"' dutlab "$1" <&3 >/dev/null 2>&1 3<&- &
echo made
wait
"""
_ENDS_S = 10.0


def new_private_folder() -> str:
    """Return a path for private_folder(). The caller writes it into the journal before the folder is made."""
    return f"{PLACE}/dutlab-{secrets.token_hex(16)}"


async def make_private_folder(host: Host, path: str) -> None:
    """Make the folder `path`, which is from new_private_folder(). The caller removes it. Raises HostError."""
    if (why := await _not_made(host, path)) is not None:
        raise why


async def _not_made(host: Host, path: str) -> HostError | None:
    # A mkdir(1) over a lost connection might still make the folder after its removal.
    done = await run_to_end(host.run(["sh", "-c", _MAKE, "dutlab", path, PLACE], check=False))
    if done.status == 0:
        return None
    return HostError(f"cannot make the folder {path}: {done.complaint}", host=host.name, remedy=_REMEDY)


@asynccontextmanager
async def private_folder(host: Host, path: str, gone: Callable[[], object] = lambda: None) -> AsyncIterator[str]:
    """Make the folder `path` (from new_private_folder()) on `host`, remove it with its content at the end, then call `gone`.

    Raises HostError.
    """
    ours = True

    async def removed() -> None:
        with contextlib.suppress(HostError):  # an unreachable host keeps it until `dutlab undo`
            if ours:
                await remove_private_folder(host, path)
            gone()

    async with ended_by(removed):
        why = await _not_made(host, path)
        ours = why is None
        if why is not None:
            raise why
        yield path


@asynccontextmanager
async def held_folder(host: Host) -> AsyncIterator[str]:
    """Make a private folder for commands without a journal. A process on the host removes it, also after this process was killed.

    In a network namespace of this machine that process ends with the others of its namespace. Raises HostError.
    """
    path = new_private_folder()
    process = await host.spawn(["sh", "-c", _MAKE + _HOLD, "dutlab", path, PLACE])
    async with ended_by(lambda: _let_go(process)):
        if (await process.readline()).strip() != b"made":
            reason = (await process.end()).complaint
            raise HostError(f"cannot make the folder {path}: {reason}", host=host.name, remedy=_REMEDY)
        yield path


async def _let_go(process: Process) -> None:
    with contextlib.suppress(HostError):
        await process.close_stdin()
        await process.wait(_ENDS_S)


async def remove_private_folder(host: Host, path: str) -> None:
    """Remove a private folder, also one of an interrupted run. Raises InputError for a path of any other folder, HostError."""
    if not _NAME.fullmatch(path):
        raise InputError(
            f"{path}: not a folder of dutlab's; nothing is removed",
            remedy="the journal was changed; remove dutlab's folder by hand",
        )
    await host.run(["rm", "-rf", "--", path])
