"""The guests of labs that run here, user-mode Linux and QEMU: their kernels, and what they are told to do."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from dutlab.labs.state import StateFolder
from processes import eventually

LIMIT_S = 780.0


def kernels(label: str) -> list[int]:
    """Process numbers of the guest's kernel."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # ended meanwhile
            continue
        if any(word.startswith((f"umid={label}-".encode(), f"guest={label}-".encode())) for word in words):
            found.append(int(path.parent.name))
    return found


def in_guest(label: str, role: str, script: str) -> str:
    """What a script prints inside the guest, however it ends."""
    argv = ["ssh", "-F", str(StateFolder().ssh_folder(label) / "config"), role, script]
    return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False).stdout


def panic(label: str, role: str) -> None:
    """The kernel of the guest ends a second from now, by its own means."""
    in_guest(label, role, "setsid sh -c 'sleep 1; echo c >/proc/sysrq-trigger' </dev/null >/dev/null 2>&1 &")


def kill(label: str) -> None:
    """The kernels of all guests end, and are gone."""
    for pid in kernels(label):
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not kernels(label))
