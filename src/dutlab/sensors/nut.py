"""Sensor `nut`: a variable of an uninterruptible power supply, from a server of Network UPS Tools (RFC 9271 section 4.2)."""

from __future__ import annotations

import shlex
import socket
import time
from collections.abc import Mapping

from dutlab.sensors import asked
from dutlab.sensors.asked import SHOWN, PolledSensor
from dutlab.sensors.oddities import Amount
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.sensors import NutSensor

_MOST_BYTES = 4096
_ANSWER = ("VAR", "ups", "variable", "value")


class Upsd:
    """Connection to the server; a ReadingSource."""

    def __init__(self, spec: NutSensor) -> None:
        self._spec = spec
        self._line = socket.create_connection(spec.address.pair, timeout=asked.PATIENCE_S)

    def read(self) -> Mapping[str, Amount]:
        """Return the current value of the variable. Raises OSError, ValueError."""
        spec, answer = self._spec, b""
        self._line.sendall(f"GET VAR {spec.ups} {spec.variable}\n".encode())
        until_s = time.monotonic() + asked.PATIENCE_S
        while not answer.endswith(b"\n"):
            if (left_s := until_s - time.monotonic()) <= 0:
                raise TimeoutError
            self._line.settimeout(left_s)
            part = self._line.recv(_MOST_BYTES)
            if not part or len(answer) > _MOST_BYTES:
                raise ConnectionError("it closed the connection" if not part else "its answer does not end")
            answer += part
        words = shlex.split(answer.decode("utf-8", "replace"))
        if words[:3] != ["VAR", spec.ups, spec.variable] or len(words) != len(_ANSWER):
            raise ValueError(f"it answered {answer[:SHOWN].decode('utf-8', 'replace').strip()!r} for {spec.variable} of {spec.ups}")
        return {spec.name: Amount(float(words[3]) * spec.scale, spec.unit)}

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


class Reconnecting:
    """Source that connects again after a fault; a ReadingSource."""

    def __init__(self, spec: NutSensor) -> None:
        self._spec = spec
        self._upsd: Upsd | None = None

    def read(self) -> Mapping[str, Amount]:
        """Return the current value of the variable. Raises OSError, ValueError."""
        self._upsd = self._upsd or Upsd(self._spec)
        try:
            return self._upsd.read()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._upsd is not None:
            self._upsd.close()
            self._upsd = None


def make(spec: NutSensor, site: SensorSite) -> PolledSensor:
    """Return the sensor that `spec` describes; it always runs on this machine."""
    del site
    return PolledSensor(spec, lambda: Reconnecting(spec))
