"""Sensor `redfish`: power, temperatures and fans of a server, from its management controller (DMTF DSP0266, DSP2046)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from dutlab.sensors.asked import PolledSensor
from dutlab.sensors.oddities import Amount, as_number
from dutlab.sensors.sensor import SensorSite
from dutlab.sensors.web import KeptConnection, get_json
from dutlab.spec.sensors import RedfishSensor
from dutlab.systems.sample_names import limit_name

_MOST_CHASSIS = 16


class RedfishController:
    """Source of the readings of all chassis of one controller; a ReadingSource. The list of documents is read once."""

    def __init__(self, spec: RedfishSensor) -> None:
        self._spec, self._kept = spec, KeptConnection()
        self._root = urlsplit(spec.url).path.rstrip("/")
        self._documents: list[tuple[str, Callable[[Any], Iterable[tuple[str, Amount]]]]] | None = None

    def read(self) -> Mapping[str, Amount]:
        """Return the current readings by name. Raises Refused, OSError, ValueError."""
        if self._documents is None:
            self._documents = list(self._there())
        amounts: dict[str, Amount] = {}
        for target, readings in self._documents:
            for name, quantity in readings(self._get(target)):
                amounts.setdefault(name, quantity)
        if not amounts:
            raise ValueError("none of its chassis reports a power, a temperature or a fan")
        return amounts

    def close(self) -> None:
        """Close the connection."""
        self._kept.close()

    def _there(self) -> Iterator[tuple[str, Callable[[Any], Iterable[tuple[str, Amount]]]]]:
        """Yield address and parser of each document that a chassis links to: Power and Thermal (old), EnvironmentMetrics (new)."""
        members = _list(self._get("/redfish/v1/Chassis"), "Members")
        for member in members[:_MOST_CHASSIS]:
            chassis = self._get(_id(member))
            for key, readings in (("Power", _power), ("Thermal", _thermal), ("EnvironmentMetrics", _metrics)):
                if target := _id(chassis.get(key) if isinstance(chassis, dict) else None):
                    yield target, readings

    def _get(self, target: str) -> Any:  # noqa: ANN401 any JSON
        return get_json(self._spec, f"{self._root}{target}", kept=self._kept)


def _power(document: Any) -> Iterator[tuple[str, Amount]]:  # noqa: ANN401
    for at, of in enumerate(_list(document, "PowerControl")):
        if (watts := _number(of, "PowerConsumedWatts")) is not None:
            yield f"{_word(of, f'power_{at}')}_watts", Amount(watts, "W")


def _thermal(document: Any) -> Iterator[tuple[str, Amount]]:  # noqa: ANN401
    for at, of in enumerate(_list(document, "Temperatures")):
        if (celsius := _number(of, "ReadingCelsius")) is not None:
            yield (name := f"{_word(of, f'temperature_{at}')}_celsius"), Amount(celsius, "degC")
            if (limit := _number(of, "UpperThresholdCritical")) is not None:
                yield limit_name(name), Amount(limit, "degC")
    yield from fans(document)


def fans(document: Any) -> Iterator[tuple[str, Amount]]:  # noqa: ANN401
    """Yield name and speed of each fan of a Thermal document, also in the form of iLO 4, which is that before Thermal 1.1."""
    for at, of in enumerate(_list(document, "Fans")):
        reading = _number(of, "Reading")
        status = of.get("Status") if isinstance(of, dict) else None
        if reading is None and not (isinstance(status, dict) and status.get("State") == "Absent"):
            reading = _number(of, "CurrentReading")
        if reading is not None:
            name, percent = _word(of, f"fan_{at}"), "Percent" in (of.get("ReadingUnits"), of.get("Units"))
            yield f"{name}_{'percent' if percent else 'rpm'}", Amount(reading, "%" if percent else "rpm")


def _metrics(document: Any) -> Iterator[tuple[str, Amount]]:  # noqa: ANN401
    of = document if isinstance(document, dict) else {}
    for key, name, unit in (("PowerWatts", "chassis_watts", "W"), ("TemperatureCelsius", "chassis_celsius", "degC")):
        if (reading := _number(of.get(key), "Reading")) is not None:
            yield name, Amount(reading, unit)


def _list(document: Any, key: str) -> list[Any]:  # noqa: ANN401
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, list) else []


def _number(of: Any, key: str) -> float | None:  # noqa: ANN401
    """Return a number; None for `null`, which means that there is no reading now, as when the server is off."""
    value = of.get(key) if isinstance(of, dict) else None
    return as_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _id(link: object) -> str:
    path = link.get("@odata.id") if isinstance(link, dict) else None
    return path if isinstance(path, str) and path.startswith("/redfish/") else ""


def _word(of: Any, otherwise: str) -> str:  # noqa: ANN401
    name = of.get("Name") or of.get("FanName") if isinstance(of, dict) else None
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:60] or otherwise if isinstance(name, str) else otherwise


def make(spec: RedfishSensor, site: SensorSite) -> PolledSensor:
    """Return the sensor that `spec` describes; it always runs on this machine."""
    del site
    return PolledSensor(spec, lambda: RedfishController(spec))
