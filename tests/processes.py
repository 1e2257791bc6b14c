"""Looking for processes that a test left behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LIMIT_S = 600.0
"""For whatever a test waits for: only a fault takes that long, also where others have the CPUs."""


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


def arguments() -> Iterator[tuple[int, list[str]]]:
    """Every process of the machine with its arguments; one that ends meanwhile is left out."""
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield int(cmdline.parent.name), cmdline.read_bytes().decode(errors="replace").split("\0")


def running_with(marker: str) -> list[int]:
    """Processes with `marker` among their arguments."""
    return [pid for pid, argv in arguments() if marker in argv]


def at_work_below(folder: Path) -> list[int]:
    """Processes of dutlab with a path below `folder` among their arguments."""
    return [pid for pid, argv in arguments() if "dutlab" in argv and any(str(folder) in word for word in argv)]


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, user and system (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """Resident memory of a process now (proc_pid_status(5))."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def command_lines(namespace: str) -> dict[int, bytes]:
    """Command lines of the processes in a network namespace, as /proc has them; one that ends meanwhile is left out."""
    found = {}
    for pid in subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True).stdout.split():
        with contextlib.suppress(OSError):
            found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_bytes()
    return found


def eventually(condition: Callable[[], bool], within_s: float = LIMIT_S) -> bool:
    """Whether it holds before time is over. To look takes no more than half a core, also where a look starts programs."""
    deadline = time.monotonic() + within_s
    while True:
        looked = time.monotonic()
        if condition():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(max(0.02, time.monotonic() - looked))


def signalled(pid: int, number: int) -> bool:
    """Sends a signal; whether the process was still there to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def ended(pid: int) -> bool:
    """Whether a process is gone, or is a zombie that its parent has yet to collect."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def programs() -> list[str]:
    """What this process still runs, the keeper's shell apart."""
    return [c for c in children() if not c.endswith(" sh")]
