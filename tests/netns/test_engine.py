"""The engine through a real router of namespaces: what it counts, and what it does when the ground gives way."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time

import pytest

from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.dut import family
from dutlab.errors import HostError, PortRefused, ToolFailed
from dutlab.hosts.netns import NamespaceGone
from dutlab.methods import sweep
from dutlab.methods.ports import Bench, Offer, Stretch
from dutlab.spec.mixes import frame_mix
from dutlab.spec.traffic import Directions, Traffic
from dutlab.units import Pps, Seconds
from processes import LIMIT_S, programs

pytestmark = pytest.mark.timing


@pytest.fixture(autouse=True)
async def _routes(hosts, lab, log):
    """The DUT forwards."""
    await family("linux").modes["router"].apply(hosts["dut"], lab.testbed)
    log.clear()


def sweep_cell(*links, **params):
    params = {"frame_size": 64, "duration_s": 0.5, "warmup_s": 0.2, "drain_s": 0.3} | params
    return cell_of("sweep", links=links, **params)


def mostly(asked, flow):
    """Frames sent, when most that were asked for were: on a busy machine a peer refuses some, or their time passes. None is unaccounted for."""
    assert flow.intended_frames == asked == flow.sent_frames + flow.refused_frames
    assert flow.sent_frames > asked * 0.3
    return flow.sent_frames


async def test_a_router_forwards_a_modest_load_without_losing_count_of_a_single_frame(engine, hosts):
    count = "add table ip odd; add chain ip odd c { type filter hook forward priority 0; }; add rule ip odd c udp dport 7 counter"
    await hosts["dut"].run(["nft", count])
    measured = await sweep.measure(Bench(engine), sweep_cell("a", rate_pps=2000.0, duration_s=1.0, warmup_s=0))
    (flow,) = measured.flows
    assert flow.balances
    sent = mostly(2000, flow)
    assert (flow.received_frames, flow.lost_frames, flow.duplicated_frames) == (sent, 0, 0)
    assert flow.received_bytes == sent * 64
    assert measured.figures["a"]["received_pps"] == pytest.approx(sent, rel=0.3)
    assert flow.latency is not None and flow.latency.count == sent
    assert 1000 < flow.latency.min_ns <= flow.latency.p50_ns <= flow.latency.p99_ns <= flow.latency.max_ns < 10_000_000_000
    rules = json.loads((await hosts["dut"].run(["nft", "-j", "list", "table", "ip", "odd"])).text)["nftables"]
    (counter,) = [e["counter"] for r in rules for e in r.get("rule", {}).get("expr", []) if "counter" in e]
    assert counter["packets"] == sent, "the router's own counter agrees with the ledger"
    measured = await sweep.measure(Bench(engine), sweep_cell("a", "b", rate_pps=2000.0))
    assert [(f.link, f.received_frames) for f in measured.flows] == [
        (link, mostly(1000, f)) for link, f in zip("ab", measured.flows, strict=True)
    ], "two links at once have an account each"
    assert measured.figures["a+b"]["received_pps"] == pytest.approx(sum(f.received_frames for f in measured.flows) / 0.5, rel=0.05)


async def test_at_full_speed_every_frame_is_received_or_lost_and_nothing_else(engine):
    for size in (64, 594, 1518, "imix", "aaafg"):
        measured = await sweep.measure(Bench(engine), sweep_cell("a", frame_size=size, duration_s=0.2, warmup_s=0.0, drain_s=0.1))
        (flow,) = measured.flows
        assert flow.balances and flow.sent_frames > 1000
        assert DoubtKind.LEDGER_OPEN not in {d.kind for d in measured.doubts}
        assert flow.mean_frame_bytes == pytest.approx(frame_mix(size).mean, rel=0.02)


async def test_what_the_dut_drops_is_lost_and_counted_exactly(engine, hosts):
    await hosts["dut"].run(
        ["nft", "add table ip odd; add chain ip odd c { type filter hook forward priority 0; }; add rule ip odd c numgen inc mod 4 0 drop"]
    )
    measured = await sweep.measure(Bench(engine), sweep_cell("a", rate_pps=2000.0, duration_s=1.0, warmup_s=0))
    (flow,) = measured.flows
    lost = -(mostly(2000, flow) // -4)  # of each four the first
    assert (flow.received_frames, flow.lost_frames) == (flow.sent_frames - lost, lost)
    assert measured.figures["a"]["loss_ratio"] == pytest.approx(lost / flow.sent_frames)


SEES = """
add table ip seen; add chain ip seen c { type filter hook prerouting priority -300; }
add set ip seen ports { type inet_service; size 65535; flags dynamic; }
add rule ip seen c udp dport 7 ip ttl 63 counter; add rule ip seen c udp dport 7 ip ttl 64 counter
add rule ip seen c udp dport 7 update @ports { udp sport counter }
"""


async def test_every_frame_has_the_varied_values_of_its_number_on_the_wire_and_the_counts_are_exact(engine, hosts):
    await hosts["dut"].run(["nft", SEES.replace("\n", "; ").strip("; ")])
    traffic = {"vary": {"source-port": "1000..1007", "ttl": {"values": [63, 64], "every": 2}}, "burst": {"frames": 10, "rate": "20kpps"}}
    measured = await sweep.measure(
        Bench(engine), sweep_cell("a", rate_pps=2000.0, duration_s=1.0, warmup_s=0, traffic=Traffic.model_validate(traffic))
    )
    (flow,) = measured.flows
    assert flow.balances and flow.received_frames == mostly(2000, flow)
    seen = json.loads((await hosts["dut"].run(["nft", "-j", "list", "table", "ip", "seen"])).stdout)["nftables"]
    (of_set,) = [entry["set"] for entry in seen if "set" in entry]
    ports = {elem["elem"]["val"]: elem["elem"]["counter"]["packets"] for elem in of_set["elem"]}
    ttls = [expr["counter"]["packets"] for entry in seen for expr in entry.get("rule", {}).get("expr", ()) if "counter" in expr]
    assert sorted(ports) == list(range(1000, 1008)) and sum(ports.values()) == sum(ttls) == flow.sent_frames
    if not flow.refused_frames:
        assert set(ports.values()) == {250} and ttls == [1000, 1000]


DROPS_EVERY_FOURTH = (
    "add table ip odd; add chain ip odd c { type filter hook forward priority 0; }; add rule ip odd c numgen inc mod 4 0 counter drop"
)


@pytest.mark.parametrize("backend", ["xdp", "af_packet"])
async def test_a_trial_that_lost_more_than_it_may_ends_at_once_and_its_counts_are_exact(lab, hosts, engine, backend):
    engine._backend = backend
    await hosts["dut"].run(["nft", DROPS_EVERY_FOURTH])
    began = time.monotonic()
    outcome = await engine.offer(Offer(("a",), frame_mix(64), Pps(4000.0), Seconds(30.0), drain=Seconds(0.2), stop_after_lost=500))
    took = time.monotonic() - began
    (flow,) = outcome.flows
    assert outcome.stopped_early_s is not None and 0.5 < outcome.stopped_early_s < min(took, 30), "30 s were asked for"
    assert 0.9 * 4000 * outcome.stopped_early_s < flow.intended_frames < 4000 * took
    rules = json.loads((await hosts["dut"].run(["nft", "-j", "list", "table", "ip", "odd"])).text)["nftables"]
    (counter,) = [e["counter"] for r in rules for e in r.get("rule", {}).get("expr", []) if "counter" in e]
    assert flow.balances and flow.lost_frames == counter["packets"] > 500
    assert flow.lost_frames in (flow.sent_frames // 4, flow.sent_frames // 4 + 1)


async def test_a_trial_that_loses_nothing_runs_to_its_end_although_it_may_be_stopped(engine):
    outcome = await engine.offer(Offer(("a",), frame_mix(64), Pps(4000.0), Seconds(1.0), drain=Seconds(0.2), stop_after_lost=0))
    assert outcome.stopped_early_s is None and outcome.flows[0].lost_frames == 0


RAMP = (Stretch(Seconds(1.0), Pps(1000.0), Pps(1000.0)), Stretch(Seconds(2.0), Pps(1000.0), Pps(9000.0)))


@pytest.mark.parametrize("backend", ["xdp", "af_packet"])
async def test_a_ramp_is_followed_and_read_once_a_second_with_what_got_lost(engine, hosts, backend):
    engine._backend = backend
    await hosts["dut"].run(["nft", DROPS_EVERY_FOURTH])
    outcome = await engine.offer(Offer(("a",), frame_mix(64), None, Seconds(4.5), drain=Seconds(0.2), profile=RAMP))
    (flow,) = outcome.flows
    # 1 s at 1 kpps, 2 s at 5 kpps in the mean, and 1.5 s at the 9 kpps that the ramp ends at
    assert flow.balances and flow.intended_frames == pytest.approx(1000 + 10_000 + 13_500, rel=0.01)
    assert flow.lost_frames == pytest.approx(flow.sent_frames / 4, abs=1)
    of = {name: [r.value for r in outcome.readings if r.name == name] for name in ("offered_pps", "received_pps", "lost_pps")}
    sent, received, lost = of.values()
    assert len(sent) == len(received) >= 3 and len(lost) >= 2
    # Beside other work a reading may come late, and the frames of one second are then in two: the order and the sums stay.
    assert sent[0] < sent[-1] and max(sent) == pytest.approx(9000, rel=0.5)
    assert sum(received) == pytest.approx(sum(sent) * 3 / 4, rel=0.3), "one end is read after the other, while the rate rises"
    assert sum(lost) == pytest.approx(sum(received[: len(lost)]) / 3, rel=0.3)


@pytest.mark.parametrize("backend", ["xdp", "af_packet"])
async def test_both_ways_at_once_have_an_account_each(engine, hosts, backend):
    engine._backend = backend
    count = "add table ip odd; add chain ip odd c { type filter hook forward priority 0; }; add rule ip odd c iifname out-a numgen inc mod 5 0 drop"
    await hosts["dut"].run(["nft", count])
    offer = Offer(("a",), frame_mix(128), Pps(2000.0), Seconds(1.0), drain=Seconds(0.2), directions=Directions.BOTH)
    outcome = await engine.offer(offer)
    there, back = outcome.flows
    assert (there.link, back.link) == offer.flow_names == ("a", "a.back")
    assert (there.received_frames, there.lost_frames) == (mostly(2000, there), 0)
    lost = -(mostly(2000, back) // -5)  # of each five the first
    assert (back.received_frames, back.lost_frames) == (back.sent_frames - lost, lost)
    assert there.balances and back.balances and there.foreign_frames < 20 and back.foreign_frames < 20


async def test_clocks_that_nobody_knows_to_be_one_are_measured_to_be_apart_by_nothing(engine):
    engine._which_clock = {"source": b"one", "sink": b"another"}
    outcome = await engine.offer(Offer(("a",), frame_mix(64), Pps(2000.0), Seconds(0.5), drain=Seconds(0.2)))
    (flow,) = outcome.flows
    ahead_ns, error_ns = int(outcome.facts["sink_clock_ahead_ns"]), int(outcome.facts["clock_error_ns"])
    assert abs(ahead_ns) <= error_ns < 10**10
    assert (flow.received_frames, flow.latency_error_ns) == (mostly(1000, flow), error_ns)
    assert flow.latency is None or flow.latency.p50_ns < 10**9 + error_ns


async def test_probes_see_each_way_and_never_the_same_flow_twice(engine, hosts):
    await hosts["dut"].run(
        ["nft", "add table ip odd; add chain ip odd c { type filter hook forward priority 0; }; add rule ip odd c ct state new counter"]
    )
    for reverse, source in ((False, "172.16.1.2"), (True, "172.16.11.2")) * 3:
        (seen,) = await engine.probe(["b"], reverse=reverse)
        assert (seen.sent, seen.received, seen.source_seen) == (10, 10, source)
    entries = (await hosts["dut"].run(["cat", "/proc/net/nf_conntrack"])).text.splitlines()
    assert len([e for e in entries if "dport=7 " in e]) == 6


async def test_nothing_of_the_engine_is_on_the_ports_between_trials(engine, hosts):
    packet_sockets = ["cat", "/proc/net/packet"]
    before = {role: (await hosts[role].run(packet_sockets)).text for role in ("source", "sink")}
    await sweep.measure(Bench(engine), sweep_cell("a", "b", rate_pps=1000.0))
    assert {role: (await hosts[role].run(packet_sockets)).text for role in ("source", "sink")} == before
    links = (await hosts["sink"].run(["ip", "-d", "link"])).text
    assert "xdp" not in links


async def test_agents_live_from_trial_to_trial_and_end_with_the_engine(engine):
    await engine.probe(["a"])
    first = programs()
    await engine.probe(["b"])
    assert programs() == first != []
    await engine.close()
    assert programs() == []
    assert (await engine.probe(["a"]))[0].received == 10


async def in_mid_trial(engine):
    """A trial of 30 s whose frames are being sent."""
    begun = asyncio.Event()
    trial = asyncio.create_task(engine.offer(Offer(("a",), frame_mix(64), Pps(1000.0), Seconds(30.0), begun=begun.set)))
    async with asyncio.timeout(LIMIT_S):
        await begun.wait()
    return trial


async def test_an_agent_that_is_killed_in_mid_trial_fails_the_trial_and_not_the_next(engine):
    trial = await in_mid_trial(engine)
    await engine._agents["source"]._process.end(grace_s=0.0)
    with pytest.raises(ToolFailed) as caught:
        await trial
    assert (caught.value.tool, caught.value.host) == ("dutlab-engine", "source")
    assert (await engine.probe(["a"]))[0].received == 10


async def test_a_namespace_that_vanishes_in_mid_trial_is_a_lost_host(engine, hosts, lab):
    # First its name, then what runs in it: where both go at once, the engine may be seen to be killed before the name is gone.
    trial = await in_mid_trial(engine)
    for namespace in lab.namespaces.values():
        subprocess.run(["ip", "netns", "del", namespace], check=True)
    for agent in list(engine._agents.values()):
        await agent._process.end(grace_s=0.0)
    with pytest.raises(NamespaceGone):
        await trial


async def test_a_trial_that_is_cut_off_stops_sending_at_once(engine, hosts):
    trial = await in_mid_trial(engine)
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    sent = ["cat", "/sys/class/net/eth-a/statistics/tx_packets"]
    before = int((await hosts["source"].run(sent)).text)
    await asyncio.sleep(0.3)
    assert int((await hosts["source"].run(sent)).text) - before < 20
    assert (await engine.probe(["a"]))[0].received == 10


async def test_a_port_with_the_default_route_is_not_loaded_unless_the_link_is_isolated(engine, hosts, lab):
    await hosts["source"].run(["ip", "route", "add", "default", "via", "172.16.0.1"])
    with pytest.raises(PortRefused, match=r"default route.*isolated"):
        await engine.probe(["a"])
    isolated = lab.testbed.links["a"].model_copy(update={"isolated": True})
    engine._testbed = lab.testbed.model_copy(update={"links": {"a": isolated}})
    assert (await engine.probe(["a"]))[0].received == 10


async def test_a_port_that_is_not_there_is_named(engine, lab):
    link = lab.testbed.links["a"]
    path = (link.path[0], link.path[1], link.path[2], link.path[3].model_copy(update={"interface": "eth-z"}))
    engine._testbed = lab.testbed.model_copy(update={"links": {"a": link.model_copy(update={"path": path})}})
    with pytest.raises(HostError) as caught:
        await engine.probe(["a"])
    assert caught.value.host == "sink" and "eth-z" in caught.value.what
