"""A command that runs as a child process of the controller: in a group of its own, with its output collected."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from dutlab.errors import CommandTimedOut, HostError
from dutlab.hosts.host import Done
from dutlab.hosts.keeper import KEEPER

LONGEST_LINE_BYTES = 64 * 2**20
"""What readline() takes at most: a generator's report with its histograms is one line."""

_PIPES_CLOSE_S = 1.0
_CHUNK_BYTES = 2**18

EndNote = Callable[["ChildProcess", Done], None]


class ChildProcess:
    """Implements dutlab.hosts.host.Process. Made by `start()`."""

    def __init__(self, process: asyncio.subprocess.Process, *, host: str, argv: Sequence[str], started_s: float, on_end: EndNote) -> None:
        self._process, self._host, self._argv, self._on_end = process, host, tuple(argv), on_end
        self._started_s, self._clock = started_s, time.monotonic()
        self._stdin = cast("asyncio.StreamWriter", process.stdin)  # start() asked for the three pipes
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self._out, self._err = bytearray(), bytearray()
        self._stderr = asyncio.ensure_future(_drain(cast("asyncio.StreamReader", process.stderr), self._err))
        self._waiting = asyncio.ensure_future(process.wait())
        self._done: Done | None = None
        self._reading, self._ending = asyncio.Lock(), asyncio.Lock()

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, command: Sequence[str], host: str, env: Mapping[str, str], on_end: EndNote
    ) -> ChildProcess:
        """Starts `command`, which is `argv` with all that carries it to `host`. Raises OSError."""
        started = time.time()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(env),
            start_new_session=True,  # a group of its own, and no terminal that could send it Ctrl-C before we restored the DUT
            limit=LONGEST_LINE_BYTES,
        )
        KEEPER.watch(process.pid)
        return cls(process, host=host, argv=argv, started_s=started, on_end=on_end)

    @property
    def argv(self) -> tuple[str, ...]:
        return self._argv

    @property
    def host_name(self) -> str:
        return self._host

    @property
    def ended(self) -> bool:
        return self._done is not None

    async def write(self, data: bytes) -> None:
        """Raises HostError when the process is gone."""
        try:
            self._stdin.write(data)
            await self._stdin.drain()
        except (BrokenPipeError, ConnectionResetError, RuntimeError) as e:
            raise HostError(f"`{self._argv[0]}` takes no more input: it has ended", host=self._host) from e

    async def close_stdin(self) -> None:
        self._stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await self._stdin.wait_closed()

    async def readline(self) -> bytes:
        """Raises HostError on a line longer than LONGEST_LINE_BYTES."""
        try:
            async with self._reading:
                return await self._stdout.readline()
        except ValueError as e:
            raise HostError(f"`{self._argv[0]}` printed a line of more than {LONGEST_LINE_BYTES} bytes", host=self._host) from e

    async def wait(self, timeout_s: float) -> Done:
        """Raises CommandTimedOut after ending the group."""
        rest = asyncio.ensure_future(self._rest())
        try:
            async with asyncio.timeout(timeout_s):
                await self._exited()
        except TimeoutError:
            done = await self._finish(rest)
            tail = done.stderr.decode("utf-8", "replace")
            raise CommandTimedOut(host=self._host, argv=self._argv, timeout_s=timeout_s, stderr_tail=tail) from None
        except asyncio.CancelledError:
            await asyncio.shield(self._finish(rest))
            raise
        return await self._finish(rest)

    async def communicate(self, stdin: bytes, timeout_s: float) -> Done:
        """wait() while `stdin` is fed; a command that does not want all of its input is no error."""
        feed = asyncio.ensure_future(self._feed(stdin))
        try:
            return await self.wait(timeout_s)
        finally:
            feed.cancel()
            await asyncio.gather(feed, return_exceptions=True)

    async def end(self, grace_s: float = 2.0) -> Done:
        # Shielded: who is cancelled while ending a process still wants it ended.
        return await asyncio.shield(asyncio.ensure_future(self._end(grace_s)))

    async def _end(self, grace_s: float) -> Done:
        if self._done is None and self._process.returncode is None:
            self._stdin.close()
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._exited()
        return await self._finish(asyncio.ensure_future(self._rest()))

    async def _rest(self) -> None:
        async with self._reading:
            await _drain(self._stdout, self._out)

    async def _exited(self) -> None:
        # Some Python releases wake wait() only once all pipes are closed, which a child of the command can prevent:
        # the return code is known before.
        while self._process.returncode is None:
            await asyncio.wait([self._waiting], timeout=0.1)

    async def _feed(self, stdin: bytes) -> None:
        with contextlib.suppress(HostError):
            if stdin:
                await self.write(stdin)
        await self.close_stdin()

    async def _finish(self, rest: asyncio.Future[None]) -> Done:
        """Kills what is left of the group, then collects; children of a leader that has ended may not live on."""
        async with self._ending:
            if self._done is not None:
                rest.cancel()
                return self._done
            self._signal(signal.SIGKILL)
            await self._exited()
            KEEPER.forget(self._process.pid)
            seconds = time.monotonic() - self._clock
            # Only a child that left the group can still hold the pipes; what it prints from now on is nobody's.
            await asyncio.wait([rest, self._stderr], timeout=_PIPES_CLOSE_S)
            for reading in (rest, self._stderr):
                reading.cancel()
            stdout, stderr = bytes(self._out), bytes(self._err)
            self._waiting.cancel()
            # Closes our ends of the pipes also when such a child holds the others; asyncio has no public way to.
            self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
            self._done = Done(self._host, self._argv, self._process.returncode or 0, stdout, stderr, self._started_s, seconds)
        self._on_end(self, self._done)
        return self._done

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # ended meanwhile, or became another user's
            os.killpg(self._process.pid, number)


async def _drain(stream: asyncio.StreamReader, into: bytearray) -> None:
    """Whatever comes is kept at once, so that it is there even if the end never comes."""
    while chunk := await stream.read(_CHUNK_BYTES):
        into += chunk
