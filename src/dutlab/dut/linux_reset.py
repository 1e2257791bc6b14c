"""Reset of a Linux DUT by command (RFC 6201 section 4.2 and 4.3): of its forwarding, or of its whole network configuration.

The second half of a reset is a self-contained script, so that a later process can restore the DUT after an interrupted reset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from dutlab.dut import linux_state as state
from dutlab.dut.mode import Reset, UndoStep
from dutlab.hosts.host import Host
from dutlab.spec.testbed import Testbed

_SHELL = ("sh", "-e")
_END = "END_OF_DUTLAB_INPUT"
_FOREVER = 2**32 - 1
"""Infinite lifetime in `ip -j address`."""
_STATES = frozenset({"linkdown", "dead", "offload", "trap", "rt_offload", "rt_trap"})
"""Words of `ip route show` for the state of a route, which `ip route replace` does not accept."""
_STOP = f"echo 0 > /proc/sys/{state.IP_FORWARD}"


class ProcessReset:
    """Reset of forwarding: off and on. The kernel drops cached routes and notifies every port."""

    async def undo(self, dut: Host, testbed: Testbed) -> UndoStep:
        """Return the step that restores the present forwarding settings."""
        del testbed
        return UndoStep(dut.name, _SHELL, _forwarding(await state.read_forwarding(dut)), "forwarding as it was before the reset")

    async def carry_out(self, dut: Host, testbed: Testbed, back: UndoStep) -> None:
        """Switch forwarding off and on. Raises CommandFailed."""
        del testbed
        await dut.run(_SHELL, stdin=f"{_STOP}\n{back.stdin}".encode())


class SoftwareReset:
    """Reset of rules, forwarding, and the addresses, routes and neighbours of the test ports: all removed, then restored.

    The ports stay up: a port that goes down takes the other end of its cable down, and the tester would be reset too.
    """

    async def undo(self, dut: Host, testbed: Testbed) -> UndoStep:
        """Return the step that restores everything. Raises HostError when nft would not accept the present ruleset again."""
        ports = _ports(testbed)
        rules, keys = await state.read_ruleset(dut), await state.read_forwarding(dut)
        addresses = json.loads((await dut.run(["ip", "-j", "address", "show"])).text)
        routes = [line for v in ("-4", "-6") for line in (await dut.run(["ip", "-o", v, "route", "show"])).text.splitlines()]
        neighbours = (await dut.run(["ip", "neigh", "show", "nud", "permanent"])).text.splitlines()
        batch = [*address_lines(addresses, ports), *_route_lines(routes, ports), *neighbour_lines(neighbours, ports)]
        script = fed("ip -batch -", batch) + fed("nft -f -", rules.splitlines()) + _forwarding(keys)
        return UndoStep(dut.name, _SHELL, script, "rules, addresses, routes and forwarding as they were before the reset")

    async def carry_out(self, dut: Host, testbed: Testbed, back: UndoStep) -> None:
        """Remove the configuration and restore it. Raises CommandFailed."""
        away = [_STOP, "nft flush ruleset", *(f"ip address flush dev {port}" for port in _ports(testbed))]
        await dut.run(_SHELL, stdin=("\n".join(away) + "\n" + back.stdin).encode())


RESETS: dict[str, Reset] = {"process": ProcessReset(), "software": SoftwareReset()}


def _ports(testbed: Testbed) -> list[str]:
    """Return the DUT's test ports without duplicates."""
    return list(dict.fromkeys(p.interface for link in testbed.links.values() for p in (link.dut_in, link.dut_out)))


def _forwarding(keys: Sequence[str]) -> str:
    return f"sysctl -q -e -w {' '.join(keys)}\n"


def fed(command: str, lines: Sequence[str]) -> str:
    """Return script lines that pass `lines` to the standard input of a command."""
    return "\n".join([f"{command} <<'{_END}'", *lines, _END, ""])


def route_words(line: str) -> list[str]:
    """Return the words of a line of `ip -o route show` that `ip route replace` accepts."""
    return [word for word in line.replace("\\", " ").split() if word not in _STATES]


def address_lines(entries: Sequence[dict[str, Any]], ports: Sequence[str]) -> Iterator[str]:
    """Yield lines for `ip -batch` that set the addresses in the output of `ip -j address`."""
    for port in entries:
        for a in port["addr_info"] if port["ifname"] in ports else ():
            line = f"address replace {a['local']}"
            line += f" peer {a['address']}/{a['prefixlen']}" if "address" in a else f"/{a['prefixlen']}"
            line += f" dev {port['ifname']} scope {a['scope']}"
            line += f" broadcast {a['broadcast']}" if "broadcast" in a else ""
            line += " nodad" if a.get("nodad") else ""
            if a["valid_life_time"] != _FOREVER:
                line += f" valid_lft {a['valid_life_time']} preferred_lft {a['preferred_life_time']}"
            yield line


def _route_lines(lines: Sequence[str], ports: Sequence[str]) -> Iterator[str]:
    """Yield lines for `ip -batch` that set the routes of `ip -o route show`, except those that come with an address."""
    for line in lines:
        words = route_words(line)
        pairs = set(pairwise(words))
        if ("proto", "kernel") not in pairs and any(("dev", port) in pairs for port in ports):
            yield "route replace " + " ".join(words)


def neighbour_lines(lines: Sequence[str], ports: Sequence[str]) -> Iterator[str]:
    """Yield lines that set the neighbours of `ip neigh show nud permanent`: they disappear with the address."""
    for line in lines:
        address, _, port, *rest = line.split()
        if port in ports and rest[:1] == ["lladdr"]:
            yield f"neigh replace {address} lladdr {rest[1]} dev {port} nud permanent"
