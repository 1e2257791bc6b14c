"""The account of a generator that only sends, from the counters of two ports."""

from __future__ import annotations

import asyncio
import contextlib
from typing import ClassVar

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import ToolFailed
from dutlab.methods.ports import Offer
from dutlab.spec.mixes import frame_mix
from dutlab.tools.generators import counted
from dutlab.tools.generators.counted import CountedGenerator, Counts, SendReport
from dutlab.tools.generators.receive_counter import commands, packets_in, table_of
from dutlab.tools.path_counters import PortCount
from dutlab.units import Pps, Seconds
from generator_files import direction


class Saying:
    """A program that says it tried so many frames."""

    tool = "saying"

    def __init__(self, tried):
        self.tried, self.asked = tried, []

    async def check(self, host):
        return "1.0"

    async def send(self, direction, asked):
        self.asked.append(asked)
        return SendReport(self.tried, float(asked.seconds), {"saying.txt": b"done"})


class Nowhere:
    """A place whose hosts are never reached."""

    hosts: ClassVar = {"source": None, "sink": None}
    testbed = None


def offered(monkeypatch, *, tried, left, came, dropped=0, rate=None, warmup=0.0, taken=None):
    zero = PortCount(7, 0, 7)
    paths = [(zero, None, None, zero), (PortCount(7 + left, dropped, 7), None, None, PortCount(7, 0, 7 + came))]
    readings = iter([Counts(paths[0], None if taken is None else 5), Counts(paths[1], None if taken is None else 5 + taken)])
    program = Saying(tried)
    generator = CountedGenerator(program, Nowhere())

    async def directions_of(*_):
        return [direction()]

    async def counts(*_):
        return next(readings)

    monkeypatch.setattr(counted, "directions_of", directions_of)
    monkeypatch.setattr(generator, "_counts", counts)
    monkeypatch.setattr(generator, "_taken", lambda _: contextlib.nullcontext())
    offer = Offer(("a",), frame_mix(64), None if rate is None else Pps(rate), Seconds(2.0), Seconds(warmup), Seconds(0.0))
    outcome = asyncio.run(generator.offer(offer))
    return outcome.flows[0], {d.kind for d in outcome.doubts}, program


@pytest.mark.parametrize(
    ("tried", "left", "dropped", "came", "rate", "wanted"),
    [
        # asked, sent, refused, by the peer, received, lost, foreign
        (1000, 1000, 0, 1000, None, (1000, 1000, 0, 0, 1000, 0, 0)),
        (1000, 800, 150, 700, None, (1000, 800, 200, 150, 700, 100, 0)),
        (1000, 1003, 0, 1002, None, (1000, 1000, 0, 0, 1000, 0, 2)),  # neighbours talk too
        (None, 900, 100, 900, None, (1000, 900, 100, 100, 900, 0, 0)),  # a program that does not count
        (1500, 1500, 0, 1500, 1000.0, (2000, 1500, 500, 0, 1500, 0, 0)),  # a rate that was not made
    ],
)
def test_asked_sent_and_received_are_three_numbers(monkeypatch, tried, left, dropped, came, rate, wanted):
    flow, doubts, _ = offered(monkeypatch, tried=tried, left=left, came=came, dropped=dropped, rate=rate)
    assert flow.balances
    found = (
        flow.intended_frames, flow.sent_frames, flow.refused_frames, flow.backpressure_frames, flow.received_frames, flow.lost_frames,
        flow.foreign_frames,
    )  # fmt: skip
    assert found == wanted
    assert doubts == {DoubtKind.COUNTED_BY_PORTS}


def test_what_was_taken_is_the_generators_own_and_more_than_was_sent_is_a_doubt(monkeypatch):
    flow, doubts, _ = offered(monkeypatch, tried=1000, left=1000, came=1300, taken=990)
    assert (flow.sent_frames, flow.received_frames, flow.lost_frames, flow.foreign_frames) == (1000, 990, 10, 0)
    assert doubts == {DoubtKind.COUNTED_BY_PORTS}
    # More received than sent is a doubt not a figure made fit.
    flow, doubts, _ = offered(monkeypatch, tried=1000, left=1000, came=1100)
    assert (flow.sent_frames, flow.received_frames, flow.lost_frames) == (1000, 1100, -100)
    assert DoubtKind.NEGATIVE_LOSS in doubts


def test_a_warm_up_lasts_until_the_program_has_surely_begun(monkeypatch):
    _, _, program = offered(monkeypatch, tried=10, left=10, came=10, warmup=0.05)
    assert [asked.seconds for asked in program.asked] == [0.5, 2.0]


LISTED = """{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "netdev", "name": "dutlab_take_eth_a"}},
 {"rule": {"family": "netdev", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 7}},
 {"counter": {"packets": 1000, "bytes": 46000}}, {"drop": null}]}}]}"""


@pytest.mark.parametrize(("text", "packets"), [(LISTED, 1000), ("", None), ("{}", None), (LISTED.replace('"counter"', '"limit"'), None)])
def test_the_counter_of_the_rule_is_read_as_nft_lists_it(text, packets):
    assert packets_in(text) == packets


def test_a_table_has_a_name_that_nft_takes_and_belongs_to_who_made_it():
    assert table_of("eth-a.7") == "dutlab_take_eth_a_7"
    assert commands("eth-a").decode().splitlines() == [
        "add table netdev dutlab_take_eth_a { flags owner; }",
        'add chain netdev dutlab_take_eth_a take { type filter hook ingress device "eth-a" priority 0; }',
        "add rule netdev dutlab_take_eth_a take udp dport 7 counter drop",
    ]


def test_without_counters_nobody_knows_and_so_it_is_said(monkeypatch):
    monkeypatch.setattr(PortCount, "since", lambda *_: None)
    with pytest.raises(ToolFailed) as failed:
        counted._since("saying", "source", None, PortCount(0, 0, 0))
    assert (failed.value.tool, failed.value.host) == ("saying", "source")
