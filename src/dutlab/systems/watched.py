"""Readings of a system's cores and counters, and the division of a script's output into parts. Pure: text in, numbers out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

MARK = "\x1e"
"""Character before the name of each part of a script's output."""
CONNTRACK_ENTRIES = "conntrack_entries"
"""Number of flows that a host tracks. It is a level, not a counter: the value after a trial counts, not the difference."""
CARRIER_CHANGES = "_carrier_changes"
"""Suffix of an interface's name: number of times its link went down or came up (sysfs-class-net)."""
POLLING_CORES = "polling_cores"
"""Name of a fact of a host: cores that were busy without any load."""
_TIMES = re.compile(r"(\d+)m([\d.]+)s")


@dataclass(frozen=True)
class CpuTimes:
    """Time of one core since boot, in clock ticks."""

    user: int
    """Ticks in user mode, with nice."""
    system: int
    idle: int
    """Ticks without work, with the wait for a disk: the core was free for packets."""
    irq: int
    softirq: int
    steal: int

    def __add__(self, other: CpuTimes) -> CpuTimes:
        return CpuTimes(**{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__})

    def percent_since(self, before: CpuTimes) -> dict[str, float] | None:
        """Return state → share of the time between the two readings; None when no tick passed or the clock went backwards."""
        parts = {name: getattr(self, name) - getattr(before, name) for name in self.__dataclass_fields__}
        # idle and steal may decrease by a tick (proc(5) on iowait), but a share must not be negative.
        parts = {name: max(0, ticks) for name, ticks in parts.items()}
        total = sum(parts.values())
        return {name: 100.0 * ticks / total for name, ticks in parts.items()} if total else None


@dataclass(frozen=True)
class Softnet:
    """Work of one core's network softirq since boot, in 32-bit counters that wrap."""

    processed: int
    dropped: int
    """Frames that did not fit into its backlog queue."""
    squeezed: int
    """Polls that used up budget or time with work left."""


@dataclass(frozen=True)
class CpuReading:
    """Reading of one turn of the loop."""

    uptime_s: float
    cpus: dict[int, CpuTimes]
    softnet: dict[int, Softnet]
    own_s: float
    """CPU time of the loop and its commands since its start, in seconds."""

    def busy_since(self, before: CpuReading) -> dict[str, float]:
        """Return core → share of the time in which it was busy."""
        percent_by_core = {}
        for cpu in sorted(before.cpus.keys() & self.cpus.keys()):
            if shares := self.cpus[cpu].percent_since(before.cpus[cpu]):
                percent_by_core[f"cpu{cpu}_busy_percent"] = round(100.0 - shares["idle"], 1)
        return percent_by_core

    def after(self, before: CpuReading) -> CpuReading:
        """Return the reading with the cores' times added to those of the previous turn."""
        return replace(self, cpus={n: times + before.cpus[n] if n in before.cpus else times for n, times in self.cpus.items()})


@dataclass(frozen=True)
class CpuWatch:
    """Watch of a system's cores: a shell loop with a turn every `$1` seconds that ends with the mark `end`, and its parser."""

    loop: str
    parse: Callable[[str], CpuReading]
    since: Literal["boot", "turn"] = "boot"
    """Origin of the cores' times: the host's start, or the end of the previous turn."""


@dataclass(frozen=True)
class Counting:
    """Reader of a system's counters: a script in the language of its `shell.text`, and the parser of its output."""

    script: str
    parse: Callable[[str], dict[str, float]]


def loop_of(body: str) -> str:
    """Return a loop over `body`, with a turn every `$1` seconds."""
    return f"while :; do\n{body}\nprintf '\\036own\\n'; times\nprintf '\\036end\\n'\nsleep \"$1\"\ndone\n"


def shell_times_s(text: str) -> float:
    """Return the CPU seconds of a shell and its ended commands, user and system, from `times` (POSIX XCU 2.14): `0m0.10s 1m2.5s`."""
    return sum(60 * float(minutes) + float(seconds) for minutes, seconds in _TIMES.findall(text.replace(",", ".")))


def sections(text: str) -> Mapping[str, str]:
    """Return name → text of output in which each part begins with a line of MARK and its name."""
    body_by_name: dict[str, str] = {}
    for part in text.split(MARK)[1:]:
        name, _, body = part.partition("\n")
        body_by_name[name.strip()] = body
    return body_by_name
