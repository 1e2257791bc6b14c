"""Sensor `ipmi`: the sensors of a management controller, read by ipmitool on this machine.

Power comes from DCMI where the controller has it (`dcmi power reading`), other readings from its sensor data records (`sdr`). ipmitool
gets the password in its environment, so that no list of processes shows it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from dutlab.bounds import ANSWER_BYTES
from dutlab.hosts.bounded import run_bounded
from dutlab.hosts.passwords import child_environment
from dutlab.outside import csv_of
from dutlab.reason import reason_in
from dutlab.sensors.asked import PolledSensor, Refused, secret
from dutlab.sensors.oddities import Amount
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.devices import IpmiDevice
from dutlab.spec.sensors import IpmiSensor
from dutlab.systems.sample_names import limit_name

LONGEST_S = 60.0
"""Time limit of one command, in seconds: a controller on a slow bus takes some 30 s for all records."""
_UNITS = {
    "degrees C": ("celsius", "degC"),
    "RPM": ("rpm", "rpm"),
    "Watts": ("watts", "W"),
    "Volts": ("volts", "V"),
    "Amps": ("amps", "A"),
    "percent": ("percent", "%"),
}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_DCMI = re.compile(r"Instantaneous power reading:\s+(\d+) Watts")
_INACTIVE = re.compile(r"Power reading state is:\s+deactivated")
_NOT_LET_IN = ("RAKP", "Invalid user name", "Unauthorized")
"""Messages of ipmitool for a wrong user or password; messages for a missing controller differ."""


_limits_of: dict[IpmiSensor, dict[str, Amount]] = {}
"""Upper critical thresholds. Each process reads them once, after the first reading: some controllers take half a minute for all."""


class IpmiSession:
    """Commands to one controller, each in a new session."""

    def __init__(self, device: IpmiDevice, level: str) -> None:
        host, port = device.address
        self._begin = ["ipmitool", "-I", "lanplus", "-H", host, "-p", str(port), "-U", device.user, "-L", level]
        self._begin += ["-E", "-N", "2", "-R", "1", "-v"]  # password from the environment, one try of 2 s, reasons of failures
        self._environment = {**child_environment(os.environ), "IPMI_PASSWORD": secret(device.password_from), "LC_ALL": "C"}

    def ask(self, *words: str, terse: bool = False) -> tuple[int, str, str]:
        """Return status, output and errors; `terse` omits reasons of a failure. Raises Refused, OSError, ValueError."""
        command = [*(self._begin[:-1] if terse else self._begin), *words]
        try:
            done = run_bounded(command, environment=self._environment, timeout_s=LONGEST_S, most_bytes=ANSWER_BYTES)
        except TimeoutError as error:
            raise ValueError(f"ipmitool did not end within {LONGEST_S:g} s") from error
        if done.status != 0 and any(words in done.stderr for words in _NOT_LET_IN):
            line = next(line for line in done.stderr.splitlines() if any(words in line for words in _NOT_LET_IN))
            raise Refused(f"it refuses access ({line.strip('> ')})")
        return done.status, done.stdout, done.stderr


class IpmiController:
    """Source of all readings of one controller; a ReadingSource."""

    def __init__(self, spec: IpmiSensor) -> None:
        self._session = IpmiSession(spec, spec.level)
        self._has_dcmi = True
        self._spec, self._is_first = spec, True

    def read(self) -> Mapping[str, Amount]:
        """Return the current readings by name. Raises Refused, OSError, ValueError."""
        amounts: dict[str, Amount] = {}
        if self._has_dcmi:
            status, output, _ = self._session.ask("dcmi", "power", "reading")
            self._has_dcmi = status == 0 and not _INACTIVE.search(output)
            if (watts := dcmi_watts(output)) is not None:
                amounts["dcmi_watts"] = watts
        status, output, why = self._session.ask("-c", "sdr", "list", "full")
        if status != 0 and not amounts:
            raise ValueError(f"ipmitool ended with status {status}: {reason_in(why) or 'no output'}")
        for name, quantity in records(output):
            amounts.setdefault(name, quantity)
        if not amounts:
            raise ValueError("it has no sensor with a number")
        if not self._is_first and self._spec not in _limits_of:
            status, output, _ = self._session.ask("-c", "sensor", terse=True)
            _limits_of[self._spec] = dict(limits(output)) if status == 0 else {}
        self._is_first = False
        return amounts | _limits_of.get(self._spec, {})

    def close(self) -> None:
        """Do nothing: each command has its own session."""


def dcmi_watts(text: str) -> Amount | None:
    """Return the watts of `ipmitool dcmi power reading`; None if the controller has no such reading."""
    return Amount(float(watts[1]), "W") if not _INACTIVE.search(text) and (watts := _DCMI.search(text)) else None


def records(text: str) -> Iterator[tuple[str, Amount]]:
    """Yield name and quantity of each record of `ipmitool -c sdr`: name, reading, unit, status. Sensors without a reading are left out."""
    for row in csv_of(text):
        match row:
            case [name, value, in_words, *_] if in_words in _UNITS and _NUMBER.fullmatch(value):
                ending, unit = _UNITS[in_words]
                yield f"{_word(name)}_{ending}", Amount(float(value), unit)


def limits(text: str) -> Iterator[tuple[str, Amount]]:
    """Yield the upper critical threshold of each temperature: column 9 of `ipmitool -c sensor`, which is `na` if there is none."""
    for row in csv_of(text):
        match row:
            case [name, _, "degrees C", _, _, _, _, _, critical, *_] if _NUMBER.fullmatch(critical) and float(critical) > 0:
                yield limit_name(f"{_word(name)}_celsius"), Amount(float(critical), "degC")


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def make(spec: IpmiSensor, site: SensorSite) -> PolledSensor:
    """Return the sensor that `spec` describes; it always runs on this machine."""
    del site
    return PolledSensor(spec, lambda: IpmiController(spec))
