"""What becomes of the answers of agents that keep to the protocol: flows, doubts, facts, raw output."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from dutlab.doubts import DoubtKind
from dutlab.methods import ledger
from dutlab.spec.wire_form import WireForm
from engine_agent import SCHEMA, NeighbourlyHost, asked, offer

pytestmark = pytest.mark.timing


async def test_the_fake_agent_keeps_to_the_contract_too_and_the_raw_file_of_a_trial_holds_that_trial_alone(engine):
    one = engine()
    outcome = await one.offer(offer())
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for raw in outcome.raw.values():
        for line in raw.splitlines():
            validator.validate(json.loads(line))
    await one.probe(["a"])
    second = await one.offer(offer())
    assert len(second.raw["engine-source.jsonl"].splitlines()) == len(outcome.raw["engine-source.jsonl"].splitlines()) - 2  # the hello


async def test_an_offer_becomes_flows_facts_raw_and_readings(engine):
    outcome = await engine().offer(offer("a"))
    (flow,) = outcome.flows
    counted = (flow.intended_frames, flow.sent_frames, flow.received_frames, flow.duplicated_frames, flow.reordered_frames)
    assert (flow.link, counted) == ("a", (2000, 2000, 2002, 2, 1))
    assert flow.balances
    assert (flow.sent_seconds, flow.mean_frame_bytes, flow.received_bytes) == (2.0, 64.0, 2002 * 64)
    assert flow.latency is not None and flow.latency.p99_ns == 4
    assert outcome.doubts == ()
    assert (flow.latency_error_ns, flow.timed_by) == (0, ""), "on one machine; by an engine that does not say"
    assert outcome.facts == {
        "engine_version": "0.1.0",
        "engine_ports": "source:eth-a: af_packet; source:eth-a: no GRO; sink:eth-a: af_packet; sink:eth-a: no GRO",
        "frame_sizes": "64/60/46 × 1 (bytes with FCS/without/IP)",
    }
    lines = [json.loads(line) for line in outcome.raw["engine-sink.jsonl"].splitlines()]
    assert {line.get("op") for line in lines} >= {"open", "arm", "start", "settle"}


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


class OtherMachine(NeighbourlyHost):
    boot = b"another\n"


async def test_between_machines_the_offset_of_their_clocks_is_measured_and_bounds_the_latency(engine, tmp_path):
    outcome = await engine(sink=OtherMachine, ahead=f"0 if list(Path({str(tmp_path)!r}).glob('asked-*')) else 10**15").offer(offer())
    receive = next(q["receive"] for log in asked(tmp_path) for q in log if "receive" in q)
    (of_stream,) = receive["sender_clocks"]
    source_ahead_ns, error_ns = of_stream["clock"]["ahead_ns"], int(outcome.facts["clock_error_ns"])
    assert [of_stream["stream"]] == receive["streams"]
    assert abs(abs(source_ahead_ns) - 10**15) <= error_ns < 10**10, "the bound of an exchange, not of the offset"
    assert int(outcome.facts["sink_clock_ahead_ns"]) == -source_ahead_ns
    assert outcome.flows[0].latency_error_ns == error_ns
    assert [d.kind for d in outcome.doubts] == [DoubtKind.LATENCY_ROUGH], "a median of 2 ns is not known by such clocks"


async def test_on_a_stick_one_port_sends_and_receives_and_its_clock_is_the_only_one(engine, tmp_path):
    outcome = await engine(sink=OtherMachine).through(WireForm(vlans=(10, 20))).offer(offer())
    (log,) = asked(tmp_path)
    assert [request["port"] for request in log if request["op"] == "open"] == ["source:eth-a"]
    (plan,) = (request["send"]["streams"][0] for request in log if "send" in request)
    assert plan["vlans"] == [{"id": 10}]
    assert outcome.flows[0].balances and "clock_error_ns" not in outcome.facts
    assert not outcome.flows[0].places


@pytest.mark.parametrize(("counted", "told"), [(60, 64), (64, 64), (61, 61)])
async def test_a_tag_that_a_port_removes_before_it_counts_belongs_to_the_received_bytes(engine, counted, told):
    twist = f"""
    if op == 'settle': ok['streams'][0]['received_bytes'] = {counted} * ok['streams'][0]['received']
    """
    on_a_stick = engine(twist.strip()).through(WireForm(vlans=(10, 20)))
    (flow,) = (await on_a_stick.offer(offer())).flows
    assert flow.received_bytes == told * flow.received_frames
    (plain,) = (await engine(twist.strip()).offer(offer())).flows
    assert plain.received_bytes == counted * plain.received_frames


async def test_who_timed_the_frames_is_in_the_flow_and_a_cards_error_is_that_of_the_latency(engine):
    twist = """
    if op == 'wait': ok['timed_by'] = 'engine'
    if op == 'settle': ok['timed_by'] = {'card': 1990, 'kernel': 12, 'engine': 0, 'card_error_ns': 40}
    """
    flow = (await engine(twist.strip()).offer(offer())).flows[0]
    assert (flow.sent_timed_by, flow.arrivals_timed_by, flow.latency_error_ns) == ("engine", {"card": 1990, "kernel": 12}, 40)
    assert flow.timed_by


@pytest.mark.parametrize(
    ("op", "twist", "doubts"),
    [
        ("settle", "ok['kernel_dropped'] = 3", {DoubtKind.RX_DROPPED: "3"}),
        (
            "settle",
            "del ok['kernel_dropped']; ok['streams'][0].update(reorder_extents_unknown=1, guessed=4, corrupted=5)",
            {
                DoubtKind.RX_DROPS_UNKNOWN: "",
                DoubtKind.REORDERING_PARTLY_KNOWN: "1",
                DoubtKind.LEDGER_GUESSED: "4",
                DoubtKind.CORRUPTED_FRAMES: "5",
            },
        ),
        (
            "settle",
            "ok['streams'][0].update(reordered=None, reorder_extent_max=None, reordered_at_least=3)",
            {DoubtKind.REORDERING_UNKNOWN: "at"},
        ),
        ("wait", "del ok['streams'][0]['backpressure']", {DoubtKind.REFUSALS_UNKNOWN: ""}),
        ("settle", "ok['streams'][0]['latency']['negative'] = 6", {DoubtKind.LATENCY_UNKNOWN: "6"}),
    ],
)
async def test_what_only_the_engine_knows_becomes_a_doubt_on_the_link(engine, op, twist, doubts):
    outcome = await engine(f"if op == {op!r}: {twist}").offer(offer())
    assert {d.kind: d.detail.partition(" ")[0] for d in outcome.doubts} == doubts
    assert {d.about for d in outcome.doubts} == {"a"}


async def test_an_order_that_is_not_known_is_none_in_the_flow_and_not_0(engine):
    twist = "if op == 'settle': ok['streams'][0].update(reordered=None, reorder_extent_max=None, reordered_at_least=3)"
    flow = (await engine(twist).offer(offer())).flows[0]
    assert (flow.reordered_frames, flow.reordered_at_least_frames, flow.reorder_extent_max) == (None, 3, None)


@pytest.mark.parametrize(("op", "set_down", "port"), [("wait", False, "source"), ("settle", True, "sink"), ("settle", False, "sink")])
async def test_a_link_that_went_down_is_named_with_whose_end_it_was_as_far_as_that_is_known(engine, op, set_down, port):
    outcome = await engine(f"if op == {op!r}: ok['link_lost'] = dict(times=1, set_down={set_down})").offer(offer())
    assert (port in outcome.link_lost, "not known" in outcome.link_lost) == (True, not set_down)


async def test_frames_beyond_what_was_sent_open_the_ledger_although_the_counts_alone_balance(engine):
    outcome = await engine("if op == 'settle': ok['streams'][0]['balances'] = False").offer(offer())
    flow = outcome.flows[0]
    assert flow.sent_frames + flow.duplicated_frames == flow.received_frames + flow.lost_frames and not flow.balances
    assert [(d.kind, d.about) for d in ledger.doubts_of(offer(), flow)] == [(DoubtKind.LEDGER_OPEN, "a")]


async def test_frames_that_never_came_have_no_latency_and_no_source(engine):
    twist = "if op == 'settle': s = ok['streams'][0]; s.update(received=0, lost=s['sent'], duplicated=0, sources=[]); del s['latency']"
    one = engine(twist)
    assert (await one.offer(offer())).flows[0].latency is None
    assert (await one.probe(["a"]))[0].source_seen is None


async def test_closing_twice_and_using_again_is_harmless(engine):
    one = engine()
    assert await one.check() == "0.1.0", "told once when equal"
    await one.close()
    await one.offer(offer())
    await one.close()
    await one.close()
    assert (await one.probe(["a"]))[0].sent == 10
