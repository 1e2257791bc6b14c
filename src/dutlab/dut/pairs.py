"""Which networks a firewall's rules are between: pure, of the testbed."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from dutlab.spec.testbed import Link, Testbed

ELSEWHERE: dict[int, IPv4Address | IPv6Address] = {4: IPv4Address("203.0.113.0"), 6: IPv6Address("2001:db8:ffff:ffff::")}
"""Version of IP → an address for documentation (RFC 5737, RFC 3849), so never on a test link."""
Network = IPv4Network | IPv6Network


def network_pairs(testbed: Testbed) -> Iterator[tuple[Link, Link]]:
    """Every link on whose inner network a flow may start, with every link on whose outer network it may end; IP versions do not mix."""
    for inner in testbed.links.values():
        for outer in testbed.links.values():
            if inner.dut_in_address.version == outer.dut_out_address.version:
                yield inner, outer


def permitted_networks(testbed: Testbed) -> list[tuple[Network, Network]]:
    """Source and destination of every flow that may pass, each pair in both directions, for rules that keep no state."""
    pairs = ((inner.dut_in_address.network, outer.dut_out_address.network) for inner, outer in network_pairs(testbed))
    return list(dict.fromkeys(pair for near, far in pairs for pair in ((near, far), (far, near))))
