"""Routes of a Linux DUT: a methods.ports.RouteTable by `ip -batch`, and routes that change while it forwards (RFC 2544 section 11.3).

They go into the main table, where a router has its routes: a separate table would need a rule that every packet has to pass. Their
protocol number identifies them, so that only they are counted and removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from dutlab.dut.mode import Announce, UndoStep
from dutlab.errors import HostError, MeasurementError
from dutlab.hosts.host import Host
from dutlab.methods.dut_tables import LinkEnd, RoutesLoaded
from dutlab.spec.testbed import Testbed
from dutlab.spec.traffic import IPNetwork, Spread

PROTOCOL = 219
"""Protocol number of these routes, for which /etc/iproute2/rt_protos has no name."""
SAMPLES = 256
"""Addresses looked up after loading: one in each of the 256 networks of RFC 2544 section 12."""
LOAD_S = 900.0
"""Time limit of loading, in seconds: a million routes take half a minute."""


class LinuxRoutes:
    """Routes of a Linux DUT. `announce` is called with the routes before the first one exists."""

    def __init__(self, dut: Host, testbed: Testbed, announce: Announce) -> None:
        self._dut, self._testbed, self._announce = dut, testbed, announce

    async def load(self, link: str, spread: Spread, towards: LinkEnd = LinkEnd.SINK) -> RoutesLoaded:
        """Load the routes of `spread`, and look some of them up. Raises MeasurementError, CommandFailed, HostError."""
        path = self._testbed.links[link]
        hop, port = (path.dut_out_peer.ip, path.dut_out) if towards is LinkEnd.SINK else (path.dut_in_peer.ip, path.dut_in)
        if hop.version != spread.network.version:
            raise MeasurementError(
                f"routes to {spread.network} cannot go by {hop}: another version of IP", remedy="take a network of the link's"
            )
        if clash := [n for n in self._own_networks() if n.version == spread.network.version and n.overlaps(spread.network)]:
            raise MeasurementError(f"{spread.network} overlaps {clash[0]} of the testbed itself", remedy="take another network")
        version = f"-{hop.version}"
        before = await self._count(version)
        self._announce(f"routes to {spread.network}", [self._flush(version, spread.network)])
        began = time.monotonic()
        await self._dut.run(["ip", version, "-batch", "-"], stdin="".join(_lines(spread, hop)).encode(), timeout_s=LOAD_S)
        took_s = time.monotonic() - began
        sampled = [spread.address(n) for n in _sampled(spread.count)]
        asked = "".join(f"route get {address}\n" for address in sampled)
        lookups = ["ip", version, "-force", "-batch", "-"]  # -force: continue after an address without a route
        lines = (await self._dut.run(lookups, stdin=asked.encode(), check=False)).text.splitlines()
        astray = _astray(lines, sampled, f"via {hop} dev {port.interface} ")
        return RoutesLoaded(await self._count(version) - before, took_s, len(sampled), tuple(astray))

    def _own_networks(self) -> Iterator[IPNetwork]:
        return (address.network for link in self._testbed.links.values() for address in link.addresses)

    def _flush(self, version: str, network: IPNetwork) -> UndoStep:
        argv = ("ip", version, "route", "flush", "root", str(network), "proto", str(PROTOCOL))
        return UndoStep(self._dut.name, argv, "", f"no routes to {network} other than those that were there")

    async def _count(self, version: str) -> int:
        """Return the number of routes of our protocol."""
        return int((await self._dut.run(["sh", "-c", f"ip {version} route show proto {PROTOCOL} | wc -l"], timeout_s=LOAD_S)).text)


def _lines(spread: Spread, hop: IPv4Address | IPv6Address) -> Iterator[str]:
    """Yield the lines for `ip -batch`. Written from numbers: a million address objects take longer than a million routes."""
    kind, step = type(hop), 1 << (spread.network.max_prefixlen - spread.length)
    first = int(spread.network.network_address)
    rest = f"/{spread.length} via {hop} proto {PROTOCOL}\n"
    for n in range(spread.count):
        yield f"route add {kind(first + n * step)}{rest}"


def _sampled(count: int) -> Sequence[int]:
    """Return the numbers of some of `count` routes: the first, the last, and evenly between."""
    return sorted({round(n * (count - 1) / (SAMPLES - 1)) for n in range(SAMPLES)})


def _astray(lines: Sequence[str], asked: Sequence[IPv4Address | IPv6Address], way: str) -> Iterator[str]:
    """Yield the answers of `ip route get` for addresses that do not go `way`."""
    answers = {words[0]: line for line in lines if (words := line.split()) and words[0] != "cache"}
    for address in asked:
        line = answers.get(str(address), "no answer")
        if way not in f"{line} ".replace(" from ::", ""):
            yield f"{address}: {line.strip()}"


UPDATED_NETWORKS = {
    4: [str(network) for network in IPv4Network("203.0.113.0/24").subnets(new_prefix=28)],
    6: [str(network) for network in IPv6Network("2001:db8:ffff::/48").subnets(new_prefix=52)],
}
"""Networks of RFC 5737 and RFC 3849, for documentation: never on a test link. Sixteen of each."""
UPDATES_PROTOCOL = 220
"""Protocol number of these routes alone, so that only they are removed."""
UPDATES_METRIC = 4242
"""Metric of these routes, so that they replace no existing route."""


class RouteUpdates:
    """A methods.dut_ports.ConcurrentWork: step n turns all networks to the link's sink if n is even, to its source if it is odd.

    No routing protocol is used: a kernel without a daemon would drop its frames. Commands change the kernel as a daemon would.
    """

    def __init__(self, dut: Host, testbed: Testbed, announce: Announce) -> None:
        self._dut, self._testbed, self._announce = dut, testbed, announce

    async def step(self, link: str, number: int) -> str:
        """Apply one update; return `processed`, according to the DUT's own table afterwards, or why not."""
        path = self._testbed.links[link]
        hop = (path.dut_in_peer if number % 2 else path.dut_out_peer).ip
        version = f"-{hop.version}"
        undo = UndoStep(
            self._dut.name, ("ip", version, "route", "flush", "proto", str(UPDATES_PROTOCOL)), "", "no routes but those that were found"
        )
        self._announce(f"route updates, IPv{hop.version}", [undo])
        lines = [
            f"route replace {network} via {hop} proto {UPDATES_PROTOCOL} metric {UPDATES_METRIC}\n"
            for network in UPDATED_NETWORKS[hop.version]
        ]
        try:
            await self._dut.run(["ip", version, "-batch", "-"], stdin="".join(lines).encode())
            table = (await self._dut.run(["ip", version, "route", "show", "proto", str(UPDATES_PROTOCOL)])).text.splitlines()
        except HostError as e:
            return f"refused: {e}"
        turned = sum(f"via {hop} " in line for line in table)
        return "processed" if turned == len(lines) else f"processed in part: {turned} of {len(lines)} routes"
