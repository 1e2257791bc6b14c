"""What is watched while a trial runs: the sensors of a testbed, which run in every trial, and those that an experiment asks for by name.

    sensors:                                   # of a testbed
      wall: {kind: command, command: "curl -s http://192.0.2.40/watts", unit: W}
      dut-heat: {kind: hwmon, host: dut, every: 2s}
      plug: {kind: meter, model: shelly, url: http://192.0.2.41, host: dut}

    watch: [cpu, hwmon]                        # of an experiment: on the DUT, with the defaults of the kind

One class a kind; sensors/registry.py names what carries each out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Duration, Name, named
from dutlab.spec.model import SpecModel, did_you_mean, fault, faults_of, refuse

__all__ = [
    "DEFAULT_WATCH",
    "SENSORS",
    "WATCHES",
    "CommandSensor",
    "CpuSensor",
    "HwmonSensor",
    "MeterSensor",
    "SensorSpec",
    "Sensors",
    "host_faults",
]

LEAST_EVERY_S = 0.1
MOST_EVERY_S = 3600.0
LONGEST_COMMAND = 4000
PLACE = re.compile(r"[^.\[\]]+(?:\[\d{1,4}\])*(?:\.[^.\[\]]+(?:\[\d{1,4}\])*)*")
"""Of a number in JSON: names with dots between, each with indices behind it."""
_UNIT = re.compile(r"[A-Za-z%°µ/][A-Za-z0-9%°µ/^.*-]{0,15}")


def _period(seconds: float) -> float:
    if not LEAST_EVERY_S <= seconds <= MOST_EVERY_S:
        raise ValueError("must be from 100ms to 1h")
    return seconds


def _unit(text: str) -> str:
    if not _UNIT.fullmatch(text):
        raise ValueError(f"{text!r} is not a unit; write it as behind a number: W, degC, rpm, %, /s")
    return text


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"{text!r} is not an address of http or https, as http://192.0.2.40")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address with a password would be kept in every run; write user: and password-from: VARIABLE")
    if parts.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} has a character that an address cannot have; write it as %20 writes a space")
    return text


def _place(text: str) -> str:
    if not PLACE.fullmatch(text):
        raise ValueError(f"{text!r} is not a place in JSON, as StatusSNS.ENERGY.Power or meters[0].power")
    return text


def _factor(number: float) -> float:
    if not math.isfinite(number) or number == 0:
        raise ValueError("must be a number other than 0")
    return number


class SensorSpec(SpecModel):
    """A sensor, whatever its kind."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})
    runs_there: ClassVar[bool] = True
    """It runs on its host, which a command must reach; otherwise on the machine that dutlab runs on, and only measures its host."""
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


class MeterSensor(SensorSpec):
    """A power meter that tells by HTTP."""

    kind = "meter"
    measures = "what a meter on the network says, asked by HTTP: a Shelly, a Tasmota, or anything that answers in JSON"
    runs_there = False

    url: Annotated[str, Field(max_length=2000), AfterValidator(_url)]
    """Of the meter (`model`), or of the JSON that has the number (`value`)."""
    model: Literal["shelly", "shelly-gen1", "tasmota"] | None = None
    channel: Annotated[int, Field(ge=0, le=63)] = 0
    """Which of the model's outlets; the first is 0."""
    value: Annotated[str, Field(max_length=200), AfterValidator(_place)] | None = None
    unit: Annotated[str, AfterValidator(_unit)] = "W"
    scale: Annotated[float, AfterValidator(_factor)] = 1.0
    """The number times this is in `unit`: 0.001 where a meter says milliwatts."""
    resolution: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The meter's smallest step, in `unit`."""
    user: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    password_from: Annotated[str | None, Field(alias="password-from", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")] = None
    """The environment variable that has the password."""
    certificate: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the meter's own certificate, in hexadecimal digits; without it the certificate must be one that this machine trusts."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """One way to the number; a user has a password; a certificate is of https."""
        del data
        if made is None:
            return []
        faults = []
        if (made.model is None) == (made.value is None):
            faults.append(fault((), "say either model: shelly, shelly-gen1 or tasmota, or value: the place of the number in the JSON"))
        if (made.user is None) != (made.password_from is None):
            faults.append(fault(("user",), "user: and password-from: belong together"))
        if made.certificate and not made.url.startswith("https:"):
            faults.append(fault(("certificate",), "is of https; the address says http"))
        return faults


_KINDS: tuple[type[SensorSpec], ...] = (CpuSensor, HwmonSensor, CommandSensor, MeterSensor)
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
        elif host in without_a_way_in and _runs_there(sensor):
            yield fault(("sensors", str(name), "host"), f"no command reaches {host}; leave `host` out and ask it from this machine")


def _runs_there(sensor: object) -> bool:
    kind = sensor.get("kind") if isinstance(sensor, Mapping) else getattr(sensor, "kind", None)
    return SENSORS[kind].runs_there if isinstance(kind, str) and kind in SENSORS else True
