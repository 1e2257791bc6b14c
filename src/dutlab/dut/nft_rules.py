"""Rulesets of the `linux` family's modes for nftables, as text for `nft -f`. Pure functions of the testbed.

Syntax: nft(8). Every text starts with `flush ruleset`, and nft loads a file as one transaction. So the change from any other ruleset is
atomic: no packet meets half of the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network

from dutlab.dut.mode import ELSEWHERE, network_pairs, permitted_networks
from dutlab.errors import InputError
from dutlab.spec.testbed import Testbed

TABLE = "dutlab"
OWN = "/etc/nftables.conf"
"""File that nftables.service loads (Debian and similar systems)."""
FAST_PATH = "counter flow add @fast"
"""Statement of the rule that adds flows to the flowtable."""
_FAMILY = {4: "ip", 6: "ip6"}
"""IP version → family name in nft."""
_STATE = "ct state vmap { established : accept, related : accept, invalid : drop }"


def no_ruleset() -> str:
    """Return a ruleset without hooks, so that the kernel removes connection tracking from the packet path as well."""
    return "flush ruleset\n"


def filter_empty() -> str:
    """Return a ruleset that loads and reads connection tracking and accepts everything.

    The rule with `ct state` makes the kernel add connection tracking to the packet path. A chain without such a rule would cost a hook and
    track nothing.
    """
    return _ruleset(_LOOKED_AT)


def filters(testbed: Testbed, count: int) -> str:
    """Return `count` stateless address filters, all of which a packet meets before it passes (RFC 2544 section 11.4: 1 and 25).

    All but the last match an address that no test frame has. The last one of each pair of networks permits it in both directions. The
    section requires that other packets are dropped, so that is the policy. Filters have the IP version of the links (RFC 5180 section 6.2).
    """
    return _ruleset(_forward("drop", _address_filters(testbed, count)))


def bridge_filters(testbed: Testbed, count: int) -> str:
    """Return the filters of `filters` for all frames of a bridge, with rules after them that accept ARP and neighbour discovery."""
    asks = ["ether type arp accept", "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"]
    return f"flush ruleset\n{_table(_forward('drop', [*_address_filters(testbed, count), *asks]), family='bridge')}"


def _address_filters(testbed: Testbed, count: int) -> list[str]:
    versions = sorted({address.version for link in testbed.links.values() for address in link.addresses})
    unmatched = [
        f"{_FAMILY[version]} saddr {ELSEWHERE[version] + i} {_FAMILY[version]} daddr {ELSEWHERE[version]} accept"
        for version in versions
        for i in range(1, count)
    ]
    return [*unmatched, *(f"{rule} accept" for _, rule in _permitted_networks(testbed))]


def filter_default(testbed: Testbed) -> str:
    """Return a ruleset that drops by default, with one stateful rule per pair of an inner and an outer network: flows start inside.

    Inner networks are those of the links' sources, and outer networks those of their sinks, however many routers are between them. A rule
    names the port where the flow must arrive, as the anti-spoofing of an appliance does. There is no input chain, so the administrator of
    the DUT can always reach it.
    """
    return _ruleset(_forward("drop", [_STATE, *_pass_rules(testbed)]))


def own() -> str:
    """Return a file that loads the system's own ruleset."""
    return f'flush ruleset\ninclude "{OWN}"\n'


def forward_chains(listing: str) -> list[tuple[str, str, str]]:
    """Return family, table and name of the filter chains for forwarded IP packets in `nft list chains`."""
    chains, family, table, chain = [], "", "", ""
    for words in (line.split() for line in listing.splitlines()):
        match words:
            case ["table", family, table, *_]:
                pass
            case ["chain", chain, *_]:
                pass
            case ["type", "filter", "hook", "forward", *_] if family in {"inet", *_FAMILY.values()}:
                chains.append((family, table, chain))
    return chains


