"""The search against devices whose limit is known, in one search or several."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import Irregular
from dutlab.methods.search.trial import Role
from dutlab.spec.goals import PRESETS
from dutlab.spec.mixes import frame_mix
from dutlab.spec.workloads.search import EarlyStop
from dutlab.stats.rescore import answer, points_of
from simulated import LINE_PPS, Dut, Simulation, in_flight

MIX = frame_mix(64)


def asked(preset="csit", highest=LINE_PPS, **changes):
    return Search(("a",), MIX, PRESETS[preset], highest, **changes)


def why(found):
    return {name: result.irregular for name, result in found.results.items()}


async def test_ndr_and_pdr_of_a_sharp_limit_are_found_in_one_search():
    found = await find(Simulation(Dut(capacity_pps=1e6)), asked())
    ndr, pdr = found.results["ndr"], found.results["pdr"]
    assert ndr.lower_pps <= 1e6 < ndr.upper_pps
    assert pdr.lower_pps <= 1e6 / 0.995 < pdr.upper_pps  # 0.5 % of what is offered may be lost
    for result in (ndr, pdr):
        assert result.regular
        assert (result.upper_pps - result.lower_pps) / result.upper_pps <= 0.005
        assert result.lower_pps * (1 - result.goal.loss_ratio) <= result.conditional_pps <= result.lower_pps
    assert ndr.conditional_pps == ndr.lower_pps
    assert not found.notes


async def test_every_trial_is_kept_with_what_was_asked_and_what_became_of_it():
    simulation = Simulation(Dut(capacity_pps=1e6))
    found = await find(simulation, asked("rfc2544"))
    assert [t.number for t in found.trials] == list(range(1, len(simulation.offers) + 1))
    for trial, offer in zip(found.trials, simulation.offers, strict=True):
        assert (trial.load_pps, trial.duration_s, trial.allowed_frames) == (offer.rate, offer.duration, offer.stop_after_lost)
        assert trial.sent_frames == trial.received_frames + trial.lost_frames
        assert trial.counts
        assert trial.role is Role.SEARCH
    assert found.sent_s == pytest.approx(simulation.sent_s)
    assert sum(t.duration_s for t in found.trials) == pytest.approx(found.sent_s + found.saved_s)
    assert max(t.sent_s for t in found.trials) == 60
    lower = found.results["throughput"].lower_pps
    assert [t for t in found.trials if t.load_pps == lower and t.sent_s == 60 and t.lost_frames == 0]


async def test_the_results_are_what_rescoring_its_trials_gives():
    found = await find(Simulation(Dut(capacity_pps=2e6, capacity_spread=0.002), seed=7), asked())
    for result in found.results.values():
        again = answer(found.points, result.goal.definition)
        assert (again.lower_pps, again.upper_pps, again.conditional_pps) == (result.lower_pps, result.upper_pps, result.conditional_pps)


duts = st.builds(
    Dut,
    capacity_pps=st.floats(0, 3e7),
    buffer_frames=st.sampled_from([0, 100, 1e5]),
    capacity_spread=st.sampled_from([0, 0.001, 0.3]),
    slow_share=st.floats(0, 1),
    slow_capacity=st.floats(0, 1),
    random_loss=st.sampled_from([0, 1e-9, 1e-4, 0.1]),
    stalls_per_s=st.sampled_from([0, 0.01, 10]),
    stall_s=st.sampled_from([0, 0.001, 0.5]),
)


@settings(max_examples=25)
@given(
    dut=duts,
    seed=st.integers(0, 10**6),
    reach=st.sampled_from([1e12, 1e7, 1e5]),
    preset=st.sampled_from(["rfc2544", "csit", "tst009", "quick"]),
    highest=st.sampled_from([LINE_PPS, 1e4, None]),
    deaf=st.none() | st.integers(0, 20),
    flight=st.integers(0, 40),
)
async def test_whatever_the_device_does_bounds_are_ordered_backed_by_trials_and_marked_where_one_is_missing(
    dut, seed, reach, preset, highest, deaf, flight
):
    simulation = Simulation(dut, seed, reach, deaf_from=deaf, change=lambda n, flow: in_flight(flow) if n == flight else flow)
    found = await find(simulation, asked(preset, highest))
    for result in found.results.values():
        assert result.regular <= (result.lower_pps is not None and result.upper_pps is not None)
        if result.lower_pps is not None:
            points = [p for p in found.points if p.load_pps == result.lower_pps]
            assert sum(p.duration_s for p in points if p.loss_ratio <= result.goal.loss_ratio) > 0
            assert 0 <= result.conditional_pps <= result.lower_pps
        if result.upper_pps is not None:
            assert any(p.loss_ratio > result.goal.loss_ratio for p in found.points if p.load_pps == result.upper_pps)
        if result.regular:
            assert result.lower_pps < result.upper_pps
            assert (result.upper_pps - result.lower_pps) / result.upper_pps <= result.goal.width
    assert math.isfinite(found.sent_s)
    assert points_of(t.row(found.tolerance) for t in found.trials) == found.points
    assert Irregular.UNLIKE not in {w for r in found.results.values() for w in r.irregular}


def test_the_tolerance_of_a_rate_never_hides_a_width():
    assert asked("rfc2544").tolerance == 0.0025
    assert asked("quick").tolerance == 0.005
    assert Search(("a",), MIX, PRESETS["quick"], 1e6).early_stop is EarlyStop.AT_ONCE
