"""Datagrams of many lengths: where fragments begin, how many there are, and what is said of the step."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import cell_of
from dutlab.errors import SpecRefused
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.ports import Measured
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.report.plots.of_report import plots_of
from dutlab.spec.loader import experiment_of
from dutlab.tools.iperf3.lengths import packets_of, step_of


@pytest.mark.parametrize(
    ("length", "mtu", "version", "packets"),
    [
        (1472, 1500, 4, 1),  # 20 + 8 + 1472 = 1500
        (1473, 1500, 4, 2),
        (2952, 1500, 4, 2),  # 8 + 2952 = 2 x 1480, the data of two packets
        (2953, 1500, 4, 3),
        (1452, 1500, 6, 1),  # 40 + 8 + 1452
        (1453, 1500, 6, 2),
        (2888, 1500, 6, 2),  # 8 + 2888 = 2 x 1448, the multiple of 8 below 1500 - 48
        (2889, 1500, 6, 3),
        (8972, 9000, 4, 1),
        (16, 576, 4, 1),
    ],
)
def test_a_datagram_goes_in_as_many_packets_as_the_path_mtu_makes_it(length, mtu, version, packets):
    assert packets_of(length, mtu, version) == packets


@settings(max_examples=40)
@given(length=st.integers(16, 65507), mtu=st.integers(576, 9216))
def test_fragments_hold_the_whole_datagram_and_none_is_spare(length, mtu):
    count, each = packets_of(length, mtu, 4), (mtu - 20) // 8 * 8
    if count > 1:
        assert (count - 1) * each < length + 8 <= count * each
    assert count == max(1, math.ceil((length + 8) / (mtu - 20))) or each < mtu - 20, "only rounding to 8 bytes makes more of them"


def row(length, sent, received, packets=1.0):
    return {
        "link": "a", "length_bytes": float(length), "packets_per_datagram": packets, "offered_pps": float(sent), "received_pps": float(received),
        "goodput_bps": received * length * 8.0, "loss_ratio": 1 - received / sent if sent else 0.0,
    }  # fmt: skip


ROWS = [row(512, 100e3, 90e3), row(1472, 98e3, 80e3), row(1473, 49e3, 40e3, 2.0), row(1500, 48e3, 39e3, 2.0)]


def test_the_step_is_between_the_lengths_next_to_the_limit_and_says_why():
    step = step_of(ROWS, 1472)
    assert step is not None
    assert step.figures == {"offered_step_ratio": 0.5, "received_step_ratio": 0.5}
    said = step.words("a", 1500, 4)
    assert all(fact in said for fact in ("link a", "1500 bytes", "1472 bytes", "28 bytes", "from 98 kpps to 49 kpps (-50 %)", "40 kpps"))


@pytest.mark.parametrize("rows", [ROWS[:2], ROWS[2:], [], [row(1472, 98e3, 0), ROWS[2]]])
def test_lengths_on_one_side_of_the_limit_have_no_step(rows):
    assert step_of(rows, 1472) is None


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("{lengths: [15]}", "at least 16"),
        ("{lengths: [65508]}", "at most 65507"),
        ("{lengths: []}", "lengths: empty"),
        ("{lengths: [64, 64]}", "lengths.1: duplicate"),
        ("{duration: 1500ms}", "iperf3 takes whole seconds"),
    ],
)
def test_lengths_that_iperf3_does_not_send_are_refused(tmp_path, body, what):
    text = f"experiment: d\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\nworkloads:\n  - datagrams: {body}\n"
    with pytest.raises(SpecRefused) as refused:
        experiment_of(text.encode(), tmp_path / "e.yaml")
    assert what in str(refused.value)


def test_the_report_has_a_row_a_length_and_a_line_where_fragments_begin(tmp_path):
    params = {"lengths_bytes": (512, 1472, 1473, 1500), "rate_pps": None, "streams": 1, "duration_s": 1}
    cell = cell_of("datagrams", **params)
    measured = Measured(
        figures={"a": {"path_mtu_bytes": 1500.0, "whole_bytes": 1472.0}}, tables={"lengths": ROWS}, notes=["link a: a step"]
    )
    folder = write_imported(tmp_path, "d", [Imported(cell, measured, {})], command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    report = gather(folder, folder)
    assert not any("TCP goodput" in words for words in report.deviations)
    (section,) = report.sections
    rows = [[c.median if isinstance(c, Figure) else c for c in r.cells] for r in section.tables[0].rows]
    assert rows[2][:5] == ["a", "1473", 2.0, 49e3, 40e3] and len(rows) == 4
    assert section.words == ("router: link a: a step.",)
    (curve,) = section.curves
    assert [(m.x, m.words) for m in curve.moments] == [(1472.0, "whole up to 1472")]
    assert curve.slug in {plot.name for plot in plots_of(report)}
