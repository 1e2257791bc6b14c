"""iperf3 through a real router of namespaces: what it measures, and what it does when the ground gives way."""

from __future__ import annotations

import asyncio
import json

import pytest

from capability import need_program
from cells import cell_of
from dutlab import labs
from dutlab.dut import family
from dutlab.errors import ToolFailed
from dutlab.hosts.netns import NamespaceGone
from dutlab.methods.ports import Offer
from dutlab.spec.mixes import frame_mix
from dutlab.spec.traffic import Traffic
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.iperf3 import tcp as iperf3
from dutlab.tools.iperf3.tcp import Iperf3
from dutlab.units import Pps, Seconds
from processes import programs
from slow_links import slow_down


@pytest.fixture(autouse=True)
async def _routes(hosts, lab, log):
    """The DUT forwards, slowly."""
    slow_down(lab.namespaces["dut"], "out-a", "out-b")
    await family("linux").modes["router"].apply(hosts["dut"], lab.testbed)
    log.clear()


@pytest.fixture
def tcp(lab, hosts):
    need_program("iperf3")
    return Iperf3(hosts, lab.testbed, lab.cpus)


def iperf_cell(*links, duration_s=1):
    params = {"streams": 2, "omit_s": 0, "duration_s": duration_s}
    return cell_of("iperf3", links=links, **params)


async def test_tcp_goes_over_each_link_and_over_both_at_once_and_leaves_no_server(tcp, lab, hosts, log):
    site = GeneratorSite(hosts, lab.testbed, lab.cpus, None)
    assert await iperf3.check(site, [iperf_cell("a", "b")]) == (await hosts["source"].run(["iperf3", "--version"])).text.split()[1]
    for links in (("a",), ("b",), ("a", "b")):
        measured = await tcp.measure(iperf_cell(*links))
        for link in links:
            figures = measured.figures[link]
            assert figures["goodput_bps"] > 1e6
            raw = json.loads(measured.raw[f"iperf3-{link}-client.json"])
            assert raw["end"]["sum_received"]["bits_per_second"] == figures["goodput_bps"]
            here, there = {c["local_host"] for c in raw["start"]["connected"]}, {c["remote_host"] for c in raw["start"]["connected"]}
            assert (here, there) == (({"172.16.0.2"}, {"172.16.10.2"}) if link == "a" else ({"172.16.1.2"}, {"172.16.11.2"}))
            server = json.loads(measured.raw[f"iperf3-{link}-server.json"])
            assert server["end"]["sum_received"]["bytes"] == raw["end"]["sum_received"]["bytes"] <= raw["end"]["sum_sent"]["bytes"]
    assert measured.figures["a+b"]["goodput_bps"] == pytest.approx(
        measured.figures["a"]["goodput_bps"] + measured.figures["b"]["goodput_bps"]
    )
    assert programs() == []


async def test_both_ends_are_pinned_to_the_labs_cores(tcp, lab, log):
    measured = await tcp.measure(iperf_cell("a"))
    assert measured.figures
    ran = {d.host: d.argv[:4] for d in log if "iperf3" in d.argv}
    assert ran == {role: ("taskset", "-c", ",".join(map(str, lab.cpus[role])), "iperf3") for role in ("source", "sink")}


async def test_a_port_that_somebody_holds_is_left_alone(tcp, hosts, log):
    theirs = await hosts["sink"].spawn(["iperf3", "-s", "-p", str(iperf3.FIRST_PORT), "--forceflush"])
    while b"listening" not in await theirs.readline():
        pass
    measured = await tcp.measure(iperf_cell("a"))
    assert json.loads(measured.raw["iperf3-a-client.json"])["start"]["connecting_to"]["port"] == iperf3.FIRST_PORT + 1
    assert b"Accepted" not in (await theirs.end()).stdout


