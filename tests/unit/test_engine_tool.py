"""The engine's driver against an agent that follows the protocol, and against agents that do not."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

from dutlab.doubts import DoubtKind
from dutlab.errors import HostError, PortRefused, ToolFailed, ToolMissing
from dutlab.hosts.host import Done
from dutlab.hosts.local import LocalHost
from dutlab.labs import description
from dutlab.methods.mixes import frame_mix
from dutlab.methods.ports import Directions, Offer, Stretch
from dutlab.spec.traffic import Traffic
from dutlab.tools import agent as agent_module
from dutlab.tools.engine import Engine
from dutlab.tools.find_engine import find_engine
from dutlab.units import Pps, Seconds

BED = description("three-node").testbed
SCHEMA = json.loads((Path(__file__).parents[2] / "contracts" / "protocol.schema.json").read_text())

# An agent that keeps to the protocol: every frame arrives, 2 of them twice. `twist(op, request, ok)` may change, replace or withhold an answer.
AGENT = """#!{python}
import json, sys, time, os
from pathlib import Path
def out(line): print(line, flush=True)
def twist(op, request, ok):
    {twist}
    return ok
def answer(op, q):
    if op == "hello":
        return dict(version="0.1.0", protocol=1, monotonic_ns=5_000, realtime_ns=1_000_005_000, kernel="6.1", cpus=[0, 1])
    if op == "open":
        return dict(port=q["port"], iface=q["iface"], backend="af_packet", mac="02:00:00:00:00:02", mtu_bytes=1500, addresses=[], notes=["no GRO"])
    if op == "arm":
        plans[q["port"]] = q
        return dict(armed=q["port"], streams=[])
    if op == "start":
        return dict(at_monotonic_ns=6_000)
    if op == "clock":
        return dict(received_monotonic_ns=time.monotonic_ns() + ahead, replied_monotonic_ns=time.monotonic_ns() + ahead, realtime_ns=1)
    if op == "status":  # a tenth of the frames is lost, at 1 kpps
        t = round((time.monotonic() - born) * 1000)
        when, plan, reply = dict(monotonic_ns=t * 10**6, age_ns=0), plans[q["port"]], dict(port=q["port"])
        if "send" in plan:
            (s,) = plan["send"]["streams"]
            reply["sending"] = when | dict(streams=[dict(stream=s["stream"], sent=t, numbered=t, refused_by_peer=0)])
        if "receive" in plan:
            (s,) = plan["receive"]["streams"]
            reply["receiving"] = when | dict(streams=[dict(stream=s, received=t - t // 10, duplicated=0, reordered=0, next_sequence=t,
                latency_count=t, latency_sum_ns=t * 50)])
        return reply
    if op == "wait":
        send = plans[q["port"]]["send"]
        (s,) = send["streams"]
        seconds = send["duration_ns"] / 1e9 if "duration_ns" in send else s["frames"] / s["rate"]["pps"]
        n = s.get("frames") or round(s["rate"].get("pps", 1e6) * seconds)
        return dict(port=q["port"], ended="finished", streams=[dict(stream=s["stream"], asked=n, sent=n, refused=0, refused_by_peer=0, sent_bytes=64 * n, seconds=seconds,
            achieved_pps=n / seconds, achieved_bps_l1=0.0, achieved_bps_l2=0.0, late_max_ns=0)])
    if op == "settle":
        (s,) = q["sent"]
        n = s["frames"]
        latency = dict(count=n, negative=0, min_ns=1, p50_ns=2, p90_ns=3, p99_ns=4, p999_ns=5, max_ns=6, mean_ns=2.5, histogram=[[6, n]])
        return dict(port=q["port"], foreign=0, stale=0, kernel_dropped=0, streams=[dict(stream=s["stream"], sent=n, received=n + 2, received_bytes=64 * (n + 2),
            lost=0, duplicated=2, reordered=1, reorder_extent_max=1, guessed=0, corrupted=0, balances=True, latency=latency,
            sources=[dict(address="172.16.10.1", port=1)])])
    return dict()
plans, waiting, born, ahead = dict(), [], time.monotonic(), {ahead}
for line in sys.stdin:
    q = json.loads(line)
    op = q["op"]
    with open({log!r} + "-" + str(os.getpid()), "a") as f: f.write(line)
    reply = twist(op, q, answer(op, q))
    if reply is not None:
        out(json.dumps({{"id": q["id"], **(reply if "err" in reply else {{"ok": reply}})}}))
