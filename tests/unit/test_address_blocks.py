"""Blocks of addresses beside those of a cable's ports."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.spec.address_blocks import MOST_SOURCES, block_of, most_sources


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
