"""The load at a limit, offered once more: what it must be, and what the difference of two such trials proves."""

from __future__ import annotations

import pytest

from dutlab.errors import InputError, MeasurementError
from dutlab.methods.at_limit import frames_at_limit
from dutlab.methods.ports import Offer
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
