"""Shell or command on a guest of a lab, at the user's terminal."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dutlab.errors import LabError
from dutlab.labs import guest_power, sshd
from dutlab.labs.lost_guests import Guests, LabGone, ended_guests_text

_LOOK_S = 0.5
_SSH_FAILED = 255
"""Status of ssh(1) when the connection failed; a command may also end with it."""
_ENDS_S = 5.0


def run(label: str, role: str, words: Sequence[str], folder: Path) -> int:
    """Run a shell or command and return its exit status; `folder` is the lab's folder.

    Raises LabGone when the guest's kernel has ended, before or during the command, LabError when it is off or does not answer.
    """
    guests = Guests(frozenset((role,)), folder)
    if guest_power.is_off(folder, role):
        raise LabError(f"{role} is switched off", remedy=f"`dutlab power {role} on --lab {label}`")
    terminal = ("-t",) if sys.stdin.isatty() else ()
    command = [shlex.join(words)] if words else []
    ssh = ["ssh", "-F", str(sshd.config_file(folder))]
    with subprocess.Popen([*ssh, *terminal, role, *command]) as shell:
        while shell.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                shell.wait(_LOOK_S)
            if guests.ended():
                _end(shell)
    if shell.returncode and (ended := guests.ended()):
        raise LabGone(ended_guests_text(ended, folder), remedy=f"`dutlab power {role} on --lab {label}` starts it again")
    if shell.returncode == _SSH_FAILED and subprocess.run([*ssh, role, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise LabError(f"{role} does not answer", remedy=f"`dutlab power {role} cycle --lab {label}` starts it again")
    return shell.returncode


def _end(shell: subprocess.Popen[bytes]) -> None:
    """End ssh by SIGTERM, so that it restores the terminal."""
    shell.terminate()
    try:
        shell.wait(_ENDS_S)
    except subprocess.TimeoutExpired:
        shell.kill()
