"""Host over ssh. It needs only the shell of its system; dutlab installs nothing on it.

A host has one connection, which is opened at the first command and again after a loss. Many commands can run at once, each in a channel.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from dutlab.bounds import FETCHED_BYTES, QUESTION_BYTES
from dutlab.ending import run_to_end
from dutlab.hosts.host import CommandLog, Done, Process, Renewal, cannot_write, command_failed, no_such_program
from dutlab.hosts.running import Running
from dutlab.hosts.ssh_link import SshLink
from dutlab.hosts.ssh_login import Login
from dutlab.systems.linux import LINUX
from dutlab.systems.system import System

PUT_S = 600.0


class SshHost:
    """Host over ssh. Implements dutlab.hosts.host.Host."""

    def __init__(self, login: Login, log: CommandLog | None = None, *, system: System = LINUX) -> None:
        self.login, self._log, self.system = login, log, system
        self._link: SshLink | None = None
        self._connections = 0
        self._connecting = asyncio.Lock()
        self._left_running: set[Running] = set()
        self.renewals: list[Renewal] = []

    @property
    def name(self) -> str:
        return self.login.name

    @property
    def connections(self) -> int:
        """Number of connections so far."""
        return self._connections

    @property
    def is_lost(self) -> bool:
        """True if the last connection was lost and no new one was opened."""
        return self._link is not None and not self._link.alive

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True, most_bytes: int = QUESTION_BYTES
    ) -> Done:
        """Run a command to its end.

        Raises CommandFailed (status 127 when there is no such program), CommandTimedOut, CommandSaidTooMuch, HostError.
        """
        process = await self._start(argv)
        if isinstance(process, Done):
            self._note(process)
            done = process
        else:
            done = await process.communicate(stdin, timeout_s, most_bytes)
        if check and done.status != 0:
            raise command_failed(done)
        return done

    async def spawn(self, argv: Sequence[str]) -> Process:
        """Start a command and leave it running. Raises HostError."""
        return self._left_behind(await self._start(argv))

    def _left_behind(self, process: Running | Done) -> Process:
        """Return a started process, and end it in close(). Raises CommandFailed for a missing program."""
        if isinstance(process, Done):
            self._note(process)
            raise command_failed(process)
        self._left_running.add(process)
        return process

    async def put(self, data: bytes, path: str, *, mode: int = 0o600) -> None:
        """Write a whole file. Raises HostError; the file is then unchanged."""
        argv = self.system.shell.put(path, secrets.token_hex(8), mode, len(data))
        done = await self.run(argv, stdin=data, timeout_s=PUT_S, check=False)
        if done.status != 0:
            lines = [line for line in done.errors.splitlines() if ": " in line]
            raise cannot_write(self.name, path, lines[0].rpartition(": ")[2] if lines else f"`{argv[0]}` ended with {done.status}")

    async def get(self, path: str) -> bytes:
        """Read a whole file. Raises CommandFailed."""
        return (await self.run(self.system.shell.get(path), most_bytes=FETCHED_BYTES)).stdout

    async def close(self) -> None:
        await asyncio.gather(*(p.end() for p in list(self._left_running)))
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _connected(self) -> SshLink:
        """Return the connection; open it first, or again after a loss. Raises HostError."""
        async with self._connecting:
            if self._link is None or not self._link.alive:
                lost, self._link = self._link, None
                link = await SshLink.open(self.login, self.system.shell, lost)
                self._connections += 1
                if lost is not None:
                    await lost.close()
                await self._renew(link)
                self._link = link
            return self._link

    async def _renew(self, link: SshLink) -> None:
        """Run all renewals on a new connection, before any other command. Raises InUse, HostError."""

        async def spawn(argv: Sequence[str]) -> Process:
            return self._left_behind(await self._start_over(link, argv))

        try:
            for renewal in self.renewals if self._connections > 1 else ():
                await renewal(spawn)
        except BaseException:
            await run_to_end(link.close())
            raise

    async def _start(self, argv: Sequence[str]) -> Running | Done:
        """Start a command; return the process, or a Done for a missing program."""
        return await self._start_over(await self._connected(), argv)

    async def _start_over(self, link: SshLink, argv: Sequence[str]) -> Running | Done:
        carrier = await link.start(argv)
        if carrier is None:
            return no_such_program(self.name, argv)

        def ended(process: Running, done: Done) -> None:
            link.forget(carrier)
            self._left_running.discard(process)
            self._note(done)

        return Running(carrier, host=self.name, argv=argv, began=carrier.began, on_end=ended)

    def _note(self, done: Done) -> None:
        if self._log is not None:
            self._log(done)
