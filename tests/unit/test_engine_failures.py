"""Agents that refuse, break, vanish or speak otherwise, and an engine that is not there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dutlab.errors import FaultKind, HostError, PortRefused, ToolFailed, ToolMissing
from dutlab.tools.engine import agent as agent_module
from dutlab.tools.engine.agent import ReplyUnfit
from engine_agent import NeighbourlyHost, offer

pytestmark = pytest.mark.timing


async def test_an_agent_that_cannot_be_looked_at_fails_the_trial(engine):
    with pytest.raises(ReplyUnfit) as unfit:
        await engine(
            "if op == 'status' and 'receiving' in ok: del ok['receiving']['streams'][0]['next_sequence']\n    if op == 'wait': time.sleep(0.7)"
        ).offer(replace(offer(), stop_after_lost=1))
    assert (unfit.value.op, unfit.value.misfit.kind) == ("status", FaultKind.MISSING)
    assert unfit.value.misfit.path == "receiving.streams[0].next_sequence"


@pytest.mark.parametrize(
    ("op", "twist", "kind", "path"),
    [
        ("hello", "del ok['cpus']", FaultKind.MISSING, "cpus"),
        ("hello", "ok['colour'] = 'blue'", FaultKind.UNKNOWN_KEY, "colour"),
        ("open", "ok['backend'] = 'telepathy'", FaultKind.UNKNOWN_NAME, "backend"),
        ("start", "ok['at_monotonic_ns'] = True", FaultKind.TYPE, "at_monotonic_ns"),
        ("wait", "ok['streams'][0]['sent'] = -1", FaultKind.RANGE, "streams[0].sent"),
        ("wait", "ok['streams'][0]['seconds'] = 10**400", FaultKind.TYPE, "streams[0].seconds"),
        ("settle", "ok['streams'][0]['lost'] = 'many'", FaultKind.TYPE, "streams[0].lost"),
        ("settle", "ok['streams'][0]['latency']['histogram'] = [[1, 2, 3]]", FaultKind.TYPE, "streams[0].latency.histogram[0]"),
        ("settle", "ok['streams'] = None", FaultKind.TYPE, "streams"),
        ("wait", "ok['err'] = {'kind': 'bad_luck', 'message': ''}", FaultKind.UNKNOWN_NAME, "err.kind"),
        ("wait", "return {'err': 'no'}", FaultKind.TYPE, ""),
        ("event", "out(json.dumps({'event': 'failed', 'port': 'x'}))", FaultKind.MISSING, "err"),
    ],
)
async def test_what_does_not_fit_the_protocol_fails_the_trial_with_its_place_and_kind(engine, op, twist, kind, path):
    with pytest.raises(ReplyUnfit) as unfit:
        await engine(f"if op == {op.replace('event', 'wait')!r}: {twist}").offer(offer())
    assert (unfit.value.op, unfit.value.misfit.kind, unfit.value.misfit.path) == (op, kind, path)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("guard_refused", PortRefused), ("no_such_interface", HostError), ("port_lost", HostError), ("unsupported", ToolFailed)],
)
async def test_a_refusal_is_told_in_the_agents_own_words_with_its_remedy(engine, kind, error):
    err = {"kind": kind, "message": "eth-a carries the default route", "remedy": "set isolated: true"}
    with pytest.raises(error) as caught:
        await engine(f"if op == 'open': return {{'err': {err!r}}}").offer(offer())
    assert caught.value.remedy == err["remedy"] and err["message"] in caught.value.what


@pytest.mark.parametrize("op", ["wait", "settle"])
async def test_a_port_that_failed_in_mid_trial_is_a_failure_of_its_host(engine, op):
    err = {"kind": "port_lost", "message": "eth-a went away"}
    with pytest.raises(HostError) as lost:
        await engine(f"if op == {op!r}: ok['err'] = {err!r}").offer(offer())
    assert lost.value.host == ("source" if op == "wait" else "sink")


@pytest.mark.parametrize(
    ("twist", "host", "says"),
    [
        ("if op == 'wait': sys.exit('out of luck')", "source", "status 1 .*out of luck"),
        ("if op == 'wait': os.kill(os.getpid(), 9)", "source", "status -9"),
        ("if op == 'settle': out('thread panicked at 12')", "sink", "thread panicked at 12"),
        ("if op == 'settle': out('[1]')", "sink", r"'\[1\]'"),
        ("if op == 'settle': out('{}')", "sink", "'{}'"),
        ("if op == 'arm': return None", "sink", "`arm` within 1 s"),
        ("if op == 'wait': ok['streams'] = []", "source", "stream 1"),
        ("if op == 'settle': del ok['foreign']", "sink", "`foreign` is missing"),
    ],
)
async def test_an_agent_that_breaks_fails_the_trial_and_the_next_has_a_new_one(engine, tmp_path, monkeypatch, twist, host, says):
    once = tmp_path / "broken"
    condition, breaks = twist.removeprefix("if ").split(": ", 1)
    one = engine(f"if {condition} and not Path({str(once)!r}).exists():\n        Path({str(once)!r}).touch()\n        {breaks}")
    await one.check()
    reply_s = 1.0 if "within 1 s" in says else 60.0
    monkeypatch.setattr(agent_module.Agent.ask, "__kwdefaults__", {"timeout_s": reply_s})
    with pytest.raises(ToolFailed, match=says) as caught:
        await one.offer(offer())
    assert (caught.value.tool, caught.value.host) == ("dutlab-engine", host)
    monkeypatch.setattr(agent_module.Agent.ask, "__kwdefaults__", {"timeout_s": 60.0})
    assert (await one.offer(offer())).flows[0].balances


async def test_a_host_that_vanished_is_the_reason_whatever_failed_first(engine, monkeypatch, tmp_path):
    waits, gone = tmp_path / "waits", tmp_path / "gone"
    until_gone = f"while not Path({str(gone)!r}).exists(): time.sleep(0.02)"
    one = engine(f"if op == 'wait':\n        Path({str(waits)!r}).touch()\n        {until_gone}\n        sys.exit(1)")
    await one.check()
    trial = asyncio.create_task(one.offer(offer()))
    while not waits.exists():
        await asyncio.sleep(0.01)
    monkeypatch.setattr(NeighbourlyHost, "gone", True)
    gone.touch()
    with pytest.raises(HostError, match="is gone"):
        await trial


@pytest.mark.parametrize(
    ("twist", "binary", "says"),
    [("if op == 'hello': ok['protocol'] = 99", None, "protocol 99"), ("pass", "/nowhere/dutlab-engine", "/nowhere")],
)
async def test_an_engine_of_another_protocol_or_none_is_named_with_the_remedy(engine, twist, binary, says):
    with pytest.raises(ToolMissing, match=says) as missing:
        await engine(twist, binary=binary).check()
    assert missing.value.tool == "dutlab-engine" and missing.value.remedy
