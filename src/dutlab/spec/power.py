"""Kinds of power switches: `power:` of a host of a testbed.

    hosts:
      dut:
        power: {kind: plug, model: shelly, url: http://192.0.2.41, may-switch: yes}

Each kind has one class; dutlab.power operates the switches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.devices import HttpDevice, IpmiDevice, Oid, PlugModel, SnmpDevice, login_faults, login_of
from dutlab.spec.model import fault
from dutlab.spec.sensors import LONGEST_COMMAND
from dutlab.spec.switch import PowerSpec

Command = Annotated[str, Field(min_length=1, max_length=LONGEST_COMMAND)]


def _place(url: str) -> tuple[object, ...]:
    """Return host, port and path of an address, the same for every way to write it."""
    parts = urlsplit(url)
    return (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), parts.path.rstrip("/"))


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
