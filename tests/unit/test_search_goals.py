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
