"""Modes `ipsec…` and `ikev2…`: a router without a filter that ends an ESP tunnel from the source of each link.

As in the published review of the E302-9D, the tunnels are between source and DUT. The source is a Linux machine. The engine's frames do not
pass its kernel, so nothing encrypts them: the modes are for iperf3, ping and similar tools.

Each kind of end has its own module: freebsd_ipsec, openbsd_ipsec, linux_ipsec, linux_ike, vpp_ipsec, vyos_ipsec, strongswan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dutlab.dut.ipsec_rules import SUITES, LinkTunnel, Suite, spi_in
from dutlab.dut.mode import Check, Mode, NeedsPrograms, Prober, UndoStep
from dutlab.dut.tunnelled import SOURCE, Router, TunnelledMode, pinged, tunnels_of
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import PING, Program
from dutlab.spec.testbed import Testbed
from dutlab.spec.tunnels import inner_network


@dataclass(frozen=True)
class TunnelEndState:
    """State that a tunnel end reports."""

    bytes_by_spi: Mapping[int, int]
    """SPI of each association → bytes that it has carried."""
    policies: int


class TunnelEnd(Protocol):
    """One end of the tunnels, with one suite."""

    @property
    def programs(self) -> Sequence[Program]:
        """Programs that the end needs and that a system of the family may lack."""

    async def undo(self, host: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that remove the tunnels. Changes nothing.

        Raises HostError when the end has other tunnels, whose keys could not be restored, or when it cannot encrypt.
        """

    async def apply(self, host: Host, tunnels: Sequence[LinkTunnel]) -> None:
        """Set the tunnels. Raises CommandFailed, HostError."""

    async def held(self, host: Host) -> TunnelEndState:
        """Return the associations and policies that the end has. Raises CommandFailed, HostError."""

    def policies(self, testbed: Testbed) -> int:
        """Return the number of policies once the tunnels are set."""


@runtime_checkable
class InKernel(Protocol):
    """End whose kernel may lack a cipher."""

    async def insist(self, host: Host, testbed: Testbed) -> None:
        """Check that the kernel has the cipher. Changes nothing. Raises HostError, ToolMissing."""


@runtime_checkable
class Negotiates(Protocol):
    """End that negotiates the cipher with the other end, and can report it."""

    async def agreed(self, host: Host, testbed: Testbed) -> Check:
        """Check that the negotiated cipher is that of the mode. Raises CommandFailed, HostError."""


@runtime_checkable
class Requires(Protocol):
    """End that drops unprotected packets from the networks of its tunnels, including packets to itself."""

    async def drops(self, source: Host, testbed: Testbed) -> list[Check]:
        """Check that it also drops unprotected packets to addresses that no tunnel covers. Raises HostError."""