def passes(testbed: Testbed, chains: Iterable[tuple[str, str, str]]) -> str:
    """Return rules for test traffic: at the end of each chain a stateful rule per pair of networks and direction.

    A ruleset without such a chain gets a chain of dutlab that accepts.
    """
    rules = [(_FAMILY[version], f"{rule} ct state new,established,related accept") for version, rule in _permitted_networks(testbed)]
    added = [f"add rule {family} {table} {chain} {rule}" for family, table, chain in chains for of, rule in rules if family in {"inet", of}]
    if added:
        return "\n".join([*added, ""])
    return _table(_forward("accept", [rule for _, rule in rules]))


def nat(testbed: Testbed) -> str:
    """Return `filter_default` with masquerade on every outer port: flows leave with the address of that port.

    The filter rules are identical, so the difference between nat and filter-default is the cost of translation alone. Unsolicited flows
    from outside are dropped, as on a border appliance with masquerade.
    """
    return _ruleset(_forward("drop", [_STATE, *_pass_rules(testbed)]), _masquerade(testbed))


def nat_open(testbed: Testbed) -> str:
    """Return `filter_empty` with the masquerade of `nat`: everything passes, even a new flow from outside."""
    return _ruleset(_LOOKED_AT, _masquerade(testbed))


def fast_path(ports: Iterable[str], ruleset: str, *, hardware: bool) -> str:
    """Return a flowtable of these ports for `ruleset`, with a first rule that adds each known flow to it.

    A flow in the table passes no chain, so the rule's counter has only the packets of the slow path.
    """
    body = ["flowtable fast {", "\thook ingress priority filter", f"\tdevices = {{ {', '.join(map(_quoted, ports))} }}"]
    body += ["\tflags offload", "}"] if hardware else ["}"]
    return (
        _table(body if "chain forward" in ruleset else [*body, *_forward("accept", [])]) + f"insert rule inet {TABLE} forward {FAST_PATH}\n"
    )


def _ruleset(*chains: Iterable[str]) -> str:
    return f"flush ruleset\n{_table(*chains)}"


def _table(*chains: Iterable[str], family: str = "inet") -> str:
    body = [f"\t{line}" for chain in chains for line in chain]
    return "\n".join([f"table {family} {TABLE} {{", *body, "}", ""])


def _forward(policy: str, rules: Iterable[str]) -> list[str]:
    return ["chain forward {", f"\ttype filter hook forward priority filter; policy {policy};", *(f"\t{rule}" for rule in rules), "}"]


def _masquerade(testbed: Testbed) -> list[str]:
    outer = ", ".join(_quoted(name) for name in dict.fromkeys(link.dut_out.interface for link in testbed.links.values()))
    return [
        "chain postrouting {",
        "\ttype nat hook postrouting priority srcnat; policy accept;",
        f"\toifname {{ {outer} }} masquerade",
        "}",
    ]


_LOOKED_AT = tuple(_forward("accept", ["ct state established,related accept"]))


def _pass_rules(testbed: Testbed) -> list[str]:
    return [
        f"iifname {_quoted(inner.dut_in.interface)} {_family(source)} saddr {source} {_family(sink)} daddr {sink} ct state new accept"
        for inner, outer in network_pairs(testbed)
        for source, sink in ((inner.source_address.network, outer.sink_address.network),)
    ]


def _permitted_networks(testbed: Testbed) -> list[tuple[int, str]]:
    """Return one match per IP version, for the set of its pairs of networks, so that every packet meets the same number of rules."""
    pairs = permitted_networks(testbed)
    rules = []
    for version, family in _FAMILY.items():
        if of_version := [f"{near} . {far}" for near, far in pairs if near.version == version]:
            rules.append((version, f"{family} saddr . {family} daddr {{ {', '.join(of_version)} }}"))
    return rules


def _family(network: IPv4Network | IPv6Network) -> str:
    return "ip" if network.version == 4 else "ip6"  # noqa: PLR2004 - the version number of the protocol itself


def _quoted(interface: str) -> str:
    """Return the name in quotes for nft. Raises InputError for a name that nft would misread (a trailing `*` is a wildcard)."""
    if not interface or any(c in '"\\*{};' or c.isspace() for c in interface):
        raise InputError(f"interface name {interface!r} cannot be used in an nftables rule", remedy="rename the port")
    return f'"{interface}"'