"""


class NeighbourlyHost(LocalHost):
    """Knows the DUT's MAC without asking it."""

    boot = b"one\n"
    gone = False

    async def run(self, argv, *, stdin=b"", timeout_s=30.0, check=True):
        if self.gone:
            raise HostError("network namespace is gone", host=self.name)
        said = (
            b'[{"dst":"x","lladdr":"02:00:00:00:00:01","state":["STALE"]}]'
            if argv[0] == "ip"
            else self.boot
            if "boot_id" in argv[-1]
            else b""
        )
        return Done(self.name, tuple(argv), 0, said, b"", time.time(), 0.0)


@pytest.fixture
async def engine(tmp_path):
    """Makes an engine whose agents have a twist."""
    made = []

    def make(twist="pass", *, binary=None, cpus=None, sink=NeighbourlyHost, ahead=0, **words):
        path = tmp_path / "dutlab-engine"
        path.write_text(AGENT.format(python=sys.executable, twist=twist, log=str(tmp_path / "asked"), ahead=ahead))
        path.chmod(0o755)
        hosts = {"source": NeighbourlyHost("source"), "sink": sink("sink")}
        made.append(Engine(hosts, BED, cpus or {"source": (0,), "sink": (1,)}, binary or str(path), **words))
        return made[-1]

    yield make
    for one in made:
        await one.close()
        for host in one._hosts.values():
            await host.close()


def asked(tmp_path):
    """Every request that any agent got, by agent in the order of their start."""
    return [
        [json.loads(line) for line in f.read_text().splitlines()] for f in sorted(tmp_path.glob("asked-*"), key=lambda f: f.stat().st_ctime)
    ]


def offer(*links, rate=1000.0, warmup=0.0, size=64):
    return Offer(links or ("a",), frame_mix(size), rate and Pps(rate), Seconds(2.0), Seconds(warmup), Seconds(0.1))


async def test_every_request_keeps_to_the_contract(engine, tmp_path):
    one = engine()
    await one.offer(offer("a", "b", rate=None, warmup=0.5, size="imix"))
    await one.probe("b", reverse=True)
    validator = jsonschema.Draft202012Validator({"$ref": "#/$defs/Request", "$defs": SCHEMA["$defs"]})
    requests = [q for of_agent in asked(tmp_path) for q in of_agent]
    assert {q["op"] for q in requests} == {"hello", "open", "arm", "start", "wait", "settle", "close"}
    for q in requests:
        validator.validate(q)


async def test_the_fake_agent_keeps_to_the_contract_too(engine):
    one = engine()
    outcome = await one.offer(offer())
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for raw in outcome.raw.values():
        for line in raw.splitlines():
            validator.validate(json.loads(line))


async def test_an_offer_becomes_flows_facts_raw_and_readings(engine):
    outcome = await engine().offer(offer("a"))
    (flow,) = outcome.flows
    assert (flow.link, flow.asked_frames, flow.sent_frames, flow.received_frames, flow.duplicated_frames, flow.reordered_frames) == (
        "a",
        2000,
        2000,
        2002,
        2,
        1,
    )
    assert flow.balances
    assert (flow.sent_seconds, flow.mean_frame_bytes, flow.received_bytes) == (2.0, 64.0, 2002 * 64)
    assert flow.latency is not None and flow.latency.p99_ns == 4
    assert outcome.doubts == ()
    assert outcome.facts == {
        "engine_version": "0.1.0",
        "engine_ports": "source:eth-a: af_packet; source:eth-a: no GRO; sink:eth-a: af_packet; sink:eth-a: no GRO",
        "frame_sizes": "64/60/46 × 1 (bytes with FCS/without/IP)",
    }
    lines = [json.loads(line) for line in outcome.raw["engine-sink.jsonl"].splitlines()]
    assert {line.get("op") for line in lines} >= {"open", "arm", "start", "settle"}


async def test_the_raw_file_of_a_trial_holds_that_trial_alone(engine):
    one = engine()
    first = await one.offer(offer())
    await one.probe("a")
    second = await one.offer(offer())
    assert len(second.raw["engine-source.jsonl"].splitlines()) == len(first.raw["engine-source.jsonl"].splitlines()) - 2  # the hello


