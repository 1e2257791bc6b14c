"""What Linux says in /proc about its cores and its network, as values. Pure: text in, numbers out.

Columns: proc(5) for stat and softirqs, net/core/net-procfs.c (softnet_seq_show) for softnet_stat, RFC 4293 and RFC 1213 names in snmp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_CPU_LINE = re.compile(r"cpu(\d+)\s+(.+)")
_TIMES = re.compile(r"(\d+)m([\d.]+)s")
_PRESSURE = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)
_STAT_COLUMNS = 8
"""user nice system idle iowait irq softirq steal; guest time is in user already."""

_SOFTNET_CPU_COLUMN = 12  # since Linux 5.10; before, the line number is all there is


@dataclass(frozen=True)
class CpuTimes:
    """Time of one core since boot, in clock ticks."""

    user: int
    """nice included"""
    system: int
    idle: int
    """waiting for a disk included: the core was free for packets"""
    irq: int
    softirq: int
    steal: int

    def __add__(self, other: CpuTimes) -> CpuTimes:
        return CpuTimes(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    def percent_since(self, before: CpuTimes) -> dict[str, float] | None:
        """State → share of the time between the two readings; None when no tick passed or the clock went backwards."""
        parts = {name: getattr(self, name) - getattr(before, name) for name in self.__dataclass_fields__}
        # The kernel lets idle and steal run backwards by a tick now and then (proc(5) on iowait): a share is never negative.
        parts = {name: max(0, ticks) for name, ticks in parts.items()}
        total = sum(parts.values())
        return {name: 100.0 * ticks / total for name, ticks in parts.items()} if total else None


@dataclass(frozen=True)
class Softnet:
    """What one core's network softirq did since boot; each is a 32-bit counter that wraps."""

    processed: int
    dropped: int
    """frames that its backlog queue had no room for"""
    squeezed: int
    """polls that ran out of budget or time while work was left"""


def cpu_times(stat: str) -> dict[int, CpuTimes]:
    """Core → times, from /proc/stat. Kernels that know fewer columns leave the later ones 0."""
    found = {}
    for line in stat.splitlines():
        if m := _CPU_LINE.fullmatch(line.strip()):
            columns = [int(c) for c in m[2].split()[:_STAT_COLUMNS]]
            user, nice, system, idle, iowait, irq, softirq, steal = columns + [0] * (_STAT_COLUMNS - len(columns))
            found[int(m[1])] = CpuTimes(user + nice, system, idle + iowait, irq, softirq, steal)
    return found


def softnet(text: str) -> dict[int, Softnet]:
    """Core → counters, from /proc/net/softnet_stat of any kernel: 9 to 15 hexadecimal columns."""
    found = {}
    for number, line in enumerate(line for line in text.splitlines() if line.strip()):
        columns = [int(c, 16) for c in line.split()]
        cpu = columns[_SOFTNET_CPU_COLUMN] if len(columns) > _SOFTNET_CPU_COLUMN else number
        found[cpu] = Softnet(*columns[:3])
    return found


def softirqs(text: str, names: tuple[str, ...] = ("NET_RX", "NET_TX")) -> dict[str, dict[int, int]]:
    """Softirq → core → count, from /proc/softirqs, whose first line names the cores."""
    lines = text.splitlines()
    if not lines:
        return {}
    cpus = [int(word.removeprefix("CPU")) for word in lines[0].split()]
    found = {}
    for line in lines[1:]:
        name, _, counts = line.partition(":")
        if name.strip() in names:
            found[name.strip()] = dict(zip(cpus, (int(c) for c in counts.split()), strict=False))
    return found


def protocol_counters(text: str) -> dict[str, dict[str, int]]:
    """Protocol → counter → value, from /proc/net/snmp or /proc/net/netstat: pairs of lines, names then values."""
    found: dict[str, dict[str, int]] = {}
    for names, values in _pairs(text):
        protocol, _, keys = names.partition(":")
        found[protocol] = dict(zip(keys.split(), (int(v) for v in values.partition(":")[2].split()), strict=False))
    return found


def conntrack_counters(text: str) -> dict[str, int]:
    """Counter → sum over cores, from /proc/net/stat/nf_conntrack (a line of names, then hexadecimal) or `conntrack -S` (name=value)."""
    total: dict[str, int] = {}
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and "=" not in lines[0]:
        names = lines[0].split()
        rows = [dict(zip(names, (int(c, 16) for c in line.split()), strict=False)) for line in lines[1:]]
    else:
        rows = [{k: int(v) for k, v in (word.split("=", 1) for word in line.split()) if v.isdigit()} for line in lines]
    for row in rows:
        for name, value in row.items():
            if name not in ("cpu", "entries"):  # `entries` repeats the whole table's size on each line
                total[name] = total.get(name, 0) + value
    return total


def cpu_pressure_s(text: str) -> float | None:
    """Seconds since boot in which some thread waited for a CPU, from /proc/pressure/cpu; None where the kernel does not tell (psi.rst)."""
    found = _PRESSURE.search(text)
    return int(found[1]) / 1e6 if found else None


def uptime_s(text: str) -> float:
    """Seconds since boot, from /proc/uptime."""
    return float(text.split(maxsplit=1)[0])


def shell_times_s(text: str) -> float:
    """Seconds of CPU that a shell and its ended commands took, user and system, from its `times` (POSIX XCU 2.14): `0m0.10s 1m2.5s`."""
    return sum(60 * float(minutes) + float(seconds) for minutes, seconds in _TIMES.findall(text.replace(",", ".")))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if ":" in line]
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        if names.partition(":")[0] == values.partition(":")[0]:
            yield names, values


def sections(text: str, mark: str) -> Mapping[str, str]:
    """Name → text, of output in which each part begins with a line `<mark><name>`."""
    found: dict[str, str] = {}
    for part in text.split(mark)[1:]:
        name, _, body = part.partition("\n")
        found[name.strip()] = body
    return found
