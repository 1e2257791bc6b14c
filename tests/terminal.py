"""A program at a terminal, where a test types."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from processes import LIMIT_S


@contextmanager
def at_terminal(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[int]:
    """The terminal of the program, as a file descriptor; it hangs up at the end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], argv, env)
    try:
        yield terminal
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def read_until(terminal: int, wanted: bytes) -> bytes:
    """Everything that was printed up to `wanted`."""
    seen, end = b"", time.monotonic() + LIMIT_S
    while wanted not in seen:
        assert time.monotonic() < end, seen
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 4096)
    return seen


def with_dutlab(folder: Path) -> dict[str, str]:
    """The environment of a shell in which `dutlab` is this interpreter's; the command is put into `folder`."""
    command = folder / "bin" / "dutlab"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m dutlab "$@"\n')
    command.chmod(0o755)
    return {"PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb"}
