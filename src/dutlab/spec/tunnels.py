"""Several tunnels a link (factor `tunnels`): addresses inside them, and which of them carry traffic.

The first tunnel carries the link's own addresses. What goes through another has a source address of RFC 6598, which no testbed routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address

from dutlab.spec.links import Link

MOST_TUNNELS = 4095
"""As many addresses has the network of a link."""
MOST_LOADED = 16
"""So many tunnels of a link have an end at the source and carry traffic; the DUT holds the others."""
_SHARED = int(IPv4Address("100.64.0.0"))
"""RFC 6598: 100.64.0.0/10."""
_PREFIX = 20


def inner_network(place: int) -> IPv4Network:
    """The source addresses inside the tunnels of the link at this place, but for its first tunnel."""
    return IPv4Network((_SHARED + (place << (32 - _PREFIX)), _PREFIX))


def inner_source(link: Link, place: int, number: int) -> IPv4Address | IPv6Address:
    """The source address inside a tunnel of the link."""
    return inner_network(place)[number] if number else link.source_address.ip


def loaded(count: int, most: int = MOST_LOADED) -> Sequence[int]:
    """Numbers of the tunnels that carry traffic: the first, the last, and others evenly between them."""
    taken = min(count, most)
    return [n * (count - 1) // (taken - 1) for n in range(taken)] if taken > 1 else [0]
