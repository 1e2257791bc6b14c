"""Failure of a path by commands, and its recovery: a port of a Linux host that is set down, or commands of the experiment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.dut.linux_reset import address_lines, fed, neighbour_lines, route_words
from dutlab.dut.mode import UndoStep
from dutlab.hosts.host import Host
from dutlab.spec.workloads.convergence import ConvergenceEvent

_SHELL = ("sh", "-e")
_BY_HAND = ("boot", "static")
"""Protocols of routes that no daemon manages (rt_protos of iproute2); `ip route add` sets the first."""


@dataclass(frozen=True)
class PathFailure:
    """Commands of one event on one host."""

    fail: Sequence[tuple[str, ...]]
    recover: Sequence[UndoStep]


async def failure_of(event: ConvergenceEvent, host: Host) -> PathFailure:
    """Return the commands of an event, with everything that its port loses when it goes down. Changes nothing. Raises HostError."""
    if event.port is not None:
        port = event.port.interface
        back = UndoStep(host.name, _SHELL, await _port_script(host, port), f"{event.port} up, with its addresses and routes")
        return PathFailure([("ip", "link", "set", "dev", port, "down")], [back])
    text = host.system.shell.text
    return PathFailure(
        [tuple(text(command)) for command in event.fail],
        [UndoStep(host.name, tuple(text(command)), why=f"recovery of event {event.name}") for command in event.recover],
    )


async def _port_script(host: Host, port: str) -> str:
    """Return a script for `sh -e` that sets the port up, with the addresses, neighbours and routes that the kernel removed.

    A route with several next hops remains, and its dead next hop recovers with the port (fib_sync_up(), net/ipv4/fib_semantics.c).
    """
    addresses = json.loads((await host.run(["ip", "-j", "address", "show", "dev", port])).text)
    neighbours = (await host.run(["ip", "neigh", "show", "nud", "permanent"])).text.splitlines()
    routes = []
    for version in ("-4", "-6"):
        for protocol in _BY_HAND:
            shown = await host.run(["ip", version, "route", "show", "dev", port, "proto", protocol])
            lines = [route_words(line) for line in shown.text.splitlines() if "nhid" not in line.split()]
            routes += [f"route replace {' '.join(words)} dev {port} proto {protocol}" for words in lines]
    batch = [*address_lines(addresses, [port]), *routes, *neighbour_lines(neighbours, [port])]
    return f"ip link set dev {port} up\n" + fed("ip -force -batch -", batch)
