"""Sensor `cpu`: what the cores of a host did in each second of a trial, and what the loop that reads them takes of its core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from dutlab.sensors import procfs
from dutlab.sensors.loop import MARK, ShellLoop, loop_of
from dutlab.sensors.sensor import WATCH_COST, Sample, SensorSite

CORES = "cpu"
_BODY = r"""
  printf '\036uptime\n'; cat /proc/uptime
  printf '\036stat\n'; cat /proc/stat
  printf '\036softnet\n'; cat /proc/net/softnet_stat
"""


@dataclass(frozen=True)
class CpuReading:
    """One turn of the loop."""

    uptime_s: float
    cpus: dict[int, procfs.CpuTimes]
    softnet: dict[int, procfs.Softnet]
    own_s: float
    """CPU time of the loop and its commands since it began."""

    def busy_since(self, before: CpuReading) -> dict[str, float]:
        """Core → share of the time that it did anything at all."""
        found = {}
        for cpu in sorted(before.cpus.keys() & self.cpus.keys()):
            if shares := self.cpus[cpu].percent_since(before.cpus[cpu]):
                found[f"cpu{cpu}_busy_percent"] = round(100.0 - shares["idle"], 1)
        return found

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


class Sampler(ShellLoop):
    """Watches the machine that its host is, or is a namespace of. Each sample is the mean since the one before."""

    needs = "the host needs sh, cat and /proc/stat"

    def __init__(self, site: SensorSite, *, watch: CpuWatch | None = None, interval_s: float = 1.0, name: str = CORES) -> None:
        """`watch` is for a host that is not Linux."""
        self._watch = watch or LINUX_CPU
        super().__init__(name, site, self._watch.loop, interval_s=interval_s)
        self._readings: list[CpuReading] = []

    def _turn(self, at_s: float, text: str) -> None:
        del at_s  # the host's own clock tells the time between two turns better
        reading = self._watch.parse(text)
        before = self._readings[-1] if self._readings else None
        self._readings.append(reading.after(before) if before and self._watch.since == "turn" else reading)
        if before:
            self._tell(self.host, self.name, self._readings[-1].busy_since(before))

    def _samples(self, began_s: float) -> Iterable[Sample]:
        return samples(self._readings, host=self.host, ahead_s=began_s - self._first_s, sensor=self.name)


def parse_reading(text: str) -> CpuReading:
    """One turn's output."""
    part = procfs.sections(text, MARK)
    return CpuReading(
        procfs.uptime_s(part["uptime"]),
        procfs.cpu_times(part["stat"]),
        procfs.softnet(part["softnet"]),
        procfs.shell_times_s(part["own"]),
    )


LINUX_CPU = CpuWatch(loop_of(_BODY), parse_reading)


def samples(readings: Sequence[CpuReading], *, host: str, ahead_s: float = 0.0, sensor: str = CORES) -> Iterator[Sample]:
    """A sample for every core and state between each two readings. The first reading was `ahead_s` before the trial's start.

    With threaded NAPI the kernel counts forwarding as `system`, since a thread does it; otherwise as `softirq`.
    """
    for before, after in pairwise(readings):
        t_s = round(after.uptime_s - readings[0].uptime_s - ahead_s, 3)
        seconds = after.uptime_s - before.uptime_s
        for cpu in sorted(before.cpus.keys() & after.cpus.keys()):
            for state, percent in (after.cpus[cpu].percent_since(before.cpus[cpu]) or {}).items():
                yield Sample(t_s, host, sensor, f"cpu{cpu}_{state}_percent", "%", percent)
        if seconds <= 0:
            continue
        yield Sample(t_s, host, sensor, WATCH_COST, "%", (after.own_s - before.own_s) / seconds * 100)
        for cpu in sorted(before.softnet.keys() & after.softnet.keys()):
            for name in ("processed", "dropped", "squeezed"):
                counted = (getattr(after.softnet[cpu], name) - getattr(before.softnet[cpu], name)) % 2**32
                yield Sample(t_s, host, sensor, f"cpu{cpu}_softnet_{name}_per_s", "/s", counted / seconds)
