"""What the cores of a FreeBSD host did in each second: kern.cp_times, five states a core in ticks of the statistics clock (sysctl(3)).

Tried against a transcript of documented outputs only, never on a machine.
"""

from __future__ import annotations

import re

from dutlab.sensors import procfs
from dutlab.sensors.cores import CpuReading, CpuWatch
from dutlab.sensors.procfs import CpuTimes

_LOOP = r"""
ticks=$(sysctl -n kern.clockrate)
while :; do
  printf '\036clockrate\n%s\n' "$ticks"
  printf '\036times\n'; sysctl -n kern.cp_times
  printf '\036own\n'; times
  printf '\036end\n'
  sleep "$1"
done
"""
_STATES = 5
"""user nice sys intr idle (sys/resource.h)"""
_USUAL_HZ = 127
_STATHZ = re.compile(r"stathz = ([1-9]\d*)")


def parse(text: str) -> CpuReading:
    """One turn's output. FreeBSD has no clock in its shell finer than a second, so time is told by the ticks of the first core."""
    part = procfs.sections(text, "\x1e")
    ticks = [int(word) for word in part["times"].split()]
    cores = [ticks[at : at + _STATES] for at in range(0, len(ticks) - _STATES + 1, _STATES)]
    cpus = {n: CpuTimes(user + nice, system, idle, interrupts, 0, 0) for n, (user, nice, system, interrupts, idle) in enumerate(cores)}
    return CpuReading(sum(cores[0]) / ticks_per_s(part["clockrate"]) if cores else 0.0, cpus, {}, procfs.shell_times_s(part.get("own", "")))


def ticks_per_s(clockrate: str) -> int:
    """Of the statistics clock, from kern.clockrate of any BSD."""
    found = _STATHZ.search(clockrate)
    return int(found[1]) if found else _USUAL_HZ


FREEBSD_CPU = CpuWatch(_LOOP, parse)
