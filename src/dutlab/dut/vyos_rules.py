"""Configuration of the modes of family `vyos`, as lines for its configuration mode. Pure functions of the testbed.

Syntax of VyOS 1.4 and later (docs.vyos.io, Configuration Guide: Firewall, NAT). The rules are equivalent to the nftables rulesets of family
`linux`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Interface, IPv6Interface

from dutlab.dut.mode import ELSEWHERE, network_pairs, permitted_networks
from dutlab.spec.testbed import Testbed

_NUMBER = re.compile(r"^set firewall ipv[46] forward filter rule (\d+) ")
_ESTABLISHED, _INVALID, _FIRST_PAIR = 10, 20, 100


def nothing(testbed: Testbed) -> list[str]:
    """Return no lines: nothing is tracked, although VyOS keeps the chains of its raw table and marks every packet there."""
    del testbed
    return []


def filters(testbed: Testbed, count: int) -> list[str]:
    """Return `count` stateless address filters before each packet that passes (RFC 2544 section 11.4: 1 and 25).

    All but the last match an address that no test frame has. The last ones permit the pairs of networks, one rule per direction, so with
    several links a packet may meet more than `count`.
    """
    lines = [_default(version, "drop") for version in _versions(testbed)]
    for version in _versions(testbed):
        for i in range(1, count):
            from_, to = ELSEWHERE[version] + i, ELSEWHERE[version]
            lines += _rule(version, i, "action accept", f"source address {from_}", f"destination address {to}")
    for number, (near, far) in enumerate(permitted_networks(testbed), start=_FIRST_PAIR):
        lines += _rule(near.version, number, "action accept", f"source address {near}", f"destination address {far}")
    return lines


def filter_empty(testbed: Testbed) -> list[str]:
    """Return one rule that reads connection tracking, and a default that accepts everything."""
    return [line for version in _versions(testbed) for line in (_default(version, "accept"), *_established(version))]


def filter_default(testbed: Testbed) -> list[str]:
    """Return a default drop, and one stateful rule for each pair of an inner and an outer network."""
    lines = []
    for version in _versions(testbed):
        lines += [_default(version, "drop"), *_established(version), *_rule(version, _INVALID, "action drop", "state invalid")]
    for number, (inner, outer) in enumerate(network_pairs(testbed), start=_FIRST_PAIR):
        near, far = inner.source_address, outer.sink_address
        lines += _rule(
            near.version, number, "action accept", f"inbound-interface name {inner.dut_in.interface}", f"source address {near.network}",
            f"destination address {far.network}", "state new",
        )  # fmt: skip
    return lines


def passes(testbed: Testbed, own: Sequence[str]) -> list[str]:
    """Return rules that an existing configuration needs: after its rules a stateful rule per pair of networks and direction.

    `own` are its lines: the new rules get higher numbers than all of its rules.
    """
    first = max((int(number) for line in own for number in _NUMBER.findall(line)), default=_FIRST_PAIR) + 1
    return [
        line
        for number, (near, far) in enumerate(permitted_networks(testbed), start=first)
        for line in _rule(
            near.version, number, "action accept", f"source address {near}", f"destination address {far}",
            "state new", "state established", "state related",
        )
    ]  # fmt: skip


def nat(testbed: Testbed) -> list[str]:
    """Return `filter_default` with masquerade of every inner network on every outer port."""
    return [*filter_default(testbed), *(line for rule in _masquerades(testbed) for line in rule)]


def nat_open(testbed: Testbed) -> list[str]:
    """Return `filter_empty` with the masquerade of `nat`."""
    return [*filter_empty(testbed), *(line for rule in _masquerades(testbed) for line in rule)]


def _masquerades(testbed: Testbed) -> Iterator[list[str]]:
    for number, (inner, outer) in enumerate(network_pairs(testbed), start=_FIRST_PAIR):
        # nat66 matches a `prefix`, not an `address` (docs.vyos.io, NAT66)
        tree, source = ("nat", "address") if _is_4(outer.dut_out_address) else ("nat66", "prefix")
        yield [
            f"set {tree} source rule {number} outbound-interface name {outer.dut_out.interface}",
            f"set {tree} source rule {number} source {source} {inner.source_address.network}",
            f"set {tree} source rule {number} translation address masquerade",
        ]


def _versions(testbed: Testbed) -> list[int]:
    return sorted({link.source_address.version for link in testbed.links.values()})


def _default(version: int, action: str) -> str:
    return f"set firewall ipv{version} forward filter default-action {action}"


def _established(version: int) -> list[str]:
    return _rule(version, _ESTABLISHED, "action accept", "state established", "state related")


def _rule(version: int, number: int, *parts: str) -> list[str]:
    return [f"set firewall ipv{version} forward filter rule {number} {part}" for part in parts]


def _is_4(address: IPv4Interface | IPv6Interface) -> bool:
    return address.version == 4  # noqa: PLR2004 - the version number of the protocol itself
