"""The rulesets, letter by letter."""

from __future__ import annotations

import pytest

from dutlab.dut import nft_rules
from dutlab.errors import InputError
from dutlab.labs import description
from dutlab.spec.testbed import Testbed
from outputs import output

LAB = description("three-node").testbed


def test_the_rulesets_of_the_modes(golden):
    """A router has none, filter-empty asks for the state and accepts all, filter-default drops all but new flows outwards, nat masquerades."""
    of = {"router": nft_rules.no_ruleset(), "filter-empty": nft_rules.filter_empty(), "filter-default": nft_rules.filter_default(LAB)}
    of |= {"nat": nft_rules.nat(LAB), "nat-open": nft_rules.nat_open(LAB)}
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
