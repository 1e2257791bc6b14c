"""A host: it runs commands and holds files.

One conformance suite (tests/netns/test_host_conformance.py) runs on every implementation.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dutlab.bounds import QUESTION_BYTES
from dutlab.errors import CommandFailed, HostError
from dutlab.reason import reason_in
from dutlab.systems.system import System

NO_SUCH_PROGRAM = 127
"""Status of a command that is not there, as every shell has it (POSIX, Shell Command Language 2.8.2)."""

_NO_SUCH_PROGRAM_SAID = b"no such program on this host"
_WANTS_PASSWORD = (
    b"a password is required", b"no tty present", b"a terminal is required",  # sudo
    b"doas: Authorization required", b"doas: Authorisation required", b"doas: a tty is required",
)  # fmt: skip


_KILLED = (-9, 137)
"""SIGKILL, as Python and as a shell or an ssh server report it (128 + 9)."""


@dataclass(frozen=True)
class Done:
    """A command that has ended. Times are of the controller's wall clock, in seconds since the epoch."""

    host: str
    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes
    started_s: float
    seconds: float
    killed_by_us: bool = False
    """It did not end in its time, and this process killed it."""
    dropped_bytes: int = 0
    """Bytes of output beyond the bound of its kind: counted, and not kept."""

    @property
    def was_killed(self) -> bool:
        """True if SIGKILL ended it, and not from us: from a person, or from the kernel for want of memory."""
        return not self.killed_by_us and self.status in _KILLED

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are replaced, never an error."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def errors(self) -> str:
        """Standard error as text."""
        return self.stderr.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """Why it failed, by standard error, on one line for a message; empty when nothing was printed there."""
        return reason_in(self.errors)

    @property
    def reason(self) -> str:
        """Why it failed, by standard error, else by standard output, on one line for a message."""
        return self.complaint or reason_in(self.text) or "it printed nothing"


CommandLog = Callable[[Done], None]
"""Told of every command that ended; the runner puts them into the record."""


class Process(Protocol):
    """A command that is running. Ended at the latest when the controller ends, however it ends."""

    @property
    def argv(self) -> tuple[str, ...]: ...
    @property
    def host_name(self) -> str: ...
    async def write(self, data: bytes) -> None:
        """To its standard input. Raises HostError when the process is gone."""

    async def close_stdin(self) -> None: ...
    async def readline(self) -> bytes:
        """The next line of standard output with its newline; b"" once it has ended."""

    async def read(self) -> bytes:
        """Return the available standard output, at least a byte; b"" once it has ended."""

    async def wait(self, timeout_s: float) -> Done:
        """Until it ends. stdout holds what no readline() or read() took. Raises CommandTimedOut after ending its whole process group."""

    async def end(self, grace_s: float = 2.0) -> Done:
        """Ends the whole process group: stdin closed, SIGTERM, after `grace_s` SIGKILL. Harmless on an ended one."""


class Host(Protocol):
    """A machine, or a namespace that acts as one."""

    @property
    def name(self) -> str:
        """The testbed's name for it: source, dut, sink."""

    @property
    def system(self) -> System:
        """In whose words it is asked."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 30.0,
        check: bool = True,
        most_bytes: int = QUESTION_BYTES,
    ) -> Done:
        """Runs to its end. Raises CommandFailed on a status other than 0 if `check`, CommandTimedOut, CommandSaidTooMuch, HostError."""

    async def spawn(self, argv: Sequence[str]) -> Process:
        """Start a command in its own process group, and leave it running. Raises HostError when it cannot be started."""

    async def put(self, data: bytes, path: str, *, mode: int = 0o600) -> None:
        """Writes a whole file, or nothing."""

    async def get(self, path: str) -> bytes:
        """Reads a whole file. Raises CommandFailed when it cannot be read."""

    async def close(self) -> None:
        """Ends every process that spawn() left running, and the connection."""


@runtime_checkable
class OnThisMachine(Protocol):
    """A host whose commands are children of this process."""

    on_this_machine: bool
    """Its clock is ours. False for a stand-in of another machine."""

    async def spawn(self, argv: Sequence[str], *, tied: bool = True) -> Process:
        """Spawn as Host; not `tied`: for a command that waits for input and ends without it, so that it ends with this process."""


@runtime_checkable
class OverConnection(Protocol):
    """A host behind a connection that can be lost and made again."""

    renewals: list[Renewal]

    @property
    def connections(self) -> int:
        """Number of connections so far. One more than before: it was lost meanwhile, perhaps since the host rebooted."""

    @property
    def is_lost(self) -> bool:
        """True if the last one was lost and none was made since: the host has answered no keep-alive, or ended it."""


Spawn = Callable[[Sequence[str]], Awaitable[Process]]
Renewal = Callable[[Spawn], Awaitable[None]]
"""Makes again what ended with a connection, by commands over the next one. An exception from it ends that one too."""


@contextmanager
def renewed_by(host: Host, renewal: Renewal) -> Iterator[None]:
    """Carry out `renewal` first whenever the connection to `host` is made again; do nothing for a host without connection."""
    if not isinstance(host, OverConnection):
        yield
        return
    host.renewals.append(renewal)
    try:
        yield
    finally:
        host.renewals.remove(renewal)


def connections_of(host: Host) -> int:
    """Return the number of connections to `host` so far; 0 for one that needs none."""
    return host.connections if isinstance(host, OverConnection) else 0


def is_lost(host: Host) -> bool:
    """Return whether its connection is gone at present; False for a host that needs none."""
    return isinstance(host, OverConnection) and host.is_lost


def no_such_program(host: str, argv: Sequence[str]) -> Done:
    """Return the result of a missing program, the same on every kind of host."""
    message = f"{argv[0]}: ".encode() + _NO_SUCH_PROGRAM_SAID + b"\n"
    return Done(host, tuple(argv), NO_SUCH_PROGRAM, b"", message, time.time(), 0.0)


def command_failed(done: Done) -> CommandFailed:
    """Return the exception for `done`, with a remedy where its output names one."""
    remedy = ""
    if done.status == NO_SUCH_PROGRAM and _NO_SUCH_PROGRAM_SAID in done.stderr:
        remedy = f"install {done.argv[0]} on {done.host}"
    elif any(message in done.stderr for message in _WANTS_PASSWORD):
        remedy = f"let this user of {done.host} run it without a password (NOPASSWD in sudoers, nopass in doas.conf), or log in as root"
    tail = done.errors
    return CommandFailed(host=done.host, argv=done.argv, status=done.status, stderr_tail=tail, remedy=remedy)


def cannot_write(host: str, path: str, why: str) -> HostError:
    """A file could not be put; it is then as it was before."""
    full = "No space left" in why or "quota exceeded" in why
    return HostError(f"cannot write {path}: {why}", host=host, remedy="free space there or give another path" if full else "")
