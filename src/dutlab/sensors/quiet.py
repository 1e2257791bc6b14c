"""Quiet machine: wait for it, and name what keeps it busy; let short trials go first while it is calm.

/proc/loadavg says how many threads run or wait for a CPU at this instant (proc_loadavg(5)); one of them is the reader. A container sees the
number of the whole machine, but only the names of its own programs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path

QUIET = 0.1
"""So many other threads may run on average."""
CALM_S = 3.0
"""So long it has to be quiet before a run begins."""
READINGS = 20
SECOND_S = 1.0
GLANCE_S = 0.04
"""A glance between two trials takes so long."""
MOST_NAMED = 3


@dataclass(frozen=True)
class Neighbours:
    """The other programs of this machine."""

    proc: Path = Path("/proc")
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic

    async def running(self, during_s: float, *, most: float = inf) -> float:
        """Return how many other threads run or wait for a CPU, on average; stop as soon as that is more than `most`.

        Raises OSError, ValueError, IndexError where the kernel does not tell.
        """
        total = 0
        for _ in range(READINGS):
            total += max(0, int((self.proc / "loadavg").read_text(encoding="utf-8").split()[3].partition("/")[0]) - 1)
            if total > most * READINGS:
                break
            await self.sleep(during_s / READINGS)
        return total / READINGS

    async def is_calm(self) -> bool:
        """Return whether it is quiet at this moment, by one look."""
        try:
            return await self.running(GLANCE_S, most=QUIET) <= QUIET
        except (OSError, ValueError, IndexError):
            return False

    async def until_quiet(self, longest_s: float, tell: Callable[[str], None]) -> str:
        """Wait for some quiet seconds, and report what keeps it busy when that changes. Return what did at the end, or "".

        A machine that does not tell is not waited for.
        """
        ends, calm_s, reported = self.clock() + longest_s, 0.0, ""
        while True:
            before = self.used()
            try:
                others = await self.running(SECOND_S)
            except (OSError, ValueError, IndexError):
                return ""
            calm_s = calm_s + SECOND_S if others <= QUIET else 0.0
            if calm_s >= min(CALM_S, longest_s):
                return ""
            names = self.busiest(before, self.used())
            busy = f"{others:.1f} other threads run{f': {names}' if names else ''}"
            if self.clock() >= ends:
                return busy
            if calm_s == 0 and names != reported:
                reported = names
                tell(busy)

    def used(self) -> dict[int, tuple[str, int]]:
        """Process → name and its ticks of CPU time; those that are visible here, and not ours."""
        processes = {}
        for folder in self.proc.glob("[0-9]*"):
            try:
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:  # ended meanwhile
                continue
            name, _, rest = stat.partition("(")[2].rpartition(")")
            if int(folder.name) != os.getpid():
                processes[int(folder.name)] = (name, sum(map(int, rest.split()[11:13])))
        return processes

    def busiest(self, before: dict[int, tuple[str, int]], after: dict[int, tuple[str, int]]) -> str:
        """The programs that used most in between, by name."""
        used: dict[str, int] = {}
        for pid, (name, ticks) in after.items():
            used[name] = used.get(name, 0) + ticks - before.get(pid, (name, ticks))[1]
        return ", ".join(name for name in sorted(used, key=lambda name: -used[name])[:MOST_NAMED] if used[name] > 0)
