"""Wait for a person's answer on standard input, while Ctrl-C and the connections to the hosts still work."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress

from dutlab.cli.terminal import tell

_rest = bytearray()
"""Input after the last answer: a pipe may deliver several answers at once."""


async def answer_to(question: str) -> str | None:
    """Print `question`, and return the next line, stripped; None if standard input has ended."""
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
    """Read in a daemon thread, since a read of a terminal cannot be interrupted."""
    loop = asyncio.get_running_loop()
    got: asyncio.Future[bytes] = loop.create_future()

    def keep(data: bytes) -> None:
        if not got.done():
            got.set_result(data)

    def read() -> None:
        data = _read()
        with suppress(RuntimeError):  # the answer came after the end of the loop
            loop.call_soon_threadsafe(keep, data)

    threading.Thread(target=read, daemon=True).start()
    return await got


def _read() -> bytes:
    """Read without Python's buffer: a waiting thread would hold its lock when the interpreter ends."""
    try:
        return os.read(sys.stdin.fileno(), 4096)
    except ValueError:  # io.UnsupportedOperation: standard input is not a file, as in a test runner
        return sys.stdin.readline().encode()
    except OSError:
        return b""