async def test_receivers_listen_before_senders_send_and_both_ports_are_given_back(engine, tmp_path):
    await engine().offer(offer("a", "b"))
    source, sink = sorted(asked(tmp_path), key=lambda log: any(q["op"] == "settle" for q in log))
    assert [q["op"] for q in source] == ["hello", "open", "open", "arm", "arm", "start", "wait", "wait", "close", "close"]
    assert [q["op"] for q in sink] == ["hello", "open", "open", "arm", "arm", "start", "settle", "settle", "close", "close"]
    assert [q["ports"] for q in source if q["op"] == "start"] == [["source:eth-a", "source:eth-b"]]
    streams = [q["send"]["streams"][0]["stream"] for q in source if q["op"] == "arm"]
    assert streams == [q["receive"]["streams"][0] for q in sink if q["op"] == "arm"] and len(set(streams)) == 2


async def test_warm_up_is_a_send_of_its_own_under_another_stream_and_is_not_counted(engine, tmp_path):
    outcome = await engine().offer(offer("a", warmup=0.5))
    source = next(log for log in asked(tmp_path) if any(q["op"] == "wait" for q in log))
    plans = [q["send"] for q in source if q["op"] == "arm"]
    assert [p["duration_ns"] for p in plans] == [500_000_000, 2_000_000_000]
    assert len({p["streams"][0]["stream"] for p in plans}) == 2
    assert outcome.flows[0].asked_frames == 2000


async def test_the_plan_says_sizes_rate_addresses_and_the_duts_mac(engine, tmp_path):
    one = engine()
    await one.offer(offer("b", rate=None, size="imix"))
    plan = next(q["send"] for log in asked(tmp_path) for q in log if "send" in q)["streams"][0]
    assert plan["sizes"] == {"weighted": [{"bytes": 64, "weight": 7}, {"bytes": 594, "weight": 4}, {"bytes": 1518, "weight": 1}]}
    assert plan["rate"] == {"max": True}
    assert (plan["source"], plan["destination"], plan["destination_mac"]) == ("172.16.1.2", "172.16.11.2", "02:00:00:00:00:01")


async def test_ports_are_opened_on_their_cores_and_guarded_by_the_testbeds_networks(engine, tmp_path):
    await engine(cpus={"source": (4, 5), "sink": ()}, backend="af_packet").offer(offer("a", "b"))
    opened = {q["port"]: q for log in asked(tmp_path) for q in log if q["op"] == "open"}
    assert [opened[p].get("cpu") for p in ("source:eth-a", "source:eth-b", "sink:eth-a", "sink:eth-b")] == [4, 5, None, None]
    assert opened["source:eth-a"]["guard"] == {
        "allow": ["172.16.0.0/24", "172.16.1.0/24", "172.16.10.0/24", "172.16.11.0/24"],
        "isolated": False,
    }
    assert {q["backend"] for q in opened.values()} == {"af_packet"}


async def test_a_probe_is_ten_frames_at_1_kpps_as_a_new_flow_each_time(engine, tmp_path):
    one = engine()
    seen = await one.probe("a")
    assert (seen.sent, seen.received, seen.source_seen) == (10, 12, "172.16.10.1")
    await one.probe("a", reverse=True)
    plans = [q["send"]["streams"][0] for log in asked(tmp_path) for q in log if "send" in q]
    assert [(p["frames"], p["rate"]) for p in plans] == [(10, {"pps": 1000.0})] * 2
    ways = sorted((p["source"], p["destination"]) for p in plans)
    assert ways == [("172.16.0.2", "172.16.10.2"), ("172.16.10.2", "172.16.0.2")]
    assert plans[0]["source_port"] != plans[1]["source_port"]


PATIENT = """
    if op == 'stop':
        out(json.dumps({'id': waiting[0][0], 'ok': {**waiting[0][1], 'ended': 'stopped'}}))
    if op == 'wait':
        waiting.append((request['id'], ok))
        return None
"""
"""An agent that sends until it is stopped."""


async def test_a_trial_that_has_lost_more_than_it_may_is_stopped_and_says_when(engine, tmp_path):
    one = engine(PATIENT.strip())
    outcome = await one.offer(replace(offer(), stop_after_lost=40))
    assert outcome.stopped_early_s == 2.0, "what the sender's account says"
    source, sink = sorted(asked(tmp_path), key=lambda log: any(q["op"] == "settle" for q in log))
    assert [q["ports"] for q in source if q["op"] == "stop"] == [["source:eth-a"]]
    assert [q["op"] for q in sink if q["op"] != "status"][-2:] == ["settle", "close"], "the drain is waited for as ever"


