"""Run short programs of this machine with a time limit for the process group, and a limit of bytes for the output."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dutlab.hosts.passwords import child_environment

_AT_ONCE_BYTES = 1 << 16


class BoundedAnswer(NamedTuple):
    """Exit status of a program, and its output."""

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
    """Run `argv` without input, in `folder`, with `environment` or by default the variables of every program that dutlab starts.

    With `kept_bytes`, only the last bytes of each stream are kept. Its children end with it: one that keeps the pipes open is not waited
    for. Raises TimeoutError, OSError, and ValueError if it prints more than `most_bytes`.
    """
    variables = child_environment(os.environ) if environment is None else environment
    until_s, pipe = time.monotonic() + timeout_s, subprocess.PIPE
    program = subprocess.Popen(
        argv, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
    )
    streams = [stream for stream in (program.stdout, program.stderr) if stream is not None]
    printed, count = {stream.fileno(): bytearray() for stream in streams}, 0
    try:
        for descriptor, part in _parts(program.pid, printed, until_s):
            count += len(part)
            if count > most_bytes:
                raise ValueError(f"{argv[0]} printed more than {most_bytes} bytes")
            printed[descriptor] += part
            if kept_bytes is not None:
                del printed[descriptor][:-kept_bytes]
        status = program.wait()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        for stream in streams:
            stream.close()
    return BoundedAnswer(status, *map(bytes, printed.values()))


def _parts(pid: int, descriptors: Iterable[int], until_s: float) -> Iterator[tuple[int, bytes]]:
    """Yield parts of output with their descriptor, until the process has ended and all is read. Raises TimeoutError, OSError."""
    end, has_ended = os.pidfd_open(pid), False
    try:
        with selectors.DefaultSelector() as selector:
            for descriptor in (*descriptors, end):
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(0.0 if has_ended else max(0.0, until_s - time.monotonic()))
                if has_ended and not ready:
                    return  # a child still holds the pipes
                for key, _ in ready:
                    if key.fd != end and (part := os.read(key.fd, _AT_ONCE_BYTES)):
                        yield key.fd, part
                    else:
                        has_ended |= key.fd == end
                        selector.unregister(key.fd)
                if time.monotonic() >= until_s:
                    raise TimeoutError
    finally:
        os.close(end)
