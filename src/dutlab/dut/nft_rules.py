"""The nftables rulesets of the `linux` family's modes, as text for `nft -f`. Pure functions of the testbed; nothing is run here.

Words of the language: nft(8). Every text starts with `flush ruleset`, and nft carries a file out as one transaction:
the change from any other ruleset is atomic, and there is no moment with half of the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network

from dutlab.dut.mode import ELSEWHERE, network_pairs, permitted_networks
from dutlab.errors import InputError
from dutlab.spec.testbed import Testbed

TABLE = "dutlab"
OWN = "/etc/nftables.conf"
"""File that nftables.service loads (Debian and its like)."""
FAST_PATH = "counter flow add @fast"
"""Statement of the rule that hands flows to the flowtable."""
_FAMILY = {4: "ip", 6: "ip6"}
"""Version of IP → nft's word for it."""
_STATE = "ct state vmap { established : accept, related : accept, invalid : drop }"


def no_ruleset() -> str:
    """Nothing hooks into the path of a packet, so the kernel unhooks connection tracking as well."""
    return "flush ruleset\n"


def filter_empty() -> str:
    """Connection tracking is loaded and looked at, and everything passes.

    The rule that asks for `ct state` is what makes the kernel hook connection tracking into the path; a chain without one would cost
    a hook and track nothing.
    """
    return _ruleset(_LOOKED_AT)


def filters(testbed: Testbed, count: int) -> str:
    """`count` address filters before each packet that passes, stateless (RFC 2544 section 11.4: 1 and 25).

    All but the last are about an address that no test frame has; the last one of each pair of networks permits it in both directions. The
    section wants what is not permitted dropped, so that is the policy. Filters are of the links' version of IP (RFC 5180 section 6.2).
    """
    return _ruleset(_forward("drop", _address_filters(testbed, count)))


def bridge_filters(testbed: Testbed, count: int) -> str:
    """The same in the bridge, for every frame that passes it; behind them neighbours may ask for one another."""
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
    """Default drop, and one stateful pass rule for each pair of an inner and an outer network: a new flow starts inside.

    Inner networks are those of the links' sources, outer ones those of their sinks, however many routers are between. Rules name the port
    that the flow must come in by, as an appliance's anti-spoofing does. There is no input chain: whoever administers the DUT stays able to
    reach it.
    """
    return _ruleset(_forward("drop", [_STATE, *_pass_rules(testbed)]))


def own() -> str:
    """The ruleset that the system loads by itself."""
    return f'flush ruleset\ninclude "{OWN}"\n'


def forward_chains(listing: str) -> list[tuple[str, str, str]]:
    """Family, table and name of each filter chain that forwarded IP packets pass, of `nft list chains`."""
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
    """Return what existing chains lack for test traffic: at the end of each a stateful pass for each pair of networks in each direction.

    A ruleset without such a chain gets one of ours, which accepts.
    """
    rules = [(_FAMILY[version], f"{rule} ct state new,established,related accept") for version, rule in _permitted_networks(testbed)]
    added = [f"add rule {family} {table} {chain} {rule}" for family, table, chain in chains for of, rule in rules if family in {"inet", of}]
    if added:
        return "\n".join([*added, ""])
    return _table(_forward("accept", [rule for _, rule in rules]))


def nat(testbed: Testbed) -> str:
    """`filter_default` and, on every outer port, masquerade: what a flow leaves with is that port's own address.

    The filter is the same rule for rule, so that nat minus filter-default is the price of translation alone. Unsolicited flows from
    outside are dropped, as a border appliance with masquerade does.
    """
    return _ruleset(_forward("drop", [_STATE, *_pass_rules(testbed)]), _masquerade(testbed))


def nat_open(testbed: Testbed) -> str:
    """`filter_empty`, and the masquerade of `nat`: everything passes, also a new flow from outside."""
    return _ruleset(_LOOKED_AT, _masquerade(testbed))


def fast_path(ports: Iterable[str], ruleset: str, *, hardware: bool) -> str:
    """A flowtable of these ports beside `ruleset`, and a rule before all others that hands each flow to it once it is known.

    A flow that it has passes no chain any more, so the rule's counter has what still goes the slow way.
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
    """Return matches of sets of pairs, one a version of IP, so that every packet meets the same number of rules."""
    pairs = permitted_networks(testbed)
    rules = []
    for version, family in _FAMILY.items():
        if of_version := [f"{near} . {far}" for near, far in pairs if near.version == version]:
            rules.append((version, f"{family} saddr . {family} daddr {{ {', '.join(of_version)} }}"))
    return rules


def _family(network: IPv4Network | IPv6Network) -> str:
    return "ip" if network.version == 4 else "ip6"  # noqa: PLR2004 - the version number of the protocol itself


def _quoted(interface: str) -> str:
    """In quotes for nft. Raises InputError for a name that nft would read as something else (a trailing `*` is a wildcard)."""
    if not interface or any(c in '"\\*{};' or c.isspace() for c in interface):
        raise InputError(f"interface name {interface!r} cannot be used in an nftables rule", remedy="rename the port")
    return f'"{interface}"'
