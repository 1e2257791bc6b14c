"""Facts of a host, read from literal output of several systems."""

from __future__ import annotations

import json

from dutlab.systems.linux_facts import text as facts


def test_the_name_of_the_system_lscpu_and_pairs_of_a_colon_are_read() -> None:
    assert facts.os_name('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n') == "Debian GNU/Linux 12 (bookworm)"
    assert facts.os_name("PRETTY_NAME=Alpine\n") == "Alpine"
    assert facts.os_name("ID=x\n") is None
    # Lscpu is read flat and nested.
    flat = {"lscpu": [{"field": "CPU(s):", "data": "4"}, {"field": "Model name:", "data": "AMD GX-412TC"}]}
    nested = {"lscpu": [{"field": "Vendor ID:", "data": "AMD", "children": [{"field": "Model name:", "data": "AMD GX-412TC"}]}]}
    assert facts.lscpu_fields(json.dumps(flat))["Model name:"] == "AMD GX-412TC"
    assert facts.lscpu_fields(json.dumps(nested))["Model name:"] == "AMD GX-412TC"
    assert facts.lscpu_fields("lscpu: invalid option") == {}
    # Driver and firmware are pairs of a colon.
    text = "driver: ixgbe\nversion: 6.1.0\nfirmware-version: 0x80000835, 1.2.3\nexpansion-rom-version: \nbus-info: 0000:03:00.1\n"
    assert facts.colon_pairs(text)["firmware-version"] == "0x80000835, 1.2.3"
    assert facts.colon_pairs(text)["bus-info"] == "0000:03:00.1"


def test_rings_are_what_could_be_and_what_is() -> None:
    text = """\
Ring parameters for eth0:
Pre-set maximums:
RX:\t\t4096
RX Mini:\tn/a
TX:\t\t4096
Current hardware settings:
RX:\t\t512
RX Mini:\tn/a
TX:\t\t1024
"""
    assert facts.ring_sizes(text) == {"most": {"rx": 4096, "tx": 4096}, "now": {"rx": 512, "tx": 1024}}
    assert facts.ring_sizes("Ring parameters for veth0:\n") is None
