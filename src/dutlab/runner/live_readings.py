"""Sensor readings of the running trial, as a methods.ports.Readings."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile

from dutlab.events import Tell
from dutlab.methods.dut_ports import SensedValue
from dutlab.spec.sensor import SensorSpec

MOST = 100_000
"""Number of readings that are kept: over an hour at 25 a second. Methods read only the last minutes."""
_ENDINGS = {"_watts": "W", "_celsius": "degC"}


class LiveReadings:
    """Readings of the current trial."""

    def __init__(self, sensors: Mapping[str, SensorSpec]) -> None:
        self._units = {name: unit for name, spec in sensors.items() if (unit := getattr(spec, "unit", None))}
        self._heard = deque[tuple[float, str, str, str, float]](maxlen=MOST)
        self._zero_s = time.monotonic()

    def listening(self, tell: Tell) -> Tell:
        """Delete earlier readings, and return a function that keeps each reading and passes it to `tell`."""
        self._heard.clear()

        def heard(where: str, who: str, values: Mapping[str, float]) -> None:
            at_s = time.monotonic()
            self._heard.extend((at_s, where, who, name, value) for name, value in values.items())
            tell(where, who, values)

        return heard

    def begin(self, at_s: float) -> None:
        """Set the start of the trial (time.monotonic(), in seconds), from which its samples count."""
        self._zero_s = at_s

    def now_s(self) -> float:
        """Return the seconds since the trial began."""
        return time.monotonic() - self._zero_s

    def since(self, from_s: float) -> Sequence[SensedValue]:
        """Return the readings from `from_s` on, in seconds since the trial began."""
        late = takewhile(lambda heard: heard[0] - self._zero_s >= from_s, reversed(self._heard))
        readings = [
            SensedValue(at_s - self._zero_s, where, who, name, self._unit(who, name), value) for at_s, where, who, name, value in late
        ]
        return readings[::-1]

    def _unit(self, sensor: str, name: str) -> str:
        return self._units.get(sensor) or next((unit for ending, unit in _ENDINGS.items() if name.endswith(ending)), "")
