"""Rulesets of the modes for pf(4), as text for `pfctl -f -`. Pure functions of the testbed.

They are those of the published review of the E302-9D: a stateful `pass in quick` for each pair of an inner and an outer network, and one
translation for each outer port. Syntax: pf.conf(5) of FreeBSD and OpenBSD, which differ only in translation.

Rules match only test ports, so the administrator of the DUT can reach it through another port. The DUT answers pings to the address of a
test port. pfctl(8) loads the rules unchanged: by default it would merge six or more into a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface

from dutlab.dut.mode import ELSEWHERE, network_pairs, permitted_networks
from dutlab.errors import InputError
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed

AS_WRITTEN = "set ruleset-optimization none"
STATES = 100_000_000
"""Limit of states: more than two per flow of any test, so that it is never reached; the default is 100,000 (pf.h)."""
MOST_STATES = f"set limit states {STATES}"
_ANOTHER = 100
_KEEP = "flags S/SA keep state"
_TRANSLATIONS = ("nat ", "rdr ", "binat ", "no nat ", "no rdr ", "no binat ", "nat-anchor ", "rdr-anchor ", "binat-anchor ")
_FILTERS = ("pass ", "block ", "match ", "anchor ", "scrub ", "no scrub ")


@dataclass(frozen=True)
class RuleCounts:
    """Number of rules of each kind: `pfctl -s rules` and `pfctl -s nat` list one per line."""

    filters: int
    translations: int

    @classmethod
    def of(cls, text: str) -> RuleCounts:
        """Count the rules of a ruleset, as written or as pfctl lists it."""
        lines = [line.strip() + " " for line in text.splitlines()]
        return cls(sum(line.startswith(_FILTERS) for line in lines), sum(line.startswith(_TRANSLATIONS) for line in lines))

    def __str__(self) -> str:
        return f"{self.filters} filter rules, {self.translations} translations"


def filter_empty(testbed: Testbed) -> str:
    """Return a filter without rules that inspects every packet and keeps no state."""
    del testbed
    return f"{AS_WRITTEN}\n"


def filter_default(testbed: Testbed) -> str:
    """Return stateful rules from each inner network to each outer one; other forwarded packets are dropped."""
    return _text([AS_WRITTEN, MOST_STATES, *_filters(testbed)])


def filters(testbed: Testbed, count: int) -> str:
    """Return `count` stateless address filters before each incoming packet (RFC 2544 section 11.4: 1 and 25).

    All but the last match addresses that no test frame has, and no two have a common address: pf skips neighbouring rules with the same
    address in one step (pf.c, PF_SKIP_DST_ADDR). The last ones permit the pairs of networks, one rule per direction.
    """
    versions = sorted({address.version for link in testbed.links.values() for address in link.addresses})
    unmatched = [
        f"pass in quick {_words(v)} from {ELSEWHERE[v] + i} to {ELSEWHERE[v] + _ANOTHER + i} no state"
        for v in versions
        for i in range(1, count)
    ]
    permitted = [f"pass in quick {_words(near.version)} from {near} to {far} no state" for near, far in permitted_networks(testbed)]
    out = [f"pass out quick on {port} all no state" for port, _ in _ports(testbed)]
    return _text([AS_WRITTEN, *_blocks(testbed), *unmatched, *permitted, *out])


def passes(testbed: Testbed) -> str:
    """Return rules that an existing ruleset needs for test traffic: a stateful rule per pair of networks and direction."""
    nets = {link.source_address.network: link.dut_in.interface for link in testbed.links.values()}
    nets |= {link.sink_address.network: link.dut_out.interface for link in testbed.links.values()}
    rules = [f"pass out quick on {port} all {_KEEP}" for port, _ in _ports(testbed)]
    for near, far in permitted_networks(testbed):
        rules.append(f"pass in quick on {_port(nets[near])} {_words(near.version)} from {near} to {far} {_KEEP}")
    return _text(rules)


def nat(testbed: Testbed) -> str:
    """Return the rules for FreeBSD: `filter_default`, with translation to the outer port's address in a section before the filter."""
    rules = [
        f"nat on {_port(outer.dut_out.interface)} {_translated(inner)} -> {outer.dut_out_address.ip}"
        for inner, outer in network_pairs(testbed)
    ]
    return _text([AS_WRITTEN, MOST_STATES, *rules, *_filters(testbed)])


