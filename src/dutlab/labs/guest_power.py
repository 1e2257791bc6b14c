"""Power switch of a guest: a script next to its keys that starts its kernel, kills it as a power cut would, and reports its state.

A lab has the script as the `power:` of its guests. So `dutlab power`, phases that are off, resets and undo steps switch them as they switch
any other host.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from dutlab.spec.power import CommandPower
from dutlab.spec.testbed import Testbed

BACK_WITHIN = "5min"
# A killed kernel may leave processes that keep its ports open: all processes with the mark in their command line belong to one guest.
_SCRIPT = """#!/bin/sh
# on | off | status of the guest {role}
cd {folder} || exit
# A process that becomes another program has no command line for a while.
lives() {{ grep -q '^State:.[^XZ]' "/proc/$pid/status"; }} 2>/dev/null
runs() {{
  read -r pid <kernel-{role} || return
  while lives && ! grep -q . "/proc/$pid/cmdline"; do sleep 0.01; done
  grep -q {mark} "/proc/$pid/cmdline"
}} 2>/dev/null
all() {{ grep -lsxzF -e{mark} /proc/[0-9]*/cmdline; }}
end() {{
  while {{ runs && kill -KILL "$pid"; }} || all >/dev/null; do
    for one in $(all); do
      one=${{one#/proc/}}
      kill -KILL "${{one%/cmdline}}"
    done
    sleep 0.05
  done 2>/dev/null
}}
case $1 in
status) if runs; then echo on; else echo off; fi ;;
off)
  touch off-{role}
  end ;;
on)
  runs && exit 0
  end
  rm -f off-{role} {role}.pid
  {start} >kernel-{role} ;;
esac
"""


def write(folder: Path, role: str, *, mark: str, start: Sequence[str]) -> Path:
    """Write the script and return its path.

    `mark` is a whole word that only this kernel's command line has; `start` is a command that prints the PID of its process.
    """
    path = script(folder, role)
    fields = {"folder": shlex.quote(str(folder)), "mark": shlex.quote(mark), "start": shlex.join(start), "role": role}
    path.write_text(_SCRIPT.format(**fields), encoding="ascii")
    path.chmod(0o700)
    return path


def kernel(folder: Path, role: str) -> int | None:
    """Return the PID of the process started last, which may have ended; None if none was started."""
    try:
        return int((folder / f"kernel-{role}").read_text())
    except (OSError, ValueError):  # it is being switched on
        return None


def runs(pid: int) -> bool:
    """Return whether this process has not ended. An empty command line proves nothing: it is empty for a moment during exec(2)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def is_off(folder: Path, role: str) -> bool:
    """Return whether it was switched off, so that it did not end unexpectedly."""
    return (folder / f"off-{role}").exists()


def with_power(testbed: Testbed, roles: Iterable[str], folder: Path) -> Testbed:
    """Return the testbed with the power switches of the guests `roles` in `folder`."""
    powered = {role: testbed.hosts[role].model_copy(update={"power": _power(folder, role)}) for role in roles}
    return testbed.model_copy(update={"hosts": {**testbed.hosts, **powered}})


def _power(folder: Path, role: str) -> CommandPower:
    switch = shlex.quote(str(script(folder, role)))
    commands = {action: f"{switch} {action}" for action in ("on", "off", "status")}
    return CommandPower.model_validate({**commands, "may-switch": True, "back-within": BACK_WITHIN})


def script(folder: Path, role: str) -> Path:
    """Return the path of the script."""
    return folder / f"power-{role}"
