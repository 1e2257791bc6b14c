"""The processes inside a network namespace, and how they are ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

NamespaceId = tuple[int, int]
"""Device and inode of the namespace's file; the same for every way to it (namespaces(7))."""


def namespace_id(path: Path) -> NamespaceId | None:
    """None when there is no such namespace, or we may not look."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def processes_in(namespace: NamespaceId) -> Iterator[int]:
    """Process numbers, without ours."""
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) != os.getpid() and namespace_id(entry / "ns" / "net") == namespace:
            yield int(entry.name)


def kill_all(namespace: NamespaceId, *, timeout_s: float = 60.0) -> list[int]:
    """SIGKILL until none is left or time is over; returns those that would not go."""
    deadline = time.monotonic() + timeout_s
    while left := list(processes_in(namespace)):
        if time.monotonic() > deadline:
            return left
        for pid in left:
            _kill(pid, namespace)
        time.sleep(0.02)
    return []


def _kill(pid: int, namespace: NamespaceId) -> None:
    """Through a pidfd, looked at again once it is open: the number may have become another process's."""
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
