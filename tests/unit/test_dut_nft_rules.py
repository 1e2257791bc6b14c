"""The rulesets, letter by letter."""

from __future__ import annotations

import pytest

from dutlab.dut import nft_rules
from dutlab.errors import InputError
from dutlab.labs import description
from dutlab.spec.testbed import Testbed

LAB = description("three-node").testbed


def bed_with(**links):
    return Testbed.model_validate(
        {
            "testbed": "drawn",
            "hosts": {"source": {"ssh": "root@192.0.2.1"}, "dut": {"ssh": "root@192.0.2.2"}, "sink": {"ssh": "root@192.0.2.3"}},
            "links": links,
        }
    )


def test_router_has_no_ruleset():
    assert nft_rules.no_ruleset() == "flush ruleset\n"


def test_filter_empty_asks_for_the_state_and_accepts_all():
    assert (
        nft_rules.filter_empty()
        == """\
flush ruleset
table inet dutlab {
	chain forward {
		type filter hook forward priority filter; policy accept;
		ct state established,related accept
	}
}
"""
    )


FILTER = """\
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state vmap { established : accept, related : accept, invalid : drop }
		iifname "in-a" ip saddr 172.16.0.0/24 ip daddr 172.16.10.0/24 ct state new accept
		iifname "in-a" ip saddr 172.16.0.0/24 ip daddr 172.16.11.0/24 ct state new accept
		iifname "in-b" ip saddr 172.16.1.0/24 ip daddr 172.16.10.0/24 ct state new accept
		iifname "in-b" ip saddr 172.16.1.0/24 ip daddr 172.16.11.0/24 ct state new accept
	}
"""


def test_filter_default_drops_all_but_new_flows_from_each_inner_to_each_outer_network():
    assert nft_rules.filter_default(LAB) == f"flush ruleset\ntable inet dutlab {{\n{FILTER}}}\n"


def test_nat_is_filter_default_and_masquerade_on_both_outer_ports():
    masquerade = """\
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		oifname { "out-a", "out-b" } masquerade
	}
"""
    assert nft_rules.nat(LAB) == f"flush ruleset\ntable inet dutlab {{\n{FILTER}{masquerade}}}\n"


def test_translation_alone_looks_at_flows_and_drops_none():
    assert nft_rules.nat_open(LAB) == nft_rules.filter_empty().removesuffix("}\n") + nft_rules.nat(LAB).partition(FILTER)[2]


LISTING = """\
table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
	}
	chain onward { # handle 2
		type filter hook forward priority filter; policy drop;
	}
	chain helper {
	}
}
table ip6 theirs {
	chain forward {
		type filter hook forward priority 5; policy accept;
	}
}
table bridge layers {
	chain forward {
		type filter hook forward priority filter; policy drop;
	}
}
table ip nat {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
	}
}
"""


def test_passes_come_at_the_end_of_each_chain_that_forwarded_packets_of_their_version_meet():
    chains = nft_rules.forward_chains(LISTING)
    assert chains == [("inet", "filter", "onward"), ("ip6", "theirs", "forward")]
    (line,) = nft_rules.passes(LAB, chains).splitlines()
    assert line.startswith("add rule inet filter onward ip saddr . ip daddr { ")
    assert line.endswith(" } ct state new,established,related accept")
    assert "172.16.0.0/24 . 172.16.10.0/24" in line and "172.16.10.0/24 . 172.16.0.0/24" in line


def test_a_ruleset_that_no_forwarded_packet_meets_gets_a_chain_that_tracks_and_accepts():
    text = nft_rules.passes(LAB, nft_rules.forward_chains("table ip nat {\n\tchain postrouting {\n\t}\n}\n"))
    assert text.startswith("table inet dutlab {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n")
    assert "ct state new,established,related accept" in text


def test_rules_speak_ipv6_where_a_link_does_and_never_mix_the_two():
    bed = bed_with(
        four={
            "path": ["source:s4", "dut:i4", "dut:o4", "sink:k4"],
            "addresses": ["10.0.0.2/24", "10.0.0.1/24", "10.0.1.1/24", "10.0.1.2/24"],
        },
        six={
            "path": ["source:s6", "dut:i6", "dut:o6", "sink:k6"],
            "addresses": ["2001:db8::2/64", "2001:db8::1/64", "2001:db8:1::1/64", "2001:db8:1::2/64"],
        },
    )
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
        with pytest.raises(InputError, match="cannot be used in an nftables rule"):
            rules(bed)


@pytest.mark.parametrize("count", [1, 25])
def test_filters_are_as_many_as_asked_for_and_the_last_permits_both_ways(count):
    rules = [line.strip() for line in nft_rules.filters(description("three-node").testbed, count).splitlines() if line.endswith(" accept")]
    assert len(rules) == count
    assert "172.16.0.0/24 . 172.16.10.0/24" in rules[-1]
    assert "172.16.10.0/24 . 172.16.0.0/24" in rules[-1]
    assert len(set(rules)) == count
    assert all("saddr 203.0.113." in rule and "daddr 203.0.113.0 " in rule for rule in rules[:-1])


def test_filters_are_of_the_links_version_of_ip():
    lab = description("three-node-rfc5180").testbed
    rules = [line.strip() for line in nft_rules.filters(lab, 25).splitlines() if line.endswith(" accept")]
    assert len(rules) == 25 and all("ip6 saddr 2001:db8:ffff:ffff::" in rule for rule in rules[:-1])
    assert "2001:2:0:1::/64 . 2001:2:0:8001::/64" in rules[-1] and not any(" ip saddr" in f" {rule}" for rule in rules)


def test_links_that_share_the_sinks_cable_have_one_rule_each():
    rules = nft_rules.filter_default(description("fan-in").testbed)
    assert rules.count("ct state new accept") == 4 and rules.count("ip daddr 172.16.10.0/24") == 4
