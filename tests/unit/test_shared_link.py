"""What shares a link with a port, by what `ip` says: the engine's rule (engine/port/src/link.rs has the same table)."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from dutlab.hosts.shared_link import leads_out, reason_in_use, sharers


def link(name, *, kind=None, member_of=None, **more):
    info = {key: value for key, value in (("info_kind", kind), ("info_slave_kind", member_of)) if value}
    return {"ifname": name, **({"linkinfo": info} if info else {}), **more}


LINKS = [
    link("lo"),
    link("eth0", master="br0"),
    link("v0", kind="veth", master="br0", link="v1"),
    link("v1", kind="veth", link="v0"),
    link("br0", kind="bridge", addr_info=[{"local": "198.51.100.7", "prefixlen": 24}, {"local": "fe80::1", "prefixlen": 64}]),
    link("br0.7", kind="vlan", link="br0"),
    link("mac0", kind="macvlan", link="v1"),
    link("red", kind="vrf"),
    link("eth1", member_of="vrf", master="red"),
    link("far", kind="macvlan", link="eth0", link_netnsid=0),
]


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("v0", {"v0", "br0", "eth0", "br0.7"}), ("br0.7", {"v0", "br0", "eth0", "br0.7"}), ("v1", {"v1", "mac0"}),
        ("mac0", {"v1", "mac0"}), ("eth1", {"eth1"}), ("far", {"far"}),
    ],
)  # fmt: skip
def test_bridges_and_what_is_on_a_port_share_its_link_and_ends_of_cables_do_not(name, shared):
    found = sharers(name, LINKS)
    assert found[0] == name and set(found) == shared and len(found) == len(shared)


@pytest.mark.parametrize(
    ("route", "found"),
    [
        ({"dst": "default", "dev": "br0.7"}, "br0.7"),
        ({"dst": "128.0.0.0/1", "dev": "eth0", "table": "100"}, "eth0"),
        ({"dst": "2000::/3", "nexthops": [{"dev": "lo"}, {"dev": "br0"}]}, "br0"),
        ({"dst": "default", "dev": "v1"}, None),
        ({"dst": "10.0.0.0/8", "dev": "br0"}, None),
        ({"dst": "fc00::/7", "dev": "br0"}, None),
        ({"dst": "224.0.0.0/4", "dev": "br0"}, None),
        ({"dst": "default", "dev": "br0", "type": "unreachable"}, None),
    ],
)
def test_default_routes_and_parts_of_them_lead_out(route, found):
    assert leads_out("v0", LINKS, [route]) == (None if found is None else (found, route["dst"]))


def test_the_reason_names_what_is_in_use():
    testbed = [ip_network("172.16.0.0/24")]
    why = reason_in_use("v0", LINKS, [], testbed)
    assert why is not None and all(part in why for part in ("br0", "v0", "198.51.100.7/24"))
    assert "eth0, which" in reason_in_use("v0", LINKS, [{"dst": "default", "dev": "eth0"}], testbed)
    assert reason_in_use("v0", LINKS, [], [*testbed, ip_network("198.51.100.0/24")]) is None
    assert reason_in_use("v1", LINKS, [], testbed) is None
