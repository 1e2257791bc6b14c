"""Modes `ipsec…` and `ikev2…`: a router, its filter off, that ends an ESP tunnel from the source of each link.

As in the published review of the E302-9D, the tunnels are between source and DUT. The source is a Linux machine. The engine's frames do not
pass its kernel, so nothing encrypts them: the modes are for iperf3, ping and the like.

How an end is set is in a file for each: freebsd_ipsec, openbsd_ipsec, linux_ipsec, linux_ike, vpp_ipsec, vyos_ipsec,
strongswan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dutlab.dut.ipsec_rules import SUITES, LinkTunnel, Suite
from dutlab.dut.mode import Check, Mode, NeedsPrograms, OfRecord, Prober, UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import PING, Program
from dutlab.spec.testbed import Testbed

SOURCE = "source"


@dataclass(frozen=True)
class TunnelEndState:
    """State that an end reports."""

    bytes_by_spi: Mapping[int, int]
    """SPI of each association → what it carried, in bytes."""
    policies: int


class TunnelEnd(Protocol):
    """One end of the tunnels, in one suite."""

    @property
    def programs(self) -> Sequence[Program]:
        """Programs that it needs and that a system of the family may lack."""

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return how to take the tunnels away. Changes nothing.

        Raises HostError when the end has other tunnels, whose keys could not be put back, or cannot encrypt.
        """

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Raises CommandFailed, HostError."""

    async def held(self, host: Host) -> TunnelEndState:
        """Raises CommandFailed, HostError."""

    def policies(self, testbed: Testbed) -> int:
        """Return its number of policies once the tunnels are there."""


@runtime_checkable
class InKernel(Protocol):
    """An end whose kernel may lack a cipher, and says so when it is asked."""

    async def insist(self, host: Host, testbed: Testbed) -> None:
        """Changes nothing. Raises HostError, ToolMissing."""


@runtime_checkable
class Negotiates(Protocol):
    """An end that agrees with the other on what protects a tunnel, and can say on what."""

    async def agreed(self, host: Host, testbed: Testbed) -> Check:
        """Check that it is what the mode is called after. Raises CommandFailed, HostError."""


@runtime_checkable
class Requires(Protocol):
    """An end that takes from the networks of its tunnels, for itself too, nothing but what came out of one."""

    async def drops(self, source: Host, testbed: Testbed) -> list[Check]:
        """Check that it also drops what the tunnels have no networks for. Raises HostError."""


class Router(Mode, Protocol):
    """The mode that the DUT is in but for its tunnels."""

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Return checks from the DUT's own state, without a frame."""


@dataclass(frozen=True)
class TunnelledMode(OfRecord):
    """The router that a DUT is but for its tunnels, and the host at their other end."""

    router: Router
    source: Host | None

    def _source(self) -> Host:
        if self.source is None:
            raise HostError("a tunnel has two ends, and only one is reached", host=SOURCE)
        return self.source


@dataclass(frozen=True)
class IpsecMode(TunnelledMode):
    """Both ends of its tunnels."""

    suite: Suite
    dut_end: TunnelEnd
    source_end: TunnelEnd

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """On both ends."""
        of_router = self.router.needs() if isinstance(self.router, NeedsPrograms) else {}
        return {SOURCE: (PING, *self.source_end.programs), "dut": (*self.dut_end.programs, *of_router.get("dut", ()))}

    async def insist(self, dut: Host, testbed: Testbed) -> None:
        """Raises HostError when a kernel cannot encrypt as the mode needs, ToolMissing."""
        for host, end in ((dut, self.dut_end), (self._source(), self.source_end)):
            if isinstance(end, InKernel):
                await end.insist(host, testbed)

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Raises HostError when either end has other tunnels, whose keys could not be put back, or cannot encrypt."""
        source = self._source()
        ends = [*await self.dut_end.undo(dut, testbed), *await self.source_end.undo(source, testbed)]
        return [*ends, *await self.router.undo(dut, testbed)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError."""
        source = self._source()
        tunnels = LinkTunnel.all_of(testbed, self.suite)
        await self.router.apply(dut, testbed)
        await self.dut_end.apply(dut, tunnels)
        await self.source_end.apply(source, tunnels)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """The router; associations and policies of both ends; that a ping passes through each association, and nothing unencrypted.

        Where the tunnel is between hosts, the DUT itself answers the ping, and frames for the sink show nothing.
        """
        source = self._source()
        ends = ((dut, self.dut_end), (source, self.source_end))
        before = [await end.held(host) for host, end in ends]
        checks = await self.router.checks_of_state(dut, testbed)
        for (host, end), held in zip(ends, before, strict=True):
            checks += _of_end(host.name, held, testbed, end.policies(testbed))
        checks += [await end.agreed(host, testbed) for host, end in ends if isinstance(end, Negotiates)]
        far = {name: link.sink_address if self.suite.between == "networks" else link.dut_in_address for name, link in testbed.links.items()}
        checks += [await pinged(source, name, str(address.ip)) for name, address in far.items()]
        for (host, end), held in zip(ends, before, strict=True):
            checks.append(_used(host.name, held, await end.held(host)))
        if self.suite.between == "hosts":
            return checks
        if isinstance(self.dut_end, Requires):
            checks += await self.dut_end.drops(source, testbed)
        return [*checks, *await clear_dropped(testbed, prober)]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """The router, and how many associations and policies both ends hold."""
        checks = await self.router.checks_of_state(dut, testbed)
        for host, end in ((dut, self.dut_end), (self._source(), self.source_end)):
            checks += _of_end(host.name, await end.held(host), testbed, end.policies(testbed))
        return checks


