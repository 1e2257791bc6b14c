"""CPU account of another Linux host, by one shell script that starts no program except cat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dutlab.physics.interference import CpuAccount, ThreadTime
from dutlab.systems import linux_proc
from dutlab.systems.watched import sections

USER_HZ = 100
"""Ticks a second in /proc, on every architecture that dutlab supports (include/asm-generic/param.h)."""
SCRIPT = r"""
part() { printf '\036%s\n' "$1"; }
part uptime; cat /proc/uptime
part stat; cat /proc/stat
part pressure; cat /proc/pressure/cpu 2>/dev/null
part kernel; cat /proc/2/comm 2>/dev/null
part programs
for p in /proc/[0-9]*; do
  read -r name 2>/dev/null <"$p/comm" || continue
  wanted=
  case $name in napi/*|ksoftirqd/*) wanted=kernel;; *) for w; do
    case $w in
      cgroup:*) IFS= read -r group 2>/dev/null <"$p/cgroup"; case "$group/" in *"/${w#cgroup:}/"*) wanted=program;; esac;;
      *) case $name in "$w"*) wanted=program;; esac;;
    esac; done;; esac
  [ "$wanted" ] || continue
  IFS= read -r stat 2>/dev/null <"$p/stat" || continue
  printf '%s|%s|%s|%s\n' "$wanted" "${p#/proc/}" "$name" "${stat##*) }"
  for t in "$p"/task/*; do read -r run wait rest 2>/dev/null <"$t/schedstat" && printf '%s|%s|%s\n' "${t##*/}" "$run" "$wait"; done
done
exit 0
"""
"""Script that prints the account. Its arguments are prefixes of program names (senders, receivers, the DUT), or `cgroup:` and a control
group of the DUT. A process is printed as a line of four fields, a thread as a line of three."""

KERNEL_THREADS = "kernel threads"
"""Name for all kernel threads together where /proc does not show them, as in a process namespace."""
KTHREADD = "kthreadd"
"""Name of process 2, the parent of all kernel threads, where they are visible."""
_NS = 1e9
_UTIME, _STIME = 11, 12
"""Columns of /proc/PID/stat after the name (proc_pid_stat(5): fields 14 and 15). They include the time of ended threads."""


def parse_account(text: str) -> CpuAccount | None:
    """Parse the script's output; None if the host has no such files.

    The time of ended programs is not included, so compare `own_s` only between two readings with equal `programs`.
    """
    part = sections(text)
    cores = linux_proc.cpu_times(part.get("stat", ""))
    uptime = part.get("uptime", "").split()
    if not cores or not uptime:
        return None
    user_s, system_s, name = 0.0, 0.0, ""
    threads: dict[str, ThreadTime] = {}
    programs = set[int]()
    for line in part.get("programs", "").splitlines():
        match line.split("|"):
            case [_, pid, name, columns]:
                times = columns.split()
                if not name.startswith("ksoftirqd/"):  # its time is in the column softirq of /proc/stat
                    user_s += int(times[_UTIME]) / USER_HZ
                    system_s += int(times[_STIME]) / USER_HZ
                    programs.add(int(pid))
            case [_, run, wait]:
                threads[name] = threads.get(name, ThreadTime(0.0, 0.0)) + ThreadTime(int(run) / _NS, int(wait) / _NS)
            case _:
                continue
    visible = part.get("kernel", KTHREADD).strip() == KTHREADD
    account = machine_account(
        float(uptime[0]), part["stat"], part.get("pressure", ""), USER_HZ, own_s=(user_s, system_s), threads=threads, visible=visible
    )
    return replace(account, programs=frozenset(programs))


def machine_account(
    at_s: float, stat: str, pressure: str, ticks: int, *, own_s: tuple[float, float], threads: Mapping[str, ThreadTime], visible: bool
) -> CpuAccount:
    """Return an account from /proc/stat and /proc/pressure/cpu. `own_s` is user and system time of our programs and threads.

    If kernel threads are not `visible`, all system time of other processes counts as time of the kernel threads that forward. Other work
    is then only user time. Raises ValueError without a core in `stat`.
    """
    cores = linux_proc.cpu_times(stat)
    if not cores:
        raise ValueError("/proc/stat names no core")
    user_s, system_s = (sum(of) / ticks for of in zip(*((c.user, c.system) for c in cores.values()), strict=True))
    kernel_s = 0.0 if visible else max(0.0, system_s - own_s[1])
    return CpuAccount(
        at_s=at_s,
        cores=len(cores),
        busy_s=user_s + system_s,
        steal_s=sum(c.steal for c in cores.values()) / ticks,
        pressure_s=linux_proc.cpu_pressure_s(pressure),
        own_s=sum(own_s) + kernel_s,
        threads=dict(threads) if visible else {**threads, KERNEL_THREADS: ThreadTime(kernel_s, 0.0)},
    )
