"""Sensor `cpu`: use of a host's cores in each second of a trial, and the CPU time of the loop that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from dutlab.sensors.loop import ShellLoop
from dutlab.sensors.sensor import WATCH_COST, Sample, SensorSite
from dutlab.spec.sensors import CpuSensor
from dutlab.systems.sample_names import core_sample
from dutlab.systems.watched import CpuReading, CpuWatch

CORES = "cpu"


class Sampler(ShellLoop):
    """Loop that reads the cores of a host's machine, also if the host is a namespace. Each sample is the mean since the last one."""

    needs = "the host needs sh, cat and /proc/stat"

    def __init__(self, site: SensorSite, watch: CpuWatch, *, interval_s: float = 1.0, name: str = CORES) -> None:
        self._watch = watch
        super().__init__(name, site, self._watch.loop, interval_s=interval_s)
        self._readings: list[CpuReading] = []

    def _turn(self, at_s: float, text: str) -> None:
        reading = self._watch.parse(text)
        before = self._readings[-1] if self._readings else None
        self._readings.append(reading.after(before) if before and self._watch.since == "turn" else reading)
        if before:
            self._tell(self.host, self.name, self._readings[-1].busy_since(before))

    def _samples(self, began_s: float) -> Iterable[Sample]:
        return samples(self._readings, host=self.host, ahead_s=began_s - self._first_s, sensor=self.name)


def samples(readings: Sequence[CpuReading], *, host: str, ahead_s: float = 0.0, sensor: str = CORES) -> Iterator[Sample]:
    """Yield a sample for every core and state between successive readings. The first reading was `ahead_s` before the trial's start.

    With threaded NAPI the kernel counts forwarding as `system`, because a thread does it; otherwise as `softirq`.
    """
    for before, after in pairwise(readings):
        t_s = round(after.uptime_s - readings[0].uptime_s - ahead_s, 3)
        seconds = after.uptime_s - before.uptime_s
        for cpu in sorted(before.cpus.keys() & after.cpus.keys()):
            for state, percent in (after.cpus[cpu].percent_since(before.cpus[cpu]) or {}).items():
                yield Sample(t_s, host, sensor, core_sample(cpu, state), "%", percent)
        if seconds <= 0:
            continue
        yield Sample(t_s, host, sensor, WATCH_COST, "%", (after.own_s - before.own_s) / seconds * 100)
        for cpu in sorted(before.softnet.keys() & after.softnet.keys()):
            for name in ("processed", "dropped", "squeezed"):
                counted = (getattr(after.softnet[cpu], name) - getattr(before.softnet[cpu], name)) % 2**32
                yield Sample(t_s, host, sensor, f"cpu{cpu}_softnet_{name}_per_s", "/s", counted / seconds)


def make(spec: CpuSensor, site: SensorSite) -> Sampler | None:
    """Return the sensor `cpu`; None if dutlab cannot read the cores of such a system."""
    watch = site.host.system.cores
    return None if watch is None else Sampler(site, watch, interval_s=spec.every, name=spec.name)
