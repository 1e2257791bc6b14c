"""DUT family: a set of modes, each of which can be undone, applied and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.links import Link
from dutlab.spec.wire_form import WireForm
from dutlab.systems.modes import DeclaredMode

if TYPE_CHECKING:
    from dutlab.spec.testbed import Testbed


@dataclass(frozen=True)
class UndoStep:
    """Command that restores something on a host. It is self-contained, so that a later process can run it from the journal."""

    host: str
    argv: tuple[str, ...]
    stdin: str = ""
    why: str = ""
    back_within_s: float = 0.0
    """Seconds for a reboot; if not 0, the host is rebooted in place of a command."""
    switch: str = ""
    """Switch that turns the host on in place of a command, as JSON of a testbed's `power:`; empty for a command."""


Announce = Callable[[str, Sequence[UndoStep]], None]
"""Function that records an imminent change and its undo steps, for the end of the trial or after a crash."""


@dataclass(frozen=True)
class Check:
    """One result of a verification, in words for the report."""

    statement: str
    """Statement about the mode, such as `link a: a flow passes`."""
    passed: bool
    """True if the statement holds."""
    found: str
    """Evidence for or against it."""
    by_ping: bool = False
    """True if pings showed it: a lower level of proof than the engine's frames."""

    def to_json(self) -> dict[str, str | bool]:
        """Return the check for a record."""
        return {"what": self.statement, "passed": self.passed, "found": self.found, "by_ping": self.by_ping}


@dataclass(frozen=True)
class UdpFlow:
    """UDP flow as its sender sends it, before any translation."""

    source: IPv4Address | IPv6Address
    destination: IPv4Address | IPv6Address
    source_port: int
    destination_port: int

    def __str__(self) -> str:
        return f"{self.source} port {self.source_port} to {self.destination} port {self.destination_port}"


@dataclass(frozen=True)
class SeenProbe:
    """Result of a few probe frames: the numbers sent and received, and the source address that the receiver saw."""

    sent: int
    received: int
    source_seen: str | None
    flow: UdpFlow | None
    """Flow of the frames, with ports that no earlier probe of this process had; None for pings, a lower level of proof."""


class Prober(Protocol):
    """Sender of a few real frames through the DUT that reports what arrives. The engine is one."""

    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        """Send ten UDP frames of a new flow on each link at once, from source to sink or back (`reverse`). Raises ToolFailed, HostError."""


@runtime_checkable
class FormingProber(Prober, Protocol):
    """Prober that can also send frames of another form than the testbed describes."""

    def through(self, form: WireForm) -> Prober:
        """Return the prober with frames of this form."""


class Mode(Protocol):
    """State that the DUT can be put into."""

    @property
    def name(self) -> str: ...
    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that undo apply(), read from the DUT as it is now. Changes nothing."""

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Put the DUT into the mode, from any other. Raises CommandFailed."""

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the mode with real frames. Nothing is measured in a mode with a failed check."""


@runtime_checkable
class NeedsPrograms(Protocol):
    """Mode that needs programs which a system may lack."""

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return role → programs."""


@runtime_checkable
class AsksKernels(Protocol):
    """Mode that a host's kernel may not support."""

    async def insist(self, dut: Host, testbed: Testbed) -> None:
        """Check that the kernels support the mode. Changes nothing. Raises HostError with their message, ToolMissing."""


@runtime_checkable
class TellsState(Protocol):
    """Mode of a DUT that can report its state without frames: fast enough after each trial."""

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Return checks of the DUT's own state. Raises CommandFailed, HostError."""


@runtime_checkable
class ForwardsInPrograms(Protocol):
    """Mode in which processes of the DUT forward; their processor time counts."""

    @property
    def program_names(self) -> Sequence[str]:
        """Names of the running programs, as `ps -o comm` prints them; none before apply()."""


@runtime_checkable
class StartsPrograms(ForwardsInPrograms, Protocol):
    """Mode whose device consists of programs that dutlab starts and ends with it."""

    async def program_ended(self) -> str:
        """Wait until a program ends; return its status and last lines."""

    async def device_counters(self, dut: Host) -> Mapping[str, float]:
        """Return the device's own counters since its start; empty for an unknown device. Raises HostError."""


@runtime_checkable
class TunnelsByNumber(Protocol):
    """Mode of tunnels that can have several per link."""

    def with_tunnels(self, count: int) -> Mode:
        """Return the mode with `count` tunnels per link."""


class Reset(Protocol):
    """Restart of the DUT or a part of it, in two halves: removal of everything, and restoration."""

    async def undo(self, dut: Host, testbed: Testbed) -> UndoStep:
        """Return the second half, read from the DUT as it is now. Changes nothing. Raises HostError if something could not be restored."""

    async def carry_out(self, dut: Host, testbed: Testbed, back: UndoStep) -> None:
        """Carry out both halves in one command. Raises CommandFailed."""


@dataclass(frozen=True)
class Family:
    """Kind of DUT, and its modes by name."""

    name: str
    modes: Mapping[str, Mode]
    resets: Mapping[str, Reset] = field(default_factory=dict)
    """Resets by the names of methods.ports.ResetKind; empty if no command can reset it."""
    more_modes: Callable[[Mapping[str, Host]], Mapping[str, Mode]] = lambda _: {}
    """Modes that need hosts other than the DUT, such as the other end of a tunnel. Without these they can be named, but not applied."""

    def modes_among(self, hosts: Mapping[str, Host]) -> dict[str, Mode]:
        """Return all modes, with those that need these hosts."""
        return {**self.modes, **self.more_modes(hosts)}


@dataclass(frozen=True)
class OfRecord:
    """Mode that a family has declared."""

    declared: DeclaredMode

    @property
    def name(self) -> str:
        """Name in the experiment."""
        return self.declared.name


@dataclass(frozen=True)
class OfFlows(OfRecord):
    """Mode whose state table has a limited number of flows."""

    flows: int = field(default=1, kw_only=True)
    """Most concurrent flows of the experiment."""

    def sized_for(self, flows: int) -> Self:
        """Return the mode for an experiment with this number of flows."""
        return replace(self, flows=flows)


class Unset:
    """Base class of modes that no command sets: of a black box, or of a DUT that a person sets. Its subclasses verify the mode."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return no steps: no command can undo it. At the end, the runner asks the person of a `manual` DUT."""
        del dut, testbed
        return []

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Do nothing: the DUT was found in the mode, or a person set it."""


ELSEWHERE: dict[int, IPv4Address | IPv6Address] = {4: IPv4Address("203.0.113.0"), 6: IPv6Address("2001:db8:ffff:ffff::")}
"""IP version → an address for documentation (RFC 5737, RFC 3849), never on a test link."""
Network = IPv4Network | IPv6Network


def network_pairs(testbed: Testbed) -> Iterator[tuple[Link, Link]]:
    """Yield pairs of links of one IP version: flows may pass between the inner network of the first and the outer network of the second."""
    known = set[tuple[Network, Network]]()  # links with a common end have a common network
    for inner in testbed.links.values():
        for outer in testbed.links.values():
            pair = inner.source_address.network, outer.sink_address.network
            if inner.source_address.version == outer.sink_address.version and pair not in known:
                known.add(pair)
                yield inner, outer


def permitted_networks(testbed: Testbed) -> list[tuple[Network, Network]]:
    """Return source and destination network of all permitted flows, in both directions, for stateless rules."""
    pairs = ((inner.source_address.network, outer.sink_address.network) for inner, outer in network_pairs(testbed))
    return list(dict.fromkeys(pair for near, far in pairs for pair in ((near, far), (far, near))))