def _of_end(host: str, held: TunnelEndState, testbed: Testbed, policies: int) -> list[Check]:
    found, links = len(held.bytes_by_spi), len(testbed.links)
    return [
        Check(f"{host}: two associations a link", found == 2 * links, f"{found} for {links} links"),
        Check(f"{host}: {policies} policies", held.policies == policies, f"{held.policies}"),
    ]


async def pinged(source: Host, name: str, address: str) -> Check:
    """Check that three packets of the source's own kernel reach the far end and are answered."""
    done = await source.run(["ping", "-n", "-c", "3", "-W", "1", address], check=False)
    said = next((line for line in done.text.splitlines() if "packets transmitted" in line), f"ping ended with {done.status}")
    return Check(f"link {name}: the source's own packets pass", done.status == 0, said)


async def clear_dropped(testbed: Testbed, prober: Prober) -> list[Check]:
    """Check that our unencrypted frames do not arrive. Pings of a kernel that encrypts them show nothing."""
    checks = []
    for name, seen in zip(testbed.links, await prober.probe(list(testbed.links)), strict=True):
        dropped = seen.sent > 0 and seen.received == 0 and seen.flow is not None
        found = f"{seen.received} of {seen.sent} probe frames arrived" if seen.flow else "no proof: its ends send pings, not frames"
        checks.append(Check(f"link {name}: what is not encrypted is dropped", dropped, found))
    return checks


def _used(host: str, before: TunnelEndState, now: TunnelEndState) -> Check:
    idle = [f"{spi:#x}" for spi, amount in sorted(now.bytes_by_spi.items()) if amount <= before.bytes_by_spi.get(spi, 0)]
    return Check(f"{host}: they pass through every association", not idle, f"idle: {', '.join(idle) or 'none'}")


MakeEnd = Callable[[Suite], TunnelEnd]


def ipsec_modes(
    router: Router,
    hosts: Mapping[str, Host],
    dut_end: MakeEnd,
    source_end: MakeEnd,
    suites: Sequence[Suite] = SUITES,
) -> dict[str, Mode]:
    """The modes of a family, which need the source as well as the DUT."""
    return {s.mode.name: IpsecMode(s.mode, router, hosts.get(SOURCE), s, dut_end(s), source_end(s)) for s in suites}


def refuse_own(host: Host, held: TunnelEndState, remedy: str) -> None:
    """Raises HostError when an end holds anything: it was there before us."""
    if held.bytes_by_spi or held.policies:
        raise own_ipsec(host, remedy)


def own_ipsec(host: Host, remedy: str) -> HostError:
    """Return the error for an end that has tunnels already."""
    return HostError(
        "it has other IPsec tunnels, whose keys could not be restored", host=host.name, remedy=f"take it off by hand ({remedy})"
    )


def fed(command: str) -> str:
    """For `sh -c`: runs `command`, in which `$f` is a private file that holds the standard input and is removed afterwards.

    For programs that take keys from a file only.
    """
    return f"""f=$(umask 077; mktemp) && trap 'rm -f "$f"' EXIT && cat >"$f" && {command}"""


def carried(text: str, spi: re.Pattern[str], amount: re.Pattern[str]) -> dict[int, int]:
    """SPI → bytes, of a listing in which what an association carried is behind its SPI; 0 where it does not say."""
    found: dict[int, int] = {}
    end = len(text)
    for mark in reversed(list(spi.finditer(text))):
        said = amount.search(text, mark.end(), end)
        found[int(mark[1], 0)] = int(said[1]) if said else 0
        end = mark.start()
    return found
