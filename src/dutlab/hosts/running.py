"""Running commands on any kind of host: collect the output, wait for the end, end the whole process group."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from dutlab.bounds import LINE_BYTES, OUTPUT_BYTES, QUESTION_BYTES
from dutlab.ending import cancelled, run_to_end
from dutlab.errors import CommandSaidTooMuch, CommandTimedOut, HostError
from dutlab.hosts.host import Done
from dutlab.hosts.own_time import own_timeout

_T = TypeVar("_T")

_PIPES_CLOSE_S = 1.0
_CHUNK_BYTES = 2**18

EndNote = Callable[["Running", Done], None]


class Carrier(Protocol):
    """Connection to a running command: its three streams, its status, and signals to its process group."""

    @property
    def stdout(self) -> asyncio.StreamReader: ...
    @property
    def stderr(self) -> asyncio.StreamReader: ...
    @property
    def status(self) -> int | None:
        """Exit status; None while it runs, negative for the signal that ended it."""

    @property
    def lost(self) -> str:
        """Reason why the end of the command is not known; empty when it is known."""

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises OSError or RuntimeError when the command no longer reads."""

    async def close_stdin(self) -> None: ...
    async def exited(self) -> None:
        """Wait until `status` or `lost` is known."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group. Do nothing when it is gone."""

    def release(self) -> None:
        """Free all resources of an ended group, also if other processes still hold the streams."""


@dataclass(frozen=True)
class StartTime:
    """Time just before the start of a command, so that the measured duration is never too short."""

    wall_s: float
    """Seconds since the epoch."""
    clock_s: float
    """Seconds of the monotonic clock."""

    @classmethod
    def now(cls) -> Self:
        return cls(time.time(), time.monotonic())


