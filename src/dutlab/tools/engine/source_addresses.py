"""Additional addresses of a source port for its connections: added to the port, checked, and removed at the end of the trial.

They are in the network of the cable, so the DUT reaches them like the port's own address, and nothing on the DUT is changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from dutlab.dut.mode import Announce, UndoStep
from dutlab.errors import HostError, ToolFailed
from dutlab.hosts.host import Host
from dutlab.spec.address_blocks import block_of
from dutlab.spec.links import IPV6, Link

TOOL = "ip"


@dataclass
class SourceAddresses:
    """Additional addresses of source ports. `announce` gets the command that removes them before the first one exists."""

    hosts: Mapping[str, Host]
    announce: Announce
    _ours: set[tuple[str, str]] = field(default_factory=set)
    """Ports and blocks to which this process has added addresses."""

    async def of(self, link: Link, count: int) -> list[str]:
        """Return `count` addresses of the link's source, its own first. Raises HostError, ToolFailed if others of the block exist."""
        own, port = link.source_address, link.source
        if count == 1:
            return [str(own.ip)]
        block = block_of(own, count - 1, [address.ip for address in link.addresses])
        if block is None:
            raise ToolFailed(f"{own.network} has fewer than {count - 1} free addresses", tool=TOOL, host=port.host)
        host, version = self.hosts[port.host], f"-{own.version}"
        wanted = [str(address) for address in islice(block, count - 1)]
        there, place = await _seen(host, port.interface, version, str(block)), (str(port), str(block))
        if there and place not in self._ours:
            raise ToolFailed(
                f"{port} has addresses in {block} already: {', '.join(sorted(there))}", tool=TOOL, host=port.host,
                remedy="take them away, or use fewer sources",
            )  # fmt: skip
        if there != set(wanted):
            undo = UndoStep(
                port.host,
                ("ip", version, "address", "flush", "dev", port.interface, "to", str(block)),
                why=f"no addresses of {block} on {port}",
            )
            self.announce(f"sources of {port}", [undo])
            self._ours.add(place)
            without_wait = " nodad" if own.version == IPV6 else ""
            lines = [f"address replace {ip}/{own.max_prefixlen} dev {port.interface}{without_wait}\n" for ip in wanted]
            await host.run(["ip", version, "-batch", "-"], stdin="".join(lines).encode())
            if (there := await _seen(host, port.interface, version, str(block))) != set(wanted):
                raise ToolFailed(f"{port} has {len(there)} of {len(wanted)} addresses of {block}", tool=TOOL, host=port.host)
        return [str(own.ip), *wanted]


async def _seen(host: Host, interface: str, version: str, block: str) -> set[str]:
    """Return the addresses of a block that a port has."""
    output = (await host.run(["ip", "-json", version, "address", "show", "dev", interface, "to", block])).text
    try:
        return {of["local"] for port in json.loads(output or "[]") for of in port.get("addr_info", ()) if of}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HostError(f"`ip -json address` printed {output[:200]!r}", host=host.name, remedy="install iproute2 there") from error
