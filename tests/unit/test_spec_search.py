"""Workload `search` of the experiment file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.methods.search.request import search_of_setting
from dutlab.plan.trials import make_plan
from dutlab.spec.goals import PRESETS, Goal
from dutlab.spec.loader import given_experiment, read_experiment
from dutlab.spec.loader import testbed_of as bed_of
from dutlab.spec.workloads.search import EarlyStop
from dutlab.spec.workloads.search_loads import LoadsBy
from spec_faults import brief, faults_of_experiment

HEAD = "experiment: e\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\nrepeats: 1\nworkloads:\n  - search: {{{}}}\n"


def load(body):
    return given_experiment(HEAD.format(body).encode(), Path("e.yaml"))


def cells(given):
    return [t.cell for t in make_plan(given.experiment, bed_of(given), seed=1).trials]


def test_a_search_without_a_word_is_csit_over_the_sizes_of_rfc2544():
    found = cells(load("links: [[a]]"))
    assert sorted(int(c.params["frame_size"]) for c in found) == [64, 128, 256, 512, 1024, 1280, 1518]
    search = search_of_setting(("a",), found[0].setting, {"a": None})
    assert (search.goals, search.highest, search.early_stop) == (PRESETS["csit"], None, EarlyStop.AT_ONCE)
    assert (found[0].workload, found[0].tool) == ("search", "engine")


def test_goals_of_ones_own_reach_the_method_as_they_were_written():
    goals = "goals: [{name: mine, loss: 0.2%, exceed: 25%, final: 2s, sum: 8s, width: 1%, initial: 500ms, steps: 1}]"
    (cell,) = cells(load(f"{goals}, frame_sizes: [imix], links: [[a, b]], lowest: 1kpps, highest: 2Mpps, budget: 5min, early_stop: never"))
    search = search_of_setting(cell.links, cell.setting, {"a": None, "b": None})
    assert search.goals == (Goal("mine", 0.002, 0.25, 2.0, 8.0, 0.01, 0.5, 1),)
    assert (search.lowest, search.highest, search.budget, search.early_stop) == (1e3, 2e6, 300, EarlyStop.NEVER)
    assert search.links == ("a", "b")


@pytest.mark.parametrize("preset", PRESETS)
def test_the_plan_is_given_about_what_a_search_takes(preset):
    given = load(f"preset: {preset}, frame_sizes: [64], links: [[a]]")
    (trial,) = make_plan(given.experiment, bed_of(given)).trials
    simulated_s = {"rfc2544": 93, "csit": 39, "tst009": 115, "quick": 6}[preset]  # of sending alone; docs/method/search.md
    assert simulated_s < trial.estimate_s < 20 * simulated_s


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("preset: ndr", "preset invalid"),
        ("preset: csit, goals: [{name: a, loss: 0%, exceed: 50%, final: 1s, sum: 21s}]", "goals conflict"),
        ("goals: []", "goals invalid"),
        ("goals: [{name: a, loss: 2%, exceed: 50%, final: 1s, sum: 21s}]", "goals.0.width invalid"),
        ("goals: [{name: a, loss: 0%, exceed: 50%, final: 60s, sum: 21s}]", "goals.0.sum invalid"),
        ("goals: [{name: a, loss: 0%, exceed: 0.5, final: 1s, sum: 21s}]", "goals.0.exceed unit"),
        (
            "goals: [{name: a, loss: 0%, exceed: 50%, final: 1s, sum: 21s}, {name: b, loss: 0%, exceed: 50%, final: 1s, sum: 21s}]",
            "goals invalid",
        ),
        ("goals: [{name: a, loss: 0%, exceed: 50%, final: 1s, total: 21s}]", "goals.0.total unknown-key"),
        ("frame_sizes: []", "frame_sizes missing"),
        ("frame_sizes: [64, 64]", "frame_sizes.1 duplicate"),
        ("frame_sizes: [9000]", "frame_sizes.0 unfit"),
        ("lowest: 2kpps, highest: 1kpps", "lowest range"),
        ("highest: 0pps", "highest range"),
        ("budget: 0s", "budget range"),
        ("early_stop: true", "early_stop unknown-name"),
        ("links: [[a, a]]", "links.0 duplicate"),
        ("loads_by: guess", "loads_by unknown-name"),
        ("loads_by: fit", "loads_by conflict"),  # csit lets half of the seconds be bad
        ("preset: rfc2544, expected: 1Mpps", "expected conflict"),
        ("preset: rfc2544, loads_by: fit, expected: 1000000", "expected.each unit"),
        ("preset: rfc2544, loads_by: fit, frame_sizes: [64], expected: {128: 1Mpps}", "expected invalid"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_its_place(body, expected):
    found = [f"{fault.path.removeprefix('workloads.0.search.')} {fault.kind}" for fault in faults_of_experiment(HEAD.format(body))]
    assert expected in found


def test_a_rate_above_the_line_is_refused_before_anything_is_touched(tmp_path):
    (tmp_path / "bed.yaml").write_text(
        "testbed: t\nhosts: {source: {ssh: root@192.0.2.1}, dut: {family: linux, ssh: root@192.0.2.2}, sink: {ssh: root@192.0.2.3}}\n"
        "links:\n  a:\n    path: [source:e0, dut:e0, dut:e1, sink:e0]\n    speed: 1G\n"
        "    addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]\n"
    )
    text = HEAD.format("highest: 2Mpps, frame_sizes: [64]").replace("{lab: three-node}", "bed.yaml")
    assert brief(faults_of_experiment(text, path=tmp_path / "e.yaml")) == ["6:14 workloads.0.search.highest unfit"]


def test_the_ready_experiment_searches_every_mode_and_size():
    found = cells(read_experiment(Path(__file__).parents[2] / "examples" / "ndr-pdr" / "experiment.yaml"))
    assert {(c.mode, c.params["preset"]) for c in found} == {("router", "csit"), ("filter-default", "csit")}
    assert len(found) == 2 * 3 * 5


def test_expected_rates_are_of_all_sizes_or_of_each():
    of = "preset: rfc2544, loads_by: fit, links: [[a]], frame_sizes: [64, 128, imix]"
    assert {c.setting.expected_pps for c in cells(load(f"{of}, expected: 1Mpps"))} == {1e6}
    by_size = {c.setting.size: c.setting.expected_pps for c in cells(load(f"{of}, expected: {{64: 2Mpps, imix: 300kpps}}"))}
    assert by_size == {"64": 2e6, "128": None, "imix": 3e5}
    search = search_of_setting(("a",), cells(load(f"{of}, expected: 1Mpps"))[0].setting, {"a": None})
    assert (search.loads_by, search.expected) == (LoadsBy.FIT, 1e6)


def test_results_with_other_expectations_are_of_the_same_cell_and_old_records_have_no_new_parameter():
    of = "preset: rfc2544, links: [[a]], frame_sizes: [64]"
    usual, fit, one, other = (
        cells(load(of + more))[0].setting for more in ("", *(f", loads_by: fit{e}" for e in ("", ", expected: 1Mpps", ", expected: 2Mpps")))
    )
    assert fit.identity == one.identity == other.identity != usual.identity
    assert one.params["expected_pps"] == 1e6
    assert not {"loads_by", "expected_pps"} & usual.params.keys()
