"""Set-up of the ports at the ends of links with `configure: true`, undone after the run.

Existing settings are kept. Undo steps are in the journal before any change, as those of a mode are. Each is safe to carry
out even if its change was never made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from dutlab.dut.mode import UndoStep
from dutlab.ending import ended_by
from dutlab.errors import TestbedError
from dutlab.hosts.host import Host
from dutlab.hosts.iproute import entries, interfaces_of, without_loopback
from dutlab.runner.journal import Journal, undo_to_json
from dutlab.runner.undo import carry_out
from dutlab.spec.fields import Address
from dutlab.spec.links import IPV6, Link, Port
from dutlab.spec.testbed import Testbed

LINK_LOCAL = "fe80::/10"  # RFC 4291 section 2.5.6
APPLICATION = "ports"
"""Name of the preparation in the journal."""


@dataclass(frozen=True)
class _Change:
    """A command, and the one that undoes it."""

    host: str
    do: tuple[str, ...]
    undo: str
    why: str

    @property
    def step(self) -> UndoStep:
        return UndoStep(self.host, ("sh", "-c", self.undo), why=self.why)


async def insist_on_ports(testbed: Testbed, hosts: Mapping[str, Host]) -> None:
    """Raise TestbedError with all ports that a path names and their host lacks; HostError if a host does not answer."""
    named = [port for link in testbed.links.values() for port in link.ports]
    faults = []
    for name, host in hosts.items():
        if not (present := await interfaces_of(host)):
            continue
        if absent := [port.interface for port in named if port.host == name and port.interface not in present]:
            faults.append(f"{name} has no interface {', '.join(absent)}; it has {', '.join(without_loopback(present))}")
    if faults:
        raise TestbedError("\n".join(faults), remedy="correct the paths of the testbed's links")


@asynccontextmanager
async def prepared(hosts: Mapping[str, Host], testbed: Testbed, journal: Journal) -> AsyncIterator[None]:
    """Set up every port of links with `configure: true`, with its address, during the context. Raises HostError."""
    changes = [change for link in testbed.links.values() if link.configure for change in await _of_link(hosts, link)]
    if not changes:
        yield
        return
    steps = [change.step for change in reversed(changes)]
    journal.write("ports-preparing", application=APPLICATION, undo=undo_to_json(steps))

    async def restored() -> None:
        await carry_out(steps, hosts)
        journal.write("ports-restored", application=APPLICATION)

    async with ended_by(restored):
        for change in changes:
            if change.do:
                await hosts[change.host].run(change.do)
        yield


async def _of_link(hosts: Mapping[str, Host], link: Link) -> list[_Change]:
    changes: list[_Change] = []
    for port, address, gateways in _to_configure(link):
        host = hosts[port.host]
        there = await entries(host, ["address", "show", "dev", port.interface])
        known = [ip_address(n["dst"]) for n in await entries(host, ["neigh", "show", "dev", port.interface]) if "lladdr" in n]
        changes += _of_port(port.host, port.interface, address, there[0] if there else {})
        for gateway in (g for g in gateways if g.ip not in known):
            undo = f"ip neigh del {gateway.ip} dev {port.interface} 2>/dev/null; true"
            changes.append(_Change(port.host, (), undo, f"{gateway.ip} was not a known neighbour of {port.interface}"))
        if address.version == IPV6 and not any(neighbour.is_link_local for neighbour in known):
            # A router solicits neighbours from its link-local address, so they learn that address (RFC 4861 section 7.2.3).
            undo = f"ip -6 neigh flush to {LINK_LOCAL} dev {port.interface} 2>/dev/null; true"
            changes.append(_Change(port.host, (), undo, f"{port.interface} had no neighbour by a link-local address"))
    return changes


def _to_configure(link: Link) -> Iterator[tuple[Port, Address, tuple[Address, ...]]]:
    """Yield each end with its address, and the addresses that it reaches without a hop."""
    if not link.segment:
        yield link.source, link.source_address, (link.source_gateway,)
        yield link.sink, link.sink_address, (link.sink_gateway,)
        return
    for port, address in link.addressed:
        yield port, address, tuple(other for other in link.addresses if other != address)


def _of_port(host: str, port: str, address: Address, there: Mapping[str, Any]) -> Iterator[_Change]:
    if "UP" not in there.get("flags", ()):
        yield _Change(host, ("ip", "link", "set", "dev", port, "up"), f"ip link set dev {port} down", f"{port} was down")
    has = {f"{a.get('local')}/{a.get('prefixlen')}" for a in there.get("addr_info", ())}
    if str(address) not in has:
        add = ("ip", "address", "add", str(address), "dev", port, *(("nodad",) if address.version == IPV6 else ()))
        undo = f"ip address show dev {port} | grep -qF ' {address} ' || exit 0; exec ip address del {address} dev {port}"
        yield _Change(host, add, undo, f"{port} had no address {address}")
