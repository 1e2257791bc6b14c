"""Protocols for actions of a method on the DUT other than load, and for the sensor readings that it may use."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dutlab.spec.workloads.convergence import ConvergenceEvent
from dutlab.units import Seconds


class ResetKind(enum.Enum):
    """Part of a DUT that is reset (RFC 6201 section 4)."""

    PROCESS = "process"
    """Only its forwarding."""
    SOFTWARE = "software"
    """Its whole network configuration: forwarding, rules, addresses, routes."""


@dataclass(frozen=True)
class DutChange:
    """A change of the DUT by command. `began_s` is the controller's wall clock, in seconds since the epoch."""

    began_s: float
    took_s: float
    """Seconds until the command reported its end."""


class DutControl(Protocol):
    """Actions of a method on the DUT other than load. Every change is undone at the end of the trial, and after a crash."""

    @property
    def resets(self) -> tuple[ResetKind, ...]:
        """Kinds of reset that it supports."""

    async def reset(self, kind: ResetKind) -> float:
        """Reset the DUT. Return how many seconds the command took. Raises HostError."""

    async def change_mode(self, name: str) -> DutChange:
        """Put the DUT into a mode of the experiment or of its family, from any mode. Raises InputError, HostError."""

    async def faults_of_mode(self, name: str) -> Sequence[str]:
        """Return the faults that real frames show in a mode; empty if the mode is in force. No other frames may be sent meanwhile."""

    async def passing_links(self) -> frozenset[str]:
        """Return the links on which real frames pass from source to sink, in any state. Send nothing else meanwhile. Raises HostError."""

    async def prepare(self, event: ConvergenceEvent) -> None:
        """Read the facts that recovery needs, which may take time. Raises InputError for an unknown host, HostError."""

    async def fail(self, event: ConvergenceEvent) -> DutChange:
        """Make a path fail, after prepare(). Raises HostError."""

    async def recover(self, event: ConvergenceEvent) -> DutChange:
        """Undo the failure. Raises TestbedError."""


@dataclass(frozen=True)
class PowerCut:
    """Times of a cut of the DUT's power, in seconds."""

    off_s: float
    """Time from the command to switch it off until the command to switch it on."""
    off_command_s: float
    """Time that the command to switch it off took; the power went within it."""
    back_s: float
    """Time from switching it on until it answered, its mode included if commands set it."""
    mode_s: float
    """Part of `back_s` for its mode."""


class PowerControl(Protocol):
    """Power of the DUT. It is switched on again at the end of the trial, and after a crash."""

    async def off(self) -> None:
        """Switch it off; return once it is off. Raises InputError if nothing may switch it, HostError."""

    async def on(self) -> None:
        """Switch it on; return once it answers. Raises HostError."""

    async def cut(self, off: Seconds, *, loaded: bool) -> PowerCut:
        """Switch it off, switch it on after `off`, and set its mode again. Raises the errors of off() and on().

        Only test frames show whether a black box is back, and none may be sent while it is `loaded`: then there is no wait for it.
        """


class LinkControl(Protocol):
    """State of the links through the DUT. All are up again at the end of the trial, and after a crash."""

    def ports_up(self, down: Sequence[str]) -> int:
        """Return how many of the DUT's ports have a link while the links `down` are down."""

    async def hold_down(self, links: Sequence[str]) -> None:
        """Set exactly these links down. Return once links that were down pass frames. Raises InputError, HostError, TestbedError."""


class ConcurrentWork(Protocol):
    """Work during the test frames of a trial, step by step."""

    async def step(self, link: str, number: int) -> str:
        """Carry out step `number`, from 0, on a link. Return its result in a few words; equal results have equal words."""


class SensedValue(NamedTuple):
    """A value of a sensor. `t_s` is seconds since the trial's start, by the clock of its samples."""

    t_s: float
    where: str
    sensor: str
    name: str
    unit: str
    """Unit as printed after a number: `W`, `degC`; empty if not known yet."""
    value: float


class Readings(Protocol):
    """Sensor readings of a trial so far."""

    def now_s(self) -> float:
        """Return the seconds since the trial's start."""

    def since(self, from_s: float) -> Sequence[SensedValue]:
        """Return the readings from `from_s` on, in their order."""
