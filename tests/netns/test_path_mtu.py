"""The path MTU through the lab's router, where the answer is set by hand."""

from __future__ import annotations

import pytest

from cells import cell_of
from dutlab.errors import MeasurementError
from dutlab.tools.ping import Ping


def cell(*links):
    return cell_of("path-mtu", links=links)


async def test_the_narrow_hop_is_found_both_ways_and_stated_as_mtu_and_payload(lab):
    hosts = lab.hosts()
    await hosts["dut"].run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    for host, port, mtu in (("source", "eth-a", 9000), ("dut", "in-a", 9000), ("dut", "out-a", 1400), ("sink", "eth-a", 1400)):
        await hosts[host].run(["ip", "link", "set", port, "mtu", str(mtu)])
    found = await Ping(hosts, lab.testbed).path_mtu(cell("a", "b"))
    rows = {(r["from"], r["to"]): (r["path_mtu_bytes"], r["payload_bytes"]) for r in found.tables["path_mtu"] if r["link"] == "a"}
    assert rows == {
        ("source", "dut:in-a"): (9000, 8972),
        ("source", "sink:eth-a"): (1400, 1372),
        ("sink", "dut:out-a"): (1400, 1372),
        ("sink", "source:eth-a"): (1400, 1372),
    }
    assert found.figures == {
        "a": {"path_mtu_bytes": 1400, "payload_bytes": 1372},
        "b": {"path_mtu_bytes": 1500, "payload_bytes": 1472},
    }
    assert list(found.notes) == ["link a: the narrow hop is the one before sink:eth-a from source: 1400 bytes, where 9000 pass to dut:in-a"]


async def test_a_router_that_refuses_in_silence_is_found_out_by_bisection(lab):
    log = []
    hosts = lab.hosts(log.append)
    await hosts["dut"].run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    await hosts["dut"].run(
        ["nft", "-f", "-"], stdin=b"table ip t { chain c { type filter hook forward priority 0; meta length > 1497 drop; }; }"
    )
    found = await Ping(hosts, lab.testbed).path_mtu(cell("a"))
    assert found.figures["a"]["path_mtu_bytes"] == 1497
    assert 0 < sum("ping" in done.argv for done in log) < 100


async def test_a_link_that_answers_nothing_says_where(lab):
    with pytest.raises(MeasurementError, match=r"link a: sink:eth-a \(172.16.10.2\) answers no ping"):
        await Ping(lab.hosts(), lab.testbed).path_mtu(cell("a"))  # the DUT does not forward


async def test_a_way_that_a_translator_shuts_is_left_to_the_other(lab):
    hosts = lab.hosts()
    await hosts["dut"].run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    shut = b"table ip t { chain c { type filter hook forward priority 0; iifname out-a ct state new drop; }; }"
    await hosts["dut"].run(["nft", "-f", "-"], stdin=shut)
    found = await Ping(hosts, lab.testbed).path_mtu(cell("a"))
    assert found.figures == {"a": {"path_mtu_bytes": 1500, "payload_bytes": 1472}}
    assert [(r["from"], r["to"]) for r in found.tables["path_mtu"]] == [
        ("source", "dut:in-a"), ("source", "sink:eth-a"), ("sink", "dut:out-a"),
    ]  # fmt: skip
    (note,) = found.notes
    assert note.startswith("of one direction only: link a: source:eth-a (172.16.0.2) answers no ping of 68 bytes from sink")
