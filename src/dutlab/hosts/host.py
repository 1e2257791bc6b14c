"""Interface of a host, which runs commands and stores files.

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
"""Exit status for a missing command in every shell (POSIX, Shell Command Language 2.8.2)."""

_NO_SUCH_PROGRAM_SAID = b"no such program on this host"
_WANTS_PASSWORD = (
    b"a password is required", b"no tty present", b"a terminal is required",  # sudo
    b"doas: Authorization required", b"doas: Authorisation required", b"doas: a tty is required",
)  # fmt: skip


_KILLED = (-9, 137)
"""SIGKILL, as Python and as a shell or an ssh server report it (128 + 9)."""


@dataclass(frozen=True)
class Done:
    """Result of a command that has ended. `started_s` is the controller's wall clock, in seconds since the epoch."""

    host: str
    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes
    started_s: float
    seconds: float
    killed_by_us: bool = False
    """True if it exceeded its time limit, and this process killed it."""
    dropped_bytes: int = 0
    """Number of output bytes beyond the limit, which were not kept."""

    @property
    def was_killed(self) -> bool:
        """True if SIGKILL from outside dutlab ended it: from a person, or from the kernel when memory ran out."""
        return not self.killed_by_us and self.status in _KILLED

    @property
    def text(self) -> str:
        """Standard output as text. Invalid UTF-8 is replaced, not an error."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def errors(self) -> str:
        """Standard error as text."""
        return self.stderr.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """Reason for a failure in one line, from standard error; empty if standard error is empty."""
        return reason_in(self.errors)

    @property
    def reason(self) -> str:
        """Reason for a failure in one line, from standard error, else from standard output."""
        return self.complaint or reason_in(self.text) or "it printed nothing"


CommandLog = Callable[[Done], None]
"""Called with the result of every command; the runner writes them into the record."""


class Process(Protocol):
    """A running command. It ends when the controller ends, even after a crash."""

    @property
    def argv(self) -> tuple[str, ...]: ...
    @property
    def host_name(self) -> str: ...
    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises HostError when the process has ended."""

    async def close_stdin(self) -> None: ...
    async def readline(self) -> bytes:
        """Return the next line of standard output with its newline; b"" after the end."""

    async def read(self) -> bytes:
        """Return the available standard output, at least one byte; b"" after the end."""

    async def wait(self, timeout_s: float) -> Done:
        """Wait until it ends. The result's stdout has the output that was not read before.

        Raises CommandTimedOut after ending its process group.
        """

    async def end(self, grace_s: float = 2.0) -> Done:
        """End the whole process group: close stdin, send SIGTERM, and SIGKILL after `grace_s`. It may have ended already."""


class Host(Protocol):
    """A machine, or a namespace that acts as one."""

    @property
    def name(self) -> str:
        """Name in the testbed: source, dut, sink."""

    @property
    def system(self) -> System:
        """Operating system, which determines the commands."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 30.0,
        check: bool = True,
        most_bytes: int = QUESTION_BYTES,
    ) -> Done:
        """Run a command to its end. Raises CommandTimedOut, CommandSaidTooMuch, HostError; with `check`, CommandFailed for status > 0."""

    async def spawn(self, argv: Sequence[str]) -> Process:
        """Start a command in its own process group, and leave it running. Raises HostError when it cannot be started."""

    async def put(self, data: bytes, path: str, *, mode: int = 0o600) -> None:
        """Write a whole file atomically."""

    async def get(self, path: str) -> bytes:
        """Read a whole file. Raises CommandFailed when it cannot be read."""

    async def close(self) -> None:
        """End every running process of spawn(), and close the connection."""


@runtime_checkable
class OnThisMachine(Protocol):
    """A host whose commands are children of this process."""

    on_this_machine: bool
    """True if its clock is this machine's clock. False if it represents another machine."""

    async def spawn(self, argv: Sequence[str], *, tied: bool = True) -> Process:
        """Spawn as in Host. Use `tied=False` for a command that ends when its input ends: then it ends with this process anyway."""


@runtime_checkable
class OverConnection(Protocol):
    """A host over a connection that can be lost and reopened."""

    renewals: list[Renewal]

    @property
    def connections(self) -> int:
        """Number of connections so far. An increase means that the connection was lost, perhaps because the host rebooted."""

    @property
    def is_lost(self) -> bool:
        """True while the connection is lost: the host stopped answering keep-alives, or closed it."""


Spawn = Callable[[Sequence[str]], Awaitable[Process]]
Renewal = Callable[[Spawn], Awaitable[None]]
"""Function that restores over a new connection everything that ended with the old one. If it raises, the new connection is closed too."""


@contextmanager
def renewing_connections(host: Host, renewal: Renewal) -> Iterator[None]:
    """Run `renewal` each time the connection to `host` is reopened. Do nothing for a host without a connection."""
    if not isinstance(host, OverConnection):
        yield
        return
    host.renewals.append(renewal)
    try:
        yield
    finally:
        host.renewals.remove(renewal)


def connections_of(host: Host) -> int:
    """Return the number of connections to `host` so far; 0 for a host without a connection."""
    return host.connections if isinstance(host, OverConnection) else 0


def is_lost(host: Host) -> bool:
    """Return True if the connection to `host` is lost now; False for a host without a connection."""
    return isinstance(host, OverConnection) and host.is_lost


def no_such_program(host: str, argv: Sequence[str]) -> Done:
    """Return the result of a missing program. It is the same on every kind of host."""
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
    """Return the error for a file that could not be written. The old file is unchanged."""
    full = "No space left" in why or "quota exceeded" in why
    return HostError(f"cannot write {path}: {why}", host=host, remedy="free space there or give another path" if full else "")
