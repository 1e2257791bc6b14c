"""What frames are, besides their size."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dutlab.spec.model import FILE_CONTEXT
from dutlab.spec.traffic import FlowSet, Traffic
from spec_faults import brief_of_model


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
        {"vary": {"ttl": [64, 128], "source-port": "1024..2047/2", "dscp": {"from": 0, "to": 63, "random": True, "seed": 7, "every": 4}}},
        {"vary": {"source-mac": ["02:00:00:00:00:01", "02:00:00:00:00:02"], "bits@60.4+12": {"from": "0x10", "to": 0, "phase": 3}}},
        {"burst": 32},
        {"burst": {"frames": 4, "rate": "10kpps"}},
    ],
)
def test_the_text_of_a_record_gives_back_the_same(data):
    traffic = read(data)
    assert Traffic.model_validate_json(traffic.text() or "{}") == traffic
    assert (traffic.text() is None) == (data == {})


CANNOT_BE = [
    ({"flows": {"count": 11, "source_ports": 5, "source_addresses": 2}}, "flows.count range"),
    ({"flows": {"count": 2, "destinations": "198.18.0.0/31", "destination_addresses": 3}}, "flows.destinations range"),
    ({"flows": {"count": 1, "destinations": "198.18.0.1/15"}}, "flows.destinations invalid"),
    ({"flows": {"count": 1, "sources": "224.0.0.0/8"}}, "flows.sources invalid"),
    ({"flows": {"count": 1, "sources": "198.18.0.0"}}, "flows.sources type"),
    ({"flows": 0}, "flows.count range"),
    ({"flows": 70_000}, "flows.source_ports range"),
    ({"transport": "sctp"}, "transport unknown-name"),
    ({"vlans": [4096]}, "vlans.0 range"),
    ({"vlans": [1, 2, 3]}, "vlans range"),
    ({"vlan": 5}, "vlan unknown-key"),
    ({"vary": ["ttl"]}, "vary type"),
    ({"vary": {"tos": [1, 2]}}, "vary.tos invalid"),
    ({"vary": {"destination-mac": [1, 2]}}, "vary.destination-mac invalid"),
    ({"vary": {"ttl": 64}}, "vary.ttl type"),
    ({"vary": {"ttl": "64"}}, "vary.ttl invalid"),
    ({"vary": {"ttl": [64]}}, "vary.ttl.values range"),
    ({"vary": {"ttl": [64, 256]}}, "vary.ttl.values.1 range"),
    ({"vary": {"ttl": [64, -1]}}, "vary.ttl.values.1 type"),
    ({"vary": {"ttl": "1..5/x"}}, "vary.ttl invalid"),
    ({"vary": {"ttl": "1..5/9"}}, "vary.ttl.by invalid"),
    ({"vary": {"ttl": {"from": 5, "to": 5}}}, "vary.ttl.to invalid"),
    ({"vary": {"ttl": {"from": 5}}}, "vary.ttl.to missing"),
    ({"vary": {"ttl": {"first": 5, "to": 6}}}, "vary.ttl.first unknown-key"),
    ({"vary": {"ttl": {"values": [5, 6], "random": True}}}, "vary.ttl.random conflict"),
    ({"vary": {"ttl": {"from": 5, "to": 6, "seed": 1}}}, "vary.ttl.seed invalid"),
    ({"vary": {"ttl": {"from": 6, "to": 5, "random": True}}}, "vary.ttl.from invalid"),
    ({"vary": {"ttl": {"from": 5, "to": 6, "phase": 2}}}, "vary.ttl.phase range"),
    ({"vary": {"source-address": [1, 2]}}, "vary.source-address.values.0 invalid"),
    ({"vary": {"source-address": {"from": "10.0.0.1", "to": "2001:db8::1"}}}, "vary.source-address.to invalid"),
    ({"vary": {"source-mac": ["02:00", "x"]}}, "vary.source-mac.values.0 invalid"),
    ({"vary": {"vlan-id": [1, 2]}}, "vary.vlan-id conflict"),
    ({"vary": {"inner-vlan-id": [1, 2]}, "vlans": [5]}, "vary.inner-vlan-id conflict"),
    ({"vary": {"destination-port": [1, 2]}, "transport": "icmp-echo"}, "vary.destination-port conflict"),
    ({"vary": {"source-port": [1, 2]}, "flows": 2}, "vary.source-port duplicate"),
    ({"vary": {"bits@60+65": [1, 2]}}, "vary.bits@60+65 invalid"),
    ({"vary": {"bits@60+12": [1, 2], "bits@61+3": [1, 2]}}, "vary.bits@61+3 conflict"),
    ({"burst": 1}, "burst.frames range"),
    ({"burst": {"frames": 2, "rate": 100}}, "burst.rate unit"),
]


@pytest.mark.parametrize(("data", "expected"), CANNOT_BE)
def test_what_cannot_be_sent_is_refused(data, expected):
    with pytest.raises(ValidationError) as refused:
        read(data)
    assert expected in brief_of_model(refused.value)


def test_headers_make_the_shortest_frame_longer():
    assert [read(d).shortest(ipv6=False) for d in ({}, {"vlans": [1, 2]}, {"transport": "tcp"})] == [64, 72, 76]
    # 40 bytes of IPv6 instead of 20; a fragment header has 8 (RFC 8200 sections 3 and 4.5).
    assert [read(d).shortest(ipv6=True) for d in ({}, {"transport": "tcp", "extension_headers": ["fragment"]})] == [84, 104]


def test_rules_are_told_to_the_engine_in_its_own_words():
    rules = read({
        "vary": {
            "ttl": [64, 128],
            "source-address": {"from": "10.0.0.1", "to": "10.0.0.9", "every": 2, "phase": 1},
            "dscp": {"from": 0, "to": 63, "random": "yes", "seed": 7},
            "bits@60.4+12": "0..0xfff/5",
        }
    }).vary  # fmt: skip
    assert [rule.protocol() for rule in rules] == [
        {"field": "ttl", "values": {"list": [64, 128]}, "phase": 0, "every": 1},
        {"field": "source_address", "values": {"step": {"from": "10.0.0.1", "to": "10.0.0.9", "by": 1}}, "phase": 1, "every": 2},
        {"field": "dscp", "values": {"random": {"from": 0, "to": 63, "seed": 7}}, "phase": 0, "every": 1},
        {
            "field": {"bits": {"byte": 60, "bit": 4, "width": 12}},
            "values": {"step": {"from": "0", "to": "0xfff", "by": 5}},
            "phase": 0,
            "every": 1,
        },
    ]


def test_a_table_of_states_may_see_as_many_flows_as_the_rules_make():
    assert read({"vary": {"source-port": "1000..1009", "destination-port": "1..9/4", "ttl": "1..100"}}).flow_count == 10 * 3
    assert read({"vary": {"destination-port": [1, 2]}, "flows": 7}).flow_count == 14


def test_what_a_frame_does_not_have_is_named():
    traffic = read({"vary": {"identification": "0..9", "source-address": "10.0.0.1..10.0.0.2", "bits@62+16": [0, 1], "bits@59+8": [0, 1]}})
    assert dict(traffic.misfits(80, ipv6=False)).keys() == {"bits@59+8"}, "headers and the probe end at byte 60"
    assert dict(traffic.misfits(80, ipv6=True)).keys() == {"identification", "source-address", "bits@59+8", "bits@62+16"}
    # 66 bytes without FCS; checksums are of pairs of bytes.
    short = read({"vary": {"bits@65+8": [0, 1], "bits@66+1": [0, 1]}})
    assert dict(short.misfits(70, ipv6=False)).keys() == {"bits@66+1"}
    assert "bits@65+8" in dict(short.misfits(69, ipv6=False))


def test_traffic_is_told_in_words(golden):
    every = (
        {"transport": "tcp", "flows": 1024, "vlans": [100], "vary": {"ttl": [64, 128], "dscp": "0..60/4"}, "burst": 32},
        {"vary": {"ttl": {"from": 1, "to": 9, "random": True, "seed": 3, "every": 4}}},
        {"burst": {"frames": 4, "rate": "10kpps"}},
    )
    assert read({}).words() == ""
    golden.check("traffic.txt", "".join(f"{read(data).words()}\n" for data in every))
