"""What `ip`, `ss` and /sys say of a port, and why it is, or is not, the end of a test link."""

from __future__ import annotations

import re
from dataclasses import replace
from ipaddress import ip_address, ip_interface

import pytest

from dutlab.hosts.port_in_use import in_use, unusable
from dutlab.hosts.port_survey import Socket, SurveyOutput, read_port, sockets_of

# ip -d -j address show (iproute2 6.1), shortened
ETH1 = {
    "ifname": "eth1",
    "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
    "mtu": 9000,
    "operstate": "UP",
    "link_type": "ether",
    "address": "3c:ec:ef:00:00:01",
    "addr_info": [
        {"family": "inet", "local": "10.0.1.2", "prefixlen": 24, "scope": "global", "valid_life_time": 4294967295},
        {"family": "inet6", "local": "fe80::3eec:efff:fe00:1", "prefixlen": 64, "scope": "link", "valid_life_time": 4294967295},
    ],
}
LEASED = {"family": "inet", "local": "192.0.2.7", "prefixlen": 24, "scope": "global", "dynamic": True, "valid_life_time": 43012}
VLAN = {"ifname": "eth1.10", "link": "eth1", "flags": ["UP"], "mtu": 1500, "link_type": "ether", "linkinfo": {"info_kind": "vlan"}}
QUIET = SurveyOutput([ETH1], [{"dst": "10.0.1.0/24", "dev": "eth1"}], [], [], {"speed": "10000"}, 0.0)


def reasons(said, login=""):
    port = read_port("eth1", said)
    assert list(unusable(port)) == []
    return list(in_use(port, login=login))


def test_a_port_with_nothing_but_an_address_and_one_neighbour_is_a_test_port():
    port = read_port("eth1", QUIET)
    assert (port.mtu, port.speed, port.kind, port.up, port.cabled) == (9000, 1e10, "physical", True, True)
    assert port.addresses == (ip_interface("10.0.1.2/24"),), "link-local addresses are everywhere"
    assert reasons(QUIET) == []
    # One neighbour is the box.
    neighbours = [
        {"dst": "10.0.1.1", "lladdr": "02:00:00:00:00:01", "state": ["STALE"]},
        {"dst": "10.0.1.9", "state": ["FAILED"]},
        {"dst": "fe80::1", "lladdr": "02:00:00:00:00:01", "router": None, "state": ["REACHABLE"]},
    ]
    said = replace(QUIET, neighbours=neighbours)
    assert read_port("eth1", said).neighbours == (ip_address("10.0.1.1"),)
    assert reasons(said) == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (replace(QUIET, routes=[{"dst": "default", "gateway": "10.0.1.1", "dev": "eth1"}]), "default route"),
        (replace(QUIET, links=[{**ETH1, "addr_info": [LEASED]}]), "192.0.2.7/24 by DHCP"),
        (replace(QUIET, links=[{**ETH1, "master": "br0"}]), "belongs to br0"),
        (replace(QUIET, links=[{**ETH1, "linkinfo": {"info_kind": "bond"}}]), "is a bond"),
        (replace(QUIET, links=[{**ETH1, "link": "eth0", "linkinfo": {"info_kind": "vlan"}}]), r"is a vlan.*\(eth0\)"),
        (replace(QUIET, links=[ETH1, VLAN]), r"carries eth1\.10"),
        (replace(QUIET, files={"speed": "-1", "phy80211": "yes"}), "wireless"),
        (replace(QUIET, sockets=[Socket(ip_address("10.0.1.2"), 22)]), "carries an ssh login"),
        (replace(QUIET, sockets=[Socket(ip_address("10.0.1.2"), 55012)]), "carries 1 TCP connection of"),
        (
            replace(QUIET, neighbours=[{"dst": f"10.0.1.{n}", "lladdr": "02:00:00:00:00:01", "state": ["STALE"]} for n in (1, 7)]),
            "has 2 neighbours",
        ),
        (replace(QUIET, heard_pps=412.0), "not quiet: 412 frames"),
    ],
)  # fmt: skip
def test_each_sign_of_a_network_in_use_is_a_reason_of_its_own(said, words):
    (reason,) = reasons(said)
    assert re.search(words, reason)


def test_all_reasons_are_told_at_once_and_the_connection_of_the_caller_is_one():
    said = replace(
        QUIET,
        links=[{**ETH1, "addr_info": [LEASED]}, VLAN],
        routes=[{"dst": "default", "gateway": "192.0.2.1", "dev": "eth1"}],
        sockets=[Socket(ip_address("192.0.2.7"), 22)],
        heard_pps=90.0,
    )
    assert len(reasons(said)) == 5
    bridged = replace(QUIET, links=[{**ETH1, "master": "br0"}, {"ifname": "br0"}], routes=[{"dst": "default", "dev": "br0"}])
    assert len(reasons(bridged)) == 2, "it belongs to a bridge, and the bridge has the default route"
    # The connection that the caller came by counts without its socket.
    assert reasons(QUIET, login="198.51.100.4 51234 10.0.1.2 22") == ["carries an ssh login"]
    assert reasons(QUIET, login="198.51.100.4 51234 10.0.9.9 22") == []


def test_what_cannot_carry_a_frame_is_told_apart_and_a_veth_is_no_part_of_its_other_end():
    loopback = {**ETH1, "flags": ["LOOPBACK", "UP", "LOWER_UP"], "link_type": "loopback"}
    tunnel = {**ETH1, "link_type": "none"}
    unplugged = {**ETH1, "flags": ["UP", "NO-CARRIER"]}
    for link, words in ((loopback, "loopback"), (tunnel, "type none"), (unplugged, "no carrier")):
        (why,) = unusable(read_port("eth1", replace(QUIET, links=[link])))
        assert words in why
    # A veth is no part of its other end and has no speed.
    ends = [
        {**ETH1, "link": "eth9", "linkinfo": {"info_kind": "veth"}},
        {**ETH1, "ifname": "eth9", "link": "eth1", "linkinfo": {"info_kind": "veth"}},
    ]
    port = read_port("eth1", replace(QUIET, links=ends))
    assert (port.kind, port.speed, port.lower, port.uppers) == ("veth", None, None, ())


def test_sockets_are_read_whatever_they_are_bound_to():
    text = (
        "0      0      192.0.2.2:22    198.51.100.4:51234\n"
        "0      0      [::ffff:10.0.1.2]:443    [::ffff:10.0.1.1]:40000\n"
        "0      36     10.0.1.2%eth1:5201   10.0.1.1:5000\n"
        "0      0      [2001:db8::2]:22   [2001:db8::1]:50000\n"
        "\n"
    )
    assert sockets_of(text) == [
        Socket(ip_address("192.0.2.2"), 22),
        Socket(ip_address("10.0.1.2"), 443),
        Socket(ip_address("10.0.1.2"), 5201),
        Socket(ip_address("2001:db8::2"), 22),
    ]
