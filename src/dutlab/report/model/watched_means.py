"""The means of what was watched in a trial, by what each is of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from dutlab.store.record import WatchedMeans


class WatchedKey(NamedTuple):
    """Sensor readings: sensor, where (a host, or the link of a tool's readings), name and unit."""

    sensor: str
    where: str
    name: str
    unit: str


SampleMeans = Mapping[int, Mapping[WatchedKey, float]]
"""Trial → the mean of everything that was watched in it."""


def means_by_key(watched: WatchedMeans) -> dict[WatchedKey, float]:
    """Those of one record; the keys are shared by all."""
    return {
        _key(sensor, where, name, unit): mean
        for sensor, of_sensor in watched.items()
        for where, of_place in of_sensor.items()
        for unit, of_unit in of_place.items()
        for name, mean in of_unit.items()
    }


_key = cache(WatchedKey)
