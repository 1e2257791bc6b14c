"""What the cores of an OpenBSD host did in each second, as systat(1) tells it: shares of a second, by core and state.

The kernel has the times of each core (KERN_CPTIME2 of sysctl(2)), but sysctl(8) prints those of all cores together only; systat is the
program of the base system that tells them apart. `-B` waits for a second reading and prints what came between the two; a turn therefore
sees the whole of its interval, and not the moments between two turns. Shares come in steps of 0.1 %.

Tried against a transcript of documented outputs only (cpu.c, engine.c of systat), never on a machine.
"""

from __future__ import annotations

import re

from dutlab.sensors import procfs
from dutlab.sensors.cores import CpuReading, CpuWatch
from dutlab.sensors.freebsd_cpu import ticks_per_s
from dutlab.sensors.procfs import CpuTimes

_LOOP = r"""
ticks=$(sysctl -n kern.clockrate)
while :; do
  printf '\036shares\n'; systat -a -B -s "$1" cpu || sleep "$1"
  printf '\036clockrate\n%s\n' "$ticks"
  printf '\036times\n'; sysctl -n kern.cp_time
  printf '\036own\n'; times
  printf '\036end\n'
done
"""
# CPU User Nice System Spin Interrupt Idle; a core that is off has `-` for each
_ROW = re.compile(r"^\s*(\d+)" + r"\s+([\d.]+)%" * 6 + r"\s*$", re.MULTILINE)


def parse(text: str) -> CpuReading:
    """One turn's output: its cores' shares in thousandths.

    OpenBSD's shell has no clock finer than a second, so time is told by the mean ticks of a core since boot (kern.cp_time). Spinning on a
    lock of the kernel is counted as `system`, as vmstat(8) does.
    """
    part = procfs.sections(text, "\x1e")
    cpus = {}
    for core, *shares in _ROW.findall(part.get("shares", "")):
        user, nice, system, spin, interrupt, idle = (round(10 * float(share)) for share in shares)
        cpus[int(core)] = CpuTimes(user + nice, system + spin, idle, interrupt, 0, 0)
    ticks = sum(int(word) for word in part["times"].split(",") if word.strip().isdigit())
    return CpuReading(ticks / ticks_per_s(part["clockrate"]), cpus, {}, procfs.shell_times_s(part.get("own", "")))


OPENBSD_CPU = CpuWatch(_LOOP, parse, since="turn")
