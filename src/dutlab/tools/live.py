"""Progress of tools that report only at their end. It is for observers and enters no record."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from dutlab.ending import cancelled
from dutlab.errors import CommandTimedOut, HostError
from dutlab.events import Tell, no_observer
from dutlab.hosts.host import Done, Host
from dutlab.hosts.own_time import own_timeout

_LINE_ENDS, _LONGEST_LINE = re.compile(rb"[\r\n]"), 4096
_ENDS_S = 30.0
"""Time limit for the end of a program that has closed its standard output, in seconds."""
# Ends automatically if the file does not exist: no interface of that name, or not Linux.
_RECEIVED = 'while read -r bytes 2>/dev/null <"/sys/class/net/$1/statistics/rx_bytes"; do echo "$bytes"; sleep 1; done'


async def run_heard(host: Host, argv: Sequence[str], hear: Callable[[str], None], *, timeout_s: float) -> Done:
    """Run a command to its end, with any status. `hear` gets each line of its standard output, also lines that overwrite another.

    Raises CommandTimedOut, HostError.
    """
    process = await host.spawn(argv)
    try:
        await process.close_stdin()
        async with own_timeout(timeout_s):
            begun = b""
            while data := await process.read():
                *lines, begun = _LINE_ENDS.split(begun + data)
                for line in lines:
                    hear(line.decode("utf-8", "replace"))
                begun = begun[-_LONGEST_LINE:]
        return await process.wait(_ENDS_S)
    except TimeoutError:
        done = await process.end()
        raise CommandTimedOut(host=host.name, argv=argv, timeout_s=timeout_s, stderr_tail=done.errors) from None
    finally:
        await process.end()


@asynccontextmanager
async def received_rate(host: Host, interface: str, where: str, who: str, tell: Tell) -> AsyncIterator[None]:
    """Pass the receive rate of a Linux host's interface to `tell`, about once a second. A failure does not affect the trial."""
    if tell is no_observer or host.system.kernel != "Linux":
        yield
        return
    following = asyncio.ensure_future(_follow(host, interface, lambda bps: tell(where, who, {"wire_bps": bps})))
    try:
        yield
    finally:
        await cancelled(following)


async def _follow(host: Host, interface: str, hear: Callable[[float], None]) -> None:
    try:
        process = await host.spawn(["sh", "-c", _RECEIVED, "dutlab", interface])
    except HostError:
        return
    try:
        before: tuple[float, int] | None = None
        while (line := (await process.readline()).strip()).isdigit():
            at_s, count = time.monotonic(), int(line)
            if before is not None and at_s > before[0] and count >= before[1]:
                hear((count - before[1]) * 8 / (at_s - before[0]))
            before = at_s, count
    except HostError:
        pass
    finally:
        await process.end()
