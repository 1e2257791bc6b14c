"""The rulesets, letter by letter."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from dut_families import E302
from dutlab.dut import nft_rules, pf_rules
from dutlab.dut.mode import UdpFlow
from dutlab.dut.pf_rules import RuleCounts
from dutlab.dut.pf_states import has_state
from dutlab.errors import InputError
from dutlab.labs import description
from dutlab.spec.testbed import Testbed
from outputs import output

LAB = description("three-node").testbed


def test_the_rulesets_of_the_modes(golden):
    """A router has none, filter-empty asks for the state and accepts all, filter-default drops all but new flows outwards, nat masquerades."""
    of = {"router": nft_rules.no_ruleset(), "filter-empty": nft_rules.filter_empty(), "filter-default": nft_rules.filter_default(LAB)}
    of |= {"nat": nft_rules.nat(LAB), "nat-open": nft_rules.nat_open(LAB)}
    ports = LAB.ports_of("dut")
    of |= {f"flowtable of {mode}": nft_rules.fast_path(ports, of[mode], hardware=mode == "nat") for mode in ("router", "nat")}
    golden.check("rules-nft.txt", "".join(f"# {mode}\n{rules}" for mode, rules in of.items()))


LISTING = output("systems", "nft-listing")


def test_passes_come_at_the_end_of_each_chain_that_forwarded_packets_meet_or_in_one_of_their_own():
    chains = nft_rules.forward_chains(LISTING)
    assert chains == [("inet", "filter", "onward"), ("ip6", "theirs", "forward")]
    (line,) = nft_rules.passes(LAB, chains).splitlines()
    assert line.startswith("add rule inet filter onward ip saddr . ip daddr { ")
    assert line.endswith(" } ct state new,established,related accept")
    assert "172.16.0.0/24 . 172.16.10.0/24" in line and "172.16.10.0/24 . 172.16.0.0/24" in line
    # A ruleset that no forwarded packet meets gets a chain that tracks and accepts.
    text = nft_rules.passes(LAB, nft_rules.forward_chains("table ip nat {\n\tchain postrouting {\n\t}\n}\n"))
    assert text.startswith("table inet dutlab {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n")
    assert "ct state new,established,related accept" in text


def test_rules_speak_ipv6_where_a_link_does_and_never_mix_the_two():
    networks = {
        "4": ("10.0.0.2/24", "10.0.0.1/24", "10.0.1.1/24", "10.0.1.2/24"),
        "6": ("2001:db8::2/64", "2001:db8::1/64", "2001:db8:1::1/64", "2001:db8:1::2/64"),
    }
    links = {n: {"path": [f"source:s{n}", f"dut:i{n}", f"dut:o{n}", f"sink:k{n}"], "addresses": of} for n, of in networks.items()}
    hosts = {name: {"ssh": f"root@192.0.2.{n}"} for n, name in enumerate(("source", "dut", "sink"), 1)}
    bed = Testbed.model_validate({"testbed": "drawn", "hosts": hosts, "links": links})
    rules = [line.strip() for line in nft_rules.filter_default(bed).splitlines() if "saddr" in line]
    assert rules == [
        'iifname "i4" ip saddr 10.0.0.0/24 ip daddr 10.0.1.0/24 ct state new accept',
        'iifname "i6" ip6 saddr 2001:db8::/64 ip6 daddr 2001:db8:1::/64 ct state new accept',
    ]


@pytest.mark.parametrize("name", ['e"; flush ruleset; "', "eth*", "et h0", "", "a\nb", "x{y}"])
def test_an_interface_name_that_nft_would_read_as_something_else_is_refused(name):
    link = LAB.links["a"]
    odd = link.model_copy(update={"path": tuple(p.model_copy(update={"interface": name}) if p.host == "dut" else p for p in link.path)})
    bed = LAB.model_copy(update={"links": {"a": odd}})
    for rules in (nft_rules.filter_default, nft_rules.nat):
        with pytest.raises(InputError, match="nftables rule"):
            rules(bed)


@pytest.mark.parametrize("count", [1, 25])
def test_filters_are_as_many_as_asked_for_and_the_last_permits_both_ways(count):
    rules = [line.strip() for line in nft_rules.filters(description("three-node").testbed, count).splitlines() if line.endswith(" accept")]
    assert len(rules) == count
    assert "172.16.0.0/24 . 172.16.10.0/24" in rules[-1]
    assert "172.16.10.0/24 . 172.16.0.0/24" in rules[-1]
    assert len(set(rules)) == count
    assert all("saddr 203.0.113." in rule and "daddr 203.0.113.0 " in rule for rule in rules[:-1])


def test_filters_are_of_the_links_version_of_ip_and_links_that_share_a_cable_have_one_rule_each():
    lab = description("three-node-rfc5180").testbed
    rules = [line.strip() for line in nft_rules.filters(lab, 25).splitlines() if line.endswith(" accept")]
    assert len(rules) == 25 and all("ip6 saddr 2001:db8:ffff:ffff::" in rule for rule in rules[:-1])
    assert "2001:2:0:1::/64 . 2001:2:0:8001::/64" in rules[-1] and not any(" ip saddr" in f" {rule}" for rule in rules)
    # Links that share the sinks cable have one rule each.
    rules = nft_rules.filter_default(description("fan-in").testbed)
    assert rules.count("ct state new accept") == 4 and rules.count("ip daddr 172.16.10.0/24") == 4


# ---- pf's rulesets as text, and the states that pfctl lists


SIX = ["2001:db8:0::2/64", "2001:db8:0::1/64", "2001:db8:10::1/64", "2001:db8:10::2/64"]


def bed(**of_a: object) -> Testbed:
    """The E302-9D's testbed, its link a changed."""
    links = {name: {**link.model_dump(mode="json"), **(of_a if name == "a" else {})} for name, link in E302.links.items()}
    return Testbed.model_validate({**E302.model_dump(mode="json", by_alias=True), "links": links})


