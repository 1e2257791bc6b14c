"""Processes inside a network namespace, and how to end them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

NamespaceId = tuple[int, int]
"""Device and inode of the namespace's file, the same for all of its paths (namespaces(7))."""


def namespace_id(path: Path) -> NamespaceId | None:
    """Return the identity of a namespace; None when it does not exist or cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def processes_in(namespace: NamespaceId) -> Iterator[int]:
    """Yield the PIDs in a namespace, without this process."""
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) != os.getpid() and namespace_id(entry / "ns" / "net") == namespace:
            yield int(entry.name)


def kill_all(namespace: NamespaceId, *, timeout_s: float = 60.0) -> list[int]:
    """Send SIGKILL until no process is left or the time is over; return the remaining PIDs."""
    deadline = time.monotonic() + timeout_s
    while left := list(processes_in(namespace)):
        if time.monotonic() > deadline:
            return left
        for pid in left:
            _kill(pid, namespace)
        time.sleep(0.02)
    return []


def _kill(pid: int, namespace: NamespaceId) -> None:
    """Kill the process by a pidfd, after another check of its namespace: its PID may belong to another process by now."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if namespace_id(Path(f"/proc/{pid}/ns/net")) == namespace:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)
