"""pkt-gen's adapter against a stand-in with its options, lines and ends. No netmap was there."""

from __future__ import annotations

import asyncio
from itertools import groupby
from pathlib import Path

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import Done
from dutlab.hosts.local import LocalHost
from dutlab.labs import description
from dutlab.methods.ports import Offer
from dutlab.spec.generators.pkt_gen import PktGenModel
from dutlab.spec.mixes import frame_mix
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators import pkt_gen
from dutlab.tools.generators.pkt_gen import PktGenOutputs, flow_of, readings_of
from dutlab.units import Pps, Seconds
from generator_files import direction

STAND_IN = Path(__file__).parents[1] / "stand_ins" / "pkt_gen.py"
SENT = b"Sent 1000 packets 60000 bytes 10 events 60 bytes each in 2.00 seconds.\n"


def received(packets):
    return b"Received %d packets 60000 bytes 10 events 60 bytes each in 2.00 seconds.\n" % packets


def heard(sender=SENT, receiver=b"", *, reports=(b"", b""), ahead_s=0.0, started_s=5_000.0):
    ends = [
        Done(role, ("timeout",), 0, out, err, started_s, 2.0)
        for role, out, err in zip(("source", "sink"), (sender, receiver), reports, strict=True)
    ]
    return PktGenOutputs(direction(), *ends, ahead_s)


@pytest.fixture
def came(tmp_path, monkeypatch):
    """How many frames the receiver is to say it received."""
    monkeypatch.setenv("PKT_GEN_CAME", str(tmp_path / "came"))
    monkeypatch.setattr(pkt_gen, "LINK_WAIT_S", 0.5)
    monkeypatch.setattr(pkt_gen, "READY_S", 0.2)

    async def directions_of(*_):
        return [direction()]

    monkeypatch.setattr(pkt_gen, "directions_of", directions_of)
    return tmp_path / "came"


def offered(model, *, rate=5000.0, warmup=0.0):
    async def drive():
        host = LocalHost("source")
        tool = pkt_gen.PktGen(
            model, GeneratorSite({"source": host, "sink": host}, description("three-node").testbed, {"source": [1]}, None)
        )
        try:
            await tool.check()
            offer = Offer(("a",), frame_mix(64), None if rate is None else Pps(rate), Seconds(1.0), Seconds(warmup), Seconds(0.1))
            return await tool.offer(offer)
        finally:
            await host.close()

    return asyncio.run(drive())


@pytest.mark.parametrize("form", ["2015", "then", "now"])
def test_a_trial_has_what_both_ends_say_and_their_reports_meet_in_time(came, monkeypatch, form):
    monkeypatch.setenv("PKT_GEN_FORM", form)
    came.write_text("4900")
    outcome = offered(PktGenModel.model_validate({"program": str(STAND_IN)}))
    (flow,) = outcome.flows
    assert (flow.intended_frames, flow.sent_frames, flow.received_frames, flow.lost_frames) == (5000, 5000, 4900, 100)
    assert flow.balances
    assert {d.kind for d in outcome.doubts} == {DoubtKind.QUEUED_NOT_SENT}
    assert {r.name for r in outcome.readings} == {"offered_pps", "received_pps", "lost_pps"}
    assert all(r.value == pytest.approx(5000, rel=0.2) for r in outcome.readings if r.name == "offered_pps")
    assert set(outcome.raw) == {"pkt-gen-a-tx.txt", "pkt-gen-a-rx.txt"}


def test_it_is_told_sizes_without_fcs_a_number_of_frames_and_its_cores(came):
    came.write_text("1")
    offered(PktGenModel.model_validate({"program": str(STAND_IN), "streams": 2}), warmup=0.2)
    warm, counted = came.with_suffix(".tx").read_text().splitlines()
    (rx,) = came.with_suffix(".rx").read_text().splitlines()
    assert "-n 1000" in warm
    assert "-i netmap:eth1 -f tx" in counted
    assert "-l 60 -s 10.0.1.2:49152 -d 10.0.2.2:7 -D 02:00:00:00:00:02 -p 2 -R 5000 -n 5000 -a 1" in counted
    assert "-i netmap:eth1 -f rx" in rx


def test_as_fast_as_it_can_is_ended_after_its_time(came):
    came.write_text("100")
    outcome = offered(PktGenModel.model_validate({"program": str(STAND_IN)}), rate=None)
    assert outcome.flows[0].intended_frames == outcome.flows[0].sent_frames > 1000


def test_a_program_that_is_not_there_or_is_another_one_is_told():
    for program in ("/nonexistent/pkt-gen", "/bin/true"):
        with pytest.raises(ToolMissing, match="source: pkt-gen is not there; build it from netmap"):
            offered(PktGenModel.model_validate({"program": program}))


@pytest.mark.parametrize(
    ("sender", "receiver", "why"),
    [
        (b"", received(1), "source: pkt-gen: ended with 0 and no account of its frames: it printed nothing"),
        (SENT, b"netmap: cannot open\n", "sink: pkt-gen: ended with 0 and no account of its frames: netmap: cannot open"),
        (SENT, b"\xff\xfe\x00", "sink: pkt-gen: ended with 0"),
        (b"Sent nothing.\n", received(1), "source: pkt-gen: sent nothing"),
    ],
)
def test_an_end_without_an_account_is_one_sentence_and_the_raw_output_stays(sender, receiver, why):
    with pytest.raises(ToolFailed, match=why) as failed:
        flow_of(heard(sender, receiver), 64, asked=None)
    assert failed.value.raw["pkt-gen-a-rx.txt"] == receiver


def test_a_handful_more_than_sent_are_strangers_and_more_of_them_is_negative_loss():
    assert (flow_of(heard(receiver=received(1003)), 64, asked=1200).foreign_frames, 1200) == (3, 1200)
    flow = flow_of(heard(receiver=received(1100)), 64, asked=1200)
    assert (flow.lost_frames, flow.refused_frames) == (-100, 200)
    assert flow.balances


def test_readings_stand_at_the_senders_clock_though_its_lines_begin_again_and_the_other_clock_is_ahead():
    line = b"%07.6f main_thread [1] %d pps (%d pkts in 1000000 usec)\n"
    sent = b"".join(line % (at, 100, 100) for at in (998.5, 999.5)) + b"000.500000 main_thread [1] 100 pps (100 pkts in 1000000 usec)\n"
    arrived = b"003.000000 main_thread [1] 90 pps (90 pkts in 1000000 usec)\n"
    found = readings_of(heard(reports=(sent, arrived), ahead_s=3.0, started_s=4_997.5))
    assert [(r.at_s, r.name, r.value) for r in found] == []  # its end, 0.0 by the sender, is modulo 1000 and a round behind
    arrived = b"999.000000 main_thread [1] 1 pps (1 pkts in 1000000 usec)\n003.000000 main_thread [1] 90 pps (90 pkts in 1000000 usec)\n"
    found = readings_of(heard(reports=(sent, arrived), ahead_s=3.0, started_s=4_997.5))
    assert [(at, {r.name: r.value for r in group}) for at, group in groupby(found, lambda r: r.at_s)] == [
        (5_000.0, {"offered_pps": 100.0, "received_pps": 90.0, "lost_pps": 10.0})
    ]
