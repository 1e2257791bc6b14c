"""A network and a /run of the tests' own: what a test leaves behind is seen exactly, whatever else the machine does."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

_FURNISH = [str(Path(__file__).parents[1] / "scripts/isolated"), "--furnish"]
_NEW_MOUNTS, _NEW_NETWORK = 0x00020000, 0x40000000  # CLONE_NEWNS and CLONE_NEWNET of linux/sched.h


def isolate() -> bool:
    """Moves the calling thread, and whatever it starts from now on, into namespaces of their own; False where that is not allowed."""
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(_NEW_MOUNTS | _NEW_NETWORK) != 0:
        return False
    subprocess.run(_FURNISH, check=True)
    return True
