"""Commands as child processes of the controller, each in its own process group."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Self, cast

from dutlab.bounds import LINE_BYTES
from dutlab.ending import run_to_end
from dutlab.hosts.keeper import KEEPER, start_in_session
from dutlab.hosts.running import EndNote, Running, StartTime

_LOOK_AGAIN_S = 0.02
"""Interval of polls where the kernel does not report the end of a child: pidfd_open(2) needs Linux 5.3, and some containers refuse it."""


class ChildCarrier:
    """A command as a child process. Implements dutlab.hosts.running.Carrier.

    It does not use asyncio's own children: in some Python releases these end only when no process holds their pipes.
    """

    lost = ""
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    _stdin: asyncio.StreamWriter

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._over = asyncio.Event()
        self._written_to: asyncio.WriteTransport | None = None
        self._read_from: list[asyncio.ReadTransport] = []
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except OSError:
            self._pidfd = -1
        else:
            asyncio.get_running_loop().add_reader(self._pidfd, self._ended)

    @classmethod
    async def over(cls, process: subprocess.Popen[bytes]) -> Self:
        """Return the carrier of a started process. Raises OSError; the process has then ended."""
        stdin, stdout, stderr = cast("tuple[IO[bytes], ...]", (process.stdin, process.stdout, process.stderr))
        carrier = cls(process)
        try:
            carrier._stdin = await carrier._written(stdin)
            carrier.stdout, carrier.stderr = await carrier._read(stdout), await carrier._read(stderr)
        except BaseException:
            carrier.signal(signal.SIGKILL)
            process.wait()
            carrier.release()
            raise
        return carrier

    @property
    def status(self) -> int | None:
        return self._process.poll()

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises OSError or RuntimeError when the process is gone."""
        self._stdin.write(data)
        await self._stdin.drain()

    async def close_stdin(self) -> None:
        self._stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # Shielded: asyncio has one future for all waiters, so a cancelled waiter would cancel it for the others, and for asyncio.
            await asyncio.shield(asyncio.ensure_future(self._stdin.wait_closed()))

    async def exited(self) -> None:
        while self._process.poll() is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_S if self._pidfd < 0 else None):
                    await self._over.wait()

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has ended, or now runs as another user
            os.killpg(self._process.pid, number)

    def release(self) -> None:
        KEEPER.forget(self._process.pid)
        self._ended()
        for transport in self._read_from:  # also when a child that left the group holds the other ends
            transport.close()
        stdin = self._written_to
        if stdin is not None and (stdin.get_write_buffer_size() or not stdin.is_closing()):
            stdin.abort()

    def _ended(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self._over.set()

    async def _read(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=LINE_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._read_from.append(transport)
        return reader

    async def _written(self, pipe: IO[bytes]) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe)
        self._written_to = transport
        return asyncio.StreamWriter(transport, protocol, None, loop)


async def start_child(argv: Sequence[str], *, command: Sequence[str], host: str, env: Mapping[str, str], on_end: EndNote) -> Running:
    """Start `command`, which is `argv` with the prefix that runs it on `host`. If cancelled, no process is left. Raises OSError."""

    async def start() -> Running:
        began = StartTime.now()
        process = start_in_session(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        KEEPER.watch(process.pid)
        return Running(await ChildCarrier.over(process), host=host, argv=argv, began=began, on_end=on_end)

    starting = asyncio.ensure_future(start())
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The start itself is not cancelled: that would leave the process group running, and with it readers of its pipes.
        await run_to_end(_end(starting))
        raise


async def _end(starting: asyncio.Future[Running]) -> None:
    with contextlib.suppress(OSError):
        await (await starting).end()
