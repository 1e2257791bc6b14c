"""Translation between IPv6 and IPv4 (factor `nat64`): its prefix, the IPv6 address of each IPv4 address, and what cannot be translated.

An IPv4 address is the last 32 bits of its IPv6 address, after a prefix of 96 bits (RFC 6052 section 2.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network, ip_network
from typing import TYPE_CHECKING

from dutlab.spec.generators import GeneratorModel
from dutlab.spec.links import IPV6

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape
    from dutlab.spec.workloads import WorkloadModel

_OFF = "off"
LENGTH = 96
"""Length of a prefix in bits. RFC 6052 also has shorter ones, which dutlab does not support."""
WELL_KNOWN = IPv6Network("64:ff9b::/96")
"""Prefix that stands for global IPv4 addresses only (RFC 6052 section 3.1)."""
HEADER_BYTES = 20
"""Length of an IPv6 header less that of an IPv4 header without options."""
MOST_MTU = 1500 - HEADER_BYTES
"""Longest IPv4 packet that fits an MTU of 1500 as IPv6."""
TRANSPORTS = frozenset({"udp", "tcp"})
_RESERVED = 0xFF << (128 - 72)
"""Bits 64 to 71, which are zero in every prefix (RFC 6052 section 2.2)."""


def prefix_of(level: str | None) -> IPv6Network | None:
    """Return the prefix of a level; None for `off` or without a level. Raises ValueError for any other text."""
    return None if level in (None, _OFF) else IPv6Network(level)


def prefix_fault(level: str) -> str:
    """Return why a level is neither `off` nor a prefix; empty if it is one."""
    try:
        prefix = None if level == _OFF else ip_network(level)
    except ValueError as error:
        return str(error)
    if prefix is None:
        return ""
    if not isinstance(prefix, IPv6Network) or prefix.prefixlen != LENGTH:
        return f"{level} is not a prefix of IPv6 with {LENGTH} bits"
    if int(prefix.network_address) & _RESERVED:
        return f"bits 64 to 71 of {level} are not zero (RFC 6052 section 2.2)"
    of = prefix.network_address
    unicast = not (of.is_multicast or of.is_link_local or of.is_loopback or of.is_unspecified)
    return "" if unicast else f"{level} is not a prefix of unicast addresses that are routed"


def embedded(prefix: IPv6Network, address: IPv4Address) -> IPv6Address:
    """Return the IPv6 address of an IPv4 address."""
    return prefix[int(address)]


def embedded_interface(prefix: IPv6Network, address: IPv4Interface) -> IPv6Interface:
    """Return the IPv6 address of a port with its prefix length: the same addresses are in its network."""
    return IPv6Interface((embedded(prefix, address.ip), LENGTH + address.network.prefixlen))


def embedded_network(prefix: IPv6Network, network: IPv4Network) -> IPv6Network:
    """Return the network of the IPv6 addresses of a network's addresses."""
    return IPv6Network((embedded(prefix, network.network_address), LENGTH + network.prefixlen))


def prefixes_of(factors: object) -> list[IPv6Network]:
    """Return the prefixes among the levels of `nat64`; levels that are wrong are left out."""
    levels = factors.get("nat64") if isinstance(factors, Mapping) else None
    of = levels if isinstance(levels, list | tuple) else ()
    return [IPv6Network(level) for level in of if isinstance(level, str) and level != _OFF and not prefix_fault(level)]


def untranslatable_links(factors: object, bed: TestbedShape) -> Iterator[str]:
    """Yield why links through the DUT cannot have their frames translated."""
    prefixes = prefixes_of(factors)
    if not prefixes:
        return
    for name, bound in bed.bounds.items():
        if bound.through_dut and bound.ipv6:
            yield f"link {name} of {bed.title} is of IPv6; nat64 needs the IPv4 addresses that its prefix stands for"
        elif bound.through_dut and bound.is_transparent:
            yield f"the ends of link {name} of {bed.title} are in one network, so nothing is routed or translated between them"
    testbed = bed.find() if WELL_KNOWN in prefixes and bed.find is not None else None
    for name, link in testbed.through_dut().links.items() if testbed is not None else ():
        if local := [str(address.ip) for address in link.addresses if address.version != IPV6 and not address.ip.is_global]:
            what = f"{WELL_KNOWN} does not stand for addresses that are not global, such as {local[0]} of link {name}"
            yield f"{what} (RFC 6052 section 3.1); write a prefix of your own, as 2001:db8:64::/{LENGTH}"


def untranslatable(workload: WorkloadModel, generator: GeneratorModel | None, factors: object) -> Iterator[str]:
    """Yield why a workload cannot be measured through a translator. `generator` is that of its frames; None if it sends none."""
    if not prefixes_of(factors):
        return
    if "nat64" not in workload.forms:
        yield "sends IPv4 only, or was not tried through a translator; leave nat64 out, or drive this workload in a separate experiment"
        return
    if generator is not None and generator.kind != "engine":
        yield f"its frames are sent by {generator.kind}, and only the engine sends frames to a translator"
    if getattr(workload, "server", None) is not None:
        yield "its server is not the sink, so its packets are not translated; leave server out"
    traffic = getattr(workload, "traffic", None)
    if traffic is not None and traffic.elsewhere:
        yield "its traffic names IPv4 addresses that are not those of the links; frames to a translator have IPv6 addresses"
    if traffic is not None and traffic.transport not in TRANSPORTS:
        yield f"frames of {traffic.transport} were not tried through a translator; write udp or tcp"
