"""Sensor: it is started before a trial, stopped after it, and returns its readings.

To add one, write its settings (spec/sensors.py), a module with `make(spec, site)` here, and its line in watch.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dutlab.events import Tell
from dutlab.hosts.host import Host
from dutlab.physics.interference import Interference
from dutlab.systems.sample_names import is_limit

WATCH_COST = "watch_core_percent"
"""Name of the sample with the CPU time of the sensor itself, in percent of one core of its host."""

THROTTLED = "throttled"
"""Name of the sample that counts throttlings of a processor by heat since the previous sample."""


POWER_LIMITED = "power_limited"
"""Name of the sample that counts throttlings by a power limit since the previous sample."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Value at an instant inside a trial. `t_s` is seconds since the trial's start."""

    t_s: float
    host: str
    sensor: str
    name: str
    unit: str
    """Unit as it follows a number: `%`, `W`, `degC`, `/s`; empty for a plain count."""
    value: float


@dataclass(frozen=True)
class Watched:
    """Readings of sensors in a trial. `+` combines the readings of several."""

    samples: list[Sample] = field(default_factory=list)
    counters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Host → counter → growth during the trial."""
    interference: Mapping[str, Interference] = field(default_factory=dict)
    """Machine → CPU time that other work took from the trial."""
    faults: tuple[str, ...] = ()
    """Reasons for missing or doubtful readings, each with the sensor's name first."""
    raw: Mapping[str, bytes] = field(default_factory=dict)
    """Raw files of the trial: name → content."""

    def __add__(self, other: Watched) -> Watched:
        return Watched(
            [*self.samples, *other.samples],
            {host: {**self.counters.get(host, {}), **other.counters.get(host, {})} for host in {**self.counters, **other.counters}},
            {**self.interference, **other.interference},
            (*self.faults, *other.faults),
            {**self.raw, **other.raw},
        )


@dataclass(frozen=True)
class SensorSite:
    """Site of a sensor: the host that it reads, either a host of the testbed or the machine that dutlab runs on."""

    host: Host
    core: int | None = None
    """Core of that host for the sensor's programs; None lets the kernel choose."""


class Sensor(Protocol):
    """One sensor in one trial; used once."""

    @property
    def name(self) -> str:
        """Name of the sensor in its samples."""

    @property
    def vital(self) -> bool:
        """True if its failure means that the host failed, so that the trial cannot count; otherwise a failure is only a doubt."""

    async def start(self, tell: Tell) -> None:
        """Start the sensor; return after the first reading. Raises HostError."""

    async def stop(self, began_s: float) -> Watched:
        """Return the readings since start(), timed from `began_s` (time.monotonic() here); empty if never started. Raises HostError."""


def limits_once(samples: Iterable[Sample]) -> Iterable[Sample]:
    """Yield the samples without limits that have not changed."""
    last = dict[tuple[str, str, str], float]()
    for s in samples:
        if is_limit(s.name):
            if last.get(key := (s.host, s.sensor, s.name)) == s.value:
                continue
            last[key] = s.value
        yield s


def all_of(watched: Iterable[Watched]) -> Watched:
    """Combine the readings of several sensors."""
    return sum(watched, Watched())
