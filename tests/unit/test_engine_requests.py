"""What the engine's driver asks of its agents, in the words of the protocol."""

from __future__ import annotations

import time
from dataclasses import replace
from ipaddress import ip_address

import jsonschema
import pytest
from pydantic import ValidationError

from dutlab.methods.ports import Stretch
from dutlab.spec.links import Port
from dutlab.spec.traffic import Directions, Traffic
from dutlab.tools.engine.load import Direction, EngineLoad
from dutlab.units import Pps, Seconds
from engine_agent import BED, SCHEMA, asked, offer


async def test_every_request_keeps_to_the_contract(engine, tmp_path):
    one = engine()
    await one.offer(offer("a", "b", rate=None, warmup=0.5, size="imix"))
    await one.probe(["b"], reverse=True)
    validator = jsonschema.Draft202012Validator({"$ref": "#/$defs/Request", "$defs": SCHEMA["$defs"]})
    requests = [q for of_agent in asked(tmp_path) for q in of_agent]
    assert {q["op"] for q in requests} == {"hello", "open", "arm", "start", "wait", "status", "settle", "close"}
    for q in requests:
        validator.validate(q)


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
    assert outcome.flows[0].intended_frames == 2000


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


async def test_a_port_that_links_share_is_isolated_only_if_all_of_them_are(engine, tmp_path):
    def direction(link: str, *, isolated: bool) -> Direction:
        ends = Port(host="source", interface=f"eth-{link}"), Port(host="sink", interface="eth-a")
        return Direction(link, link, *ends, "172.16.0.2", "172.16.10.2", "02:00:00:00:00:01", 1, isolated=isolated)

    async with engine()._opened([direction("a", isolated=True), direction("b", isolated=False)]):
        pass
    opened = {q["port"]: q["guard"]["isolated"] for log in asked(tmp_path) for q in log if q["op"] == "open"}
    assert opened == {"source:eth-a": True, "source:eth-b": False, "sink:eth-a": False}


async def test_a_port_takes_as_many_cores_as_its_host_says_and_the_next_port_the_next_ones(engine, tmp_path, monkeypatch):
    one = engine(cpus={"source": (4, 5, 6), "sink": (1,)}, backend="af_packet")
    hosts = {name: host.model_copy(update={"cpus_per_port": 2}) if name == "source" else host for name, host in BED.hosts.items()}
    monkeypatch.setattr(one, "_testbed", BED.model_copy(update={"hosts": hosts}))
    await one.offer(offer("a", "b"))
    opened = {q["port"]: q.get("cpu") for log in asked(tmp_path) for q in log if q["op"] == "open"}
    assert opened == {"source:eth-a": [4, 5], "source:eth-b": [6, 4], "sink:eth-a": 1, "sink:eth-b": 1}


async def test_a_port_has_the_back_end_that_its_host_names(engine, tmp_path, monkeypatch):
    one = engine(cpus={"source": (), "sink": ()})
    hosts = {name: host.model_copy(update={"backend": "af_xdp"}) if name == "source" else host for name, host in BED.hosts.items()}
    monkeypatch.setattr(one, "_testbed", BED.model_copy(update={"hosts": hosts}))
    await one.offer(offer("a"))
    opened = {q["port"]: q["backend"] for log in asked(tmp_path) for q in log if q["op"] == "open"}
    assert opened == {"source:eth-a": "af_xdp", "sink:eth-a": "auto"}


async def test_a_probe_is_ten_frames_at_1_kpps_as_a_new_flow_each_time(engine, tmp_path):
    one = engine()
    (seen,) = await one.probe(["a"])
    assert (seen.sent, seen.received, seen.source_seen) == (10, 12, "172.16.10.1")
    await one.probe(["a"], reverse=True)
    plans = [q["send"]["streams"][0] for log in asked(tmp_path) for q in log if "send" in q]
    assert [(p["frames"], p["rate"]) for p in plans] == [(10, {"pps": 1000.0})] * 2
    ways = sorted((p["source"], p["destination"]) for p in plans)
    assert ways == [("172.16.0.2", "172.16.10.2"), ("172.16.10.2", "172.16.0.2")]
    assert plans[0]["source_port"] != plans[1]["source_port"]


@pytest.mark.parametrize(
    ("status", "waits"),
    [
        ("ok['receiving']['streams'][0].update(received=10)", False),
        ("ok['receiving']['streams'][0].update(received=9)", True),
        ("del ok['receiving']", True),  # a receiver that had no CPU yet
    ],
)
async def test_a_probe_waits_for_late_frames_unless_all_came_for_certain(engine, tmp_path, status, waits):
    await engine(f"if op == 'status': {status}").probe(["a"])
    requests = [q["op"] for log in asked(tmp_path) for q in log]
    assert (requests.count("status") > 1, requests.count("settle")) == (waits, 1)


async def test_links_are_probed_at_once_each_as_a_flow_of_its_own(engine, tmp_path):
    seen = await engine().probe(["a", "b"])
    assert [str(of.flow.source) for of in seen] == ["172.16.0.2", "172.16.1.2"]
    assert [q["ports"] for log in asked(tmp_path) for q in log if q["op"] == "start" and q["half"] == "send"] == [
        ["source:eth-a", "source:eth-b"]
    ]


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


async def test_a_port_that_learns_reads_frames_and_answers_them_by_what_it_learned(engine, tmp_path):
    one, connections = engine(), Traffic.model_validate({"flows": {"count": 9, "source_ports": 9}})
    begun = await one.offer(replace(offer("a"), learns=True, frames=9, traffic=connections))
    await one.offer(replace(offer("a"), directions=Directions.BOTH, answers_learned=True, traffic=connections))
    requests = [q for log in asked(tmp_path) for q in log]
    opened = [(q["port"], q["backend"]) for q in requests if q["op"] == "open"]
    assert [backend for port, backend in opened if port.startswith("source")] == ["auto", "auto"]
    assert [backend for port, backend in opened if port.startswith("sink")] == ["af_packet", "auto"]
    sends = [q["send"] for q in requests if "send" in q]
    (first,) = [send for send in sends if send["streams"][0].get("frames") == 9]
    loads = [send for send in sends if send is not first]
    assert "duration_ns" not in first
    (learning,) = [q["receive"] for q in requests if "learn" in q.get("receive", {})]
    assert [learning["learn"]] == learning["streams"] == [first["streams"][0]["stream"]]
    streams = {load["streams"][0]["source"]: load["streams"][0] for load in loads}
    assert (streams["172.16.10.2"]["learned"], "flows" in streams["172.16.10.2"]) == (True, False)
    assert ("learned" in streams["172.16.0.2"], "flows" in streams["172.16.0.2"]) == (False, True)
    assert begun.learned == {}, "this agent learns nothing"


def test_frames_that_go_back_as_answers_have_the_addresses_of_what_they_answer():
    ends = Port(host="source", interface="eth-a"), Port(host="sink", interface="eth-a")
    there = Direction("a", "a", *ends, "172.16.0.2", "172.16.10.2", "02:00:00:00:00:01", 49152, isolated=True)
    back = replace(there, name="a.back", sends_on=ends[1], receives_on=ends[0], source=there.destination, destination=there.source)
    load = EngineLoad(replace(offer("a"), directions=Directions.BOTH, back_answers=True, answered=ip_address("198.51.100.9")))
    (forward,), (answer,) = (load.send_plan(of, 1)["streams"] for of in (there, back))
    assert "answers" not in forward and forward["source"] == "172.16.0.2"
    assert (answer["answers"], answer["source"], answer["destination"]) == (True, "198.51.100.9", "172.16.10.2")
