"""Further addresses in the network of a cable: a block without any port of the testbed."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network

MOST_SOURCES = 64
"""Most addresses of one port, its own included. Each takes an entry in the DUT's neighbour table; Linux begins to remove entries at 128
(`gc_thresh1`, kernel, ip-sysctl.rst)."""


def block_of(
    address: IPv4Interface | IPv6Interface, count: int, taken: Collection[IPv4Address | IPv6Address]
) -> IPv4Network | IPv6Network | None:
    """Return the last block of `count` addresses, rounded up to a power of two; None if there is none.

    The block contains no address of `taken`, and neither the network's own nor its broadcast address.
    """
    network = address.network
    bits = (count - 1).bit_length()
    if network.max_prefixlen - bits <= network.prefixlen:
        return None
    reserved = {int(ip) for ip in (*taken, network.network_address, network.broadcast_address)}
    used = {(ip - int(network.network_address)) >> bits for ip in reserved}
    last = (network.num_addresses >> bits) - 1
    place = next((n for n in range(last, max(last - len(used), 0) - 1, -1) if n not in used), None)
    if place is None:
        return None
    first = network.network_address + (place << bits)
    return type(network)((first, network.max_prefixlen - bits))


def most_sources(address: IPv4Interface | IPv6Interface, taken: Collection[IPv4Address | IPv6Address]) -> int:
    """Return the most addresses that a port with `address` can have."""
    return next((n for n in range(MOST_SOURCES, 1, -1) if block_of(address, n - 1, taken) is not None), 1)
