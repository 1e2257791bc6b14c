"""Kinds of sensors: of a testbed, where they run in every trial, or requested by an experiment by name.

    sensors:                                   # of a testbed
      wall: {kind: command, command: "curl -s http://192.0.2.40/watts", unit: W}
      dut-heat: {kind: hwmon, host: dut, every: 2s}
      plug: {kind: meter, model: shelly, url: http://192.0.2.41, host: dut}

    watch: [cpu, hwmon]                        # of an experiment: on the DUT, with the kind's defaults

Each kind has one class, which names the function that makes the sensor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.devices import (
    LOGIN_FAULT,
    At,
    HttpDevice,
    IpmiDevice,
    PlugModel,
    SnmpDevice,
    User,
    Variable,
    address_of,
    login_faults,
    login_of,
    secrets_of,
)
from dutlab.spec.fields import Duration, Share, YesNo
from dutlab.spec.model import ValueFault, fault
from dutlab.spec.sensor import Period, SensorSpec

__all__ = [
    "SENSORS",
    "WATCHES",
    "AskedSensor",
    "CommandSensor",
    "CpuSensor",
    "HwmonSensor",
    "IpmiSensor",
    "MeterSensor",
    "MqttSensor",
    "NutSensor",
    "ProcessorSensor",
    "RedfishSensor",
    "SensorSpec",
    "SnmpSensor",
]

LONGEST_COMMAND = 4000
PLACE = re.compile(r"[^.\[\]]+(?:\[\d{1,4}\])*(?:\.[^.\[\]]+(?:\[\d{1,4}\])*)*")
"""Path of a number in JSON: names separated by dots, each with optional indices."""
_UNIT = re.compile(r"[A-Za-z%°µ/][A-Za-z0-9%°µ/^.*-]{0,15}")


def _unit(text: str) -> str:
    if not _UNIT.fullmatch(text):
        raise ValueError(f"{text!r} is not a unit; write it as after a number: W, degC, rpm, %, /s")
    return text


def _accuracy(share: float) -> float:
    if not 0 < share <= 1:
        raise ValueFault("must be above 0% and at most 100%", FaultKind.RANGE)
    return share


Accuracy = Annotated[Share, AfterValidator(_accuracy)]


def _place(text: str) -> str:
    if not PLACE.fullmatch(text):
        raise ValueError(f"{text!r} is not a place in JSON, as StatusSNS.ENERGY.Power or meters[0].power")
    return text


def _factor(number: float) -> float:
    if not math.isfinite(number) or number == 0:
        raise ValueFault("must be a number other than 0", FaultKind.RANGE)
    return number


class CpuSensor(SensorSpec):
    """Load of each CPU core."""

    kind = "cpu"
    made_by = "dutlab.sensors.cores:make"
    measures = "what each core does, by kind of work, and what its network softirq handles"


class HwmonSensor(SensorSpec):
    """Hardware monitors of a host: temperatures, fans, power."""

    kind = "hwmon"
    made_by = "dutlab.sensors.hwmon:make"
    measures = "temperatures, fans and power that a host's kernel knows (hwmon and thermal zones of Linux, sysctl of a BSD)"


class ProcessorSensor(SensorSpec):
    """Energy, frequency and throttling counters of processors."""

    kind = "processor"
    made_by = "dutlab.sensors.processor:make"
    measures = "energy (RAPL, never the power at the wall), frequency, and throttling by heat, of a Linux host's processors"


class OpticsSensor(SensorSpec):
    """Temperature and light of the optical modules in a host's ports."""

    kind = "optics"
    made_by = "dutlab.sensors.modules:make"
    measures = "temperature and light of the modules in a host's ports"

    every: Period = Duration(10.0)


class PerfSensor(SensorSpec):
    """Profile of CPU cycles by function (perf)."""

    kind = "perf"
    made_by = "dutlab.sensors.perf:make"
    measures = "where the processor time of a Linux host goes, by function (perf): a flame graph in the report"

    frequency: Annotated[int, Strict(), Field(ge=1, le=10_000)] = 99
    """Samples per second and core; 99 avoids lockstep with timers of 100 a second."""


