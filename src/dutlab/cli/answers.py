"""Wait for what a person types. Ctrl-C and the connections to the hosts keep working meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress

from dutlab.cli.terminal import tell

_rest = bytearray()
"""Read, but not yet used as an answer: a pipe may bring several answers at once."""


async def answer_to(question: str) -> str | None:
    """The line that follows `question`, without spaces around it; None when standard input has ended."""
    tell(f"{question}: ", end="")
    while b"\n" not in _rest:
        if not (more := await _more()):
            break
        _rest.extend(more)
    if not _rest:
        return None
    line, _, rest = bytes(_rest).partition(b"\n")
    _rest[:] = rest
    return line.decode(errors="replace").strip()


async def _more() -> bytes:
    """Reads in a thread that nothing waits for: a read of a terminal cannot be interrupted."""
    loop = asyncio.get_running_loop()
    got: asyncio.Future[bytes] = loop.create_future()

    def keep(data: bytes) -> None:
        if not got.done():
            got.set_result(data)

    def read() -> None:
        data = _read()
        with suppress(RuntimeError):  # the loop has ended, and the answer comes too late
            loop.call_soon_threadsafe(keep, data)

    threading.Thread(target=read, daemon=True).start()
    return await got


def _read() -> bytes:
    """Past Python's buffer, whose lock a thread that waits would hold when the interpreter ends."""
    try:
        return os.read(sys.stdin.fileno(), 4096)
    except ValueError:  # io.UnsupportedOperation: no file, as under a test's runner
        return sys.stdin.readline().encode()
    except OSError:
        return b""