async def test_a_trial_that_may_not_be_stopped_or_loses_little_is_not(engine, tmp_path):
    one = engine("if op == 'wait': time.sleep(0.7)")
    assert (await one.offer(replace(offer(), stop_after_lost=10_000))).stopped_early_s is None
    assert any(q["op"] == "status" for log in asked(tmp_path) for q in log)
    assert not any(q["op"] == "stop" for log in asked(tmp_path) for q in log)


async def test_an_agent_that_cannot_be_looked_at_fails_the_trial(engine):
    with pytest.raises(ToolFailed, match=r"sink: dutlab-engine: its account cannot be read: KeyError\('next_sequence'\)"):
        await engine(
            "if op == 'status' and 'receiving' in ok: del ok['receiving']['streams'][0]['next_sequence']\n    if op == 'wait': time.sleep(0.7)"
        ).offer(replace(offer(), stop_after_lost=1))


class OtherMachine(NeighbourlyHost):
    boot = b"another\n"


async def test_between_machines_the_offset_of_their_clocks_is_measured_and_bounds_the_latency(engine, tmp_path):
    outcome = await engine(sink=OtherMachine, ahead=f"0 if list(Path({str(tmp_path)!r}).glob('asked-*')) else 10**15").offer(offer())
    receive = next(q["receive"] for log in asked(tmp_path) for q in log if "receive" in q)
    source_ahead_ns, error_ns = receive["sender_clock"]["ahead_ns"], int(outcome.facts["clock_error_ns"])
    assert abs(abs(source_ahead_ns) - 10**15) <= error_ns < 10**8, "in one machine an exchange takes well below 0.1 s"
    assert int(outcome.facts["sink_clock_ahead_ns"]) == -source_ahead_ns
    assert outcome.flows[0].latency_error_ns == error_ns
    assert [d.kind for d in outcome.doubts] == [DoubtKind.LATENCY_ROUGH], "a median of 2 ns is not known by such clocks"


async def test_on_one_machine_latency_has_no_error(engine):
    outcome = await engine().offer(offer())
    assert outcome.flows[0].latency_error_ns == 0 and "clock_error_ns" not in outcome.facts


async def test_a_profile_is_sent_in_stretches_and_warmed_up_for_at_its_first_rate(engine, tmp_path):
    stretches = (Stretch(Seconds(1.0), Pps(100.0), Pps(100.0)), Stretch(Seconds(4.0), Pps(100.0), Pps(9000.0)))
    await engine().offer(replace(offer(rate=None, warmup=0.5), profile=stretches))
    rates = [q["send"]["streams"][0]["rate"] for log in asked(tmp_path) for q in log if "send" in q]
    pieces = [
        {"from_pps": 100.0, "to_pps": 100.0, "duration_ns": 1_000_000_000},
        {"from_pps": 100.0, "to_pps": 9000.0, "duration_ns": 4_000_000_000},
    ]
    assert rates == [{"pps": 100.0}, {"profile": pieces}]


async def test_traffic_says_transport_tags_and_flows_in_the_protocols_words(engine, tmp_path):
    flows = {"count": 5000, "source_addresses": 4, "seed": 7}
    traffic = Traffic.model_validate({"transport": "tcp-syn", "vlans": [100, 200], "flows": flows})
    await engine().offer(replace(offer(size=128), traffic=traffic))
    request = next(q for log in asked(tmp_path) for q in log if "send" in q)
    jsonschema.Draft202012Validator({"$ref": "#/$defs/Request", "$defs": SCHEMA["$defs"]}).validate(request)
    (stream,) = request["send"]["streams"]
    assert (stream["transport"], stream["vlans"]) == ("tcp_syn", [{"id": 100}, {"id": 200}])
    assert (stream["source_port"], stream["destination_port"]) == (1024, 1), "where the ranges of RFC 4814 begin"
    ranges = {"source_addresses": 4, "destination_addresses": 1, "source_ports": 64512, "destination_ports": 49151}
    assert stream["flows"] == {"count": 5000, "seed": 7, **ranges}


async def test_flows_spread_over_networks_begin_in_the_first_part_of_each(engine, tmp_path):
    flows = {"count": 512, "destinations": "198.18.0.0/15", "destination_addresses": 512, "sources": "2001:2::/48"}
    with pytest.raises(ValidationError, match="different versions"):
        Traffic.model_validate({"flows": flows})
    flows |= {"sources": "203.0.113.0/24", "source_addresses": 256}
    await engine().offer(replace(offer(size=128), traffic=Traffic.model_validate({"flows": flows})))
    request = next(q for log in asked(tmp_path) for q in log if "send" in q)
    jsonschema.Draft202012Validator({"$ref": "#/$defs/Request", "$defs": SCHEMA["$defs"]}).validate(request)
    (stream,) = request["send"]["streams"]
    assert (stream["source"], stream["destination"]) == ("203.0.113.0", "198.18.0.1")
    assert (stream["flows"]["source_prefix_length"], stream["flows"]["destination_prefix_length"]) == (32, 24)


