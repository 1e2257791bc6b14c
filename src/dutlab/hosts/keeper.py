"""Ends what the controller started when the controller itself dies, however it dies.

A process that is killed with SIGKILL cannot clean up. So the first spawn starts a keeper: a few lines of shell in a session of
its own that reads the process groups to watch from a pipe. When the pipe closes, its only writer is gone, and the keeper kills every
group that is still on its list. The kernel's own parent-death signal (setpriv --pdeathsig) covers the moment before
a group is on the list, but only the group's leader; the keeper covers the children that the leader started. A step that waits for a word on
its input needs no such signal: its input ends with the controller.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dutlab.hosts.passwords import child_environment
from dutlab.systems import posix

_FORKED_ONLY = 0x40
"""PF_FORKNOEXEC of Linux's include/linux/sched.h, a flag of proc(5)'s stat: the process was forked and never became a program."""
_STARTS = 500
"""On a busy machine a child can take milliseconds to become a program."""


def start_apart(
    command: Sequence[str], *, stdin: int, stdout: int, stderr: int, env: Mapping[str, str], cwd: str | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a new session and process group, out of reach of Ctrl-C in our terminal. Raises OSError.

    For a moment after fork() a child is in our group, and a signal that a terminal or `timeout` sends us can end it before it is a
    program. It has then done nothing, and is started again.
    """
    for _ in range(_STARTS):
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, bufsize=0, start_new_session=True)
        if was_program(process.pid):
            return process
        with process:  # closes its pipes, and waits for it
            pass
    raise OSError(errno.EINTR, f"signals to our process group ended it {_STARTS} times before it started")


def was_program(pid: int) -> bool:
    """Return whether a child that was not waited for yet reached exec(), also after its end; True where Linux does not show it."""
    try:
        flags = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[6]
    except (OSError, IndexError):
        return True
    return not int(flags) & _FORKED_ONLY


class Keeper:
    """One for each controller process; a fork of the controller (tests do that) gets its own."""

    def __init__(self) -> None:
        self._pid = 0
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """From now on, the process group `group` ends when this process ends."""
        if self._shell is None or self._pid != os.getpid():
            self._pid = os.getpid()
            quiet = subprocess.DEVNULL
            keeper = ["sh", "-c", posix.KEEPER]
            self._shell = start_apart(keeper, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=child_environment(os.environ), cwd="/")
        self._tell(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """The group has ended; its number may be given to others."""
        self._tell(f"- {group}\n")

    def close(self) -> None:
        """Kills every group that is still watched, and ends the keeper; the next watch() starts another."""
        if self._shell is not None and self._shell.stdin is not None and self._pid == os.getpid():
            with contextlib.suppress(BrokenPipeError):
                self._shell.stdin.close()
            self._shell.wait()
        self._shell = None

    def _tell(self, line: str) -> None:
        if self._shell is None or self._shell.stdin is None or self._pid != os.getpid():
            return
        with contextlib.suppress(BrokenPipeError):  # somebody killed the keeper: pdeathsig still covers the leaders
            self._shell.stdin.write(line.encode())
            self._shell.stdin.flush()


KEEPER = Keeper()
atexit.register(KEEPER.close)
