"""The load at a limit, offered once more: what it must be, and what the difference of two such trials proves."""

from __future__ import annotations

import pytest

from dutlab.errors import InputError, MeasurementError
from dutlab.methods.at_limit import frames_at_limit
from dutlab.methods.ports import Offer
from dutlab.report.model.flame import Flame, boxes, folded, own_and_total_shares
from dutlab.report.plots.flame_plot import flame_plot
from dutlab.spec.loader import load_experiment
from dutlab.spec.mixes import Mix
from dutlab.stats.paired import change_of
from dutlab.units import Pps, Seconds
from simulated import Dut, Simulation


async def test_a_generator_that_does_not_make_the_load_again_gives_no_account_of_the_limit():
    slow = Simulation(Dut(capacity_pps=1e6), reach_pps=1000.0)
    again = frames_at_limit(slow, Offer(("a",), Mix(name="64", parts=((64, 1),)), Pps(5000.0), Seconds(1.0)))
    with pytest.raises(MeasurementError, match="load"):
        await again()


def test_six_pairs_that_all_fell_prove_a_cost_and_five_do_not():
    # Of n differences of one sign the interval of order statistics is their range, and holds the median with 1 - 2 / 2^n: 96.9 % of six.
    pairs = [(100.0, 100.0 - cost) for cost in (1, 2, 3, 4, 5, 6)]
    change = change_of(pairs, relative=True)
    assert (change.of.median, change.of.interval.low, change.of.interval.high) == pytest.approx((-0.035, -0.06, -0.01))
    assert change.proven
    assert not change_of(pairs[:5], relative=True).proven
    assert not change_of([*pairs[:5], (100.0, 101.0)], relative=True).proven, "one pair rose"


def test_a_ratio_changes_by_points_and_nothing_is_no_share_of_nothing():
    assert change_of([(0.0, 0.02)], relative=False).of.median == pytest.approx(0.02)
    assert change_of([(0.0, 0.02)], relative=True) is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("workloads: [{sweep: {}}]\nprofile: true", "rfc2544, loadtest, search, connections"),
        ("workloads: [{search: {}}]\nprofile: true\nwatch: [perf]", "profiles"),
    ],
)
def test_a_profile_at_a_limit_needs_one_that_is_found_without_a_profiler(tmp_path, lines, said):
    (file := tmp_path / "e.yaml").write_text(f"experiment: e\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\n{lines}\n")
    with pytest.raises(InputError, match=said):
        load_experiment(file)


# ---- Profiles: stacks are read, summed by function, and drawn


TEXT = """# cycles, 99 samples a second and core
iperf3;write;tcp_send;copy 60
iperf3;write;tcp_send 20
swapper;idle 20
no stack
"""


def test_a_function_has_its_own_share_and_that_of_what_it_called():
    alone, whole = own_and_total_shares(folded(TEXT))
    assert alone == {"copy": pytest.approx(0.6), "tcp_send": pytest.approx(0.2), "idle": pytest.approx(0.2)}
    assert (whole["write"], whole["iperf3"], whole["swapper"]) == pytest.approx((0.8, 0.8, 0.2))
    # A function that calls itself counts once a sample.
    assert own_and_total_shares(folded("a;f;f 10\n"))[1]["f"] == 1.0


def test_boxes_lie_in_the_box_that_called_them_and_are_drawn_with_their_change():
    found = {box.name: box for box in boxes(folded(TEXT), folded("iperf3;write 50\nswapper;idle 50\n"))}
    assert (found["iperf3"].depth, found["copy"].depth) == (0, 3)
    assert found["copy"].begins == found["tcp_send"].begins == found["iperf3"].begins == 0.0
    assert found["swapper"].begins == pytest.approx(0.8)
    assert (found["iperf3"].change, found["copy"].change, found["idle"].change) == pytest.approx((0.3, 0.6, -0.3))
    # A flame graph has a box a function and none without samples.
    drawn = flame_plot(Flame("flame", "Router", tuple(boxes(folded(TEXT))), ""))
    text = drawn.svg().decode()
    assert text.count("<rect") == 6 + 1  # and the paper
    assert "tcp_send" in text
    assert flame_plot(Flame("flame", "Router", (), "")) is None