async def test_a_firewall_that_lets_no_tcp_through_is_reported_in_time(tcp, hosts, monkeypatch):
    monkeypatch.setattr(iperf3, "GRACE_S", 0.5)
    await hosts["dut"].run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=0"])
    with pytest.raises(ToolFailed) as caught:
        await tcp.measure(iperf_cell("a"))
    assert "link a" in caught.value.what and "lets TCP through" in caught.value.remedy
    assert programs() == []


async def loaded(hosts):
    """Returns once the DUT has forwarded a megabyte: the test is under way."""
    counter = ["cat", "/sys/class/net/out-a/statistics/tx_bytes"]
    while int((await hosts["dut"].run(counter)).text) < 10**6:
        await asyncio.sleep(0.05)


async def test_a_link_that_goes_down_in_mid_test_is_reported_in_time(tcp, hosts, monkeypatch):
    monkeypatch.setattr(iperf3, "GRACE_S", 1.0)
    test = asyncio.create_task(tcp.measure(iperf_cell("a", duration_s=4)))
    await loaded(hosts)
    await hosts["dut"].run(["ip", "link", "set", "dev", "out-a", "down"])
    with pytest.raises(ToolFailed, match="link a: "):
        await test
    assert programs() == []


async def test_a_server_that_dies_in_mid_test_is_named_by_both_ends(tcp, hosts):
    test = asyncio.create_task(tcp.measure(iperf_cell("a", duration_s=30)))
    await loaded(hosts)
    await hosts["sink"].close()
    with pytest.raises(ToolFailed, match="the server has terminated"):
        await test


async def test_a_namespace_that_vanishes_before_the_test_is_a_lost_host(tcp, lab):
    await labs.down(lab.label)
    with pytest.raises(NamespaceGone):
        await tcp.measure(iperf_cell("a"))


async def test_a_test_that_is_cut_off_leaves_no_process(tcp, hosts):
    test = asyncio.create_task(tcp.measure(iperf_cell("a", "b", duration_s=30)))
    await loaded(hosts)
    test.cancel()
    with pytest.raises(asyncio.CancelledError):
        await test
    assert programs() == []


@pytest.mark.parametrize("transport", ["tcp", "icmp-echo"])
async def test_many_flows_of_another_transport_are_forwarded_and_tracked_as_such(engine, hosts, transport):
    await hosts["dut"].run(
        ["nft", "add table ip odd; add chain ip odd c { type filter hook forward priority 0; }; add rule ip odd c ct state new counter"]
    )
    traffic = Traffic.model_validate({"transport": transport, "flows": {"count": 200, "source_addresses": 20, "source_ports": 10}})
    outcome = await engine.offer(Offer(("a",), frame_mix(128), Pps(2000.0), Seconds(0.5), drain=Seconds(0.2), traffic=traffic))
    (flow,) = outcome.flows
    assert flow.balances and (flow.sent_frames, flow.received_frames) == (1000, 1000)
    entries = (await hosts["dut"].run(["cat", "/proc/net/nf_conntrack"])).text.splitlines()
    assert len([e for e in entries if f" {transport.split('-')[0]} " in e and "dst=172.16.10.2" in e]) == 200


async def test_whoever_looks_on_is_told_meanwhile_what_arrives_on_each_link(lab, hosts):
    need_program("iperf3")
    told: list[tuple[str, str, float]] = []
    tcp = Iperf3(hosts, lab.testbed, lab.cpus, lambda where, who, values: told.append((where, who, values["wire_bps"])))
    for _ in range(10):  # on a busy machine a second may pass before the first reading
        measured = await tcp.measure(iperf_cell("a", "b", duration_s=2))
        if {where for where, _, bps in told if bps > 1e6} == {"a", "b"}:
            break
    assert {where for where, _, bps in told if bps > 1e6} == {"a", "b"} and {who for _, who, _ in told} == {"iperf3"}, told
    assert "wire_bps" not in measured.figures["a"], "it is for looking on, and no figure"
