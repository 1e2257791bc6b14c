"""Blocks of addresses beside those of a cable's ports."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.spec.address_blocks import MOST_SOURCES, block_of, most_sources
from dutlab.spec.traffic import Spread


@settings(max_examples=40)
@given(st.integers(16, 29), st.integers(1, 63), st.lists(st.integers(1, 2**13 - 2), max_size=6))
def test_a_block_is_in_the_network_and_holds_no_address_that_is_taken(prefix, count, places):
    network = ip_interface(f"10.0.0.0/{prefix}").network
    taken = [network[place % network.num_addresses] for place in places]
    block = block_of(ip_interface(f"10.0.0.1/{prefix}"), count, taken)
    if block is not None:
        assert block.subnet_of(network) and count <= block.num_addresses < 2 * count
        assert not {*taken, network.network_address, network.broadcast_address} & set(block)


@pytest.mark.parametrize(
    ("own", "others", "most"),
    [
        ("172.16.0.2/24", ["172.16.0.1"], MOST_SOURCES),  # 192 to 223 holds 32, 128 to 191 holds 64
        ("10.0.0.1/30", ["10.0.0.2"], 1),  # the two that are left are network and broadcast
        ("10.0.0.1/29", ["10.0.0.2"], 3),  # 4 and 5: 3 is beside a port, 7 is broadcast
        ("2001:db8::1/64", ["2001:db8::2"], MOST_SOURCES),
        ("10.0.0.1/31", ["10.0.0.0"], 1),
    ],
)
def test_a_network_has_room_for_so_many_sources(own, others, most):
    assert most_sources(ip_interface(own), [ip_interface(own).ip, *map(ip_address, others)]) == most


# ---- Addresses spread over a network


def test_parts_are_as_large_as_may_be_and_the_address_is_not_the_parts_own_number():
    # RFC 2544 appendix C.2.2: 198.18.0.0/15 is 512 networks of 256 addresses, or 131072 addresses.
    spread = Spread.over(ip_network("198.18.0.0/15"), 512)
    assert (spread.length, str(spread.part(511)), str(spread.address(511))) == (24, "198.19.255.0/24", "198.19.255.1")
    spread = Spread.over(ip_network("198.18.0.0/15"), 131072)
    assert (spread.length, str(spread.address(131071))) == (32, "198.19.255.255")
    spread = Spread.over(ip_network("2001:2::/48"), 65536)
    assert (spread.length, str(spread.part(1)), str(spread.address(1))) == (64, "2001:2:0:1::/64", "2001:2:0:1::1")


def test_more_than_there_are_is_refused():
    with pytest.raises(ValueError, match="has 256 addresses, not 257"):
        Spread.over(ip_network("192.0.2.0/24"), 257)


@given(st.sampled_from(["10.0.0.0/8", "198.18.0.0/15", "203.0.113.0/24", "2001:2::/48", "2001:db8::/120"]), st.data())
def test_each_address_lies_in_its_own_part_of_the_network(text, data):
    network = ip_network(text)
    count = data.draw(st.integers(1, min(network.num_addresses, 2**21)))
    spread, n = Spread.over(network, count), data.draw(st.integers(0, count - 1))
    assert spread.address(n) in spread.part(n)
    assert spread.part(n).subnet_of(network)
    assert n == 0 or not spread.part(n).overlaps(spread.part(n - 1))
