"""A program of this machine that is asked for a few words: its whole group has a limit of time, its output one of bytes."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dutlab.hosts.passwords import child_environment

_AT_ONCE_BYTES = 1 << 16


class BoundedAnswer(NamedTuple):
    """How a program ended, and what it printed."""

    status: int
    out: bytes
    err: bytes

    @property
    def stdout(self) -> str:
        """`out` as text."""
        return self.out.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """`err` as text."""
        return self.err.decode("utf-8", "replace")


def run_bounded(
    argv: Sequence[str],
    *,
    timeout_s: float,
    most_bytes: int,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    kept_bytes: int | None = None,
) -> BoundedAnswer:
    """Runs `argv` without input, in `folder`; it sees `environment`, or else the variables that are named for all that dutlab starts.

    Of each stream the last `kept_bytes` are kept where they are given, else all.

    Raises TimeoutError, OSError, and ValueError where it prints more than `most_bytes`. Its children end with it: one that keeps the pipes
    open is not waited for.
    """
    seen = child_environment(os.environ) if environment is None else environment
    program = subprocess.Popen(
        argv,
        cwd=folder,
        env=seen,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    streams = [stream for stream in (program.stdout, program.stderr) if stream is not None]
    printed = {stream.fileno(): bytearray() for stream in streams}
    until_s, count = time.monotonic() + timeout_s, 0
    try:
        with selectors.DefaultSelector() as selector:
            for descriptor in printed:
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(max(0.0, until_s - time.monotonic())):
                    if part := os.read(key.fd, _AT_ONCE_BYTES):
                        kept = printed[key.fd]
                        kept += part
                        count += len(part)
                        if kept_bytes is not None:
                            del kept[:-kept_bytes]
                    else:
                        selector.unregister(key.fd)
                if count > most_bytes:
                    raise ValueError(f"{argv[0]} printed more than {most_bytes} bytes")
                if time.monotonic() >= until_s:
                    raise TimeoutError
        try:
            status = program.wait(max(0.0, until_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        for stream in streams:
            stream.close()
    return BoundedAnswer(status, *map(bytes, printed.values()))
