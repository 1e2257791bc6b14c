"""Readings of the sensors in the running trial: a methods.ports.Readings that listens to them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile

from dutlab.events import Tell
from dutlab.methods.dut_ports import SensedValue
from dutlab.spec.sensors import SensorSpec

MOST = 100_000
"""Readings that are kept: an hour of 25 a second. A method asks for the last minutes."""
_ENDINGS = {"_watts": "W", "_celsius": "degC"}


class LiveReadings:
    """Readings of one trial after the other."""

    def __init__(self, sensors: Mapping[str, SensorSpec]) -> None:
        self._units = {name: unit for name, spec in sensors.items() if (unit := getattr(spec, "unit", None))}
        self._heard = deque[tuple[float, str, str, str, float]](maxlen=MOST)
        self._zero_s = time.monotonic()

    def listening(self, tell: Tell) -> Tell:
        """Hears what goes to `tell`, for a new trial."""
        self._heard.clear()

        def heard(where: str, who: str, values: Mapping[str, float]) -> None:
            at_s = time.monotonic()
            self._heard.extend((at_s, where, who, name, value) for name, value in values.items())
            tell(where, who, values)

        return heard

    def begin(self, at_s: float) -> None:
        """The trial began at this instant (time.monotonic()), which its samples count from."""
        self._zero_s = at_s

    def now_s(self) -> float:
        """Return the time as methods.ports says."""
        return time.monotonic() - self._zero_s

    def since(self, from_s: float) -> Sequence[SensedValue]:
        """Return the readings as methods.ports says."""
        late = takewhile(lambda heard: heard[0] - self._zero_s >= from_s, reversed(self._heard))
        readings = [
            SensedValue(at_s - self._zero_s, where, who, name, self._unit(who, name), value) for at_s, where, who, name, value in late
        ]
        return readings[::-1]

    def _unit(self, sensor: str, name: str) -> str:
        return self._units.get(sensor) or next((unit for ending, unit in _ENDINGS.items() if name.endswith(ending)), "")
