"""Several tunnels per link (factor `tunnels`): the addresses inside them, and the tunnels that carry traffic.

The first tunnel carries the link's own addresses. Packets in the others have source addresses of RFC 6598, which no testbed routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address

from dutlab.spec.links import Link

MOST_TUNNELS = 4095
"""Most tunnels of a link, limited by the addresses of its inner network."""
MOST_LOADED = 16
"""Most tunnels of a link that have an end at the source and carry traffic; the others exist only on the DUT."""
_SHARED = int(IPv4Address("100.64.0.0"))
"""Start of the shared address space 100.64.0.0/10 (RFC 6598)."""
_PREFIX = 20


def inner_network(place: int) -> IPv4Network:
    """Return the network of source addresses inside the tunnels, except the first, of link number `place`."""
    return IPv4Network((_SHARED + (place << (32 - _PREFIX)), _PREFIX))


def inner_source(link: Link, place: int, number: int) -> IPv4Address | IPv6Address:
    """Return the source address inside tunnel `number` of the link."""
    return inner_network(place)[number] if number else link.source_address.ip


def loaded(count: int, most: int = MOST_LOADED) -> Sequence[int]:
    """Return the numbers of the tunnels that carry traffic: the first, the last, and others evenly between them."""
    taken = min(count, most)
    return [n * (count - 1) // (taken - 1) for n in range(taken)] if taken > 1 else [0]
