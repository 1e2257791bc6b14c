"""A command carried by a child process of the controller, in a process group of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import cast

from dutlab.ending import to_its_end
from dutlab.hosts.keeper import KEEPER
from dutlab.hosts.running import LONGEST_LINE_BYTES, Began, EndNote, Running

_OF_OUR_GROUP = (-signal.SIGINT, -signal.SIGHUP, -signal.SIGTERM)
"""By what a child ends that was in our process group for a moment, when a terminal or `timeout` sends us such a signal."""
_STARTS = 20


class ChildCarrier:
    """Implements dutlab.hosts.running.Carrier."""

    lost = ""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stdin = cast("asyncio.StreamWriter", process.stdin)  # start_child() asked for the three pipes
        self.stdout = cast("asyncio.StreamReader", process.stdout)
        self.stderr = cast("asyncio.StreamReader", process.stderr)
        self._waiting = asyncio.ensure_future(process.wait())

    @property
    def status(self) -> int | None:
        return self._process.returncode

    async def write(self, data: bytes) -> None:
        """Raises OSError or RuntimeError when the process is gone."""
        self._stdin.write(data)
        await self._stdin.drain()

    async def close_stdin(self) -> None:
        self._stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # Shielded: asyncio has one future for all who wait, so who is cancelled here would cancel it for the others, and for asyncio.
            await asyncio.shield(asyncio.ensure_future(self._stdin.wait_closed()))

    async def exited(self) -> None:
        await _status(self._process, self._waiting)

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # ended meanwhile, or became another user's
            os.killpg(self._process.pid, number)

    def release(self) -> None:
        KEEPER.forget(self._process.pid)
        self._waiting.cancel()
        # Closes our ends of the pipes also when a child that left the group holds the others; asyncio has no public way to.
        self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001


async def start_child(argv: Sequence[str], *, command: Sequence[str], host: str, env: Mapping[str, str], on_end: EndNote) -> Running:
    """Starts `command`, which is `argv` with all that carries it to `host`; one who is cancelled leaves nothing. Raises OSError."""

    async def start() -> Running:
        for _ in range(_STARTS):
            began = Began.now()
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(env),
                start_new_session=True,  # a group of its own, and no terminal that could send it Ctrl-C before we restored the DUT
                limit=LONGEST_LINE_BYTES,
            )
            if _left_our_session(process.pid) or await _status_at_once(process) not in _OF_OUR_GROUP:
                break
        KEEPER.watch(process.pid)
        return Running(ChildCarrier(process), host=host, argv=argv, began=began, on_end=on_end)

    starting = asyncio.ensure_future(start())
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Cancelled itself, asyncio would end the process alone, not its group, and wait for pipes that the others of the group hold.
        await to_its_end(_end(starting))
        raise


async def _status(process: asyncio.subprocess.Process, waiting: asyncio.Future[int]) -> int:
    """What it ended with. Some Python releases end wait() only once all pipes are closed, which a child of the command can prevent."""
    while process.returncode is None:
        await asyncio.wait([waiting], timeout=0.1)
    return process.returncode


async def _status_at_once(process: asyncio.subprocess.Process) -> int:
    """What a process ended with that is over already."""
    waiting = asyncio.ensure_future(process.wait())
    try:
        return await _status(process, waiting)
    finally:
        waiting.cancel()


def _left_our_session(pid: int) -> bool:
    """Whether the child has a session of its own, thus no Ctrl-C in our terminal can end it any more before it is a program."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


async def _end(starting: asyncio.Future[Running]) -> None:
    with contextlib.suppress(OSError):
        await (await starting).end()
