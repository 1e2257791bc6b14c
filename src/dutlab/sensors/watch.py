"""All sensors of one trial: they start together before it and stop together after it."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self, cast

from dutlab.by_path import named
from dutlab.ending import run_to_end
from dutlab.errors import DutlabError, HostError, ToolMissing
from dutlab.events import Tell, no_observer
from dutlab.extras import extra_install_command
from dutlab.hosts.local import THIS_MACHINE
from dutlab.sensors.sensor import Sensor, SensorSite, Watched, all_of
from dutlab.spec.sensor import SensorSpec

_LIBRARIES = {"snmp": "pysnmp", "mqtt": "paho"}
_PROGRAMS = {"ipmi": "ipmitool"}


def missing_for(specs: Iterable[SensorSpec]) -> Iterator[ToolMissing]:
    """Yield an error for each library or program that these sensors need and this machine lacks."""
    for spec in specs:
        kind = spec.kind
        if kind in _LIBRARIES and importlib.util.find_spec(_LIBRARIES[kind]) is None:
            what, remedy = f"sensor {spec.name} needs the library {_LIBRARIES[kind]}", extra_install_command("power")
        elif kind in _PROGRAMS and shutil.which(_PROGRAMS[kind]) is None:
            what, remedy = f"sensor {spec.name} needs {_PROGRAMS[kind]}", f"Debian: apt install {_PROGRAMS[kind]}"
        else:
            continue
        yield ToolMissing(what, tool=kind, host=THIS_MACHINE, remedy=remedy)


def make(spec: SensorSpec, site: SensorSite) -> Sensor | None:
    """Return the sensor that `spec` describes, at `site`; None if it does not support the host's system."""
    return cast("Sensor | None", named(spec.made_by)(spec, site))


class Watch:
    """Context around a trial; after it, `watched` has the readings of all sensors.

    Sensors that are not vital start first and stop last. Vital sensors start last, in the given order, and stop first, in reverse. So the
    CPU accounts do not include the start of other sensors. A fault of a sensor that is not vital never fails the trial: it is in
    `watched.faults`.
    """

    def __init__(self, sensors: Sequence[Sensor], tell: Tell = no_observer) -> None:
        self._vital = [s for s in sensors if s.vital]
        self._others = [s for s in sensors if not s.vital]
        self._tell = tell
        self.began_s = 0.0
        """Time at which all sensors were ready (time.monotonic()); times of samples are relative to it."""
        self._failed: list[Watched] = []
        self._running: list[Sensor] = []
        self.watched = Watched()

    async def __aenter__(self) -> Self:
        """Start all sensors. Raises HostError if a vital sensor cannot be read."""
        self._running = list(self._others)
        try:
            started = await asyncio.gather(*(s.start(self._tell) for s in self._others), return_exceptions=True)
            for sensor, fault in zip(self._others, started, strict=True):
                if isinstance(fault, BaseException):
                    self._failed.append(_fault_of(sensor, fault))
            for sensor in self._vital:
                await sensor.start(self._tell)
        except BaseException:
            await run_to_end(self._end_others())
            raise
        self.began_s = time.monotonic()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop all sensors. Raises HostError if a vital sensor cannot be read, unless the trial itself failed."""
        results = []
        try:
            for sensor in reversed(self._vital):
                results.append(await sensor.stop(self.began_s))  # noqa: PERF401 - readings before a fault are kept
        except HostError:
            if error is None:
                raise
        finally:
            results += await run_to_end(self._end_others())
        self.watched = all_of([*self._failed, *results])

    async def _end_others(self) -> list[Watched]:
        running, self._running = self._running, []
        ended = await asyncio.gather(*(s.stop(self.began_s) for s in running), return_exceptions=True)
        return [_fault_of(s, w) if isinstance(w, BaseException) else w for s, w in zip(running, ended, strict=True)]


def _fault_of(sensor: Sensor, error: BaseException) -> Watched:
    """Return an exception of a sensor as a fault, also if it is a bug. Cancellation and Ctrl-C are raised."""
    if not isinstance(error, Exception):
        raise error
    what = str(error) if isinstance(error, DutlabError) else repr(error)
    return Watched(faults=(f"{sensor.name}: {what}",))
