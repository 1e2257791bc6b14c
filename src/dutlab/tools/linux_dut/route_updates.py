"""Changes of a Linux DUT's routes while it forwards (RFC 2544 section 11.3): networks that no test frame goes to, by turns here and there.

No routing protocol speaks: a kernel without a daemon would drop its frames. What a daemon would do to the kernel is done by command.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from dutlab.dut.mode import Announce, UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.spec.testbed import Testbed

NETWORKS = {
    4: [str(network) for network in IPv4Network("203.0.113.0/24").subnets(new_prefix=28)],
    6: [str(network) for network in IPv6Network("2001:db8:ffff::/48").subnets(new_prefix=52)],
}
"""Of RFC 5737 and RFC 3849, for documentation: never on a test link. Sixteen of each."""
PROTOCOL = 220
"""Of these routes alone, so that exactly they are taken away."""
METRIC = 4242
"""Beside whatever route there may be already."""


class RouteUpdates:
    """A methods.ports.Beside: step n turns all networks to the link's sink if n is even, to its source if it is odd."""

    def __init__(self, dut: Host, testbed: Testbed, announce: Announce) -> None:
        self._dut, self._testbed, self._announce = dut, testbed, announce

    async def step(self, link: str, number: int) -> str:
        """`processed`, as the DUT's own table has it afterwards, or why not."""
        path = self._testbed.links[link]
        hop = (path.dut_in_peer if number % 2 else path.dut_out_peer).ip
        version = f"-{hop.version}"
        undo = UndoStep(
            self._dut.name, ("ip", version, "route", "flush", "proto", str(PROTOCOL)), "", "no routes beside those that were found"
        )
        self._announce(f"route updates, IPv{hop.version}", [undo])
        lines = [f"route replace {network} via {hop} proto {PROTOCOL} metric {METRIC}\n" for network in NETWORKS[hop.version]]
        try:
            await self._dut.run(["ip", version, "-batch", "-"], stdin="".join(lines).encode())
            table = (await self._dut.run(["ip", version, "route", "show", "proto", str(PROTOCOL)])).text.splitlines()
        except HostError as e:
            return f"refused: {e}"
        turned = sum(f"via {hop} " in line for line in table)
        return "processed" if turned == len(lines) else f"processed in part: {turned} of {len(lines)} routes"