@dataclass(frozen=True)
class IpsecMode(TunnelledMode):
    """Mode with ESP tunnels, and both of their ends."""

    suite: Suite
    dut_end: TunnelEnd
    source_end: TunnelEnd

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that source and DUT need."""
        of_router = self.router.needs() if isinstance(self.router, NeedsPrograms) else {}
        return {SOURCE: (PING, *self.source_end.programs), "dut": (*self.dut_end.programs, *of_router.get("dut", ()))}

    async def insist(self, dut: Host, testbed: Testbed) -> None:
        """Check that both kernels can encrypt as the mode needs. Raises HostError, ToolMissing."""
        for host, end in ((dut, self.dut_end), (self._source(), self.source_end)):
            if isinstance(end, InKernel):
                await end.insist(host, testbed)

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that remove the tunnels and the router's settings.

        Raises HostError when an end has other tunnels, whose keys could not be restored, or when it cannot encrypt.
        """
        source = self._source()
        ends = [*await self.dut_end.undo(dut, testbed), *await self.source_end.undo(source, testbed)]
        return [*ends, *self.undo_extras(testbed), *await self.router.undo(dut, testbed)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Set the router, then the tunnels at both ends. Raises CommandFailed, HostError."""
        source = self._source()
        tunnels = LinkTunnel.all_of(testbed, self.suite, self.count)
        await self.router.apply(dut, testbed)
        await self.apply_extras(testbed)
        await self.dut_end.apply(dut, tunnels)
        await self.source_end.apply(source, tunnels)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the router, associations and policies, a ping through each association, and that unencrypted frames are dropped.

        Where the tunnel is between hosts, the DUT itself answers the ping, and frames for the sink prove nothing.
        """
        source = self._source()
        ends = ((dut, self.dut_end), (source, self.source_end))
        before = [await end.held(host) for host, end in ends]
        checks = await self.router.checks_of_state(dut, testbed)
        for (host, end), state in zip(ends, before, strict=True):
            checks += self._of_end(host.name, state, testbed, end)
        checks += [await end.agreed(host, testbed) for host, end in ends if isinstance(end, Negotiates)]
        if self.suite.between == "networks":
            checks += await self.pings(testbed)
        else:
            checks += [await pinged(source, name, str(link.dut_in_address.ip)) for name, link in testbed.links.items()]
        for (host, end), state in zip(ends, before, strict=True):
            checks.append(self._used(host.name, state, await end.held(host), testbed))
        if self.suite.between == "hosts":
            return checks
        if isinstance(self.dut_end, Requires):
            checks += await self.dut_end.drops(source, testbed)
        return [*checks, *await clear_dropped(testbed, prober)]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check the router, and the number of associations and policies at both ends."""
        checks = await self.router.checks_of_state(dut, testbed)
        for host, end in ((dut, self.dut_end), (self._source(), self.source_end)):
            checks += self._of_end(host.name, await end.held(host), testbed, end)
        return checks

    def _extras(self, testbed: Testbed) -> Iterator[tuple[str, str]]:
        """Yield the base class's lines, the inner addresses of the source, and the DUT's routes to them, which its policies match."""
        yield from super()._extras(testbed)
        for t in tunnels_of(testbed, self.loaded[1:]):
            yield t.link.source.host, f"addr add {t.inside}/32 dev lo"  # not on its port, which may have no address of another network
        for place, link in enumerate(testbed.links.values()) if self.count > 1 else ():
            route = f"route add {inner_network(place)} via {link.source_address.ip} dev {link.dut_in.interface}"
            yield link.forwarders[0], route

    def _of_end(self, host: str, held: TunnelEndState, testbed: Testbed, end: TunnelEnd) -> list[Check]:
        associations, links, policies = len(held.bytes_by_spi), len(testbed.links), self.count * end.policies(testbed)
        wanted = 2 * self.count * links
        return [
            Check(
                f"{host}: {'two' if self.count == 1 else 2 * self.count} associations a link",
                associations == wanted,
                f"{associations} for {links} links",
            ),
            Check(f"{host}: {policies} policies", held.policies == policies, f"{held.policies}"),
        ]

    def _used(self, host: str, before: TunnelEndState, now: TunnelEndState, testbed: Testbed) -> Check:
        known = [spi_in(t.place, t.number, self.count) for t in tunnels_of(testbed, self.loaded)] if self.count > 1 else []
        wanted = [spi for at in known for spi in (at, at + 1)] or sorted(now.bytes_by_spi)  # IKE chooses the SPIs itself
        idle = [f"{spi:#x}" for spi in wanted if now.bytes_by_spi.get(spi, 0) <= before.bytes_by_spi.get(spi, 0)]
        which = "every association" if self.count == len(self.loaded) else f"{len(wanted)} of the associations"
        return Check(f"{host}: frames pass through {which}", not idle, f"idle: {', '.join(idle) or 'none'}")


async def clear_dropped(testbed: Testbed, prober: Prober) -> list[Check]:
    """Check that unencrypted probe frames do not arrive. Pings prove nothing, because the kernel encrypts them."""
    checks = []
    for name, seen in zip(testbed.links, await prober.probe(list(testbed.links)), strict=True):
        dropped = seen.sent > 0 and seen.received == 0 and seen.flow is not None
        text = f"{seen.received} of {seen.sent} probe frames arrived" if seen.flow else "no proof: its ends send pings, not frames"
        checks.append(Check(f"link {name}: what is not encrypted is dropped", dropped, text))
    return checks


MakeEnd = Callable[[Suite], TunnelEnd]


def ipsec_modes(
    router: Router,
    hosts: Mapping[str, Host],
    dut_end: MakeEnd,
    source_end: MakeEnd,
    suites: Sequence[Suite] = SUITES,
) -> dict[str, Mode]:
    """Return the IPsec modes of a family, which need the source as well as the DUT."""
    source = hosts.get(SOURCE)
    return {s.mode.name: IpsecMode(s.mode, router, source, s, dut_end(s), source_end(s), hosts=hosts) for s in suites}


def refuse_own(host: Host, held: TunnelEndState, remedy: str) -> None:
    """Refuse an end that already has associations or policies. Raises HostError."""
    if held.bytes_by_spi or held.policies:
        raise own_ipsec(host, remedy)


def own_ipsec(host: Host, remedy: str) -> HostError:
    """Return the error for an end that already has tunnels."""
    return HostError(
        "it has other IPsec tunnels, whose keys could not be restored", host=host.name, remedy=f"remove them manually ({remedy})"
    )


def fed(command: str) -> str:
    """Return a script for `sh -c` that runs `command` with standard input in a private file `$f`, and removes the file.

    For programs that read keys only from a file.
    """
    return f"""f=$(umask 077; mktemp) && trap 'rm -f "$f"' EXIT && cat >"$f" && {command}"""


def carried(text: str, spi: re.Pattern[str], amount: re.Pattern[str]) -> dict[int, int]:
    """Return SPI → bytes from a listing in which the bytes follow the SPI; 0 where they are missing."""
    bytes_by_spi: dict[int, int] = {}
    end = len(text)
    for mark in reversed(list(spi.finditer(text))):
        match = amount.search(text, mark.end(), end)
        bytes_by_spi[int(mark[1], 0)] = int(match[1]) if match else 0
        end = mark.start()
    return bytes_by_spi
