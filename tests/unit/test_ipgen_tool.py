"""ipgen's adapter against a stand-in that carries its scripts out and writes its log. No ipgen was there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import ip_interface
from pathlib import Path
from types import SimpleNamespace

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.local import LocalHost
from dutlab.methods.ledger import negative_loss
from dutlab.methods.ports import Offer
from dutlab.spec.generators.ipgen import IpgenModel
from dutlab.spec.links import Link, Port
from dutlab.spec.mixes import frame_mix
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators import ipgen
from dutlab.tools.generators.ipgen import ends_of, flow_of, script_of, since_cleared, still_moving
from dutlab.tools.generators.ipgen_log import parse_answer, parse_log
from dutlab.units import Pps, Seconds
from generator_files import direction
from ipgen_files import line
from outputs import output

STAND_IN = Path(__file__).parents[1] / "stand_ins" / "ipgen.py"


def link(interface="lo"):
    ends = (("source", interface), ("dut", "eth1"), ("dut", "eth2"), ("sink", interface))
    ports = tuple(Port(host=host, interface=name) for host, name in ends)
    addresses = tuple(ip_interface(a) for a in ("10.0.1.2/24", "10.0.1.1/24", "10.0.2.1/24", "10.0.2.2/24"))
    return Link(name="a", path=ports, addresses=addresses)


def wanted(size=64, rate=1000.0, duration=3.0, warmup=0.0, drain=0.5):
    return Offer(("a",), frame_mix(size), None if rate is None else Pps(rate), Seconds(duration), Seconds(warmup), Seconds(drain))


@pytest.fixture(autouse=True)
def _passed(monkeypatch):
    """What the stand-in is told by the environment."""
    monkeypatch.setenv("DUTLAB_PASS_VARIABLES", "IPGEN_LOSES IPGEN_BEHIND IPGEN_MAKES IPGEN_LACKS")


def offered(monkeypatch, offer, *, interface="lo", **options):
    async def directions_of(*_):
        return [direction()]

    monkeypatch.setattr(ipgen, "directions_of", directions_of)

    async def drive():
        host = LocalHost("source")
        testbed = SimpleNamespace(links={"a": link(interface)})
        model = IpgenModel.model_validate({"program": str(STAND_IN), **options})
        tool = ipgen.Ipgen(model, GeneratorSite({"source": host, "sink": host}, testbed, {}, None))
        try:
            return await tool.check(), await tool.offer(offer)
        finally:
            await host.close()

    return asyncio.run(drive())


def test_a_trial_is_a_script_and_its_loss_is_sent_less_received_at_the_end_of_the_drain(monkeypatch, tmp_path):
    monkeypatch.setenv("IPGEN_LOSES", "10")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    version, outcome = offered(monkeypatch, wanted(warmup=2.0))
    assert not list(tmp_path.iterdir()), "nothing of a trial is left on the host"
    (flow,) = outcome.flows
    assert version == "1.30"
    assert (flow.intended_frames, flow.sent_frames, flow.received_frames, flow.lost_frames) == (3000, 3000, 2700, 300)
    assert flow.balances
    assert outcome.raw["ipgen-a.script"] == b"2 tx1 46 1000\n1 tx1 46 0\n0 reset\n3 tx1 46 1000\n2 tx1 46 0\n"
    assert outcome.facts["ipgen_latency_max_ns"] == "250000"
    assert [r.value for r in outcome.readings if r.name == "offered_pps"] == [1000, 1000, 1000, 0, 0]
    assert b"pktsize" in outcome.raw["ipgen-a.txt"]


def test_a_log_whose_lines_are_an_interval_behind_is_read_when_nothing_moves_any_more(monkeypatch):
    monkeypatch.setenv("IPGEN_BEHIND", "1")
    monkeypatch.setenv("IPGEN_LOSES", "10")
    _, outcome = offered(monkeypatch, wanted())
    (flow,) = outcome.flows
    assert (flow.sent_frames, flow.received_frames, flow.lost_frames) == (3000, 2700, 300)
    assert outcome.doubts == ()


def test_a_rate_that_it_does_not_reach_is_a_doubt_although_it_says_nothing(monkeypatch):
    monkeypatch.setenv("IPGEN_MAKES", "700")
    _, outcome = offered(monkeypatch, wanted(), benchmark=3, cores=[0])
    (flow,) = outcome.flows
    assert outcome.facts["ipgen_XXX_pps"] == "core 0: 1000000", "its benchmark is pinned to each core"
    assert (flow.intended_frames, flow.sent_frames, flow.refused_frames) == (3000, 2100, 900)
    (doubt,) = outcome.doubts
    assert doubt.kind is DoubtKind.TX_STARVED and "1 kpps" in doubt.detail and "700 pps" in doubt.detail


def test_frames_that_still_move_in_its_last_interval_and_more_received_than_sent_are_doubts():
    at_rest, moving = (parse_log(line(tx=1000, rx=rx))[0][0] for rx in (990, 1002))
    assert "1000 frames/s" in still_moving([moving]) and "990 frames/s" in still_moving([at_rest, moving])
    assert still_moving([moving, replace(at_rest, offered_pps=0, received_pps=0)]) == ""
    flow = flow_of(direction(), moving, 64, wanted(duration=1.0))
    assert [(d.kind, d.detail) for d in negative_loss(flow)] == [(DoubtKind.NEGATIVE_LOSS, "sent 1000, received 1002")]


def test_a_field_that_its_log_lacks_is_named(monkeypatch):
    monkeypatch.setenv("IPGEN_LACKS", "RX")
    with pytest.raises(ToolFailed, match="line 1: no RX"):
        offered(monkeypatch, wanted())


def test_a_script_counts_in_layer_3_and_in_whole_seconds_and_each_end_has_port_gateway_and_address():
    assert script_of(wanted(1518, rate=None, duration=2.2, drain=0.0), 1518) == ("0 reset\n3 tx1 1500 148809524\n2 tx1 1500 0\n", 5)
    assert ends_of(link("ix0")) == ["-T", "ix0,10.0.1.1,10.0.1.2/24", "-R", "ix0,10.0.2.1,10.0.2.2/24"]


def test_a_program_or_a_port_that_is_not_there_is_told(monkeypatch):
    with pytest.raises(ToolMissing) as caught:
        offered(monkeypatch, wanted(), program="/nonexistent/ipgen")
    assert caught.value.tool == "ipgen" and caught.value.remedy
    with pytest.raises(ToolMissing, match=r"eth77\b"):
        offered(monkeypatch, wanted(), interface="eth77")


@pytest.mark.parametrize(
    ("program", "why"),
    [("echo cannot open ix0 >&2; exit 2", "ended with 2 and an empty log: cannot open ix0"), ('echo "\xff" >"$7"', "an empty log")],
)
def test_a_log_that_says_nothing_is_one_sentence(monkeypatch, tmp_path, program, why):
    script = tmp_path / "ipgen"
    script.write_text(f'#!/bin/sh\ncase "$*" in *-X*) echo "ipgen v1";; *) {program};; esac\n')
    script.chmod(0o755)
    with pytest.raises(ToolFailed, match=f"source: ipgen: .*{why}"):
        offered(monkeypatch, wanted(), program=str(script))


# ---- ipgen's log and answer, with its traps


def test_a_second_has_frames_with_fcs_and_loss_by_sent_less_received():
    (second,), faults = parse_log(line() + "\n\n")
    assert faults == []
    assert (second.frame_bytes, second.sent, second.received, second.lost, second.reordered) == (64, 1000, 990, 10, 2)
    assert second.latency_avg_ns == pytest.approx(50_000)
    assert second.latency_max_ns == pytest.approx(250_000)


def test_frames_of_others_in_a_recorded_log_are_neither_received_nor_moving():
    """Log of ipgen 1.31 (commit 121ac92) on AF_XDP, 2026-11-28: 10 kpps of 1518 bytes through a Linux router for 3 s, on a busy machine.

    A neighbour resolved ARP twice in the drain, and ipgen's total of received frames has both.
    """
    log, faults = parse_log(output("ipgen", "log-1.31"))
    assert faults == []
    measured = since_cleared(log)
    assert len(measured) < len(log), "the reset after the warm-up is in the log"
    assert [(s.sent, s.received, s.foreign, s.lost) for s in measured[-2:]] == [(7281, 7281, 1, 0), (7281, 7281, 2, 0)]
    assert measured[-1].frame_bytes == 1518
    assert still_moving(measured) == ""
    flow = flow_of(direction(), measured[-1], 1518, wanted())
    assert (flow.foreign_frames, flow.lost_frames, flow.balances, list(negative_loss(flow))) == (2, 0, True, [])


def test_a_duplicate_hides_no_loss():
    assert parse_log(line(rx=1000, dup=7))[0][0].lost == 7


def test_latencies_of_a_log_that_reached_a_second_are_not_trusted():
    (second,), _ = parse_log(line(latency=999.5))
    assert (second.latency_min_ns, second.latency_avg_ns, second.latency_max_ns) == (None, None, None)


def test_lines_that_cannot_be_read_are_named_and_the_others_kept():
    seconds, faults = parse_log(line() + "\n" + line()[:40] + "\n{}\n")
    assert len(seconds) == 1
    assert [f.split(":")[0] for f in faults] == ["line 2", "line 3"]


def test_the_answer_is_read_although_every_value_is_a_text():
    text = '{"framesize":{"1518":{"bps":"986999824","curpps":"81274","limitpps":"81274"},"64":{"bps":"500000000","curpps":"744048","limitpps":"1488095"}}}'
    assert [(a.frame_bytes, a.pps, a.ceiling_pps) for a in parse_answer(text)] == [(64, 744048.0, 1488095.0), (1518, 81274.0, 81274.0)]


@pytest.mark.parametrize("text", ["[]", "{}", '{"framesize": 3}', "nothing"])
def test_what_is_no_answer_says_so(text):
    with pytest.raises(ValueError, match=r"not an answer|Expecting"):
        parse_answer(text)
