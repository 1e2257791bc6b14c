"""CPU time of `--help` of every command, the least of TIMES=5, and its ratio to Python with click alone; exit 1 where one is above 0.15 s."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from dutlab.cli.main import dutlab

TIMES = int(os.environ.get("TIMES", "5"))
MOST_S = 0.15
DUTLAB = str(Path(sys.executable).with_name("dutlab"))


def cpu_s(argv: list[str]) -> float:
    """The least of some: what other work does to caches and clocks only adds."""
    took = []
    for _ in range(TIMES):
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, argv
        took.append(used.ru_utime + used.ru_stime)
    return min(took)


def commands(name: tuple[str, ...], command: click.Command) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [name]
    ctx = click.Context(command)
    subs = [(sub, command.get_command(ctx, sub)) for sub in command.list_commands(ctx)]
    return [name, *(leaf for sub, found in subs if found is not None for leaf in commands((*name, sub), found))]


peer = cpu_s([sys.executable, "-c", "import click"])
found = sorted(((cpu_s([DUTLAB, *name, "--help"]), name) for name in commands((), dutlab)), reverse=True)
print(f"python with click: {peer:.3f} s of CPU")
for took, name in found[:5]:
    print(f"dutlab {' '.join(name)} --help: {took:.3f} s, {took / peer:.2f} ×")
print(f"{len(found)} commands: {found[-1][0]:.3f} to {found[0][0]:.3f} s")
sys.exit(found[0][0] > MOST_S)