class Running:
    """A running command over any carrier. Implements dutlab.hosts.host.Process."""

    def __init__(self, carrier: Carrier, *, host: str, argv: Sequence[str], began: StartTime, on_end: EndNote) -> None:
        self._carrier, self._host, self._argv, self._on_end = carrier, host, tuple(argv), on_end
        self._began = began
        self._out, self._err = KeptOutput(OUTPUT_BYTES), KeptOutput(QUESTION_BYTES)
        self._stderr = asyncio.ensure_future(_drain(carrier.stderr, self._err))
        self._done: Done | None = None
        self._reading, self._ending = asyncio.Lock(), asyncio.Lock()
        self._killed_by_us = False

    @property
    def argv(self) -> tuple[str, ...]:
        return self._argv

    @property
    def host_name(self) -> str:
        return self._host

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises HostError when the process is gone."""
        try:
            await self._carrier.write(data)
        except (OSError, RuntimeError) as e:
            raise HostError(f"`{self._argv[0]}` takes no more input: it has ended", host=self._host) from e

    async def close_stdin(self) -> None:
        await self._carrier.close_stdin()

    async def readline(self) -> bytes:
        """Return the next line of standard output. Raises HostError for a line longer than LINE_BYTES."""
        try:
            async with self._reading:
                return await self._carrier.stdout.readline()
        except ValueError as e:
            raise HostError(f"`{self._argv[0]}` printed a line of more than {LINE_BYTES} bytes", host=self._host) from e

    async def read(self) -> bytes:
        """Return the available standard output; b"" once it has ended."""
        async with self._reading:
            return await self._carrier.stdout.read(_CHUNK_BYTES)

    async def wait(self, timeout_s: float) -> Done:
        """Wait until it ends. Raises CommandTimedOut after ending the group, HostError if the connection to the host was lost."""
        rest = asyncio.ensure_future(self._rest())
        try:
            async with own_timeout(timeout_s):
                await self._carrier.exited()
        except TimeoutError:
            done = await self._finish(rest)
            tail = done.errors
            raise CommandTimedOut(host=self._host, argv=self._argv, timeout_s=timeout_s, stderr_tail=tail) from None
        except asyncio.CancelledError:
            await run_to_end(self._finish(rest))
            raise
        done = await self._finish(rest)
        if self._carrier.lost:
            what = f"{self._carrier.lost} while `{' '.join(self._argv)}` ran, its progress is unknown"
            raise HostError(
                what, host=self._host, remedy="check that the host is up; `dutlab resume` continues a run, `dutlab undo` restores"
            )
        return done

    async def communicate(self, stdin: bytes, timeout_s: float, most_bytes: int) -> Done:
        """Write `stdin` and wait for the end. A command may leave input unread.

        Raises as wait(), and CommandSaidTooMuch if it printed more than `most_bytes`.
        """
        self._out.most_bytes = most_bytes
        feed = asyncio.ensure_future(self._feed(stdin))
        try:
            done = await self.wait(timeout_s)
        finally:
            await cancelled(feed)
        if dropped := self._out.dropped_bytes:
            raise CommandSaidTooMuch(host=self._host, argv=self._argv, status=done.status, most_bytes=most_bytes, dropped_bytes=dropped)
        return done

    async def end(self, grace_s: float = 2.0) -> Done:
        return await run_to_end(self._end(grace_s))

    async def _end(self, grace_s: float) -> Done:
        if self._done is None and self._carrier.status is None:
            closing = asyncio.ensure_future(self._carrier.close_stdin())
            self._carrier.signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with own_timeout(grace_s):
                    await self._carrier.exited()
            await cancelled(closing)
        return await self._finish(asyncio.ensure_future(self._rest()))

    async def _rest(self) -> None:
        async with self._reading:
            await _drain(self._carrier.stdout, self._out)

    async def _feed(self, stdin: bytes) -> None:
        with contextlib.suppress(HostError):
            if stdin:
                await self.write(stdin)
        await self.close_stdin()

    async def _finish(self, rest: asyncio.Future[None]) -> Done:
        """Kill the rest of the group, collect the output, and return the result. Children must not outlive their leader."""
        async with self._ending:
            if self._done is not None:
                rest.cancel()
                return self._done
            self._killed_by_us |= self._carrier.status is None
            self._carrier.signal(signal.SIGKILL)
            await self._carrier.exited()
            seconds = time.monotonic() - self._began.clock_s
            await self._collect(rest)
            stdout, stderr = bytes(self._out.kept), bytes(self._err.kept)
            dropped = self._out.dropped_bytes + self._err.dropped_bytes
            self._carrier.release()
            status = -1 if self._carrier.status is None else self._carrier.status
            if self._carrier.lost:
                stderr += f"dutlab: {self._carrier.lost}\n".encode()
            if dropped:
                stderr += f"dutlab: {dropped} bytes more were printed and not kept\n".encode()
            self._done = Done(self._host, self._argv, status, stdout, stderr, self._began.wall_s, seconds, self._killed_by_us, dropped)
        self._on_end(self, self._done)
        return self._done

    async def _collect(self, rest: asyncio.Future[None]) -> None:
        """Collect output until both streams end. Only a child that left the group can still hold them; its later output is dropped."""
        collected = -1
        while collected != (collected := len(self._out.kept) + len(self._err.kept)):  # a slow connection may still deliver earlier output
            _, pending = await asyncio.wait([rest, self._stderr], timeout=_PIPES_CLOSE_S)
            if not pending:
                return
        for reading in (rest, self._stderr):
            reading.cancel()


class KeptOutput:
    """Output of a command, up to a limit. Bytes beyond it are only counted."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.kept, self.dropped_bytes = bytearray(), 0

    def take(self, chunk: bytes) -> None:
        """Keep as much of a chunk as the limit allows."""
        room = max(0, self.most_bytes - len(self.kept))
        self.kept += chunk[:room]
        self.dropped_bytes += max(0, len(chunk) - room)


async def _drain(stream: asyncio.StreamReader, into: KeptOutput) -> None:
    """Read a stream to its end. Each chunk is kept at once, so it is available even if the end never comes."""
    while chunk := await stream.read(_CHUNK_BYTES):
        into.take(chunk)


async def together(doings: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run all at once and return their results in order. If one fails, or on cancellation, cancel the others and wait for them."""
    tasks = [asyncio.create_task(doing) for doing in doings]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancelled(*tasks)
