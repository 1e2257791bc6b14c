"""What frames are, besides their size."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dutlab.spec.model import FILE_CONTEXT
from dutlab.spec.traffic import FlowSet, Traffic


def read(data) -> Traffic:
    return Traffic.model_validate(data, context=FILE_CONTEXT)


def test_a_number_of_flows_is_so_many_source_ports():
    assert read({"flows": 1024}).flows == FlowSet(count=1024, source_ports=1024)


def test_a_seed_draws_ports_from_the_ranges_of_rfc_4814_unless_others_are_given():
    flows = read({"flows": {"count": 100_000, "seed": 1}}).flows
    assert (flows.source_ports, flows.destination_ports) == (64512, 49151)
    flows = read({"flows": {"count": 100, "seed": 1, "source_ports": 200}}).flows
    assert (flows.source_ports, flows.destination_ports) == (200, 1)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"transport": "tcp"},
        {"vlans": [100, 200]},
        {"flows": 7},
        {"flows": {"count": 9, "seed": 3}, "transport": "icmp-echo"},
        {"flows": {"count": 2, "destinations": "2001:2::/48", "destination_addresses": 2}},
    ],
)
def test_the_text_of_a_record_gives_back_the_same(data):
    traffic = read(data)
    assert Traffic.model_validate_json(traffic.text() or "{}") == traffic
    assert (traffic.text() is None) == (data == {})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"flows": {"count": 11, "source_ports": 5, "source_addresses": 2}}, "the ranges make 10 different flows, not 11"),
        ({"flows": {"count": 2, "destinations": "198.18.0.0/31", "destination_addresses": 3}}, "has 2 addresses, not 3"),
        ({"flows": {"count": 1, "destinations": "198.18.0.1/15"}}, "host bits set"),
        ({"flows": {"count": 1, "sources": "224.0.0.0/8"}}, "routed to"),
        ({"flows": {"count": 1, "sources": "198.18.0.0"}}, "prefix length"),
        ({"flows": 0}, "at least 1"),
        ({"flows": 70_000}, "65535"),
        ({"transport": "sctp"}, "udp"),
        ({"vlans": [4096]}, "4095"),
        ({"vlans": [1, 2, 3]}, "2 items"),
        ({"vlan": 5}, "did you mean vlans"),
    ],
)
def test_what_cannot_be_sent_is_refused(data, says):
    with pytest.raises(ValidationError, match=says):
        read(data)


def test_headers_make_the_shortest_frame_longer():
    assert [read(d).shortest(ipv6=False) for d in ({}, {"vlans": [1, 2]}, {"transport": "tcp"})] == [64, 72, 76]
    # 40 bytes of IPv6 instead of 20; a fragment header has 8 (RFC 8200 sections 3 and 4.5).
    assert [read(d).shortest(ipv6=True) for d in ({}, {"transport": "tcp", "extension_headers": ["fragment"]})] == [84, 104]
