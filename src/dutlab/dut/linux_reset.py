"""Reset of a Linux DUT by command (RFC 6201 section 4.2 and 4.3): its forwarding alone, or its whole network configuration.

The second half of a reset is a script that carries all it needs, so that a later process can put back what a reset left that was cut.
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
"""A lifetime without end, as `ip -j address` writes it."""
_STATES = frozenset({"linkdown", "dead", "offload", "trap", "rt_offload", "rt_trap"})
"""Words of `ip route show` that say how a route fares and cannot be written."""
_STOP = f"echo 0 > /proc/sys/{state.IP_FORWARD}"


class ProcessReset:
    """Forwarding off and on: the kernel drops what it knows of routes in use, and informs every port."""

    async def undo(self, dut: Host, testbed: Testbed) -> UndoStep:
        """Forwarding as it is."""
        del testbed
        return UndoStep(dut.name, _SHELL, _forwarding(await state.read_forwarding(dut)), "forwarding as it was before the reset")

    async def carry_out(self, dut: Host, testbed: Testbed, back: UndoStep) -> None:
        """Raises CommandFailed."""
        del testbed
        await dut.run(_SHELL, stdin=f"{_STOP}\n{back.stdin}".encode())


class SoftwareReset:
    """Rules, forwarding, addresses, routes and neighbours of the test ports away, then all of it back.

    The ports stay up: going down, a port takes its cable's other end with it, and the tester would be reset too.
    """

    async def undo(self, dut: Host, testbed: Testbed) -> UndoStep:
        """Raises HostError when the ruleset is one that nft would not take back."""
        ports = _ports(testbed)
        rules, keys = await state.read_ruleset(dut), await state.read_forwarding(dut)
        addresses = json.loads((await dut.run(["ip", "-j", "address", "show"])).text)
        routes = [line for v in ("-4", "-6") for line in (await dut.run(["ip", "-o", v, "route", "show"])).text.splitlines()]
        neighbours = (await dut.run(["ip", "neigh", "show", "nud", "permanent"])).text.splitlines()
        batch = [*address_lines(addresses, ports), *_route_lines(routes, ports), *neighbour_lines(neighbours, ports)]
        script = fed("ip -batch -", batch) + fed("nft -f -", rules.splitlines()) + _forwarding(keys)
        return UndoStep(dut.name, _SHELL, script, "rules, addresses, routes and forwarding as they were before the reset")

    async def carry_out(self, dut: Host, testbed: Testbed, back: UndoStep) -> None:
        """Raises CommandFailed."""
        away = [_STOP, "nft flush ruleset", *(f"ip address flush dev {port}" for port in _ports(testbed))]
        await dut.run(_SHELL, stdin=("\n".join(away) + "\n" + back.stdin).encode())


RESETS: dict[str, Reset] = {"process": ProcessReset(), "software": SoftwareReset()}


def _ports(testbed: Testbed) -> list[str]:
    """The DUT's ports, each once."""
    return list(dict.fromkeys(p.interface for link in testbed.links.values() for p in (link.dut_in, link.dut_out)))


def _forwarding(keys: Sequence[str]) -> str:
    return f"sysctl -q -e -w {' '.join(keys)}\n"


def fed(command: str, lines: Sequence[str]) -> str:
    """Lines of a script that give `lines` to a command as its input."""
    return "\n".join([f"{command} <<'{_END}'", *lines, _END, ""])


def route_words(line: str) -> list[str]:
    """Return a line of `ip -o route show` without the state of the route, as `ip route replace` takes it."""
    return [word for word in line.replace("\\", " ").split() if word not in _STATES]


def address_lines(found: Sequence[dict[str, Any]], ports: Sequence[str]) -> Iterator[str]:
    """Lines for the output of `ip -j address`."""
    for port in found:
        for a in port["addr_info"] if port["ifname"] in ports else ():
            line = f"address replace {a['local']}"
            line += f" peer {a['address']}/{a['prefixlen']}" if "address" in a else f"/{a['prefixlen']}"
            line += f" dev {port['ifname']} scope {a['scope']}"
            line += f" broadcast {a['broadcast']}" if "broadcast" in a else ""
            line += " nodad" if a.get("nodad") else ""
            if a["valid_life_time"] != _FOREVER:
                line += f" valid_lft {a['valid_life_time']} preferred_lft {a['preferred_life_time']}"
            yield line


def _route_lines(found: Sequence[str], ports: Sequence[str]) -> Iterator[str]:
    """Return the lines of `ip -o route show` except those that come with an address."""
    for line in found:
        words = route_words(line)
        pairs = set(pairwise(words))
        if ("proto", "kernel") not in pairs and any(("dev", port) in pairs for port in ports):
            yield "route replace " + " ".join(words)


def neighbour_lines(found: Sequence[str], ports: Sequence[str]) -> Iterator[str]:
    """Yield the lines of `ip neigh show nud permanent`: neighbours that were entered by hand go with the address."""
    for line in found:
        address, _, port, *rest = line.split()
        if port in ports and rest[:1] == ["lladdr"]:
            yield f"neigh replace {address} lladdr {rest[1]} dev {port} nud permanent"
