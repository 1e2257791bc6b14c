"""The command of DPDK's l3fwd: its tables of both versions of IP, and the threads of its ports."""

from __future__ import annotations

import re
from ipaddress import ip_network

from dutlab.dut.l3fwd import L3fwd
from dutlab.dut.user_space import Crossing

MACS = ("02:00:00:00:00:02", "02:00:00:00:00:03")
OLD = Crossing("a", ("in-a", "out-a"), MACS, MACS, (ip_network("172.16.0.0/24"), ip_network("172.16.10.0/24")))
NEW = Crossing("b", ("in-b", "out-b"), MACS, MACS, (ip_network("2001:db8:1::/64"), ip_network("2001:db8:2::/64")))


def table(command: str, version: int) -> list[str]:
    """The lines of the file with the routes of this version."""
    (text,) = re.findall(rf"cat >ipv{version} <<'END'\n(.*?)\nEND", command, re.DOTALL)
    return text.splitlines()


def test_each_network_leads_to_the_port_in_front_of_it_and_each_link_has_a_thread_if_there_are_cores() -> None:
    (command,) = L3fwd("lpm").commands([OLD, NEW], [2, 3, 5]).start
    assert table(command, 4) == ["R172.16.0.0/24 0", "R172.16.10.0/24 1"]
    assert table(command, 6) == ["R2001:0db8:0001:0000:0000:0000:0000:0000/64 2", "R2001:0db8:0002:0000:0000:0000:0000:0000/64 3"]
    assert "--lcores=0@2,1@3 " in command and "--config='(0,0,0),(1,0,0),(2,0,1),(3,0,1)'" in command and "-p 0xf " in command


def test_a_table_without_a_network_of_the_links_is_not_empty_and_one_core_serves_all_ports() -> None:
    (command,) = L3fwd("fib").commands([OLD, OLD], [1]).start
    assert len(table(command, 6)) == 1 and "172.16" not in table(command, 6)[0]
    assert "--lcores=0@1 " in command and "--config='(0,0,0),(1,0,0),(2,0,0),(3,0,0)'" in command
