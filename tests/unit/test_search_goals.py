"""What a search may be asked for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cells import setting_of
from dutlab.errors import InputError
from dutlab.spec.goals import PRESETS, Goal, checked, goals_named

NDR = Goal("ndr", 0.0, 0.5, 1.0, 21.0)


def four(goal):
    return goal.final_s, goal.sum_s, goal.loss_ratio, goal.exceed_ratio


def test_presets_are_what_their_documents_say():
    # RFC 9971 on compliance with RFC 2544 and TST 009; FD.io CSIT's NDR and PDR
    assert [four(g) for g in PRESETS["rfc2544"]] == [(60, 60, 0, 0)]
    assert [four(g) for g in PRESETS["csit"]] == [(1, 21, 0, 0.5), (1, 21, 0.005, 0.5)]
    assert [four(g) for g in PRESETS["tst009"]] == [(60, 120, 0, 0.5)]
    assert {g.width for name in ("rfc2544", "csit", "tst009") for g in PRESETS[name]} == {0.005}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_searched(name):
    assert goals_named(name) == PRESETS[name]


def test_several_presets_make_one_search():
    assert [g.name for g in goals_named("rfc2544, csit")] == ["throughput", "ndr", "pdr"]


@pytest.mark.parametrize("text", ["", "ndr", "csit,", "CSIT"])
def test_an_unknown_preset_is_refused_with_the_known_ones(text):
    with pytest.raises(InputError, match="known are rfc2544, csit, tst009, quick"):
        goals_named(text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss_ratio": -0.1}, "loss: must be at least 0% and below 100%, not -10%"),
        ({"loss_ratio": 1.0}, "loss: must be at least 0% and below 100%, not 100%"),
        ({"exceed_ratio": 1.0}, "exceed: must be at least 0%"),
        ({"exceed_ratio": float("nan")}, "exceed: must be at least 0%"),
        ({"width": 0.0}, "width: must be above 0%"),
        ({"width": 1.0}, "width: must be above 0%"),
        ({"loss_ratio": 0.01}, "width: 0.5% is finer than the loss of 1% lets two rates differ; write width: 1% or more"),
        ({"sum_s": 0.5}, "0.5 s of trials in all cannot hold one of 1 s"),
        ({"sum_s": float("inf")}, "sum: a duration is above 0 and ends"),
        ({"initial_s": 2.0}, "the first trials .2 s. would be longer than the last .1 s."),
        ({"initial_s": 0.0}, "initial: a duration is above 0"),
        ({"final_s": -1.0}, "final: a duration is above 0"),
        ({"steps": 0}, "0 steps do not lead from 1 s to 21 s"),
        ({"steps": 1.5}, "1.5 steps"),
        ({"name": "n d r"}, "name: 'n d r' is not a goal's name; use letters, digits and underscores"),
        ({"name": ""}, "letters, digits and underscores"),
    ],
)
def test_a_goal_that_contradicts_itself_is_refused_in_words(change, words):
    with pytest.raises(InputError, match=words):
        checked([replace(NDR, **change)])


def test_all_contradictions_are_told_at_once():
    with pytest.raises(InputError) as e:
        checked([replace(NDR, loss_ratio=2.0, sum_s=0.1), replace(NDR, width=7.0)])
    for words in ("loss: must be", "cannot hold one", "width: must be", "two goals are called ndr"):
        assert words in str(e.value)


def test_goals_that_contradict_one_another_are_refused():
    with pytest.raises(InputError, match="goals ndr and ndr2 ask the same"):
        checked([NDR, replace(NDR, name="ndr2", width=0.01)])
    with pytest.raises(InputError, match="two goals are called ndr"):
        goals_named("csit,quick")
    with pytest.raises(InputError, match="there is no goal"):
        checked([])


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
