"""Mean sensor readings of each trial."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from dutlab.store.record import WatchedMeans


class WatchedKey(NamedTuple):
    """Key of sensor readings: sensor, place (a host, or a link for a tool's readings), name and unit."""

    sensor: str
    where: str
    name: str
    unit: str


SampleMeans = Mapping[int, Mapping[WatchedKey, float]]
"""Trial → mean of each sensor reading in it."""


def means_by_key(watched: WatchedMeans) -> dict[WatchedKey, float]:
    """Return the means of one record; all records share the key objects."""
    return {
        _key(sensor, where, name, unit): mean
        for sensor, of_sensor in watched.items()
        for where, of_place in of_sensor.items()
        for unit, of_unit in of_place.items()
        for name, mean in of_unit.items()
    }


_key = cache(WatchedKey)
