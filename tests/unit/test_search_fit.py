"""Loads of a search from a fit: the line of forwarded frames, the precision of every answer, wrong expectations, devices that fit nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.doubts import DoubtKind
from dutlab.methods.ports import Bench
from dutlab.methods.rfc2544 import suite
from dutlab.methods.search.account import doubts
from dutlab.methods.search.fitted import FittedLoads
from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import Irregular
from dutlab.methods.search.trial import Role
from dutlab.plan.cell import Cell
from dutlab.spec.goals import PRESETS, Goal
from dutlab.spec.mixes import frame_mix
from dutlab.spec.workloads.rfc2544 import Rfc2544Workload
from dutlab.spec.workloads.search import AgainAtEnd, EarlyStop
from dutlab.spec.workloads.search_loads import LoadsBy
from dutlab.stats.forwarding import ForwardingLine, Overload, forwarding_line
from dutlab.units import BpsL1, Pps
from simulated import LINE_PPS, Dut, Simulation, any_dut
from simulated_memory import MEMORIES, remembering

MIX = frame_mix(64)
GOALS = PRESETS["rfc2544"]
FULL_S = 60.0


def asked(**changes):
    return Search(**{"links": ("a",), "mix": MIX, "goals": GOALS, "highest": LINE_PPS, "loads_by": LoadsBy.FIT, **changes})


def full_good(found, load):
    return [t for t in found.trials if t.load_pps == load and t.duration_s == FULL_S and not t.failed_frames]


def test_the_line_of_a_device_with_buffers_tells_its_rate_from_what_they_hold():
    # 1 Mpps and 50,000 frames held: 550,000 in half a second, 1,050,000 in one
    line = forwarding_line([Overload(0.5, 550_000), Overload(1.0, 1_050_000)])
    assert line == ForwardingLine(1_000_000.0, 50_000.0)
    assert line.limit_pps(60.0) == pytest.approx(1_000_000 + 50_000 / 60)
    assert line.forwarded_frames(2.0) == 2_050_000


def test_without_two_lengths_or_with_a_faster_longer_trial_nothing_is_held():
    assert forwarding_line([Overload(0.5, 500_000)]) == ForwardingLine(1e6, 0.0)
    assert forwarding_line([Overload(1.0, 1_000_000), Overload(1.2, 1_188_000)]) == ForwardingLine(990_000.0, 0.0)
    assert forwarding_line([Overload(0.5, 450_000), Overload(1.0, 1_000_000)]) == ForwardingLine(1e6, 0.0)


@settings(max_examples=60)
@given(st.floats(1e3, 1e7), st.floats(0, 1e5), st.floats(0.1, 2.0), st.floats(1.6, 40.0))
def test_the_line_of_any_such_device_is_found(rate, held, seconds, longer):
    line = forwarding_line([Overload(s, rate * s + held) for s in (seconds, seconds * longer)])
    assert line.limit_pps(60.0) == pytest.approx(rate + held / 60, rel=1e-6)


@pytest.mark.parametrize("seed", range(16))
async def test_on_a_device_without_noise_one_full_trial_passes_and_the_limit_is_between_the_bounds(seed):
    dut = replace(any_dut(seed), capacity_spread=0.0, random_loss=0.0, stalls_per_s=0.0, slow_share=0.0)
    found = await find(Simulation(dut), asked())
    result, limit = found.results["throughput"], dut.limit_pps(FULL_S)
    if limit >= LINE_PPS:
        assert (result.lower_pps, result.upper_pps) == (LINE_PPS, None)
        return
    assert result.regular and result.width <= GOALS[0].width
    assert result.lower_pps <= limit * (1 + 1e-6) and limit * (1 - 1e-6) <= result.upper_pps
    assert [t.sent_s for t in full_good(found, result.lower_pps)] == [FULL_S], "the confirmation has its whole length"
    assert [t.load_pps for t in found.trials if t.duration_s == FULL_S and not t.failed_frames] == [result.lower_pps], "and no other passed"
    assert any(t.duration_s == FULL_S and t.failed_frames and t.load_pps == result.upper_pps for t in found.trials), "the upper bound's too"


@pytest.mark.parametrize("seed", range(100, 130))
async def test_on_any_device_the_bounds_are_a_width_apart_and_rest_on_full_trials(seed):
    found = await find(Simulation(any_dut(seed), seed), asked(again_at_end=AgainAtEnd.BOTH))
    result, bad = found.results["throughput"], [t.load_pps for t in found.trials if t.counts and t.failed_frames]
    assert Irregular.ENDED not in result.irregular and Irregular.UNLIKE not in result.irregular
    if result.upper_pps is not None:
        assert result.upper_pps == min(bad)
    if result.lower_pps is not None:
        assert full_good(found, result.lower_pps)
        assert not bad or result.width <= GOALS[0].width
        assert [t.load_pps for t in found.trials if t.role is Role.AGAIN][-1] == result.lower_pps


@pytest.mark.parametrize("factor", [0.3, 0.9, 0.99, 1.0, 1.01, 1.1, 3.0])
async def test_a_wrong_expectation_costs_little_and_changes_no_answer(factor):
    dut = Dut(capacity_pps=2e6, buffer_frames=512)
    found = await find(Simulation(dut), asked(expected=Pps(2e6 * factor)))
    (result,) = found.results.values()
    assert result.regular and result.width <= GOALS[0].width
    assert result.lower_pps <= dut.limit_pps(FULL_S) <= result.upper_pps
    assert found.sent_s < FULL_S + 10
    assert found.trials[0].load_pps == pytest.approx(min(2e6 * factor, LINE_PPS), rel=0.006)


async def test_a_right_expectation_needs_two_trials_and_the_one_that_tries_the_upper_bound_again():
    found = await find(Simulation(Dut(capacity_pps=2e6, buffer_frames=512)), asked(expected=Pps(1.998e6)))
    assert [(t.role, t.failed_frames > 0) for t in found.trials] == [(Role.SEARCH, True), (Role.SEARCH, False), (Role.AGAIN, True)]
    assert found.results["throughput"].lower_pps == pytest.approx(1.998e6)


async def test_devices_that_lose_nothing_some_or_all_of_everything_are_told_apart():
    found = await find(Simulation(Dut(capacity_pps=1e9)), asked())
    assert found.results["throughput"].irregular == (Irregular.NO_UPPER,)
    found = await find(Simulation(Dut(capacity_pps=1e9, random_loss=0.01)), asked())
    assert found.results["throughput"].irregular == (Irregular.NO_LOWER,)
    found = await find(Simulation(Dut(capacity_pps=1e6), deaf_from=0), asked())
    assert found.results["throughput"].irregular == (Irregular.SILENT,)
    assert len(found.trials) <= 30
    found = await find(Simulation(Dut(capacity_pps=1e6), deaf_from=3), asked())
    assert found.results["throughput"].irregular == (Irregular.ENDED,), "a device that dies is not called slow"


async def test_a_generator_that_is_too_slow_is_named_and_not_offered_a_full_trial_above_its_rate():
    found = await find(Simulation(Dut(capacity_pps=1e9), reach_pps=1e6), asked())
    result = found.results["throughput"]
    assert result.irregular == (Irregular.GENERATOR,)
    assert result.lower_pps == pytest.approx(1e6, rel=0.01)
    assert DoubtKind.LIMIT_OF_GENERATOR in {doubt.kind for doubt in doubts(found, {})}
    assert found.sent_s < FULL_S + 10


@pytest.mark.parametrize("changes", [{"early_stop": EarlyStop.NEVER}, {}], ids=["never stopped", "a generator that cannot look meanwhile"])
async def test_trials_that_always_run_to_their_end_give_a_precise_answer_too(changes):
    for seed in (0, 3, 8):
        found = await find(Simulation(any_dut(seed), seed, obeys=False), asked(**changes))
        result = found.results["throughput"]
        assert found.saved_s == 0
        assert result.upper_pps is None or result.lower_pps is None or result.width <= GOALS[0].width


async def test_several_links_and_several_goals_have_their_bounds():
    goals = (*GOALS, Goal("lossy", 0.001, 0.0, FULL_S, FULL_S))
    dut = Dut(capacity_pps=2e6, buffer_frames=4096)
    found = await find(Simulation(dut), asked(links=("a", "b"), goals=goals))
    limit = dut.limit_pps(FULL_S)
    for name, factor in (("throughput", 1.0), ("lossy", 1 / 0.999)):
        result = found.results[name]
        assert result.regular and result.width <= GOALS[0].width
        assert result.lower_pps <= limit * factor * (1 + 1e-6) and limit * factor * (1 - 1e-6) <= result.upper_pps


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("expected", [None, Pps(2e6)])
async def test_whatever_a_device_remembers_a_search_ends_with_a_precise_answer(kind, expected):
    for seed in (1, 4):
        device = remembering(kind, seed, line_pps=LINE_PPS)
        found = await find(device, asked(again_at_end=AgainAtEnd.BOTH, expected=expected))
        result = found.results["throughput"]
        assert not found.ended
        assert result.lower_pps is not None
        assert result.width is None or result.width <= GOALS[0].width
        assert found.sent_s < 1000, "bisection takes about 700 s"


async def test_the_suites_throughput_takes_the_loads_and_the_expectation_of_its_setting():
    async def no_sleep(_):
        """Time is nobody's here."""

    asked_for = {"links": [["a"]], "frame_sizes": [64], "tests": ["throughput"], "loads_by": "fit", "expected": "400kpps"}
    (drive,) = Rfc2544Workload.model_validate(asked_for).drives(["a"])
    cell = Cell(mode="router", factors={"mode": "router"}, tool="engine", links=("a",), setting=drive.setting, repeat=1)
    device = Simulation(Dut(400_200, buffer_frames=64))
    measured = await suite.measure(Bench(device, {"a": BpsL1(1e9)}), cell, sleep=no_sleep)
    (row,) = measured.tables["throughput"]
    assert row["lower_pps"] <= 400_201.1 <= row["upper_pps"] <= row["lower_pps"] / (1 - 0.005)
    assert [offer.rate for offer in device.offers] == [row["upper_pps"], row["lower_pps"], row["upper_pps"], row["lower_pps"]]
    assert row["lower_pps"] == pytest.approx(400_000, rel=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.data())
async def test_any_outcomes_of_trials_lead_to_an_end(data):
    """Outcomes that no device would have: the loads still close in on each other."""
    fitted, outcomes = FittedLoads(GOALS, links=1, lowest=Pps(1e3), highest=Pps(1e6), expected=data.draw(st.none() | st.just(Pps(3e5)))), []

    class Told:
        marks, made_frames = (), 1e6

        def __init__(self, sent_s, lost):
            self.sent_s, self.failed_frames = sent_s, lost

    class Outcome:
        def __init__(self, ask, lost):
            self.ask, self.loss_ratio = ask, lost / 1e6

    while (ask := fitted.next()) is not None:
        lost = data.draw(st.sampled_from([0, 0, 1, 500, 900_000]))
        outcomes.append(ask.load)
        assert 1e3 <= ask.load <= 1e6
        assert len(outcomes) < 3000
        fitted.add(Told(ask.duration * data.draw(st.floats(0.01, 1.0)), lost), Outcome(ask, lost))
    (bounds,) = fitted.bounds.values()
    assert bounds.lower is None or bounds.upper is None or bounds.upper * (1 - GOALS[0].width) <= bounds.lower
