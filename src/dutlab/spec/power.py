"""Power switches of a testbed's hosts: `power:` of a host.

    hosts:
      dut:
        power: {kind: plug, model: shelly, url: http://192.0.2.41, may-switch: yes}

Each kind has one class; dutlab.power operates the switches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.devices import HttpDevice, IpmiDevice, Oid, PlugModel, SnmpDevice, login_faults, login_of
from dutlab.spec.fields import Duration, YesNo
from dutlab.spec.model import OneOf, SpecModel, ValueFault, did_you_mean, fault, faults_of, refuse
from dutlab.spec.sensors import LONGEST_COMMAND

LONGEST_OFF_S = 600.0
LONGEST_BACK_S = 3600.0

Command = Annotated[str, Field(min_length=1, max_length=LONGEST_COMMAND)]


def _off(seconds: float) -> float:
    if not 0 < seconds <= LONGEST_OFF_S:
        raise ValueFault("must be from above 0s to 10min", FaultKind.RANGE)
    return seconds


def _back(seconds: float) -> float:
    if not 0 < seconds <= LONGEST_BACK_S:
        raise ValueFault("must be from above 0s to 1h", FaultKind.RANGE)
    return seconds


def _place(url: str) -> tuple[object, ...]:
    """Return host, port and path of an address, the same for every way to write it."""
    parts = urlsplit(url)
    return (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/"))


class PowerSpec(SpecModel):
    """Power switch of any kind."""

    kind: ClassVar[str]
    kind_is_written: ClassVar[bool] = True

    may_switch: YesNo = Field(default=False, alias="may-switch")
    """True if dutlab may switch the host on and off; otherwise it only reads the state."""
    off_for: Annotated[Duration, AfterValidator(_off)] = Field(default=Duration(10.0), alias="off-for")
    """Time for which a power cycle keeps the host off, so that capacitors discharge."""
    back_within: Annotated[Duration, AfterValidator(_back)] = Field(default=Duration(600.0), alias="back-within")
    """Time limit for the host's first answer after power on."""

    @property
    @abstractmethod
    def outlet(self) -> tuple[object, ...]:
        """Identity of the outlet: two hosts with the same identity lose power together."""


class PlugPower(HttpDevice, PowerSpec):
    """Network outlet that is switched by HTTP."""

    kind = "plug"

    model: PlugModel
    channel: Annotated[int, Field(ge=0, le=63)] = 0
    """Number of the outlet; the first is 0."""

    @property
    def login(self) -> Literal["basic", "digest", "form"]:
        """Login method of its model."""
        return login_of(self.model)

    @property
    def outlet(self) -> tuple[object, ...]:
        """Identity of the outlet: the device's address and the channel."""
        return (*_place(self.url), self.channel)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check the rules of all HTTP devices, and that a login is given where the model needs one."""
        yield from super().own_faults()
        yield from login_faults(self.model, self.user)


class SnmpPower(SnmpDevice, PowerSpec):
    """Outlet of a power distribution unit. One integer object sets the state; the same or another object reports it."""

    kind = "snmp"

    on: int = 1
    """Value that switches the outlet on; without `state`, also the value that reports it."""
    off: int = 2
    state: Oid | None = None
    """Object that reports the outlet's state; None where `oid` does."""
    state_on: int | None = Field(default=None, alias="state-on")
    """Value of `state` while the outlet is on; None for the value of `on`."""
    state_off: int | None = Field(default=None, alias="state-off")

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check the rules of all SNMP devices, that values of `state` have `state`, and that on and off differ."""
        yield from super().own_faults()
        if self.state is None and (self.state_on is not None or self.state_off is not None):
            yield fault(("state",), "missing; state-on and state-off are its values", FaultKind.MISSING)
        if self.on == self.off or self.told_on == self.told_off:
            yield fault(("off",), "on and off have one value: they could not be distinguished", FaultKind.CONFLICT)

    @property
    def outlet(self) -> tuple[object, ...]:
        """Identity of the outlet: the agent's address and the object that sets the state."""
        return (*self.address, self.oid.lstrip("."))

    @property
    def told_on(self) -> int:
        """Value that reports an outlet that is on."""
        return self.on if self.state_on is None else self.state_on

    @property
    def told_off(self) -> int:
        """Value that reports an outlet that is off."""
        return self.off if self.state_off is None else self.state_off


class IpmiPower(IpmiDevice, PowerSpec):
    """Server that its management controller switches by IPMI."""

    kind = "ipmi"

    @property
    def outlet(self) -> tuple[object, ...]:
        """Identity of the server: the controller's address."""
        return self.address


class RedfishPower(HttpDevice, PowerSpec):
    """Server that its management controller switches by Redfish."""

    kind = "redfish"

    system: Annotated[str, Field(max_length=500, pattern=r"^/redfish/v1/Systems/[^/?#\s]+$")] | None = None
    """System of the controller; required where the controller has several."""

    @property
    def outlet(self) -> tuple[object, ...]:
        """Identity of the server: the controller's address and the system."""
        return (*_place(self.url), self.system)


class CommandPower(PowerSpec):
    """Power switch by commands on this machine, as `virsh start NAME` for a virtual machine."""

    kind = "command"

    on: Command
    off: Command
    status: Command
    """Command that prints `on` or `off`."""

    @property
    def outlet(self) -> tuple[object, ...]:
        """Identity of the outlet: the command that switches it off."""
        return (self.off.strip(),)


SWITCHES: Mapping[str, type[PowerSpec]] = {model.kind: model for model in (PlugPower, SnmpPower, IpmiPower, RedfishPower, CommandPower)}


def _switch(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, PowerSpec) or value is None:
        return value
    if not isinstance(value, Mapping):
        raise ValueFault("must be a mapping of keys to values, as in {kind: plug, model: shelly, url: ...}", FaultKind.TYPE)
    if not isinstance(kind := value.get("kind"), str) or kind not in SWITCHES:
        what = "missing" if "kind" not in value else f"unknown kind of switch {str(kind)!r}"
        raise refuse("power", [fault(("kind",), f"{what} {did_you_mean(str(kind or ''), SWITCHES)}", FaultKind.UNKNOWN_NAME)])
    try:
        return SWITCHES[kind].model_validate({k: v for k, v in value.items() if k != "kind"}, context=info.context)
    except ValidationError as error:
        raise refuse("power", faults_of(error)) from error


def _written(switch: PowerSpec | None) -> dict[str, Any] | None:
    return None if switch is None else {"kind": switch.kind, **switch.model_dump(mode="json", by_alias=True)}


Power = Annotated[PowerSpec | None, BeforeValidator(_switch), PlainSerializer(_written), OneOf(lambda: SWITCHES, by_kind=True)]
"""Switch of a host; None where there is none."""
