"""Workload `matrix`: which keys are whose, what iperf3 is asked for, and how the table is read when there are two of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cells import cell_of
from dutlab.errors import SpecRefused
from dutlab.report.gather import _deviations
from dutlab.report.model.groups import Group, by_size
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun
from dutlab.report.sections.matrix import hosts_of, section
from dutlab.report.sections.path_mtu import _narrow
from dutlab.spec.loader import load_experiment
from dutlab.spec.shape import LinkBounds
from dutlab.tools.iperf3.datagrams import Sent
from dutlab.tools.iperf3.tcp import datagram_figures
from golden import Golden
from refusal import refusals

HEAD = "experiment: x\ntestbed: {lab: three-node}\nfactors: {mode: [router]}\nworkloads:\n  - matrix: "


def settings(tmp_path: Path, body: str) -> list[dict[str, object]]:
    (tmp_path / "e.yaml").write_text(f"{HEAD}{{{body}, links: [[a]]}}\n")
    (workload,) = load_experiment(tmp_path / "e.yaml").workloads
    return [dict(s.setting.params) for s in workload.drives({"a": LinkBounds(), "b": LinkBounds()})]


def test_tcp_is_asked_for_with_the_options_that_were_given(tmp_path: Path) -> None:
    asked = settings(tmp_path, "streams: 4, omit: 2s, duration: 5s, zerocopy: true")
    assert len(asked) == 6
    assert asked[0] == {"client": "source", "server": "dut", "streams": 4, "omit_s": 2, "duration_s": 5, "zerocopy": "yes"}
    assert "zerocopy" not in settings(tmp_path, "streams: 4")[0]


def test_datagrams_are_asked_for_with_theirs(tmp_path: Path) -> None:
    asked = settings(tmp_path, "protocol: udp, rate: 20kpps, length: 512, duration: 5s")
    assert asked[-1] == {
        "client": "sink", "server": "dut", "protocol": "udp", "streams": 4, "length_bytes": 512, "rate_pps": 20_000.0, "duration_s": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "params", "said"),
    [
        ("matrix", {"duration_s": 5}, True),
        ("iperf3", {"duration_s": 5}, True),
        ("matrix", {"protocol": "udp", "length_bytes": 512, "duration_s": 5}, False),
        ("datagrams", {"lengths_bytes": (64, 512), "duration_s": 5}, False),
    ],
)
def test_only_tcp_is_called_a_departure_for_being_tcp(workload: str, params: dict[str, Any], said: bool) -> None:
    assert any("TCP goodput" in text for text in _deviations([cell_of(workload, **params)])) is said


def test_a_key_of_the_other_protocol_is_refused(tmp_path: Path, golden: Golden) -> None:
    bodies = (
        "rate: 20kpps", "length: 512", "protocol: udp, omit: 1s", "protocol: udp, zerocopy: true", "protocol: sctp", "protocol: udp, length: 65508",
    )  # fmt: skip
    golden.check("refusals-matrix.txt", refusals(SpecRefused, [partial(settings, tmp_path, body) for body in bodies], tmp_path))


def test_what_was_lost_is_told_of_datagrams_and_hosts_stand_in_the_order_of_the_packets_way() -> None:
    said = {"goodput_bps": 1_980_000.0, "sent_bps": 2_000_000.0, "loss_ratio": pytest.approx(0.01)}
    assert datagram_figures(Sent(1000, 990, 0, 2.0), 500) == said
    assert datagram_figures(Sent(1000, 1001, 0, 2.0), 500)["loss_ratio"] == 0  # one came twice
    way = ["source", "dut", "sink"]
    assert hosts_of([("sink", "dut"), ("pi", "sink"), ("dut", "source")], way) == ["source", "dut", "sink", "pi"]


def test_links_stand_in_their_order_whatever_the_order_of_the_trials() -> None:
    cells = [cell_of("matrix", client="source", server="sink", links=links) for links in (("b",), ("a", "b"), ("a",))]
    groups = [Group("router", cell, [n], []) for n, cell in enumerate(cells)]
    run = cast("ReadRun", SimpleNamespace(resolved={}, testbed={}))
    assert [t.title.split("link ")[1] for t in section(run, groups, ["router"], NoteBook(groups)).tables[:3]] == ["a", "b", "a+b"]


def test_the_narrow_hop_is_marked_once_and_only_where_others_carry_more() -> None:
    way = {("a", "source", "dut:in-a"): 1500.0, ("a", "source", "sink:eth-a"): 1400.0, ("a", "sink", "dut:out-a"): 1400.0}
    even = {("b", "source", "dut:in-b"): 1300.0, ("b", "source", "sink:eth-b"): 1300.0}
    assert {hop: said for hop in (*way, *even) if (said := _narrow(hop, way | even))} == {("a", "source", "sink:eth-a"): "the narrow hop"}


def test_cells_of_a_size_stand_in_the_order_of_their_links() -> None:
    groups = [Group("nat", cell_of("sweep", links=links), [n], []) for n, links in enumerate((("b",), ("a", "b"), ("a",)))]
    assert [g.cell.link_label for g in by_size(groups, ["nat"])] == ["a", "b", "a+b"]
