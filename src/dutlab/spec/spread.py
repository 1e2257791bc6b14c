"""Addresses spread evenly over a network: one in each of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPNetwork = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Spread:
    """The first `count` of the equal parts of `length` bits of prefix that `network` is cut into; an address in each."""

    network: IPNetwork
    count: int
    length: int

    @classmethod
    def over(cls, network: IPNetwork, count: int) -> Spread:
        """In parts as large as may be. Raises ValueError when the network has fewer addresses."""
        length = network.prefixlen + (count - 1).bit_length()
        if not 1 <= count <= network.num_addresses:
            raise ValueError(f"{network} has {network.num_addresses} addresses, not {count}")
        return cls(network, count, length)

    @property
    def first(self) -> IPv4Address | IPv6Address:
        """The address in the first part: behind the part's own number, where a part has more than one."""
        return self.network.network_address + (1 if self.length < self.network.max_prefixlen else 0)

    def part(self, n: int) -> IPNetwork:
        """Part number `n`."""
        step = 1 << (self.network.max_prefixlen - self.length)
        return type(self.network)((int(self.network.network_address) + n * step, self.length))

    def address(self, n: int) -> IPv4Address | IPv6Address:
        """The address in part number `n`."""
        return self.first + n * (1 << (self.network.max_prefixlen - self.length))
