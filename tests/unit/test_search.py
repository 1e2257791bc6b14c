"""The search against devices whose limit is known, in one search or several."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import setting_of
from dutlab.errors import InputError
from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import Irregular
from dutlab.methods.search.trial import Role
from dutlab.spec.goals import PRESETS, Goal, checked, goals_named
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


# ---- What a search may be asked for


NDR = Goal("ndr", 0.0, 0.5, 1.0, 21.0)


def four(goal):
    return goal.final_s, goal.sum_s, goal.loss_ratio, goal.exceed_ratio


def test_presets_are_what_their_documents_say_and_are_searched_alone_or_together():
    # RFC 9971 on compliance with RFC 2544 and TST 009; FD.io CSIT's NDR and PDR
    assert [four(g) for g in PRESETS["rfc2544"]] == [(60, 60, 0, 0)]
    assert [four(g) for g in PRESETS["csit"]] == [(1, 21, 0, 0.5), (1, 21, 0.005, 0.5)]
    assert [four(g) for g in PRESETS["tst009"]] == [(60, 120, 0, 0.5)]
    assert {g.width for name in ("rfc2544", "csit", "tst009") for g in PRESETS[name]} == {0.005}
    # Presets are searched alone or together.
    assert {name: goals_named(name) for name in PRESETS} == PRESETS
    assert [g.name for g in goals_named("rfc2544, csit")] == ["throughput", "ndr", "pdr"]


@pytest.mark.parametrize("text", ["", "ndr", "csit,", "CSIT"])
def test_an_unknown_preset_is_refused_with_the_known_ones(text):
    with pytest.raises(InputError, match=", ".join(PRESETS)):
        goals_named(text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss_ratio": -0.1}, "loss: .*, not -10%"),
        ({"loss_ratio": 1.0}, "loss: .*, not 100%"),
        ({"exceed_ratio": 1.0}, "exceed: "),
        ({"exceed_ratio": float("nan")}, "exceed: "),
        ({"width": 0.0}, "width: "),
        ({"width": 1.0}, "width: "),
        ({"loss_ratio": 0.01}, "width: 0.5% .* 1% or more"),
        ({"sum_s": 0.5}, "0.5 s .* 1 s"),
        ({"sum_s": float("inf")}, "sum: "),
        ({"initial_s": 2.0}, "first .*2 s.* last .*1 s"),
        ({"initial_s": 0.0}, "initial: "),
        ({"final_s": -1.0}, "final: "),
        ({"steps": 0}, "0 steps"),
        ({"steps": 1.5}, "1.5 steps"),
        ({"name": "n d r"}, "name: 'n d r'"),
        ({"name": ""}, "name: "),
    ],
)
def test_a_goal_that_contradicts_itself_is_refused_in_words(change, words):
    with pytest.raises(InputError, match=words):
        checked([replace(NDR, **change)])


def test_all_contradictions_are_told_at_once_and_those_between_goals_too(golden):
    def refused(goals):
        with pytest.raises(InputError) as e:
            checked(goals)
        return f"{e.value}\n"

    contradictory = [replace(NDR, loss_ratio=2.0, sum_s=0.1), replace(NDR, width=7.0)]
    alike = [NDR, replace(NDR, name="ndr2", width=0.01)]
    golden.check("refusals-goals.txt", "".join(map(refused, (contradictory, alike, PRESETS["csit"] + PRESETS["quick"], []))))


def test_goals_in_a_setting_are_json_with_the_same_names():
    raw = [{"name": "mine", "loss_ratio": 0.001, "exceed_ratio": 0, "final_s": 10, "sum_s": 30, "steps": 1}]
    made = setting_of("search", goals=raw)
    assert made.goals == (Goal("mine", 0.001, 0, 10, 30, steps=1),)
    assert json.loads(made.params["goals"])[0].items() >= raw[0].items()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (7, "valid tuple"),
        ({}, "valid tuple"),
        ([1], "dictionary or an instance of Goal"),
        ([], "there is no goal"),
        ([{"name": "x"}], r"goals.0.exceed_ratio\n  Field required"),
        ([{"name": "x", "loss_ratio": "none", "exceed_ratio": 0, "final_s": 1, "sum_s": 1}], r"goals.0.loss_ratio\n .*valid number"),
        ([{"name": "x", "loss": 0, "loss_ratio": 0, "exceed_ratio": 0, "final_s": 1, "sum_s": 1}], r"goals.0.loss\n"),
    ],
)
def test_goals_that_cannot_be_read_are_refused_with_the_place(raw, words):
    with pytest.raises(ValueError, match=words):
        setting_of("search", goals=raw)
