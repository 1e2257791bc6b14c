"""A DUT family: a set of modes, each of which can be undone, applied and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.links import Link
from dutlab.systems.modes import DeclaredMode

if TYPE_CHECKING:
    from dutlab.spec.testbed import Testbed


@dataclass(frozen=True)
class UndoStep:
    """A command that puts something back. Carries all it needs, so that a later process can carry it out from the journal."""

    host: str
    argv: tuple[str, ...]
    stdin: str = ""
    why: str = ""
    back_within_s: float = 0.0
    """If not 0, the host is rebooted in place of a command, and is back within so long."""
    switch: str = ""
    """If not empty, the switch that turns the host on in place of a command, as JSON of a testbed's `power:`."""


Announce = Callable[[str, Sequence[UndoStep]], None]
"""Takes down what is about to be changed and how to undo it, for the end of the trial or after a crash."""


@dataclass(frozen=True)
class Check:
    """One thing that verify found, in words for the report."""

    what: str
    passed: bool
    found: str
    by_ping: bool = False
    """True if pings showed it: a lower level of proof than frames of ours."""


@dataclass(frozen=True)
class UdpFlow:
    """A flow as its sender sends it, before any translation."""

    source: IPv4Address | IPv6Address
    destination: IPv4Address | IPv6Address
    source_port: int
    destination_port: int

    def __str__(self) -> str:
        return f"{self.source} port {self.source_port} to {self.destination} port {self.destination_port}"


@dataclass(frozen=True)
class SeenProbe:
    """Result of a few probe frames: how many were sent and arrived, and the source address that the receiver saw."""

    sent: int
    received: int
    source_seen: str | None
    flow: UdpFlow | None
    """The flow that the frames were; no earlier probe of this process had its ports. None of pings: a lower level of proof."""


class Prober(Protocol):
    """Sends a few real frames through the DUT and looks at what comes out. The engine is one."""

    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        """Ten UDP frames of a new flow on each link at once, from source to sink or back (`reverse`). Raises ToolFailed, HostError."""


class Mode(Protocol):
    """A state of the DUT."""

    @property
    def name(self) -> str: ...
    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return how to put back what apply() will change, read from the DUT as it is now. Changes nothing."""

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Puts the DUT into the mode, from any other. Raises CommandFailed."""

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Return what real frames show. A mode with a check that did not pass measures nothing."""


@runtime_checkable
class NeedsPrograms(Protocol):
    """A mode that takes programs which a system may lack."""

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Role → programs."""


@runtime_checkable
class AsksKernels(Protocol):
    """A mode that the kernels of its hosts may be unable to have."""

    async def insist(self, dut: Host, testbed: Testbed) -> None:
        """Asks them; changes nothing. Raises HostError with what they say, ToolMissing."""


@runtime_checkable
class TellsState(Protocol):
    """A mode of a DUT that can be asked what it is in, without a frame: quick enough to do after each trial."""

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Return checks of the DUT's own state. Raises CommandFailed, HostError."""


@runtime_checkable
class ForwardsInPrograms(Protocol):
    """A mode in which processes of the DUT forward, in whose time frames are counted too."""

    @property
    def program_names(self) -> Sequence[str]:
        """Names of the programs that run, as `ps -o comm` prints them; none before apply()."""


@runtime_checkable
class StartsPrograms(ForwardsInPrograms, Protocol):
    """A mode whose device is programs that dutlab starts with it and ends with it."""

    async def program_ended(self) -> str:
        """Waits until one of them ends; returns how it did, with its last lines."""

    async def device_counters(self, dut: Host) -> Mapping[str, float]:
        """Return what the device itself has counted since its start; nothing where no words for it are known. Raises HostError."""


@runtime_checkable
class TunnelsByNumber(Protocol):
    """A mode of tunnels, of which a link may have several."""

    def with_tunnels(self, count: int) -> Mode:
        """The same with so many a link."""


class Reset(Protocol):
    """A restart of the DUT, or of a part of it, in two halves: everything away, everything back as it was."""

    async def undo(self, dut: Host, testbed: Testbed) -> UndoStep:
        """The second half, read from the DUT as it is now. Changes nothing. Raises HostError when something could not be put back."""

    async def carry_out(self, dut: Host, testbed: Testbed, back: UndoStep) -> None:
        """Both halves, in one command. Raises CommandFailed."""


@dataclass(frozen=True)
class Family:
    """A kind of DUT, and the modes that it brings along by name."""

    name: str
    modes: Mapping[str, Mode]
    resets: Mapping[str, Reset] = field(default_factory=dict)
    """Resets, by the words of methods.ports.ResetKind; empty if it cannot be reset by command."""
    beside: Callable[[Mapping[str, Host]], Mapping[str, Mode]] = lambda _: {}
    """The modes that need other hosts than the DUT, as a tunnel's other end; without these hosts they can be named, not applied."""

    def modes_among(self, hosts: Mapping[str, Host]) -> dict[str, Mode]:
        """All of them."""
        return {**self.modes, **self.beside(hosts)}


@dataclass(frozen=True)
class OfRecord:
    """A mode that a family has declared."""

    declared: DeclaredMode

    @property
    def name(self) -> str:
        """Name in the experiment."""
        return self.declared.name


@dataclass(frozen=True)
class OfFlows(OfRecord):
    """A mode whose table of states is made for a number of flows."""

    flows: int = field(default=1, kw_only=True)
    """The most that an experiment has at once."""

    def sized_for(self, flows: int) -> Self:
        """Return the family for another experiment."""
        return replace(self, flows=flows)


class Unset:
    """The half of a mode that no command sets, of a black box or of a DUT that a person sets; the other half verifies."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """There is nothing that a command could bring back. The runner asks the person of a `manual` DUT at the end."""
        del dut, testbed
        return []

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """It is in the mode already: it was found so, or a person set it."""


ELSEWHERE: dict[int, IPv4Address | IPv6Address] = {4: IPv4Address("203.0.113.0"), 6: IPv6Address("2001:db8:ffff:ffff::")}
"""Version of IP → an address for documentation (RFC 5737, RFC 3849), so never on a test link."""
Network = IPv4Network | IPv6Network


def network_pairs(testbed: Testbed) -> Iterator[tuple[Link, Link]]:
    """Every link on whose inner network a flow may start, with every link on whose outer network it may end; IP versions do not mix."""
    known = set[tuple[Network, Network]]()  # links that share an end have a network in common
    for inner in testbed.links.values():
        for outer in testbed.links.values():
            pair = inner.source_address.network, outer.sink_address.network
            if inner.source_address.version == outer.sink_address.version and pair not in known:
                known.add(pair)
                yield inner, outer


def permitted_networks(testbed: Testbed) -> list[tuple[Network, Network]]:
    """Source and destination of every flow that may pass, each pair in both directions, for rules that keep no state."""
    pairs = ((inner.source_address.network, outer.sink_address.network) for inner, outer in network_pairs(testbed))
    return list(dict.fromkeys(pair for near, far in pairs for pair in ((near, far), (far, near))))
