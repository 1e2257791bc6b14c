"""Host for the machine on which dutlab runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from dutlab.bounds import FETCHED_BYTES, QUESTION_BYTES
from dutlab.errors import HostError
from dutlab.hosts.child import start_child
from dutlab.hosts.host import CommandLog, Done, Process, cannot_write, command_failed, no_such_program
from dutlab.hosts.passwords import child_environment
from dutlab.hosts.running import Running
from dutlab.systems.linux import LINUX
from dutlab.systems.plain import COLOURFUL
from dutlab.systems.system import System

THIS_MACHINE = "this-machine"
"""Name of the machine on which dutlab runs, if no testbed names it."""


class LocalHost:
    """Host whose commands are children of this process. Implements dutlab.hosts.host.Host."""

    on_this_machine = True

    def __init__(self, name: str, log: CommandLog | None = None, *, system: System = LINUX) -> None:
        self._name, self._log, self.system = name, log, system
        self._left_running: set[Running] = set()

    @property
    def name(self) -> str:
        return self._name

    @property
    def namespace_inode(self) -> int | None:
        """Number of the network namespace that is this host; None for the machine itself."""
        return None

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True, most_bytes: int = QUESTION_BYTES
    ) -> Done:
        """Run a command to its end.

        Raises CommandFailed (status 127 when there is no such program), CommandTimedOut, CommandSaidTooMuch, HostError.
        """
        if (absent := self._absent(argv)) is not None:
            self._note(absent)
            done = absent
        else:
            process = await self._start(argv)
            done = await process.communicate(stdin, timeout_s, most_bytes)
        self._insist(done)
        if check and done.status != 0:
            raise command_failed(done)
        return done

    async def spawn(self, argv: Sequence[str], *, tied: bool = True) -> Process:
        """Start a command and leave it running. With `tied`, the kernel kills it when this process dies. Raises HostError."""
        if (absent := self._absent(argv)) is not None:
            self._note(absent)
            raise command_failed(absent)
        process = await self._start(argv, tied=tied)
        self._left_running.add(process)
        return process

    async def put(self, data: bytes, path: str, *, mode: int = 0o600) -> None:
        """Write a whole file. Raises HostError; the file is then unchanged."""
        try:
            await asyncio.to_thread(_write_whole, data, Path(path), mode)
        except OSError as e:
            raise cannot_write(self._name, path, e.strerror or str(e)) from e

    async def get(self, path: str) -> bytes:
        """Read a whole file. Raises CommandFailed."""
        return (await self.run(["cat", "--", path], most_bytes=FETCHED_BYTES)).stdout

    async def close(self) -> None:
        await asyncio.gather(*(p.end() for p in list(self._left_running)))

    # Overridden for namespaces.

    def _carry(self, argv: Sequence[str]) -> list[str]:
        """Return `argv` with the prefix that runs it on this host."""
        return list(argv)

    def _ready(self) -> None:
        """Check that the host can run commands now. Raises HostError."""

    def _insist(self, done: Done) -> None:
        """Check that the host itself did not fail. Raises HostError when `done` shows such a failure."""

    # For all children of this process. Computing the cached values takes a third of the time to start a command.

    @cached_property
    def _environment(self) -> Mapping[str, str]:
        return _environment()

    @cached_property
    def _has_setpriv(self) -> bool:
        return _which("setpriv") is not None

    async def _start(self, argv: Sequence[str], *, tied: bool = True) -> Running:
        self._ready()
        tie = ["setpriv", "--pdeathsig", "KILL", "--"] if tied and self._has_setpriv else []
        try:
            return await start_child(argv, command=[*tie, *self._carry(argv)], host=self._name, env=self._environment, on_end=self._ended)
        except OSError as e:
            raise HostError(f"cannot start `{argv[0]}`: {e.strerror}", host=self._name) from e

    def _absent(self, argv: Sequence[str]) -> Done | None:
        if _which(argv[0]):
            return None
        return no_such_program(self._name, argv)

    def _ended(self, process: Running, done: Done) -> None:
        self._left_running.discard(process)
        self._note(done)

    def _note(self, done: Done) -> None:
        if self._log is not None:
            self._log(done)


def _environment() -> Mapping[str, str]:
    """Return the environment of commands: without passwords and colours, in one language, and with ip and nft in the path of any user."""
    ours = {name: value for name, value in child_environment(os.environ).items() if name not in COLOURFUL}
    return {**ours, "LC_ALL": "C", "NO_COLOR": "1", "PATH": _path()}


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _which(program: str) -> str | None:
    return shutil.which(program, path=_path())


def _write_whole(data: bytes, path: Path, mode: int) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as f:
            os.fchmod(f.fileno(), mode)
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
