"""pf's rulesets as text, and the states that pfctl lists."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from dut_families import E302
from dutlab.dut import pf_rules
from dutlab.dut.mode import UdpFlow
from dutlab.dut.pf_rules import RuleCounts
from dutlab.dut.pf_states import has_state
from dutlab.errors import InputError
from dutlab.spec.testbed import Testbed
from outputs import output

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
