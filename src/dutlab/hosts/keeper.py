"""Keeper that ends the controller's child processes when the controller dies, also after SIGKILL.

A process that is killed with SIGKILL cannot clean up. So the first spawn starts a keeper: a short shell script in a separate session that
reads the process groups to watch from a pipe. When the pipe closes, its only writer is gone, and the keeper kills every group that is still
on its list. The kernel's parent-death signal (setpriv --pdeathsig) covers the moment before a group is on the list, but only the leader of
the group. The keeper covers the children of the leader. A step that waits for its input needs no such signal: its input ends with the
controller.
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
"""Flag of a process that was forked and has not called exec() (PF_FORKNOEXEC in Linux's include/linux/sched.h; stat in proc(5))."""
_STARTS = 500
"""Most attempts to start a program. On a busy machine a child can take milliseconds to reach exec()."""


def start_in_session(
    command: Sequence[str], *, stdin: int, stdout: int, stderr: int, env: Mapping[str, str], cwd: str | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a new session and process group, so that Ctrl-C in our terminal does not reach it. Raises OSError.

    For a moment after fork() a child is in our group, and a signal to us from a terminal or `timeout` can end it before exec(). Since it
    has done nothing yet, it is started again.
    """
    for _ in range(_STARTS):
        process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, bufsize=0, start_new_session=True)
        if was_program(process.pid):
            return process
        with process:  # closes its pipes, and waits for it
            pass
    raise OSError(errno.EINTR, f"signals to our process group ended it {_STARTS} times before it started")


def was_program(pid: int) -> bool:
    """Return True if a child reached exec(), or where Linux does not show it. It may have ended, but was not waited for yet."""
    try:
        flags = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[6]
    except (OSError, IndexError):
        return True
    return not int(flags) & _FORKED_ONLY


class Keeper:
    """Keeper of one controller process. A fork of the controller (as in tests) gets its own keeper."""

    def __init__(self) -> None:
        self._pid = 0
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """Watch the process group `group`: from now on it ends when this process ends."""
        if self._shell is None or self._pid != os.getpid():
            self._pid = os.getpid()
            quiet = subprocess.DEVNULL
            keeper = ["sh", "-c", posix.KEEPER]
            self._shell = start_in_session(
                keeper, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=child_environment(os.environ), cwd="/"
            )
        self._tell(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Stop watching an ended group, since the kernel may reuse its number."""
        self._tell(f"- {group}\n")

    def close(self) -> None:
        """Kill every group that is still watched, and end the keeper. The next watch() starts another keeper."""
        if self._shell is not None and self._shell.stdin is not None and self._pid == os.getpid():
            with contextlib.suppress(BrokenPipeError):
                self._shell.stdin.close()
            self._shell.wait()
        self._shell = None

    def _tell(self, line: str) -> None:
        if self._shell is None or self._shell.stdin is None or self._pid != os.getpid():
            return
        with contextlib.suppress(BrokenPipeError):  # the keeper was killed; pdeathsig still covers the leaders
            self._shell.stdin.write(line.encode())
            self._shell.stdin.flush()


KEEPER = Keeper()
atexit.register(KEEPER.close)
