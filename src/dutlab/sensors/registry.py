"""Every kind of sensor, and its module: that has `make(spec, site)`, and is imported when somebody asks for its kind."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import cast

from dutlab.sensors.sensor import Sensor, SensorSite
from dutlab.spec.sensors import SensorSpec

MODULES: Mapping[str, str] = {
    "cpu": "dutlab.sensors.systems",
    "hwmon": "dutlab.sensors.hwmon",
    "command": "dutlab.sensors.command",
}


def make(spec: SensorSpec, site: SensorSite) -> Sensor | None:
    """The sensor that `spec` describes, at `site`; None where a system of that family cannot be watched so."""
    return cast("Sensor | None", importlib.import_module(MODULES[spec.kind]).make(spec, site))
