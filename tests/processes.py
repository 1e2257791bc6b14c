"""Looking for processes that a test left behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def children() -> list[str]:
    """Living children of this process, as `PID program`."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
        except OSError:
            continue
        state, parent = tail.split()[:2]
        if int(parent) == os.getpid() and state != "Z":
            found.append(head.replace("(", ""))
    return found


def running_with(marker: str) -> list[int]:
    """Processes with `marker` among their arguments."""
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = cmdline.read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in arguments:
            found.append(int(cmdline.parent.name))
    return found


def command_lines(namespace: str) -> dict[int, bytes]:
    """Command lines of the processes in a network namespace, as /proc has them; one that ends meanwhile is left out."""
    found = {}
    for pid in subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True).stdout.split():
        with contextlib.suppress(OSError):
            found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_bytes()
    return found


def eventually(condition: Callable[[], bool], within_s: float = 30.0) -> bool:
    """Whether it holds before time is over: only a fault takes that long, also where others have the CPUs."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def programs() -> list[str]:
    """What this process still runs, the keeper's shell apart."""
    return [c for c in children() if not c.endswith(" sh")]
