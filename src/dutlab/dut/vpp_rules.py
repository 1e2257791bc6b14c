"""Access lists of the modes of family `vpp`, in the words of its acl-plugin. Pure functions of the testbed.

`permit+reflect` keeps a session, so that answers pass with any list in the other direction. A list ends with an implicit deny
(docs/aclplugin of VPP, ACL plugin design).
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_network

from dutlab.dut.mode import ELSEWHERE, network_pairs, permitted_networks
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed

TAG = "dutlab"
"""Prefix of the tags of our lists."""
INPUT, OUTPUT = "input", "output"
Place = tuple[str, str]
"""Interface and direction where a list is applied."""


@dataclass(frozen=True)
class AccessList:
    """Access list, and the places where it is applied."""

    tag: str
    rules: tuple[str, ...]
    places: tuple[Place, ...]

    @property
    def words(self) -> str:
        """Arguments of `set acl-plugin acl`."""
        return f"{' , '.join(self.rules)} tag {self.tag}"


def no_lists(testbed: Testbed) -> list[AccessList]:
    """Return no lists: nothing is filtered."""
    del testbed
    return []


def filter_empty(testbed: Testbed) -> list[AccessList]:
    """Return a list that gives every flow a session and permits everything."""
    ports = [port for link in testbed.links.values() for port in _ports(link)]
    return [_open("empty", tuple((port, INPUT) for port in ports))]


def filters(testbed: Testbed, count: int) -> list[AccessList]:
    """Return `count` stateless address filters before each packet that passes, on every test port's input.

    RFC 2544 section 11.4 asks for 1 and 25. All but the last match an address that no test frame has; the last ones permit the pairs of
    networks, one rule per direction.
    """
    versions = sorted({address.version for link in testbed.links.values() for address in link.addresses})
    elsewhere = [(ip_network(ELSEWHERE[v] + i), ip_network(ELSEWHERE[v])) for v in versions for i in range(1, count)]
    unmatched = [f"permit src {from_} dst {to}" for from_, to in elsewhere]
    permitted = [f"permit src {near} dst {far}" for near, far in permitted_networks(testbed)]
    itself = [
        rule for link in testbed.links.values() for address in (link.dut_in_address, link.dut_out_address) for rule in _to_itself(address)
    ]
    ports = [port for link in testbed.links.values() for port in _ports(link)]
    return [
        AccessList(f"{TAG}-filters", (*unmatched, *permitted, *dict.fromkeys(itself)), tuple((port, INPUT) for port in ports)),
    ]


def filter_default(testbed: Testbed) -> list[AccessList]:
    """Return lists that permit new flows from each inner network to each outer one; answers pass by the session of the flow."""
    lists = []
    for name, link in testbed.links.items():
        inner, outer = _ports(link)
        allowed = [
            f"permit+reflect src {near.source_address.network} dst {far.sink_address.network}"
            for near, far in network_pairs(testbed)
            if near is link
        ]
        lists += [
            AccessList(f"{TAG}-inner-{name}", (*_to_itself(link.dut_in_address), *allowed), ((inner, INPUT),)),
            AccessList(f"{TAG}-outer-{name}", _to_itself(link.dut_out_address), ((outer, INPUT),)),
        ]
    return [*lists, _open("out", tuple((_ports(link)[1], OUTPUT) for link in testbed.links.values()))]


def _open(name: str, places: tuple[Place, ...]) -> AccessList:
    rules = ("permit+reflect src 0.0.0.0/0 dst 0.0.0.0/0", "permit+reflect src ::/0 dst ::/0")
    return AccessList(f"{TAG}-{name}", rules, places)


def _to_itself(address: IPv4Interface | IPv6Interface) -> tuple[str, ...]:
    """Return rules for packets to the DUT itself on a port; IPv6 neighbour discovery uses a multicast address (RFC 4861)."""
    if address.version == 4:  # noqa: PLR2004 - the version number of the protocol itself
        return (f"permit src 0.0.0.0/0 dst {address.ip}/32",)
    return (f"permit src ::/0 dst {address.ip}/128", "permit src ::/0 dst ff02::/16")


def _ports(link: Link) -> tuple[str, str]:
    return link.dut_in.interface, link.dut_out.interface
