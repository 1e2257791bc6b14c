"""The CPU account of another Linux host, by one shell script that starts no program but cat."""

from __future__ import annotations

from dutlab.analysis.interference import CpuAccount, ThreadTime
from dutlab.systems import linux_proc
from dutlab.systems.watched import sections

USER_HZ = 100
"""Ticks a second of what /proc shows, on every architecture that dutlab knows (include/asm-generic/param.h)."""
SCRIPT = r"""
part() { printf '\036%s\n' "$1"; }
part uptime; cat /proc/uptime
part stat; cat /proc/stat
part pressure; cat /proc/pressure/cpu 2>/dev/null
part programs
for p in /proc/[0-9]*; do
  read -r name 2>/dev/null <"$p/comm" || continue
  wanted=
  case $name in napi/*|ksoftirqd/*) wanted=kernel;; *) for w; do case $name in "$w"*) wanted=program;; esac; done;; esac
  [ "$wanted" ] || continue
  IFS= read -r stat 2>/dev/null <"$p/stat" || continue
  printf '%s|%s|%s|%s\n' "$wanted" "${p#/proc/}" "$name" "${stat##*) }"
  for t in "$p"/task/*; do read -r run wait rest 2>/dev/null <"$t/schedstat" && printf '%s|%s|%s\n' "${t##*/}" "$run" "$wait"; done
done
exit 0
"""
"""Its arguments: how the names of programs that send and receive begin. A process has a line of four fields, a thread one of three."""

_NS = 1e9
_UTIME, _STIME = 11, 12
"""Columns of /proc/PID/stat behind the name (proc_pid_stat(5): fields 14 and 15). Time of ended threads is in them."""


def parse_account(text: str) -> CpuAccount | None:
    """The script's output; None where the host has no such files.

    A program or thread that has ended took its time with it, so `own_s` can be compared between two readings with the same `programs` only.
    """
    part = sections(text)
    cores = linux_proc.cpu_times(part.get("stat", ""))
    uptime = part.get("uptime", "").split()
    if not cores or not uptime:
        return None
    own_s, name = 0.0, ""
    threads: dict[str, ThreadTime] = {}
    programs = set[int]()
    for line in part.get("programs", "").splitlines():
        match line.split("|"):
            case [_, pid, name, columns]:
                times = columns.split()
                if not name.startswith("ksoftirqd/"):  # its time is in the column softirq of /proc/stat
                    own_s += (int(times[_UTIME]) + int(times[_STIME])) / USER_HZ
                    programs.add(int(pid))
            case [_, run, wait]:
                threads[name] = threads.get(name, ThreadTime(0.0, 0.0)) + ThreadTime(int(run) / _NS, int(wait) / _NS)
            case _:
                continue
    return CpuAccount(
        at_s=float(uptime[0]),
        cores=len(cores),
        busy_s=sum(c.user + c.system for c in cores.values()) / USER_HZ,
        steal_s=sum(c.steal for c in cores.values()) / USER_HZ,
        pressure_s=linux_proc.cpu_pressure_s(part.get("pressure", "")),
        own_s=own_s,
        threads=threads,
        programs=frozenset(programs),
    )
