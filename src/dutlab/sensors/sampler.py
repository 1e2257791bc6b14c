"""What the cores of a host did in each second of a trial.

One shell loop for the whole trial, on a core that the generator does not use where there is one: a login or a Python start every second
would be seen in the figures. What the loop itself takes of its core is one of its readings.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from dutlab.errors import CommandFailed, HostError
from dutlab.hosts.host import Host, Process
from dutlab.sensors import procfs

_MARK = "\x1e"
_END = f"{_MARK}end\n"
_LOOP = r"""
while :; do
  printf '\036uptime\n'; cat /proc/uptime
  printf '\036stat\n'; cat /proc/stat
  printf '\036softnet\n'; cat /proc/net/softnet_stat
  printf '\036own\n'; times
  printf '\036end\n'
  sleep "$1"
done
"""
_FIRST_READING_S = 30.0
WATCHING, WATCH_COST = "sampler", "watch_core_percent"
"""Sensor and name of what the loop takes of one core."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A value in time inside a trial. `t_s` is seconds since the trial's start; the unit is in the name: cpu0_softirq_percent."""

    t_s: float
    host: str
    sensor: str
    name: str
    value: float


@dataclass(frozen=True)
class CpuReading:
    """One turn of the loop."""

    uptime_s: float
    cpus: dict[int, procfs.CpuTimes]
    softnet: dict[int, procfs.Softnet]
    own_s: float
    """CPU time of the loop and its commands since it began."""

    def after(self, before: CpuReading) -> CpuReading:
        """Its cores' times on top of those of the turn before."""
        return replace(self, cpus={n: times + before.cpus[n] if n in before.cpus else times for n, times in self.cpus.items()})


@dataclass(frozen=True)
class CpuWatch:
    """How a system is watched: a shell loop over `$1` seconds, each turn of which ends with the mark `end`, and what a turn means."""

    loop: str
    parse: Callable[[str], CpuReading]
    since: Literal["boot", "turn"] = "boot"
    """What the times of the cores are counted from: the host's start, or the end of the turn before."""


class Sampler:
    """Watches the machine that `host` is, or is a namespace of. Each sample is the mean since the one before."""

    def __init__(self, host: Host, *, cpu: int | None = None, interval_s: float = 1.0, watch: CpuWatch | None = None) -> None:
        """`cpu` is where the loop runs; None lets the kernel choose. `watch` is for a host that is no Linux."""
        self._host, self._cpu, self._interval_s, self._watch = host, cpu, interval_s, watch or LINUX_CPU
        self._process: Process | None = None
        self._reader: asyncio.Future[None] | None = None
        self._readings: list[CpuReading] = []
        self._first = asyncio.Event()
        self._first_at = 0.0
        self._zero: float | None = None

    async def start(self) -> None:
        """Returns once the first reading is there. Raises HostError."""
        pin = [] if self._cpu is None else ["taskset", "-c", str(self._cpu)]
        self._process = await self._host.spawn([*pin, "sh", "-c", self._watch.loop, "sampler", str(self._interval_s)])
        self._reader = asyncio.ensure_future(self._read(self._process))
        first = asyncio.ensure_future(self._first.wait())
        await asyncio.wait([first, self._reader], timeout=_FIRST_READING_S, return_when=asyncio.FIRST_COMPLETED)
        first.cancel()
        if not self._first.is_set():
            done = await self._process.end()
            if done.status > 0:
                raise CommandFailed(host=self._host.name, argv=done.argv[:3], status=done.status, stderr_tail=done.errors)
            raise HostError("the CPU sampler printed nothing", host=self._host.name, remedy="the host needs sh, cat and /proc/stat")

    def zero(self) -> None:
        """The trial starts now; without it, it started with start()."""
        self._zero = time.monotonic()

    async def stop(self) -> list[Sample]:
        """Ends the loop. Returns the whole trial's samples; none when it never started."""
        if self._process is None or self._reader is None:
            return []
        await self._process.end(grace_s=1.0)
        await self._reader
        ahead_s = 0.0 if self._zero is None else self._zero - self._first_at
        return list(samples(self._readings, host=self._host.name, ahead_s=ahead_s))

    async def _read(self, process: Process) -> None:
        block: list[bytes] = []
        while line := await process.readline():
            block.append(line)
            if line == _END.encode():
                reading = self._watch.parse(b"".join(block).decode("utf-8", "replace"))
                added = self._watch.since == "turn" and self._readings
                self._readings.append(reading.after(self._readings[-1]) if added else reading)
                block = []
                if not self._first.is_set():
                    self._first_at = time.monotonic()
                    self._first.set()


def parse_reading(text: str) -> CpuReading:
    """One turn's output."""
    part = procfs.sections(text, _MARK)
    return CpuReading(
        procfs.uptime_s(part["uptime"]),
        procfs.cpu_times(part["stat"]),
        procfs.softnet(part["softnet"]),
        procfs.shell_times_s(part["own"]),
    )


LINUX_CPU = CpuWatch(_LOOP, parse_reading)


def samples(readings: Sequence[CpuReading], *, host: str, ahead_s: float = 0.0) -> Iterator[Sample]:
    """A sample for every core and state between each two readings. The first reading was `ahead_s` before the trial's start.

    With threaded NAPI the kernel counts forwarding as `system`, since a thread does it; otherwise as `softirq`.
    """
    for before, after in pairwise(readings):
        t_s = round(after.uptime_s - readings[0].uptime_s - ahead_s, 3)
        seconds = after.uptime_s - before.uptime_s
        for cpu in sorted(before.cpus.keys() & after.cpus.keys()):
            for state, percent in (after.cpus[cpu].percent_since(before.cpus[cpu]) or {}).items():
                yield Sample(t_s, host, "cpu", f"cpu{cpu}_{state}_percent", percent)
        if seconds <= 0:
            continue
        yield Sample(t_s, host, WATCHING, WATCH_COST, (after.own_s - before.own_s) / seconds * 100)
        for cpu in sorted(before.softnet.keys() & after.softnet.keys()):
            for name in ("processed", "dropped", "squeezed"):
                counted = (getattr(after.softnet[cpu], name) - getattr(before.softnet[cpu], name)) % 2**32
                yield Sample(t_s, host, "softnet", f"cpu{cpu}_softnet_{name}_per_s", counted / seconds)
