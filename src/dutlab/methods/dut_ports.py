"""Actions of a method on the DUT other than load, and the sensor readings that it may use."""

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
    """Its forwarding alone."""
    SOFTWARE = "software"
    """Its whole network configuration: forwarding, rules, addresses, routes."""


@dataclass(frozen=True)
class DutChange:
    """A change of the DUT by command. `began_s` is the controller's wall clock, in seconds since the epoch."""

    began_s: float
    took_s: float
    """Until the command said that it was done."""


class DutControl(Protocol):
    """Actions of a method on the DUT other than load. Every change is undone at the end of the trial, and after a crash."""

    @property
    def resets(self) -> tuple[ResetKind, ...]:
        """The kinds of reset that it can make."""

    async def reset(self, kind: ResetKind) -> float:
        """Resets it; returns how many seconds the command took. Raises HostError."""

    async def change_mode(self, name: str) -> DutChange:
        """Puts it into a mode of the experiment or of its family, from whatever mode it is in. Raises InputError, HostError."""

    async def faults_of_mode(self, name: str) -> Sequence[str]:
        """Return in words what real frames show against its being in the mode; empty if it is. Nothing else may be sent then."""

    async def passing_links(self) -> frozenset[str]:
        """Links on which real frames pass from source to sink, whatever state it is in. Nothing may be sent meanwhile. Raises HostError."""

    async def prepare(self, event: ConvergenceEvent) -> None:
        """Reads what it takes to recover, which may last. Raises InputError for a host that is not there, HostError."""

    async def fail(self, event: ConvergenceEvent) -> DutChange:
        """Makes a path fail, once it was prepared. Raises HostError."""

    async def recover(self, event: ConvergenceEvent) -> DutChange:
        """Takes that back. Raises TestbedError."""


@dataclass(frozen=True)
class PowerCut:
    """Times of a cut of the DUT's power, in seconds."""

    off_s: float
    """From the command to switch it off until the command to switch it on."""
    back_s: float
    """From then until it answered, and was put into its mode where it is one that commands set."""
    mode_s: float
    """Part of this for its mode."""


class PowerControl(Protocol):
    """The power of the DUT. What is switched off is on again at the end of the trial, and after a crash."""

    async def off(self) -> None:
        """Returns once it is off. Raises InputError where nothing may switch it, HostError."""

    async def on(self) -> None:
        """Returns once it is on and answers. Raises HostError."""

    async def cut(self, off: Seconds, *, loaded: bool) -> PowerCut:
        """Switches it off, on after `off`, and puts it into its mode again. Raises as both.

        Only our frames show whether a black box is back, and they may not be sent while it is `loaded`: it is not waited for then.
        """


class Beside(Protocol):
    """Work during the test frames of a trial, step by step."""

    async def step(self, link: str, number: int) -> str:
        """Step `number`, from 0, on a link; returns what came of it, in the same few words each time it is the same."""


class SensedValue(NamedTuple):
    """A value of a sensor. `t_s` is seconds since the trial's start, by the clock of its samples."""

    t_s: float
    where: str
    sensor: str
    name: str
    unit: str
    """Unit as it follows a number: `W`, `degC`; empty where it is not known yet."""
    value: float


class Readings(Protocol):
    """Sensor readings of a trial so far."""

    def now_s(self) -> float:
        """Seconds since the trial's start."""

    def since(self, from_s: float) -> Sequence[SensedValue]:
        """Those that came at `from_s` or later, in their order."""