async def test_both_ways_at_once_each_port_sends_and_receives_and_all_begin_at_one_instant(engine, tmp_path):
    outcome = await engine().offer(replace(offer("a", "b"), directions=Directions.BOTH))
    assert [f.link for f in outcome.flows] == ["a", "a.back", "b", "b.back"]
    logs = asked(tmp_path)
    arms = [q for log in logs for q in log if q["op"] == "arm"]
    assert sorted(q["port"] for q in arms) == ["sink:eth-a", "sink:eth-b", "source:eth-a", "source:eth-b"]
    assert all({"send", "receive"} <= q.keys() for q in arms)
    sent, heard = {q["send"]["streams"][0]["stream"] for q in arms}, {q["receive"]["streams"][0] for q in arms}
    assert len(sent) == 4 and sent == heard
    starts = [q for log in logs for q in log if q["op"] == "start"]
    instants = {q.get("at_monotonic_ns") for q in starts if q["half"] == "send"}
    assert [q["half"] for log in logs for q in log if q["op"] == "start"] == ["receive", "send"] * 2
    assert len(instants) == 1 and min(instants) > time.monotonic_ns() - 10**9
    assert sum(q["op"] == "open" for log in logs for q in log) == 4


@pytest.mark.parametrize(
    ("twist", "kind", "detail"),
    [
        ("if op == 'settle': ok['kernel_dropped'] = 3", DoubtKind.RX_DROPPED, "3 frames"),
        ("if op == 'settle': ok['streams'][0]['guessed'] = 4", DoubtKind.LEDGER_GUESSED, "4 frames"),
        ("if op == 'settle': ok['streams'][0]['corrupted'] = 5", DoubtKind.CORRUPTED_FRAMES, "5 frames"),
        (
            "if op == 'settle': ok['streams'][0]['latency']['negative'] = 6",
            DoubtKind.LATENCY_UNKNOWN,
            "6 frames arrived before they were sent",
        ),
    ],
)
async def test_what_only_the_engine_knows_becomes_a_doubt_on_the_link(engine, twist, kind, detail):
    outcome = await engine(twist).offer(offer())
    assert [(d.kind, d.detail, d.about) for d in outcome.doubts] == [(kind, detail, "a")]


async def test_frames_that_never_came_have_no_latency_and_no_source(engine):
    twist = "if op == 'settle': s = ok['streams'][0]; s.update(received=0, lost=s['sent'], duplicated=0, sources=[]); del s['latency']"
    one = engine(twist)
    assert (await one.offer(offer())).flows[0].latency is None
    assert (await one.probe("a")).source_seen is None


REFUSALS = [
    ("guard_refused", PortRefused, "source: eth-a carries the default route; set isolated: true"),
    ("no_such_interface", HostError, "source: eth-a carries the default route; set isolated: true"),
    ("port_lost", HostError, "source: eth-a carries the default route; set isolated: true"),
    ("unsupported", ToolFailed, "source: dutlab-engine: eth-a carries the default route; set isolated: true"),
]


@pytest.mark.parametrize(("kind", "error", "text"), REFUSALS)
async def test_a_refusal_is_told_in_the_agents_own_words_with_its_remedy(engine, kind, error, text):
    err = {"kind": kind, "message": "eth-a carries the default route", "remedy": "set isolated: true"}
    with pytest.raises(error) as caught:
        await engine(f"if op == 'open': return {{'err': {err!r}}}").offer(offer())
    assert str(caught.value) == text


@pytest.mark.parametrize("op", ["wait", "settle"])
async def test_a_port_that_failed_in_mid_trial_is_a_failure_of_its_host(engine, op):
    err = {"kind": "port_lost", "message": "eth-a went away"}
    with pytest.raises(HostError, match=f"{'source' if op == 'wait' else 'sink'}: eth-a went away"):
        await engine(f"if op == {op!r}: ok['err'] = {err!r}").offer(offer())


