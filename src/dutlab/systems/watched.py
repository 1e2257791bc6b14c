"""Readings of a system's cores and counters: the values, and how a script's output is cut into parts. Pure: text in, numbers out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

MARK = "\x1e"
"""Before the name of each part that a script prints."""
CONNTRACK_ENTRIES = "conntrack_entries"
"""Flows that a host tracks. A level, not a counter: what it is after a trial says something, and not what it grew by."""
CARRIER_CHANGES = "_carrier_changes"
"""Behind an interface's name: how often its link went down or came up (sysfs-class-net)."""
POLLING_CORES = "polling_cores"
"""Among the facts of a host: cores that were busy before there was any load."""
_TIMES = re.compile(r"(\d+)m([\d.]+)s")


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
    """Work of one core's network softirq since boot; each is a 32-bit counter that wraps."""

    processed: int
    dropped: int
    """frames that its backlog queue had no room for"""
    squeezed: int
    """polls that ran out of budget or time while work was left"""


@dataclass(frozen=True)
class CpuReading:
    """One turn of the loop."""

    uptime_s: float
    cpus: dict[int, CpuTimes]
    softnet: dict[int, Softnet]
    own_s: float
    """CPU time of the loop and its commands since it began."""

    def busy_since(self, before: CpuReading) -> dict[str, float]:
        """Core → share of the time that it did anything at all."""
        percent_by_core = {}
        for cpu in sorted(before.cpus.keys() & self.cpus.keys()):
            if shares := self.cpus[cpu].percent_since(before.cpus[cpu]):
                percent_by_core[f"cpu{cpu}_busy_percent"] = round(100.0 - shares["idle"], 1)
        return percent_by_core

    def after(self, before: CpuReading) -> CpuReading:
        """Its cores' times on top of those of the turn before."""
        return replace(self, cpus={n: times + before.cpus[n] if n in before.cpus else times for n, times in self.cpus.items()})


@dataclass(frozen=True)
class CpuWatch:
    """Watch of a system: a shell loop over `$1` seconds, each turn of which ends with the mark `end`, and the parser of a turn."""

    loop: str
    parse: Callable[[str], CpuReading]
    since: Literal["boot", "turn"] = "boot"
    """Origin of the cores' times: the host's start, or the end of the turn before."""


@dataclass(frozen=True)
class Counting:
    """Reader of a system's counters: a script in the language of its `shell.text`, and the counters in its output."""

    script: str
    parse: Callable[[str], dict[str, float]]


def loop_of(body: str) -> str:
    """A loop over `body`, a turn every `$1` seconds."""
    return f"while :; do\n{body}\nprintf '\\036own\\n'; times\nprintf '\\036end\\n'\nsleep \"$1\"\ndone\n"


def shell_times_s(text: str) -> float:
    """Seconds of CPU that a shell and its ended commands took, user and system, from its `times` (POSIX XCU 2.14): `0m0.10s 1m2.5s`."""
    return sum(60 * float(minutes) + float(seconds) for minutes, seconds in _TIMES.findall(text.replace(",", ".")))


def sections(text: str) -> Mapping[str, str]:
    """Name → text, of output in which each part begins with a line of MARK and its name."""
    body_by_name: dict[str, str] = {}
    for part in text.split(MARK)[1:]:
        name, _, body = part.partition("\n")
        body_by_name[name.strip()] = body
    return body_by_name
