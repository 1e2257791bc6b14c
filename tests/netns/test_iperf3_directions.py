"""iperf3 in reverse and in both directions at once, between any two hosts, and datagrams at a bit rate with a start left out."""

from __future__ import annotations

import json

import pytest

from capability import need_program
from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.dut import family
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.iperf3.lengths import lengths
from dutlab.tools.iperf3.tcp import Iperf3
from slow_links import slow_down


@pytest.fixture(autouse=True)
async def _routes(hosts, lab):
    need_program("iperf3")
    slow_down(lab.namespaces["dut"], "in-a", "out-a", "in-b", "out-b")
    await family("linux").modes["router"].apply(hosts["dut"], lab.testbed)


@pytest.fixture
def tcp(lab, hosts):
    return Iperf3(hosts, lab.testbed, lab.cpus)


def report(measured):
    (name,) = [n for n in measured.raw if n.endswith("-client.json")]
    return json.loads(measured.raw[name])


async def test_in_reverse_the_client_receives_and_the_senders_processor_is_the_servers(tcp):
    measured = await tcp.measure(cell_of("iperf3", links=("a",), streams=2, omit_s=0, duration_s=1, direction="reverse"))
    said, figures = report(measured), measured.figures["a.back"]
    assert said["start"]["test_start"]["reverse"] == 1
    assert figures["goodput_bps"] == said["end"]["sum_received"]["bits_per_second"] > 1e6
    assert figures["sender_cpu_percent"] == said["end"]["cpu_utilization_percent"]["remote_total"]


async def test_in_both_directions_the_goodput_is_of_both_and_each_is_told(tcp):
    measured = await tcp.measure(cell_of("iperf3", links=("a",), streams=2, omit_s=0, duration_s=1, direction="bidir"))
    end, rates = report(measured)["end"], {place: of["goodput_bps"] for place, of in measured.figures.items()}
    there, back = (end[name]["bits_per_second"] for name in ("sum_received", "sum_received_bidir_reverse"))
    assert rates == {"a+a.back": there + back, "a": there, "a.back": back} and min(there, back) > 1e6


async def test_links_end_one_by_one_and_none_is_taken_for_cut_short(tcp):
    cell = cell_of("iperf3", links=("a", "b"), streams=1, omit_s=0, duration_s=3, direction="bidir", ends_apart_s=1)
    measured = await tcp.measure(cell)
    seconds = {link: json.loads(measured.raw[f"iperf3-{link}-client.json"])["start"]["test_start"]["duration"] for link in ("a", "b")}
    assert seconds == {"a": 3, "b": 2}
    assert not [d for d in measured.doubts if d.kind is DoubtKind.TOOL_INCOMPLETE]
    assert set(measured.figures) == {"a", "a.back", "b", "b.back", "a+a.back", "b+b.back", "a+a.back+b+b.back"}
    last = {link: max(r.at_s for r in measured.readings if r.link == link) for link in ("a", "b")}
    assert last["a"] > last["b"]


async def test_the_dut_is_an_end_of_a_test_in_both_directions(tcp):
    cell = cell_of("matrix", links=("a",), streams=1, omit_s=0, duration_s=1, client="source", server="dut", direction="bidir",
                   length_bytes=1448)  # fmt: skip
    measured = await tcp.pair(cell)
    assert min(measured.figures[place]["goodput_bps"] for place in ("a", "a.back")) > 1e6


async def test_datagrams_go_at_the_bit_rate_and_what_is_left_out_is_not_counted(lab, hosts):
    cell = cell_of("datagrams", links=("a",), lengths_bytes=(500,), rate_bps=400_000.0, omit_s=1, streams=1, duration_s=2)
    measured = await lengths(GeneratorSite(hosts, lab.testbed, {}, None), cell)
    (row,) = measured.tables["lengths"]
    # 400 kb/s of payload are 100 datagrams of 500 bytes a second; a busy machine may send some late.
    assert row["offered_pps"] == pytest.approx(100, rel=0.2)
