"""A sensor: started before a trial and stopped after it; it returns its readings.

Adding one takes its settings (spec/sensors.py), a module with `make(spec, site)` here, and its line in watch.py.
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
"""Name of the sample by which a sensor says what it takes of one core of its host."""

THROTTLED = "throttled"
"""Name of the sample that counts how often heat throttled a processor since the sample before."""


POWER_LIMITED = "power_limited"
"""Name of the sample that counts how often a limit of power did so."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A value in time inside a trial. `t_s` is seconds since the trial's start."""

    t_s: float
    host: str
    sensor: str
    name: str
    unit: str
    """Unit as it follows a number: `%`, `W`, `degC`, `/s`; empty for a plain count."""
    value: float


@dataclass(frozen=True)
class Watched:
    """Readings of sensors in a trial. Those of several are added up with `+`."""

    samples: list[Sample] = field(default_factory=list)
    counters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Host → counter → what it grew by."""
    interference: Mapping[str, Interference] = field(default_factory=dict)
    """Machine → what other work took from the trial."""
    faults: tuple[str, ...] = ()
    """Why readings are missing, each with the sensor's name first."""
    raw: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the trial, by name."""

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
    """Site of a sensor: the host that it reads, which is a host of the testbed or the machine that dutlab runs on."""

    host: Host
    core: int | None = None
    """Core of the sensor's programs there; None lets the kernel choose."""


class Sensor(Protocol):
    """One sensor in one trial; used once."""

    @property
    def name(self) -> str:
        """Name of the host in its samples."""

    @property
    def vital(self) -> bool:
        """True where its failure is the host's own, so that the trial cannot count; of any other sensor a failure is a doubt."""

    async def start(self, tell: Tell) -> None:
        """Returns once the first reading is there. Raises HostError."""

    async def stop(self, began_s: float) -> Watched:
        """Return the readings since start(), timed from `began_s` (time.monotonic() here); empty if never started. Raises HostError."""


def limits_once(samples: Iterable[Sample]) -> Iterable[Sample]:
    """The samples without limits that are as they were."""
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
