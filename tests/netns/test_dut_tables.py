"""Routes and tracked flows of a Linux DUT: loaded, looked at, and put back from the journal."""

from __future__ import annotations

from ipaddress import ip_interface, ip_network

import pytest

from capability import need_program, needs
from dutlab.dut import family
from dutlab.errors import MeasurementError
from dutlab.methods.dut_tables import LinkEnd
from dutlab.runner.device import JournaledDevice
from dutlab.runner.journal import Journal, pending_undo, read_journal
from dutlab.spec.traffic import Spread
from dutlab.tools.linux_dut.flows import LinuxFlows
from dutlab.tools.linux_dut.routes import LinuxRoutes

SIX = tuple(ip_interface(f"2001:2:0:{n}/64") for n in ("1::2", "1::1", "2::1", "2::2"))

_machine = needs("nft")


@pytest.fixture
def device(lab, tmp_path):
    linux, journal = family("linux"), Journal(tmp_path / "journal.jsonl")
    yield JournaledDevice(lab.hosts()["dut"], lab.testbed, linux.modes, linux.resets, prober=None, journal=journal)
    journal.close()


def with_ipv6(testbed):
    links = {**testbed.links, "a": testbed.links["a"].model_copy(update={"addresses": SIX})}
    return testbed.model_copy(update={"links": links})


async def said(dut, command):
    return (await dut.run(["sh", "-c", command])).text


@pytest.mark.parametrize(("network", "version"), [("10.0.0.0/8", 4), ("2001:db8::/32", 6)])
async def test_routes_are_counted_looked_up_and_taken_out_and_others_stay(lab, device, tmp_path, network, version):
    dut, testbed = device.dut, lab.testbed
    if version == 6:
        testbed = with_ipv6(testbed)
        for port, address in (("in-a", SIX[1]), ("out-a", SIX[2])):
            await dut.run(["sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=0"])
            await dut.run(["ip", "address", "add", str(address), "dev", port, "nodad"])
    kept = "10.1.2.0/30" if version == 4 else "2001:db8:1::/64"
    await dut.run(["ip", f"-{version}", "route", "add", "blackhole", kept])
    before = await said(dut, f"ip -{version} route show")
    routes = LinuxRoutes(dut, testbed, device.announce)
    loaded = await routes.load("a", Spread.over(ip_network(network), 3000))
    assert (loaded.count, loaded.checked, loaded.astray) == (3000, 256, ())
    towards = await routes.load("a", Spread.over(ip_network("198.51.100.0/24" if version == 4 else "2001:db9::/64"), 1), LinkEnd.SOURCE)
    assert (towards.count, towards.astray) == (1, ())
    assert len(pending_undo(read_journal(tmp_path / "journal.jsonl"))) == 2
    assert await device.put_back()
    assert await said(dut, f"ip -{version} route show") == before
    assert not pending_undo(read_journal(tmp_path / "journal.jsonl"))


async def test_addresses_that_another_route_takes_are_found_and_the_testbeds_own_network_is_refused(lab, device):
    routes, dut = LinuxRoutes(device.dut, lab.testbed, device.announce), device.dut
    await dut.run(["ip", "route", "add", "unreachable", "10.0.0.1/32"])
    loaded = await routes.load("a", Spread.over(ip_network("10.0.0.0/8"), 128))
    (stray,) = loaded.astray
    assert stray.startswith("10.0.0.1: ")
    with pytest.raises(MeasurementError, match=r"overlaps 172\.16\.0\.0/24"):
        await routes.load("a", Spread.over(ip_network("172.16.0.0/12"), 16))
    with pytest.raises(MeasurementError, match="another version of IP"):
        await routes.load("a", Spread.over(ip_network("2001:2::/48"), 16))
    await device.put_back()


async def test_what_is_set_of_the_state_table_is_put_back_and_what_cannot_be_is_refused(lab, device):
    need_program("conntrack")
    dut, flows = device.dut, LinuxFlows(device.dut, device.announce)
    mode = family("linux").modes["nat"]
    with pytest.raises(MeasurementError, match="does not translate"):
        await flows.limit_ports(2000, 2511)
    await mode.apply(dut, lab.testbed)
    read = "nft list ruleset; sysctl net.netfilter.nf_conntrack_udp_timeout net.netfilter.nf_conntrack_udp_timeout_stream"
    before = await said(dut, read)
    await flows.limit_ports(2000, 2511)
    assert "masquerade to :2000-2511" in await said(dut, "nft list ruleset")
    await flows.keep(500.0)
    assert "nf_conntrack_udp_timeout = 501" in await said(dut, read)
    await flows.keep(100.0)  # never shorter
    assert "nf_conntrack_udp_timeout = 501" in await said(dut, read)
    with pytest.raises(MeasurementError, match="one for the whole machine"):
        await flows.limit(4096)
    counts = await flows.counts()
    assert counts.most is not None and counts.most > 0
    assert counts.tracked == 0
    assert {"insert_failed", "drop", "early_drop"} <= counts.counters.keys()
    await flows.forget()
    await device.put_back()
    assert await said(dut, read) == before
