"""The power of a guest: a script next to its keys that starts its kernel, kills it as pulling a plug would, and says which it is.

A lab names the script as the `power:` of its guests, so `dutlab power`, phases that are off, resets and undo steps switch them as they
switch any other host.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from dutlab.spec.power import CommandPower
from dutlab.spec.testbed import Testbed

BACK_WITHIN = "5min"
# A kernel may leave processes of its programs behind, which keep its ports open: all whose command line has the mark are one guest.
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
    """The script. `mark` is a whole word of its kernel's command line alone, `start` a command that prints the number of its process."""
    path = script(folder, role)
    fields = {"folder": shlex.quote(str(folder)), "mark": shlex.quote(mark), "start": shlex.join(start), "role": role}
    path.write_text(_SCRIPT.format(**fields), encoding="ascii")
    path.chmod(0o700)
    return path


def kernel(folder: Path, role: str) -> int | None:
    """The process that was started last, which may have ended; None where none was."""
    try:
        return int((folder / f"kernel-{role}").read_text())
    except (OSError, ValueError):  # it is being switched on
        return None


def runs(pid: int) -> bool:
    """Return whether this process has not ended. Its command line would not show it: that is empty too while it becomes a program."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def is_off(folder: Path, role: str) -> bool:
    """Return whether it was switched off, and did not end by itself."""
    return (folder / f"off-{role}").exists()


def with_power(testbed: Testbed, roles: Iterable[str], folder: Path) -> Testbed:
    """The testbed whose guests `roles` are switched by their scripts in `folder`."""
    powered = {role: testbed.hosts[role].model_copy(update={"power": _power(folder, role)}) for role in roles}
    return testbed.model_copy(update={"hosts": {**testbed.hosts, **powered}})


def _power(folder: Path, role: str) -> CommandPower:
    switch = shlex.quote(str(script(folder, role)))
    commands = {action: f"{switch} {action}" for action in ("on", "off", "status")}
    return CommandPower.model_validate({**commands, "may-switch": True, "back-within": BACK_WITHIN})


def script(folder: Path, role: str) -> Path:
    """Return the path of the script."""
    return folder / f"power-{role}"
