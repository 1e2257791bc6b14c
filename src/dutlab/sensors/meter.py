"""Sensor `meter`: power that a meter on the network reports by HTTP.

Answers follow the makers' documentation: Shelly Gen1 (`/status`), Shelly Gen2 and later (`Shelly.GetStatus`), Tasmota (`Status 8`),
Ubiquiti's mFi mPower (`mfi.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from dutlab.sensors import mfi
from dutlab.sensors.asked import SHOWN, PolledSensor, secret
from dutlab.sensors.oddities import Amount, as_number
from dutlab.sensors.sensor import SensorSite
from dutlab.sensors.web import KeptConnection, get_json
from dutlab.spec.sensors import MeterSensor

_ASKS = {"shelly": "/rpc/Shelly.GetStatus", "shelly-gen1": "/status", "tasmota": "/cm?cmnd=Status%208", "mfi": mfi.SENSORS}
_PLACES = {
    "shelly": ("switch:{0}.apower", "pm1:{0}.apower", "em1:{0}.act_power"),
    "shelly-gen1": ("meters[{0}].power", "emeters[{0}].power"),
    "tasmota": ("StatusSNS.ENERGY.Power[{0}]", "StatusSNS.ENERGY.Power"),
    "mfi": ("sensors[{0}].power",),
}
"""Paths of the watts by model; the first that exists counts. A Tasmota with one outlet has a number, one with several has a list."""
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class Meter:
    """Source of one number of one meter; a ReadingSource."""

    def __init__(self, spec: MeterSensor) -> None:
        self._spec, self._kept = spec, KeptConnection()
        self._session = mfi.MfiSession(spec, self._kept) if spec.model == "mfi" else None
        url = urlsplit(spec.url)
        self._target = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
        if spec.model:
            self._target = f"{url.path.rstrip('/')}{_ASKS[spec.model]}"
        if spec.model == "tasmota" and spec.user is not None:  # it accepts a login only in the address
            self._target += f"&user={quote(spec.user)}&password={quote(secret(spec.password_from or ''))}"

    def read(self) -> Mapping[str, Amount]:
        """Return the current reading. Raises Refused, OSError, ValueError."""
        spec = self._spec
        document = self._session.ask(mfi.SENSORS) if self._session else get_json(spec, self._target, kept=self._kept)
        places = [spec.value] if spec.value else [place.format(spec.channel) for place in _PLACES[spec.model or ""]]
        for place in places:
            number, valid = number_at(document, place)
            if number is not None:
                if not valid:
                    raise ValueError(f"it states that {place} is not valid")
                return {spec.name: Amount(number * spec.scale, spec.unit)}
        raise ValueError(f"no number at {' or '.join(places)} in its answer {str(document)[:SHOWN]!r}")

    def close(self) -> None:
        """Close the connection."""
        self._kept.close()


def number_at(document: object, place: str) -> tuple[float | None, bool]:
    """Return the number at a path, and whether its object is valid (`is_valid` of Shelly Gen1, `enabled` of an mFi mPower).

    Raises ValueError for a number too large for a float.
    """
    value, valid = document, True
    for name, index in _STEP.findall(place):
        if isinstance(value, dict) and name in value:
            valid = value.get("is_valid", True) is not False and value.get("enabled", 1) != 0
            value = value[name]
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
        else:
            return None, valid
    return (as_number(value), valid) if isinstance(value, int | float) and not isinstance(value, bool) else (None, valid)


def make(spec: MeterSensor, site: SensorSite) -> PolledSensor:
    """Return the sensor that `spec` describes; it always runs on this machine."""
    del site
    return PolledSensor(spec, lambda: Meter(spec))
