"""The workload of several streams: what its file may say, and what its method makes of each stream."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cells import cell_of
from dutlab.analysis.answers import AnswerKind
from dutlab.doubts import DoubtKind
from dutlab.errors import MeasurementError, SpecRefused
from dutlab.interop.imported_run import Imported, imported_cell, write_imported
from dutlab.methods import multi_stream
from dutlab.methods.flow import Flow, Latency
from dutlab.methods.ports import Bench, Measured, OfferedChain, Outcome
from dutlab.report.gather import gather, read_run
from dutlab.report.sections.tool_figures import section as tool_section
from dutlab.spec.loader import experiment_of
from dutlab.spec.workloads.multi_stream import ChainSpec, StreamSpec
from dutlab.tools.raw_figures import KeptTrial, stream_rates
from dutlab.units import Seconds
from raw_outputs import exchange, received_reply, sent_reply


class HalvingDut:
    """A generator that sends 1000 frames of each stream in 1 ms, of which half are lost."""

    def __init__(self, change=lambda flow: flow):
        self.change, self.offers = change, []

    async def offer(self, offer):
        self.offers.append(offer)
        latency = Latency(count=500, min_ns=8, p50_ns=10, p90_ns=20, p99_ns=30, p999_ns=40, max_ns=50, mean_ns=12.5)
        usual = Flow("", 1000, 1000, 0, 500, 500, 0, 0, 0, 1e-3, 64.0, 32000, latency)
        return Outcome(tuple(self.change(replace(usual, link=name)) for name in offer.flow_names))


def experiment(tmp_path, body):
    text = f"experiment: x\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\nworkloads:\n- multi-stream: {{{body}}}\nrepeats: 1\n"
    return experiment_of(text.encode(), tmp_path / "e.yaml")


@pytest.mark.parametrize(
    ("body", "at", "says"),
    [
        ("streams: {}", "streams", "at least 1"),
        ("streams: {a: {frame_size: 60}}", "streams.a.frame_size", "64"),
        ("streams: {a: {frame_size: 64, traffic: {transport: tcp}}}", "streams.a.frame_size", "at least 76 bytes"),
        ("streams: {a: {traffic: {burst: 8}}}", "streams.a.traffic.burst", "no pauses"),
        ("streams: {a: {traffic: {vary: {ttl: 1..999}}}}", "streams.a.traffic.vary.ttl.to", "8 bits"),
        ("streams: {a: {frame_size: 9000}}", "streams.a.frame_size", "do not pass link"),
        ("streams: {a: {frames: 5}}, chains: [[a, b]]", "chains.0.steps.1", "unknown stream 'b'"),
        ("streams: {a: {frames: 5}}, chains: [[a], [a]]", "chains.1.steps.0", "in a chain already"),
        ("streams: {a: {rate: 1kpps}}, chains: [[a]]", "streams.a.frames", "missing"),
        ("streams: {a: {frames: 5}}, chains: [{steps: [a], rounds: 0}]", "chains.0.rounds", "at least 1"),
        ("streams: {a: {}}, duration: 1ms", "duration", "0.1s"),
        ("streams: {a: {traffic: {vary: {source-address: 10.0.0.1..10.0.0.9}}}}, links: [[a, b]]", "streams.a.traffic.vary", "one link"),
    ],
)
def test_a_stream_that_cannot_be_sent_is_refused_where_it_is_written(tmp_path, body, at, says):
    with pytest.raises(SpecRefused) as refused:
        experiment(tmp_path, body)
    (line,) = str(refused.value).splitlines()[-1:]
    assert f"workloads.0.multi-stream.{at}: " in line and says in line and re.search(r"e\.yaml:5:\d+: ", line), line


SYN = StreamSpec(name="syn", frame_size="80", rate=5000.0, frames=100)
DATA = StreamSpec(name="data", frame_size="1518", rate=2000.0, frames=300, traffic={"burst": 10})
CALL = StreamSpec(name="a-call", frame_size="218", rate=1000.0, traffic={"vary": {"dscp": [0, 46]}})
CHAIN = ChainSpec.model_validate({"steps": ["syn", {"stream": "data", "gap": "10ms"}], "rounds": 3})


def cell(*links):
    return cell_of("multi-stream", links=links, streams=(SYN, DATA, CALL), chains=(CHAIN,), duration_s=2.0)


async def test_each_stream_of_each_link_has_figures_by_its_name_and_is_told_in_words():
    dut = HalvingDut()
    found = await multi_stream.measure(Bench(dut), cell("a", "b"))
    (offer,) = dut.offers
    assert offer.flow_names == ("a:syn", "a:data", "a:a-call", "b:syn", "b:data", "b:a-call")
    assert offer.chains == (OfferedChain((("syn", Seconds(0.0)), ("data", Seconds(0.01))), 3),)
    assert [flow.link for flow in found.flows] == list(offer.flow_names)
    for link in ("a", "b"):
        assert found.figures[link]["a-call/received_pps"] == pytest.approx(5e5)
        assert found.figures[link]["syn/loss_ratio"] == pytest.approx(0.5) and found.figures[link]["data/latency_p99_ns"] == 30
    # Streams and chains as text.
    params = cell("a").params
    assert [part.split() for part in params["stream_data"].split(", ")][1:] == [["300", "frames"], ["bursts", "of", "10", "frames"]]
    assert params["stream_data"].startswith("1518 bytes at 2000pps") and params["stream_a-call"].startswith(
        "218 bytes at 1000pps, dscp 0, 46"
    )
    assert params["chain_1"].split(", ")[0] == "syn" and "0.01 s" in params["chain_1"] and "3 rounds" in params["chain_1"]


async def test_a_stream_that_was_never_begun_has_a_note_and_one_outside_of_chains_that_missed_its_rate_a_doubt():
    def change(flow):
        return {
            "a:data": replace(flow, intended_frames=0, sent_frames=0, received_frames=0, lost_frames=0, refused_frames=0, sent_seconds=0.0),
            "a:syn": replace(flow, sent_seconds=flow.sent_seconds * 1e6),
            "a:a-call": replace(flow, sent_seconds=flow.sent_seconds * 1e6),
        }[flow.link]

    found = await multi_stream.measure(Bench(HalvingDut(change=change)), cell("a"))
    (note,) = found.notes
    assert "stream data" in note
    assert not any("data" in name for name in found.figures["a"])
    assert [d.about for d in found.doubts if d.kind is DoubtKind.TX_STARVED] == ["a:a-call"]


async def test_a_link_on_which_nothing_was_sent_is_no_measurement():
    def change(flow):
        return replace(flow, intended_frames=0, sent_frames=0, received_frames=0, lost_frames=0, refused_frames=0)

    with pytest.raises(MeasurementError, match="nothing on link a"):
        await multi_stream.measure(Bench(HalvingDut(change=change)), cell("a"))


def measured(mode, of, links=("a",)):
    """A trial in which of each stream 1000 frames a second were sent and this share came through, by link."""
    figures = {}
    for link, shares in of.items():
        figures[link] = {f"{name}/offered_pps": 1000.0 for name in shares} | {
            f"{name}/received_pps": 1000.0 * s for name, s in shares.items()
        }
        figures[link] |= {f"{name}/loss_ratio": 1.0 - s for name, s in shares.items()}
        figures[link] |= {f"{name}/latency_p50_ns": 9e3 for name, s in shares.items() if s}
    return Imported(cell(*links).model_copy(update={"mode": mode, "factors": {"mode": mode}}), Measured(figures))


def report_of(tmp_path, *trials):
    folder = write_imported(tmp_path, "r", list(trials), command=(), now=datetime(2026, 11, 25, tzinfo=UTC)).path
    return gather(folder, folder)


ALL = {"syn": 1.0, "data": 1.0, "a-call": 1.0}


def test_the_answer_begins_with_the_stream_that_a_mode_does_not_let_through(tmp_path):
    report = report_of(tmp_path, measured("router", {"a": ALL}), measured("filter", {"a": {**ALL, "data": 0.0}}))
    first, *rest, last = report.answer.fast
    assert "stream data" in first and "filter" in first and "without a rank" in last, "nothing came through: no rank"
    assert len(rest) == 2 and all("no difference is proven" in sentence for sentence in rest), "the streams that come through are told too"
    (table,) = (t for s in report.sections for t in s.tables if t.slug == "multi-stream-data")
    assert [row.cells[-1] for row in table.rows if row.label == "filter"] == ["–"], "no latency of what did not arrive"


def test_a_stream_lost_on_one_of_two_links_driven_at_once_is_told_with_its_link(tmp_path):
    report = report_of(tmp_path, measured("router", {"a": ALL, "b": dict.fromkeys(ALL, 0.0)}, links=("a", "b")))
    assert report.answer.fast[0].startswith("router, link b of a+b: ")


def test_of_many_streams_the_answer_counts_comparisons_and_still_names_the_lost_ones(tmp_path):
    links = ("a", "b")
    report = report_of(
        tmp_path,
        measured("router", dict.fromkeys(links, ALL), links),
        measured("filter", {"a": {**ALL, "syn": 0.0, "a-call": 0.0}, "b": ALL}, links),
    )
    assert report.answer.fast[0].startswith("filter, link a of a+b: ") and "syn and a-call" in report.answer.fast[0]
    assert report.answer.fast[-1].startswith("2 results of 0")
    assert {headline.kind for headline in report.headlines} == {AnswerKind.NOT_PROVEN.value}


def test_nothing_is_the_fastest_by_its_losses_or_times(tmp_path):
    trials = [
        Imported(imported_cell(mode, workload="odd", tool="odd", params={}), Measured({"a": {"loss_ratio": n}}))
        for mode, n in (("m1", 0.1), ("m2", 0.9))
    ]
    read = read_run(write_imported(tmp_path, "r", trials, command=(), now=datetime(2026, 11, 25, tzinfo=UTC)).path)
    assert tool_section(read.run, read.groups, read.labels, read.book).headlines == ()


def test_rates_of_streams_come_out_of_the_raw_files_again_by_their_names():
    raw = {
        "engine-source.jsonl": exchange((1, "wait", "source:eth-a", sent_reply((7, 200, 2.0), (8, 400, 2.0), (9, 0, 2.0)))),
        "engine-sink.jsonl": exchange((2, "settle", "sink:eth-a", received_reply((7, 200), (8, 100), (9, 0)))),
    }
    links = {"a": {"path": ["source:eth-a", "dut:in-a", "dut:out-a", "sink:eth-a"]}}
    kept = KeptTrial(cell("a"), raw, {}, {"testbed": {"links": links}})
    assert stream_rates(kept) == {"a": {"syn/received_pps": 100.0, "data/received_pps": 50.0}}, "nothing of a-call was sent"