def test_the_rules_of_the_review_are_one_a_pair_of_networks() -> None:
    rules = pf_rules.filter_default(E302).splitlines()
    assert [r for r in rules if r.startswith("pass in")] == [
        f"pass in quick on {port} inet from 172.16.{near}.0/24 to 172.16.{far}.0/24 flags S/SA keep state"
        for port, near in (("ixl2", 0), ("ixl3", 1))
        for far in (10, 11)
    ]
    assert RuleCounts.of(pf_rules.nat(E302)) == RuleCounts(filters=12, translations=4)
    assert RuleCounts.of(pf_rules.nat_to(E302)) == RuleCounts(filters=16, translations=0)


def test_versions_of_ip_do_not_mix_and_ipv6_may_look_for_its_neighbours() -> None:
    rules = pf_rules.filter_default(bed(addresses=SIX)).splitlines()
    assert "pass in quick on ixl2 inet6 from 2001:db8::/64 to 2001:db8:10::/64 flags S/SA keep state" in rules
    assert len([r for r in rules if r.startswith("pass in quick") and "keep state" in r]) == 2
    assert [r for r in rules if "icmp6" in r] == [
        f"pass in quick on {p} inet6 proto icmp6 from any to ff02::/16 no state" for p in ("ixl2", "ixl0")
    ]
    assert "nat on ixl0 inet6 from 2001:db8::/64 to any -> 2001:db8:10::1" in pf_rules.nat(bed(addresses=SIX))


def test_a_name_that_pf_would_read_as_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="'0ab'"):
        pf_rules.filter_default(bed(path=["source:ixl2", "dut:0ab", "dut:ixl0", "sink:ix0"]))


STATES = output("systems", "pf-states")


@pytest.mark.parametrize(
    ("source", "port", "destination", "to", "held"),
    [
        ("172.16.0.2", 4321, "172.16.10.2", 7, True),
        ("172.16.0.2", 4322, "172.16.10.2", 7, False),
        ("172.16.10.2", 4321, "172.16.0.2", 7, True),
        ("172.16.10.2", 7, "172.16.0.2", 4321, False),
        ("2001:db8::2", 4321, "2001:db8:10::2", 7, True),
        ("2001:db8::2", 4322, "2001:db8:10::2", 7, False),
        ("172.16.0.20", 4321, "172.16.10.2", 7, False),
        ("192.0.2.7", 50112, "192.0.2.1", 22, False),
    ],
)
def test_a_flow_is_known_by_where_it_began_and_by_its_ports_translated_or_not(source, port, destination, to, held) -> None:
    assert has_state(STATES, UdpFlow(ip_address(source), ip_address(destination), port, to)) is held