class CommandSensor(SensorSpec):
    """Command that prints one number."""

    kind = "command"
    made_by = "dutlab.sensors.command:make"
    measures = "the number that a command prints"

    command: Annotated[str, Field(min_length=1, max_length=LONGEST_COMMAND)]
    """Command for `sh -c`, run once per period; its output is only a number."""
    unit: Annotated[str, AfterValidator(_unit)]
    resolution: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Smallest step of the printed number, in `unit`."""
    accuracy: Accuracy | None = None
    """Largest error of a reading, as a share of the reading."""


class AskedSensor(SensorSpec):
    """Source of readings on the network that dutlab's machine queries or listens to."""

    runs_there = False

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the environment variables with its secrets."""
        return secrets_of(self)


class RedfishSensor(HttpDevice, AskedSensor):
    """Management controller of a server, queried by Redfish."""

    kind = "redfish"
    made_by = "dutlab.sensors.redfish:make"
    measures = "power, temperatures and fans, as a management controller reports them by Redfish"

    every: Period = Duration(5.0)


class IpmiSensor(IpmiDevice, AskedSensor):
    """Management controller of a server, queried by IPMI 2.0 over the network."""

    kind = "ipmi"
    made_by = "dutlab.sensors.ipmi:make"
    measures = "power (DCMI), temperatures, fans and voltages, as a management controller reports them by IPMI"

    level: Literal["USER", "OPERATOR", "ADMINISTRATOR"] = "USER"
    """Privilege level of the session; a controller may require more than USER for DCMI."""
    every: Period = Duration(10.0)


class LocalIpmiSensor(SensorSpec):
    """Management controller of a host, queried by the host itself."""

    kind = "ipmi-local"
    made_by = "dutlab.sensors.ipmi_local:make"
    measures = "power (DCMI), temperatures, fans and voltages, as a host's management controller reports them to the host"

    every: Period = Duration(10.0)


class NumberSensor(AskedSensor):
    """Sensor on the network with one number."""

    unit: Annotated[str, AfterValidator(_unit)] = "W"
    scale: Annotated[float, AfterValidator(_factor)] = 1.0
    """Factor that converts the number to `unit`: 0.001 where a meter reports milliwatts."""
    resolution: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Smallest step of the meter, in `unit`."""
    accuracy: Accuracy | None = None
    """Largest error of a reading by the meter's data sheet, as a share of the reading."""


class SnmpSensor(SnmpDevice, NumberSensor):
    """Object of an SNMP agent."""

    kind = "snmp"
    made_by = "dutlab.sensors.snmp:make"
    measures = "one object of an SNMP agent: a PDU, a UPS, a switch; counters as their rate"


class MqttSensor(NumberSensor):
    """Topic of an MQTT broker."""

    kind = "mqtt"
    made_by = "dutlab.sensors.mqtt:make"
    measures = "what a meter publishes to an MQTT broker"

    address: Annotated[At, BeforeValidator(address_of(1883), json_schema_input_type=str)]
    topic: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^+#\x00]+$")]
    value: Annotated[str, Field(max_length=200), AfterValidator(_place)] | None = None
    """Path of the number in the published JSON; without it, the whole message is a number."""
    tls: YesNo = False
    user: User | None = None
    password_from: Variable | None = Field(default=None, alias="password-from")

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that a user has a password."""
        if (self.user is None) != (self.password_from is None):
            yield LOGIN_FAULT


class NutSensor(NumberSensor):
    """Variable of Network UPS Tools."""

    kind = "nut"
    made_by = "dutlab.sensors.nut:make"
    measures = "a variable of an uninterruptible power supply, from Network UPS Tools"

    address: Annotated[At, BeforeValidator(address_of(3493), json_schema_input_type=str)]
    ups: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
    variable: Annotated[str, Field(pattern=r"^[a-z0-9.]{1,100}$")] = "ups.realpower"


class MeterSensor(HttpDevice, NumberSensor):
    """Power meter that is read by HTTP."""

    kind = "meter"
    made_by = "dutlab.sensors.meter:make"
    measures = "what a meter on the network says, asked by HTTP: a Shelly, a Tasmota, an mFi mPower, or anything that answers in JSON"

    model: PlugModel | None = None
    channel: Annotated[int, Field(ge=0, le=63)] = 0
    """Number of the outlet of the model; the first is 0."""
    value: Annotated[str, Field(max_length=200), AfterValidator(_place)] | None = None

    @property
    def login(self) -> Literal["basic", "digest", "form"]:
        """Login method of its model."""
        return login_of(self.model)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check the rules of all HTTP devices, and that either `model` or `value` says where the number is."""
        yield from super().own_faults()
        if (self.model is None) == (self.value is None):
            models = ", ".join(get_args(PlugModel))
            yield fault((), f"say either model: one of {models}; or value: the place of the number in the JSON", FaultKind.CONFLICT)
        yield from login_faults(self.model, self.user)


_KINDS: tuple[type[SensorSpec], ...] = (
    CpuSensor,
    HwmonSensor,
    ProcessorSensor,
    OpticsSensor,
    PerfSensor,
    CommandSensor,
    MeterSensor,
    RedfishSensor,
    IpmiSensor,
    LocalIpmiSensor,
    SnmpSensor,
    MqttSensor,
    NutSensor,
)
SENSORS: Mapping[str, type[SensorSpec]] = {model.kind: model for model in _KINDS}
WATCHES = tuple(kind for kind, model in SENSORS.items() if not any(f.is_required() for n, f in model.model_fields.items() if n != "name"))
"""Kinds that `watch` of an experiment can name: those without required settings."""
