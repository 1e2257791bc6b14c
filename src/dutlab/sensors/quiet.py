"""Wait for a quiet machine, and name the programs that keep it busy. Short trials may begin while it is calm.

/proc/loadavg has the number of threads that run or wait for a CPU now, the reader included (proc_loadavg(5)). A container sees the
number for the whole machine, but only the names of its own programs.
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
"""Most other threads, on average, that run on a quiet machine."""
CALM_S = 3.0
"""Seconds for which the machine must be quiet before a run begins."""
READINGS = 20
SECOND_S = 1.0
GLANCE_S = 0.04
"""Seconds of a check between two trials."""
MOST_NAMED = 3


@dataclass(frozen=True)
class Neighbours:
    """Other programs of this machine."""

    proc: Path = Path("/proc")
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic

    async def running(self, during_s: float, *, most: float = inf) -> float:
        """Return the mean number of other threads that run or wait for a CPU. Return early if it exceeds `most`.

        Raises OSError, ValueError, IndexError if the kernel does not provide it.
        """
        total = 0
        for _ in range(READINGS):
            total += max(0, int((self.proc / "loadavg").read_text(encoding="utf-8").split()[3].partition("/")[0]) - 1)
            if total > most * READINGS:
                break
            await self.sleep(during_s / READINGS)
        return total / READINGS

    async def is_calm(self) -> bool:
        """Return whether the machine is quiet now, by one short check."""
        try:
            return await self.running(GLANCE_S, most=QUIET) <= QUIET
        except (OSError, ValueError, IndexError):
            return False

    async def until_quiet(self, longest_s: float, tell: Callable[[str], None]) -> str:
        """Wait for some quiet seconds, and report the busy programs when they change. Return words about them at the time limit, else "".

        If the kernel does not provide the number of threads, return at once.
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
        """Return process → (name, ticks of CPU time) of all visible processes except this one."""
        processes = {}
        for folder in self.proc.glob("[0-9]*"):
            try:
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:  # the process has ended
                continue
            name, _, rest = stat.partition("(")[2].rpartition(")")
            if int(folder.name) != os.getpid():
                processes[int(folder.name)] = (name, sum(map(int, rest.split()[11:13])))
        return processes

    def busiest(self, before: dict[int, tuple[str, int]], after: dict[int, tuple[str, int]]) -> str:
        """Return the names of the programs that used most CPU time between `before` and `after`."""
        used: dict[str, int] = {}
        for pid, (name, ticks) in after.items():
            used[name] = used.get(name, 0) + ticks - before.get(pid, (name, ticks))[1]
        return ", ".join(name for name in sorted(used, key=lambda name: -used[name])[:MOST_NAMED] if used[name] > 0)
