"""Sensor `command`: the number that a user's command prints once per period, on a host or on this machine.

Other output, or a status other than 0, is a fault of that reading; the trial continues without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from dutlab.sensors.loop import ShellLoop
from dutlab.sensors.oddities import Amount, oddities
from dutlab.sensors.sensor import Sample, SensorSite
from dutlab.spec.sensors import CommandSensor
from dutlab.systems.watched import loop_of, sections

_LOOP = loop_of(r"""
  said=$(sh -c "$2" </dev/null 2>&1); status=$?
  printf '\036said\n%.400s\n\036status\n%s\n' "$said" "$status"
""")
_SHOWN = 80


class CommandLoop(ShellLoop):
    """Loop on the host that runs the command."""

    waits = False
    needs = "its command printed nothing in time"

    def __init__(self, spec: CommandSensor, site: SensorSite) -> None:
        super().__init__(spec.name, site, _LOOP, [spec.command], interval_s=spec.every)
        self._unit = spec.unit
        self._values: list[tuple[float, float]] = []

    def _turn(self, at_s: float, text: str) -> None:
        value = number_in(sections(text))
        self._values.append((at_s, value))
        self._tell(self.host, self.name, {self.name: value})

    def _odd(self, ended_s: float) -> Iterable[str]:
        readings = [(at_s, {self.name: Amount(value, self._unit)}) for at_s, value in self._values]
        return oddities(readings, self._first_s, ended_s, every_s=self._interval_s)

    def _samples(self, began_s: float) -> Iterable[Sample]:
        for at_s, value in self._values:
            yield Sample(round(at_s - began_s, 3), self.host, self.name, self.name, self._unit, value)
        yield from self._costs(began_s)


def number_in(parts: Mapping[str, str]) -> float:
    """Return the command's output as a number. Raises ValueError that quotes the output if it is not a number."""
    output, status = parts["said"].strip(), parts["status"].strip()
    if status != "0":
        raise ValueError(f"its command ended with {status}: {output[:_SHOWN]!r}")
    try:
        value = float(output)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"its command printed {output[:_SHOWN]!r}, which is not one number")
    return value


def make(spec: CommandSensor, site: SensorSite) -> CommandLoop:
    """Return the sensor that `spec` describes."""
    return CommandLoop(spec, site)
