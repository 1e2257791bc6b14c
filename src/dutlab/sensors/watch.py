"""All sensors of one trial: started together before it, stopped together after it."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self, cast

from dutlab.ending import to_its_end
from dutlab.errors import DutlabError, HostError, ToolMissing
from dutlab.events import Tell, nobody
from dutlab.extras import how_to_add
from dutlab.hosts.local import THIS_MACHINE
from dutlab.sensors.sensor import Sensor, SensorSite, Watched, all_of
from dutlab.spec.sensors import SensorSpec
from dutlab.workloads import named

_LIBRARIES = {"snmp": "pysnmp", "mqtt": "paho"}
_PROGRAMS = {"ipmi": "ipmitool"}


def missing_for(specs: Iterable[SensorSpec]) -> Iterator[ToolMissing]:
    """Yield what this machine lacks for these sensors."""
    for spec in specs:
        kind = spec.kind
        if kind in _LIBRARIES and importlib.util.find_spec(_LIBRARIES[kind]) is None:
            what, remedy = f"sensor {spec.name} needs the library {_LIBRARIES[kind]}", how_to_add("power")
        elif kind in _PROGRAMS and shutil.which(_PROGRAMS[kind]) is None:
            what, remedy = f"sensor {spec.name} needs {_PROGRAMS[kind]}", f"Debian: apt install {_PROGRAMS[kind]}"
        else:
            continue
        yield ToolMissing(what, tool=kind, host=THIS_MACHINE, remedy=remedy)


def make(spec: SensorSpec, site: SensorSite) -> Sensor | None:
    """The sensor that `spec` describes, at `site`; None where a system of that family cannot be watched so."""
    return cast("Sensor | None", named(spec.made_by)(spec, site))


class Watch:
    """A context around the trial; afterwards `watched` has what the sensors read.

    `vital` ones enclose the others and each other, in this order: what costs time or CPU is outside what accounts for it. A sensor that is
    not vital never costs the trial anything: what goes wrong with it is among `watched.faults`.
    """

    def __init__(self, sensors: Sequence[Sensor], tell: Tell = nobody) -> None:
        self._vital = [s for s in sensors if s.vital]
        self._others = [s for s in sensors if not s.vital]
        self._tell = tell
        self.began_s = 0.0
        """When the sensors were ready (time.monotonic()): where the times of their samples count from."""
        self._failed: list[Watched] = []
        self._running: list[Sensor] = []
        self.watched = Watched()

    async def __aenter__(self) -> Self:
        """Raises HostError when a vital sensor cannot be read."""
        self._running = list(self._others)
        try:
            started = await asyncio.gather(*(s.start(self._tell) for s in self._others), return_exceptions=True)
            for sensor, fault in zip(self._others, started, strict=True):
                if isinstance(fault, BaseException):
                    self._failed.append(_fault_of(sensor, fault))
            for sensor in self._vital:
                await sensor.start(self._tell)
        except BaseException:
            await to_its_end(self._end_others())
            raise
        self.began_s = time.monotonic()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Raises HostError when a vital sensor cannot be read; not where the trial failed by itself."""
        del kind, trace
        results = []
        try:
            for sensor in reversed(self._vital):
                results.append(await sensor.stop(self.began_s))  # noqa: PERF401 - what was found before a fault is kept
        except HostError:
            if error is None:
                raise
        finally:
            results += await to_its_end(self._end_others())
        self.watched = all_of([*self._failed, *results])

    async def _end_others(self) -> list[Watched]:
        running, self._running = self._running, []
        ended = await asyncio.gather(*(s.stop(self.began_s) for s in running), return_exceptions=True)
        return [_fault_of(s, w) if isinstance(w, BaseException) else w for s, w in zip(running, ended, strict=True)]


def _fault_of(sensor: Sensor, error: BaseException) -> Watched:
    """Return the fault of a sensor as a doubt, be it its own bug; a request to end is raised."""
    if not isinstance(error, Exception):
        raise error
    what = str(error) if isinstance(error, DutlabError) else repr(error)
    return Watched(faults=(f"{sensor.name}: {what}",))
