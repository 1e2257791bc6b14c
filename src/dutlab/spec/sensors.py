"""What is watched while a trial runs: the sensors of a testbed, which run in every trial, and those that an experiment asks for by name.

    sensors:                                   # of a testbed
      wall: {kind: command, command: "curl -s http://192.0.2.40/watts", unit: W}
      dut-heat: {kind: hwmon, host: dut, every: 2s}

    watch: [cpu, hwmon]                        # of an experiment: on the DUT, with the defaults of the kind

One class a kind; sensors/registry.py names what carries each out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration, Name, named
from dutlab.spec.model import SpecModel, did_you_mean, fault, faults_of, refuse

__all__ = ["DEFAULT_WATCH", "SENSORS", "WATCHES", "CommandSensor", "CpuSensor", "HwmonSensor", "SensorSpec", "Sensors", "host_faults"]

LEAST_EVERY_S = 0.1
MOST_EVERY_S = 3600.0
LONGEST_COMMAND = 4000
_UNIT = re.compile(r"[A-Za-z%°µ/][A-Za-z0-9%°µ/^.*-]{0,15}")


def _period(seconds: float) -> float:
    if not LEAST_EVERY_S <= seconds <= MOST_EVERY_S:
        raise ValueError("must be from 100ms to 1h")
    return seconds


def _unit(text: str) -> str:
    if not _UNIT.fullmatch(text):
        raise ValueError(f"{text!r} is not a unit; write it as behind a number: W, degC, rpm, %, /s")
    return text


class SensorSpec(SpecModel):
    """A sensor, whatever its kind."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})
    kind: ClassVar[str]
    measures: ClassVar[str]
    """In words, for lists and reports."""

    name: Name
    host: str | None = None
    """The host that it reads, and where it runs; None for the machine that dutlab runs on."""
    every: Annotated[Duration, AfterValidator(_period)] = Duration(1.0)


class CpuSensor(SensorSpec):
    """Cores."""

    kind = "cpu"
    measures = "what each core does, by kind of work, and what its network softirq handles"


class HwmonSensor(SensorSpec):
    """What the hardware monitors of a Linux host tell."""

    kind = "hwmon"
    measures = "temperatures, fans and power that the kernel of a Linux host knows (hwmon, thermal zones)"


class CommandSensor(SensorSpec):
    """Any command that prints one number."""

    kind = "command"
    measures = "the number that a command prints"

    command: Annotated[str, Field(min_length=1, max_length=LONGEST_COMMAND)]
    """For `sh -c`, once a period; its output is a number and nothing else."""
    unit: Annotated[str, AfterValidator(_unit)]


_KINDS: tuple[type[SensorSpec], ...] = (CpuSensor, HwmonSensor, CommandSensor)
SENSORS: Mapping[str, type[SensorSpec]] = {model.kind: model for model in _KINDS}
WATCHES = tuple(kind for kind, model in SENSORS.items() if not any(f.is_required() for n, f in model.model_fields.items() if n != "name"))
"""What `watch` of an experiment can name: kinds that need no settings."""
DEFAULT_WATCH = (CpuSensor.kind,)


def _sensor(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, SensorSpec):
        return value
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of keys to values, as in {kind: command, command: ..., unit: W}")  # noqa: TRY004
    if not isinstance(kind := value.get("kind"), str) or kind not in SENSORS:
        what = "missing" if "kind" not in value else f"unknown kind of sensor {str(kind)!r}"
        raise refuse("sensor", [fault(("kind",), f"{what} {did_you_mean(str(kind or ''), SENSORS)}")])
    try:
        return SENSORS[kind].model_validate({k: v for k, v in value.items() if k != "kind"}, context=info.context)
    except ValidationError as error:
        raise refuse("sensor", faults_of(error)) from error


def _written(sensor: SensorSpec) -> dict[str, Any]:
    return {"kind": sensor.kind, **sensor.model_dump(mode="json", by_alias=True)}


Sensors = Annotated[
    dict[Name, Annotated[SensorSpec, BeforeValidator(_sensor), PlainSerializer(_written)]],
    BeforeValidator(named),
]
"""Name → sensor."""


def host_faults(sensors: object, hosts: Mapping[str, Any], without_a_way_in: frozenset[str]) -> Iterator[InitErrorDetails]:
    """Sensors of hosts that are not there, or that no command reaches."""
    for name, sensor in sensors.items() if isinstance(sensors, Mapping) else ():
        host = sensor.get("host") if isinstance(sensor, Mapping) else getattr(sensor, "host", None)
        if not isinstance(host, str):
            continue
        if host not in hosts:
            yield fault(("sensors", str(name), "host"), f"there is no host {host!r} {did_you_mean(host, hosts)}")
        elif host in without_a_way_in:
            yield fault(("sensors", str(name), "host"), f"no command reaches {host}; leave `host` out and ask it from this machine")
