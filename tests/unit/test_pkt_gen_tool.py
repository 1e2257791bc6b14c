"""pkt-gen's adapter against a stand-in with its options, lines and ends. No netmap was there."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.doubts import DoubtKind
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import Done, no_such_program
from dutlab.labs import description
from dutlab.methods.ports import Offer
from dutlab.spec.generators.pkt_gen import PktGenModel
from dutlab.spec.mixes import frame_mix
from dutlab.systems.linux import LINUX
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators import pkt_gen
from dutlab.tools.generators.pkt_gen import PktGenOutputs, flow_of, readings_of
from dutlab.tools.generators.pkt_gen_log import Report, matched, parse
from dutlab.units import Pps, Seconds
from generator_files import PKT_GEN_NOW, PKT_GEN_OF_2015, PKT_GEN_THEN, direction

START_S = 5_000.0
WITHOUT_NETMAP = (Path(__file__).parents[1] / "data" / "pkt-gen" / "without-netmap.txt").read_bytes()
SENT = b"Sent 1000 packets 60000 bytes 10 events 60 bytes each in 2.00 seconds.\n"


def received(packets):
    return b"Received %d packets 60000 bytes 10 events 60 bytes each in 2.00 seconds.\n" % packets


def heard(sender=SENT, receiver=b"", *, reports=(b"", b""), ahead_s=0.0, started_s=5_000.0):
    ends = [
        Done(role, ("timeout",), 0, out, err, started_s, 2.0)
        for role, out, err in zip(("source", "sink"), (sender, receiver), reports, strict=True)
    ]
    return PktGenOutputs(direction(), *ends, ahead_s)


class PktGenHost:
    """A machine with netmap's pkt-gen: its options, its lines in the three forms that they have had, and its ends, without a port or a clock."""

    name, system = "source", LINUX

    def __init__(self, came, form):
        self.came, self.form, self.ran = came, form, []

    async def run(self, argv, *, timeout_s=30.0, check=True):
        if argv == ["pkt-gen", "-h"]:
            return self._done(argv, "", "usage: pkt-gen [-i interface] [-f tx|rx|ping|pong]")
        if argv[0] != "timeout":
            return no_such_program(self.name, argv) if "nonexistent" in argv[0] else self._done(argv, "", "")
        longest_s, words = float(argv[3]), argv[5:]
        self.ran.append(" ".join(words))
        options = dict(zip(words[::2], words[1::2], strict=True))
        sends, rate = options["-f"] == "tx", float(options.get("-R", "5000"))
        seconds = min(longest_s, float(options["-n"]) / rate if "-n" in options else longest_s)
        frames, word = (round(rate * seconds), "Sent") if sends else (self.came, "Received")
        lines = [self._line(START_S + 0.1 * n, rate) for n in range(1, round(seconds / 0.1) + 1)]
        end = f"{word} {frames} packets {frames * 60} bytes {frames} events 60 bytes each in {seconds:.2f} seconds."
        return self._done(argv, f"{end}\nSpeed: 5.000 Kpps Bandwidth: 2.400 Mbps (raw 3.360 Mbps).", "\n".join(lines))

    def _line(self, now, pps):
        head, rate, packets = f"{now % 1000:010.6f} main_thread", f"{pps / 1e3:.3f} K", f"{pps / 1e4:.3f} K"
        return {
            "2015": f"{head} [1418] {pps:.0f} pps ({pps / 10:.0f} pkts in 100000 usec)",
            "then": f"{head} [1708] {rate}pps ({packets}pkts 1.000 Mbps in 100000 usec) 3.00 avg_batch",
            "now": f"{head} [2781] {rate}pps [avg/std {rate}pps/0.000 pps]({packets}pkts 1.000 Mbps in 100000 usec) 3.00 avg_batch 0 min_space",
        }[self.form]

    def _done(self, argv, said, errors):
        return Done(self.name, tuple(argv), 0, said.encode(), errors.encode(), START_S, 2.0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    async def directions_of(*_):
        return [direction()]

    async def no_offset(_):
        return 0

    for name, value in {"LINK_WAIT_S": 0, "READY_S": 0.0, "directions_of": directions_of, "_clock_ns": no_offset}.items():
        monkeypatch.setattr(pkt_gen, name, value)


async def offered(came=1, form="now", *, rate=5000.0, warmup=0.0, **model):
    host = PktGenHost(came, form)
    place = GeneratorSite({"source": host, "sink": host}, description("three-node").testbed, {"source": [1]}, None)
    tool = pkt_gen.PktGen(PktGenModel.model_validate({"program": "pkt-gen", **model}), place)
    await tool.check()
    offer = Offer(("a",), frame_mix(64), None if rate is None else Pps(rate), Seconds(1.0), Seconds(warmup), Seconds(0.1))
    return await tool.offer(offer), host.ran


@pytest.mark.parametrize("form", ["2015", "then", "now"])
async def test_a_trial_has_what_both_ends_say_and_their_reports_meet_in_time(form):
    outcome, _ = await offered(4900, form)
    (flow,) = outcome.flows
    assert (flow.intended_frames, flow.sent_frames, flow.received_frames, flow.lost_frames) == (5000, 5000, 4900, 100)
    assert flow.balances
    assert {d.kind for d in outcome.doubts} == {DoubtKind.QUEUED_NOT_SENT}
    assert {r.name for r in outcome.readings} == {"offered_pps", "received_pps", "lost_pps"}
    assert all(r.value == pytest.approx(5000, rel=0.01) for r in outcome.readings if r.name == "offered_pps")
    assert set(outcome.raw) == {"pkt-gen-a-tx.txt", "pkt-gen-a-rx.txt"}


async def test_it_is_told_sizes_without_fcs_its_cores_and_a_number_of_frames_unless_as_many_as_it_can():
    _, (warm, rx, counted) = await offered(streams=2, warmup=0.2)
    assert "-n 1000" in warm
    assert "-i netmap:eth1 -f tx" in counted
    assert "-l 60 -s 10.0.1.2:49152 -d 10.0.2.2:7 -D 02:00:00:00:00:02 -p 2 -R 5000 -n 5000 -a 1" in counted
    assert "-i netmap:eth1 -f rx" in rx
    # As fast as it can is ended after its time.
    outcome, ran = await offered(100, rate=None)
    assert outcome.flows[0].intended_frames == outcome.flows[0].sent_frames == 5000 and "-n" not in ran[-1].split()


async def test_a_program_that_is_not_there_or_is_another_one_is_told():
    for program in ("/nonexistent/pkt-gen", "/bin/true"):
        with pytest.raises(ToolMissing) as missing:
            await offered(program=program)
        assert (missing.value.tool, missing.value.host) == ("pkt-gen", "source")


@pytest.mark.parametrize(
    ("sender", "receiver", "host", "why"),
    [
        (b"", received(1), "source", "printed nothing"),
        (SENT, b"netmap: cannot open\n", "sink", "cannot open"),
        (WITHOUT_NETMAP, b"", "source", "ended with 0 and no account of its frames: /dev/netmap: No such file or directory$"),
        (SENT, b"\xff\xfe\x00", "sink", "ended with 0"),
        (b"Sent nothing.\n", received(1), "source", "sent nothing"),
    ],
)
def test_an_end_without_an_account_fails_and_the_raw_output_stays(sender, receiver, host, why):
    with pytest.raises(ToolFailed, match=why) as failed:
        flow_of(heard(sender, receiver), 64, asked=None)
    assert failed.value.host == host
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


# ---- pkt-gen's lines in the three forms that it has had


@pytest.mark.parametrize(
    ("line", "report"),
    [
        (PKT_GEN_OF_2015, Report(870.571509, 1.062998, 1400176.0, 1488384.0)),
        (PKT_GEN_THEN, Report(143.205469, 1.001053, 33.0, 33.0)),
        (PKT_GEN_NOW, Report(12.000001, 1.001054, 14.88e6, 14.896e6)),
    ],
)
def test_each_form_is_read(line, report):
    (found,) = parse(line).reports
    assert (found.end_s, found.seconds) == (report.end_s, report.seconds)
    assert (found.pps, found.packets) == pytest.approx((report.pps, report.packets))


def test_the_closing_account_is_kept_and_the_clock_goes_on_after_1000_s():
    found = parse(
        PKT_GEN_OF_2015 + "Sent 14003000 packets 840180000 bytes 27350 events 60 bytes each in 10.01 seconds.\nSpeed: 1.399 Mpps\n"
    ).total
    assert (found.direction, found.packets, found.bytes, found.seconds) == ("Sent", 14003000, 840180000, 10.01)
    assert found.pps == pytest.approx(14003000 / 10.01)
    assert parse("Sent nothing.\n").total.packets == 0
    # The clock that begins again after 1000 s goes on.
    lines = "999.500000 main_thread [1] 10 pps (10 pkts in 1000000 usec)\n000.500000 main_thread [1] 20 pps (20 pkts in 1000000 usec)\n"
    assert [r.end_s for r in parse(lines).reports] == [999.5, 1000.5]
    # A line like a report that cannot be read is told by its number.
    assert parse(PKT_GEN_OF_2015 + "870.9 x\n871.571509 main_thread [1418] lots of pps\n").runs[0].unread == [3]


def test_reports_of_two_hosts_are_brought_together_by_time_not_by_place():
    sent = [Report(1.0, 1.0, 100.0, 100.0), Report(2.0, 1.0, 200.0, 200.0), Report(3.0, 1.0, 200.0, 200.0)]
    received = [Report(0.5, 1.0, 1.0, 1.0), Report(11.5, 1.0, 90.0, 90.0), Report(12.5, 1.0, 180.0, 180.0), Report(13.5, 1.0, 1.0, 1.0)]
    # the receiver's clock is 10 s ahead; its second line covers half of each of the sender's first two
    assert matched(sent, received, offset_s=10.0) == [(1.5, 150.0, 90.0), (2.5, 200.0, 180.0)]


@given(st.text("0123456789. main_thread[]pps(kts usec)\nSentRecvdM", max_size=120))
def test_any_text_is_read_or_passed_over(text):
    log = parse(text)
    assert all(r.seconds >= 0 for r in log.reports)
