"""Latency over load: shares of a rate, figures as RFC 8219 states them, the knee, and what is said where nothing can be."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.doubts import DoubtKind
from dutlab.errors import MeasurementError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.report.plots.of_report import plots_of
from dutlab.stats.series import knee
from dutlab.units import BpsL1
from queueing import OWN_WAY_NS, Queueing, cell, run
from simulated import Dut, in_flight


def test_each_share_is_offered_once_and_has_its_figures_and_its_whole_histogram():
    generator = Queueing(Dut(capacity_pps=105_000.0))
    found = run(generator)
    assert [o.rate for o in generator.seen] == pytest.approx([1000.0, 10e3, 50e3, 90e3, 100e3, 110e3])
    assert {(o.duration, o.warmup, o.drain) for o in generator.seen} == {(120.0, 1.0, 0.5)}
    figures = found.figures["a"]
    assert figures["reference_pps"] == 100_000.0
    # M/D/1 at a load of 90/105: 0.857 / (2 * 0.143) services of 9524 ns are 28 571 ns
    assert figures["90%/tl_ns"] == pytest.approx(OWN_WAY_NS + 28_571, abs=2)
    assert figures["90%/wcl_ns"] == figures["90%/tl_ns"] + 2000
    assert figures["90%/pdv_ns"] == figures["90%/wcl_ns"] - (OWN_WAY_NS - 1000)
    assert figures["100%/loss_ratio"] == 0.0 and figures["110%/loss_ratio"] == pytest.approx(5 / 110, rel=1e-3)
    assert figures["knee_percent"] == 100.0, "the queue is full at 110 %"
    assert [row["load_percent"] for row in found.tables["points"]] == [0, 10, 50, 90, 100, 110]
    assert not found.doubts
    # Histograms are kept whole.
    found = run(Queueing(Dut(capacity_pps=1e9)), cell(shares_percent="0,50"))
    kept = json.loads(found.raw["latency-histograms.json"])
    assert set(kept["a"]) == {"0", "50"} and kept["a"]["0"] == [[OWN_WAY_NS, 999], [OWN_WAY_NS + 9000, 1]]


def test_a_share_that_was_not_made_or_that_the_link_does_not_carry_has_no_figures():
    found = run(Queueing(Dut(capacity_pps=105_000.0), reach_pps=102_000.0))
    assert "100%/tl_ns" in found.figures["a"]
    assert not {name for name in found.figures["a"] if name.startswith("110%")}
    assert "knee_percent" in found.figures["a"] and found.figures["a"]["knee_percent"] < 100
    assert any("no figures at 110 %" in note for note in found.notes)
    assert len(found.tables["points"]) == 6
    # A share that the link does not carry is left out and said.
    found = run(Queueing(Dut(capacity_pps=1e9)), cell(rate_pps=1_488_095.0), BpsL1(1e9))
    assert "100%/tl_ns" in found.figures["a"] and "110%/tl_ns" not in found.figures["a"]
    assert any("110 % was left out" in note for note in found.notes)


def test_a_rate_that_is_not_given_is_searched_first():
    generator = Queueing(Dut(capacity_pps=200_000.0))
    found = run(generator, cell(rate_pps=None), BpsL1(1e9))
    assert found.figures["a"]["reference_pps"] == pytest.approx(200_000, rel=0.03)
    assert len(generator.seen) > 6 and any("found by" in note for note in found.notes)


def test_a_dut_that_loses_everything_or_ends_without_a_common_clock_have_no_result():
    with pytest.raises(MeasurementError, match="no rate without loss"):
        run(Queueing(Dut(capacity_pps=0.0)), cell(rate_pps=None), BpsL1(1e9))
    # Without a common clock there is no result.
    with pytest.raises(MeasurementError, match="clocks"):
        run(Queueing(Dut(capacity_pps=1e9), clocks=False))
    # Counters read in flight are marked.
    found = run(Queueing(Dut(capacity_pps=1e9), change=lambda _, flow: in_flight(flow)))
    assert DoubtKind.NEGATIVE_LOSS in {d.kind for d in found.doubts}


def test_a_flat_curve_has_no_knee_and_a_bent_one_has_it_where_it_bends():
    assert knee([(0, 10), (50, 11), (100, 12)]) is None
    assert knee([(0, 10), (100, 1000)]) is None, "two points are a chord"
    assert knee([(0, 10), (10, 10), (50, 12), (90, 20), (100, 30), (110, 5000)]) == 100
    assert knee([(0, 10), (50, 20), (100, 30)]) is None, "a straight line bends nowhere"
    assert knee([(0, 80), (10, 50), (50, 30), (90, 60), (100, 150)]) == 90, "an idle device may be the slowest but one"
    assert knee([(0, 80), (50, 50), (90, 30), (100, 150)]) == 90, "it fell until there"
    assert knee([(0, 80), (50, 50), (100, 30)]) is None
    assert knee([(0, 60), (10, 69), (50, 152), (90, 246), (100, 312), (110, 255)]) is None, "nor does a noisy one"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 200), st.floats(0, 1e9)), max_size=12))
def test_a_knee_is_one_of_the_loads_that_were_measured(points):
    found = knee(points)
    assert found is None or found in {x for x, _ in points}


# ---- Latency in the report: a row a share, a curve with a logarithmic axis and its knee, and where it departs from RFC 8219


def test_the_section_has_every_share_and_the_knee(tmp_path):
    of = cell(duration_s=10.0)
    trials = [Imported(of, run(Queueing(Dut(capacity_pps=105_000.0)), of), {}) for _ in range(3)]
    folder = write_imported(tmp_path, "latency", trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    report = gather(folder, folder)
    (section,) = report.sections
    assert [row.cells[2] for row in section.tables[0].rows] == ["0 %", "10 %", "50 %", "90 %", "100 %", "110 %"]
    typical = section.tables[0].rows[3].cells[3]
    assert isinstance(typical, Figure) and typical.n == 3 and typical.median == 38_571
    (curve,) = section.curves
    assert (curve.scale, [(m.x, m.words) for m in curve.moments]) == ("log", [(1.0, "knee: 100 %")])
    assert [len(line.points) for line in curve.lines] == [6, 6]
    assert any("rises steeply after 100 %" in words for words in section.words)
    rates = [words for words in section.words if "kpps" in words]
    assert len(rates) == 1 and "100 kpps" in rates[0], "the rate is stated once, with one number of digits"
    assert any("trials last 10 s, RFC 8219" in words for words in section.deviations)
    assert "latency-1-a" in {plot.name for plot in plots_of(report)}
