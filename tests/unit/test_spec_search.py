"""Workload `search` of the experiment file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.errors import SpecRefused
from dutlab.methods.search.request import search_of_setting
from dutlab.plan.trials import make_plan
from dutlab.spec.goals import PRESETS, Goal
from dutlab.spec.loader import read_experiment
from dutlab.spec.loader import testbed_of as bed_of
from dutlab.spec.workloads.search import EarlyStop


@pytest.fixture
def load(tmp_path):
    def of(body, testbed="{lab: three-node}"):
        path = tmp_path / "e.yaml"
        path.write_text(f"experiment: e\ntestbed: {testbed}\nfactors: {{mode: [router]}}\nrepeats: 1\nworkloads:\n  - search: {{{body}}}\n")
        return read_experiment(path)

    return of


def cells(given):
    return [t.cell for t in make_plan(given.experiment, bed_of(given), seed=1).trials]


def test_a_search_without_a_word_is_csit_over_the_sizes_of_rfc2544(load):
    found = cells(load("links: [[a]]"))
    assert sorted(int(c.params["frame_size"]) for c in found) == [64, 128, 256, 512, 1024, 1280, 1518]
    search = search_of_setting(("a",), found[0].setting, {"a": None})
    assert (search.goals, search.highest, search.early_stop) == (PRESETS["csit"], None, EarlyStop.AT_ONCE)
    assert (found[0].workload, found[0].tool) == ("search", "engine")


def test_goals_of_ones_own_reach_the_method_as_they_were_written(load):
    goals = "goals: [{name: mine, loss: 0.2%, exceed: 25%, final: 2s, sum: 8s, width: 1%, initial: 500ms, steps: 1}]"
    (cell,) = cells(load(f"{goals}, frame_sizes: [imix], links: [[a, b]], lowest: 1kpps, highest: 2Mpps, budget: 5min, early_stop: never"))
    search = search_of_setting(cell.links, cell.setting, {"a": None, "b": None})
    assert search.goals == (Goal("mine", 0.002, 0.25, 2.0, 8.0, 0.01, 0.5, 1),)
    assert (search.lowest, search.highest, search.budget, search.early_stop) == (1e3, 2e6, 300, EarlyStop.NEVER)
    assert search.links == ("a", "b")


@pytest.mark.parametrize("preset", PRESETS)
def test_the_plan_is_given_about_what_a_search_takes(load, preset):
    given = load(f"preset: {preset}, frame_sizes: [64], links: [[a]]")
    (trial,) = make_plan(given.experiment, bed_of(given)).trials
    simulated_s = {"rfc2544": 93, "csit": 39, "tst009": 115, "quick": 6}[preset]  # of sending alone; docs/method/search.md
    assert simulated_s < trial.estimate_s < 20 * simulated_s


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("preset: ndr", "known are rfc2544, csit, tst009, quick"),
        ("preset: csit, goals: [{name: a, loss: 0%, exceed: 50%, final: 1s, sum: 21s}]", "cannot be combined with a preset"),
        ("goals: []", "there is no goal"),
        ("goals: [{name: a, loss: 2%, exceed: 50%, final: 1s, sum: 21s}]", "finer than the loss of 2% lets"),
        (
            "goals: [{name: a, loss: 0%, exceed: 50%, final: 60s, sum: 21s}]",
            r"goals\.0\.sum: 21 s of trials in all cannot hold one of 60 s",
        ),
        ("goals: [{name: a, loss: 0%, exceed: 0.5, final: 1s, sum: 21s}]", "has no unit; write it as in 0.5%"),
        (
            "goals: [{name: a, loss: 0%, exceed: 50%, final: 1s, sum: 21s}, {name: b, loss: 0%, exceed: 50%, final: 1s, sum: 21s}]",
            "a and b ask the same",
        ),
        ("goals: [{name: a, loss: 0%, exceed: 50%, final: 1s, total: 21s}]", "unknown key"),
        ("frame_sizes: []", "write at least one"),
        ("frame_sizes: [64, 64]", "duplicate"),
        ("frame_sizes: [9000]", "do not pass link a"),
        ("lowest: 2kpps, highest: 1kpps", "2 kpps is not below highest, 1 kpps"),
        ("highest: 0pps", "must be more than 0"),
        ("budget: 0s", "must be 1s to 86400s"),
        ("early_stop: true", "early_stop: must be 'at-once' or 'never'"),
        ("links: [[a, a]]", "duplicate link"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_its_place(load, body, words):
    with pytest.raises(SpecRefused, match=words):
        load(body)


def test_a_rate_above_the_line_is_refused_before_anything_is_touched(tmp_path, load):
    (tmp_path / "bed.yaml").write_text(
        "testbed: t\nhosts: {source: {ssh: root@192.0.2.1}, dut: {family: linux, ssh: root@192.0.2.2}, sink: {ssh: root@192.0.2.3}}\n"
        "links:\n  a:\n    path: [source:e0, dut:e0, dut:e1, sink:e0]\n    speed: 1G\n"
        "    addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]\n"
    )
    with pytest.raises(SpecRefused, match=r"2 Mpps of frame size 64 is more than link a carries .1.49 Mpps."):
        load("highest: 2Mpps, frame_sizes: [64]", testbed="bed.yaml")


def test_the_ready_experiment_searches_every_mode_and_size():
    found = cells(read_experiment(Path(__file__).parents[2] / "examples" / "ndr-pdr" / "experiment.yaml"))
    assert {(c.mode, c.params["preset"]) for c in found} == {("router", "csit"), ("filter-default", "csit")}
    assert len(found) == 2 * 3 * 5