def nat_to(testbed: Testbed) -> str:
    """Return the rules for OpenBSD: `filter_default`, with translation by `match … nat-to`."""
    rules = [
        f"match out on {_port(outer.dut_out.interface)} {_translated(inner)} nat-to {outer.dut_out_address.ip}"
        for inner, outer in network_pairs(testbed)
    ]
    return _text([AS_WRITTEN, MOST_STATES, *rules, *_filters(testbed)])


def nat_open(testbed: Testbed) -> str:
    """Return the rules for FreeBSD: translation, and two stateful rules that pass everything in both directions."""
    return _open(testbed, nat(testbed))


def nat_to_open(testbed: Testbed) -> str:
    """Return the rules for OpenBSD: translation by `match … nat-to`, and two stateful rules that pass everything."""
    return _open(testbed, nat_to(testbed))


def keeps_login(port: str) -> str:
    """Return rules that give every connection to the ssh server on `port` a state, even those from before pf was on.

    pf passes the packets of a state without evaluating the rules. So the login that loads the rules survives rules that admit only new
    connections.
    """
    rule = "pass quick proto tcp from any{} to any{} flags any keep state (sloppy)"
    return _text([rule.format("", f" port {port}"), rule.format(f" port {port}", "")])


def _filters(testbed: Testbed) -> list[str]:
    rules = [*_blocks(testbed), *(f"pass out quick on {port} all {_KEEP}" for port, _ in _ports(testbed))]
    return rules + [
        f"pass in quick on {_port(inner.dut_in.interface)} {_version(inner.dut_in_address)} from {inner.source_address.network}"
        f" to {outer.sink_address.network} {_KEEP}"
        for inner, outer in network_pairs(testbed)
    ]


def _blocks(testbed: Testbed) -> list[str]:
    # `block` is not quick, so it applies to packets that no later rule passes. IPv6 neighbour discovery uses a multicast address (RFC
    # 4861).
    ports = _ports(testbed)
    rules = [f"block drop in on {port} {_version(address)} from any to ! {address.ip}" for port, address in ports]
    return rules + [f"pass in quick on {port} inet6 proto icmp6 from any to ff02::/16 no state" for port, a in ports if a.version == 6]  # noqa: PLR2004


def _ports(testbed: Testbed) -> list[tuple[str, IPv4Interface | IPv6Interface]]:
    return [
        (_port(port.interface), address)
        for link in testbed.links.values()
        for port, address in ((link.dut_in, link.dut_in_address), (link.dut_out, link.dut_out_address))
    ]


def _open(testbed: Testbed, translating: str) -> str:
    """Return `translating` with a filter that passes everything."""
    filters_ = set(_filters(testbed))
    return _text(
        [*(line for line in translating.splitlines() if line not in filters_), f"pass in quick all {_KEEP}", f"pass out quick all {_KEEP}"]
    )


def _translated(inner: Link) -> str:
    return f"{_version(inner.dut_in_address)} from {inner.source_address.network} to any"


def _version(address: IPv4Interface | IPv6Interface) -> str:
    return _words(address.version)


def _words(version: int) -> str:
    return "inet" if version == 4 else "inet6"  # noqa: PLR2004 - the version number of the protocol itself


def _port(interface: str) -> str:
    """Return the name. Raises InputError for a name that pf.conf(5) would misread, because it cannot quote interfaces."""
    if not interface[:1].isalpha() or not all(c.isalnum() or c in "._-" for c in interface):  # parse.y, yylex()
        raise InputError(f"interface name {interface!r} cannot be used in a pf rule", remedy="rename the port")
    return interface


def _text(lines: list[str]) -> str:
    return "\n".join([*lines, ""])
