"""Agents that refuse, break, vanish or speak otherwise, and an engine that is not there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dutlab.errors import HostError, PortRefused, ToolFailed, ToolMissing
from dutlab.tools.engine import agent as agent_module
from engine_agent import NeighbourlyHost, offer

pytestmark = pytest.mark.timing


async def test_an_agent_that_cannot_be_looked_at_fails_the_trial(engine):
    with pytest.raises(ToolFailed, match=r"sink: dutlab-engine: its account cannot be read: KeyError\('next_sequence'\)"):
        await engine(
            "if op == 'status' and 'receiving' in ok: del ok['receiving']['streams'][0]['next_sequence']\n    if op == 'wait': time.sleep(0.7)"
        ).offer(replace(offer(), stop_after_lost=1))


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
        (
            "if op == 'settle': out('thread panicked at 12')",
            "sink: dutlab-engine: printed something that is not a reply: 'thread panicked at 12'",
        ),
        ("if op == 'settle': out('[1]')", "sink: dutlab-engine: printed something that is not a reply: '[1]'"),
        ("if op == 'settle': out('{}')", "sink: dutlab-engine: printed something that is not a reply: '{}'"),
        ("if op == 'arm': return None", "sink: dutlab-engine: did not answer `arm` within 3 s"),
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
    reply_s = 3.0 if "within 3 s" in says else 60.0
    monkeypatch.setattr(agent_module.Agent.ask, "__kwdefaults__", {"timeout_s": reply_s})
    with pytest.raises(ToolFailed) as caught:
        await one.offer(offer())
    assert says in str(caught.value)
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


async def test_an_agent_of_another_protocol_is_not_used(engine):
    with pytest.raises(ToolMissing, match=r"speaks protocol 2, this dutlab speaks 1; install dutlab and its engine from one release"):
        await engine("if op == 'hello': ok['protocol'] = 2").check()


async def test_an_engine_that_is_not_on_the_host_is_named_with_the_remedy(engine):
    with pytest.raises(ToolMissing, match=r"source: /nowhere/dutlab-engine cannot be started: .*no such program.*; copy the engine there"):
        await engine(binary="/nowhere/dutlab-engine").check()