@pytest.mark.parametrize(
    ("twist", "says"),
    [
        ("if op == 'wait': sys.exit(3)", "source: dutlab-engine: ended with status 3 while it was needed"),
        ("if op == 'wait': sys.exit('out of luck')", "source: dutlab-engine: ended with status 1 while it was needed: out of luck"),
        ("if op == 'wait': os.kill(os.getpid(), 9)", "source: dutlab-engine: ended with status -9 while it was needed"),
        ("if op == 'settle': out('thread panicked at 12')", "sink: dutlab-engine: printed what is no reply: 'thread panicked at 12'"),
        ("if op == 'settle': out('[1]')", "sink: dutlab-engine: printed what is no reply: '[1]'"),
        ("if op == 'settle': out('{}')", "sink: dutlab-engine: printed what is no reply: '{}'"),
        ("if op == 'arm': return None", "sink: dutlab-engine: did not answer `arm` within 0.3 s"),
        ("if op == 'wait': ok['streams'] = []", "source: dutlab-engine: its account cannot be read: ValueError('nothing of stream 1')"),
        ("if op == 'settle': del ok['foreign']", "sink: dutlab-engine: its account cannot be read: KeyError('foreign')"),
        ("if op == 'settle': ok['streams'][0]['lost'] = 'many'", "sink: dutlab-engine: its account cannot be read: ValueError"),
        ("if op == 'wait': ok['streams'][0].pop('sent')", "source: dutlab-engine: its account cannot be read: KeyError('sent')"),
    ],
)
async def test_an_agent_that_breaks_fails_the_trial_in_one_sentence_and_the_next_has_a_new_one(engine, tmp_path, monkeypatch, twist, says):
    once = tmp_path / "broken"
    condition, breaks = twist.removeprefix("if ").split(": ", 1)
    one = engine(f"if {condition} and not Path({str(once)!r}).exists():\n        Path({str(once)!r}).touch()\n        {breaks}")
    await one.check()
    monkeypatch.setattr(agent_module, "REPLY_S", 0.3)
    monkeypatch.setattr(agent_module.Agent.ask, "__kwdefaults__", {"timeout_s": 0.3})
    with pytest.raises(ToolFailed) as caught:
        await one.offer(offer())
    assert says in str(caught.value)
    monkeypatch.setattr(agent_module.Agent.ask, "__kwdefaults__", {"timeout_s": 5.0})
    assert (await one.offer(offer())).flows[0].balances


async def test_a_host_that_vanished_is_the_reason_whatever_failed_first(engine, monkeypatch):
    one = engine("if op == 'wait': time.sleep(0.3); sys.exit(1)")
    await one.check()
    trial = asyncio.create_task(one.offer(offer()))
    await asyncio.sleep(0.15)
    monkeypatch.setattr(NeighbourlyHost, "gone", True)
    with pytest.raises(HostError, match="is gone"):
        await trial


async def test_an_agent_of_another_protocol_is_not_used(engine):
    with pytest.raises(ToolMissing, match=r"speaks protocol 2, this dutlab speaks 1; install dutlab and its engine from one release"):
        await engine("if op == 'hello': ok['protocol'] = 2").check()


async def test_an_engine_that_is_not_on_the_host_is_named_with_the_remedy(engine):
    with pytest.raises(ToolMissing, match=r"source: /nowhere/dutlab-engine cannot be started: .*no such program.*; copy the engine there"):
        await engine(binary="/nowhere/dutlab-engine").check()


async def test_versions_are_told_once_when_equal(engine):
    assert await engine().check() == "0.1.0"


async def test_closing_twice_and_using_again_is_harmless(engine):
    one = engine()
    await one.close()
    await one.offer(offer())
    await one.close()
    await one.close()
    assert (await one.probe("a")).sent == 10


def test_the_binary_named_in_the_environment_is_taken_or_missed_aloud(monkeypatch, tmp_path):
    binary = tmp_path / "engine"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("DUTLAB_ENGINE", str(binary))
    assert find_engine() == binary
    monkeypatch.setenv("DUTLAB_ENGINE", str(tmp_path / "absent"))
    with pytest.raises(ToolMissing, match=r"DUTLAB_ENGINE names .*absent, which cannot be run; correct or unset it"):
        find_engine()


def test_an_engine_that_is_nowhere_is_missed_with_the_way_to_build_it(monkeypatch, tmp_path):
    monkeypatch.delenv("DUTLAB_ENGINE", raising=False)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolMissing, match="build it"):
        find_engine()
    built = tmp_path / "debug" / "dutlab-engine"
    built.parent.mkdir()
    built.write_text("#!/bin/sh\n")
    built.chmod(0o755)
    assert find_engine() == built
