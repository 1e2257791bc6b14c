"""Stopping lost trials early: what is allowed, that no answer changes, what it saves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.methods.early_stop import Matters, allowance, most_frames
from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.spec.goals import PRESETS, Goal
from dutlab.spec.mixes import frame_mix
from dutlab.spec.workloads.search import EarlyStop
from simulated import LINE_PPS, Dut, Simulation, any_dut, plain_bisection

MIX = frame_mix(64)
loss_ratios = st.sampled_from([0.0, 1e-7, 1e-5, 0.001, 0.005, 0.1, 1 / 3, 0.5, 0.999]) | st.floats(0, 0.999)


@settings(max_examples=40)
@given(st.integers(1, 10**12), loss_ratios)
def test_one_frame_beyond_the_allowance_is_above_the_loss_ratio_and_the_allowance_is_not(frames, ratio):
    n = allowance(frames, ratio)
    assert 0 <= n < frames
    assert n / frames <= ratio < (n + 1) / frames


@settings(max_examples=40)
@given(st.integers(1, 10**9), loss_ratios, st.integers(0, 10**9), st.floats(0, 1))
def test_a_trial_that_lost_more_than_the_allowance_is_bad_whatever_more_it_loses_and_however_much_less_it_sent(frames, ratio, more, share):
    lost = allowance(frames, ratio) + 1 + more
    sent = max(int(frames * share), 1)
    assert lost / frames > ratio
    assert lost / sent > ratio


def test_the_allowance_of_known_numbers():
    # 0.5 % of 200 frames is one frame
    assert [allowance(n, 0.005) for n in (1, 199, 200, 399, 400)] == [0, 0, 1, 1, 2]
    assert allowance(10**9, 0.0) == 0
    assert most_frames(1_000_000, 0.0025) == 1_002_508, "a generator may send a little more than it was asked for"
    assert allowance(3, 1 / 3) == 1
    assert allowance(100, 0.29) == 29  # 0.29 * 100 is 28.999999999999996
    for k, n in ((5, 6), (9, 10), (3, 13), (29, 100), (1, 3)):
        assert allowance(n, math.nextafter(k / n, 0)) == k - 1
        assert allowance(n, k / n) == k


STRICT = Goal("strict", 0.01, 0.0, 1.0, 1.0, width=0.02)
LENIENT = Goal("lenient", 0.0, 0.5, 1.0, 21.0)


def test_a_goal_that_allows_no_bad_second_does_not_matter_any_more_from_its_first_bad_trial_upwards():
    matters = Matters((STRICT, LENIENT))
    assert matters.loss_ratio_at(100.0) == 0.01
    matters.learn(100.0, 0.005)  # bad for the lenient one only, which may still become good
    assert matters.loss_ratio_at(100.0) == 0.01
    matters.learn(100.0, 0.02)
    assert [matters.loss_ratio_at(load) for load in (99.9, 100.0, 101.0)] == [0.01, 0.0, 0.0]
    matters.learn(200.0, 0.02)
    assert matters.loss_ratio_at(100.0) == 0.0
    matters = Matters((STRICT,))
    matters.learn(100.0, 0.5)
    assert matters.loss_ratio_at(150.0) == 0.01


async def search(seed, goals, how, **changes):
    simulation = Simulation(any_dut(seed), seed, **changes)
    return await find(simulation, Search(("a",), MIX, goals, LINE_PPS, early_stop=how)), simulation


MIXED = (*PRESETS["rfc2544"], *PRESETS["csit"], Goal("once", 0.005, 0.0, 1.0, 2.0), Goal("long", 1e-6, 0.3, 10.0, 40.0))


@pytest.mark.parametrize("goals", [PRESETS["csit"], PRESETS["tst009"], MIXED])
async def test_stopping_early_changes_no_answer_and_no_step_of_the_search(goals):
    """And so for RFC 2544 below; tests/bench/search_cost.py holds a thousand devices against one another."""
    saved = 0.0
    for seed in range(5000, 5004):
        (stopped, at), (full, all_of) = [await search(seed, goals, how) for how in (EarlyStop.AT_ONCE, EarlyStop.NEVER)]
        assert stopped.results == full.results, f"seed {seed}"
        assert [(o.rate, o.duration) for o in at.offers] == [(o.rate, o.duration) for o in all_of.offers], f"seed {seed}"
        assert stopped.saved_s == pytest.approx(full.sent_s - stopped.sent_s)
        saved += stopped.saved_s
    assert saved > 0


async def test_a_generator_that_cannot_look_meanwhile_gives_the_same_answers():
    for seed in range(4):
        deaf_to_it, _ = await search(seed, PRESETS["rfc2544"], EarlyStop.AT_ONCE, obeys=False)
        stopped, _ = await search(seed, PRESETS["rfc2544"], EarlyStop.AT_ONCE)
        assert deaf_to_it.results == stopped.results
        assert deaf_to_it.saved_s == 0


async def test_the_first_two_trials_run_in_full_and_a_stopped_one_tells_when_it_was_stopped_and_what_it_had_lost():
    found, simulation = await search(3, PRESETS["rfc2544"], EarlyStop.AT_ONCE)
    assert [o.stop_after_lost for o in simulation.offers[:3]] == [None, None, 0]
    assert found.trials[0].lost_frames > 0
    # A stopped trial tells when it was stopped and what it had lost.
    simulation = Simulation(Dut(capacity_pps=1e6), reach_pps=1e12)
    found = await find(simulation, Search(("a",), MIX, PRESETS["rfc2544"], LINE_PPS))
    stopped = [t for t in found.trials if t.stopped_early_s is not None]
    assert stopped
    for t in stopped:
        assert t.stopped_early_s == t.sent_s == pytest.approx(0.1)  # the first look finds frames lost
        assert t.lost_frames == pytest.approx((t.load_pps - 1e6) * 0.1, abs=2)
        assert t.intended_frames == round(t.load_pps * t.duration_s)
        assert t.allowed_frames == 0
    # With several goals a trial runs until it is lost for the most lenient.
    found = await find(Simulation(Dut(capacity_pps=1e6)), Search(("a",), MIX, PRESETS["csit"], LINE_PPS))
    later = [t for t in found.trials if t.allowed_frames is not None]
    assert all(t.allowed_frames == pytest.approx(0.005 * t.intended_frames, rel=0.01) for t in later)
    assert all(t.lost_frames > t.allowed_frames for t in later if t.stopped_early_s is not None)
    assert {t.loss_ratio > 0.005 for t in later if t.stopped_early_s is not None} == {True}


async def test_a_search_of_rfc2544_costs_a_fifth_of_plain_bisection_at_most_and_0_75_of_the_library_alone():
    """0.15 over the thousand devices of tests/bench/search_cost.py; among few, one with many retries weighs much."""
    goals, ours, library, bisection = PRESETS["rfc2544"], 0.0, 0.0, 0.0
    for seed in range(20):
        stopped, at = await search(seed, goals, EarlyStop.AT_ONCE)
        full, all_of = await search(seed, goals, EarlyStop.NEVER)
        assert stopped.results == full.results and [o.rate for o in at.offers] == [o.rate for o in all_of.offers], f"seed {seed}"
        bisected = plain_bisection(Simulation(any_dut(seed), seed), MIX, width=goals[0].width)
        ours, library, bisection = ours + stopped.sent_s, library + full.sent_s, bisection + bisected.sent_s
    assert ours / bisection <= 0.2
    assert ours / library <= 0.75


async def test_on_a_device_without_noise_the_answer_is_bisections():
    for seed in range(10):
        dut = replace(any_dut(seed), capacity_spread=0.0, random_loss=0.0, stalls_per_s=0.0, slow_share=0.0)
        found = await find(Simulation(dut), Search(("a",), MIX, PRESETS["rfc2544"], LINE_PPS))
        result = found.results["throughput"]
        bisected = plain_bisection(Simulation(dut), MIX, width=0.005)
        # what the device passes in 60 s: its capacity, and its buffer once
        limit = dut.capacity_pps + dut.buffer_frames / 60
        if limit >= LINE_PPS:
            assert (result.lower_pps, bisected.lower_pps) == (LINE_PPS, LINE_PPS)
            continue
        assert result.lower_pps <= limit * (1 + 1e-6) and limit * (1 - 1e-6) <= result.upper_pps
        assert bisected.lower_pps <= limit * (1 + 1e-6) and limit * (1 - 1e-6) <= bisected.upper_pps
        assert (result.upper_pps - result.lower_pps) / result.upper_pps <= 0.005
