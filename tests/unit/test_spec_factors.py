"""Factors whose levels commands set: what is right loads, and what is wrong is refused at its place, before any host is reached."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from dutlab.plan.trials import blocks_of, make_plan, needs_hand
from dutlab.spec import fits
from dutlab.spec.experiment import Experiment
from dutlab.spec.loader import experiment_of
from dutlab.spec.model import FILE_CONTEXT
from dutlab.spec.testbed import Testbed
from spec_faults import brief, faults_of_experiment, page
from strategies import raw_links

RIGHT = """\
experiment: levels
testbed: {lab: three-node}
factors:
  mode: [router, nat]
  mtu: [1500, 9000]
  gro: ["on", false]
  cable: [old, new]
  cstates: [all, c1]
levels:
  gro:
    "on": {}
    false:
      - {host: sink, apply: [ethtool -K port-a gro off], restore: [ethtool -K port-a gro on]}
      - {apply: [ethtool -K in-a gro off], verify: ["true"], restore: [ethtool -K in-a gro on]}
  cstates:
    all: {}
    c1: {apply: [reboot-with c1], restore: [reboot-with all]}
expensive_to_change: [cstates]
exclude:
  - {mtu: 9000, gro: false}
  - {cable: new, mode: [nat]}
workloads:
  - iperf3: {links: [[a]]}
repeats: 2
"""
HOSTS = {role: {"ssh": role} for role in ("source", "dut", "sink")}
BED = Testbed.model_validate({"testbed": "two", "hosts": HOSTS, "links": raw_links(1)}, context=FILE_CONTEXT)


def load(text: str) -> Experiment:
    return experiment_of(text.encode(), Path("e.yaml"))


def test_a_factor_that_takes_a_reboot_changes_as_seldom_as_a_dear_one():
    text = RIGHT.replace("expensive_to_change: [cstates]\n", "")
    booted = load(text.replace("restore: [reboot-with all]", "restore: [reboot-with all], reboot: true"))
    assert load(text).seldom_factors == ()
    assert booted.seldom_factors == ("cstates",)
    assert (booted.levels["cstates"]["c1"][0].back_within, make_plan(booted, BED, seed=1).expensive_factors) == (600.0, ("cstates",))


def test_levels_are_set_by_commands_by_a_knob_or_by_a_person():
    made = load(RIGHT)
    assert (made.set_factors, made.hand_factors, made.expensive_to_change) == (("mtu", "gro", "cstates"), ("cable",), ("cstates",))
    sink, dut = made.levels["gro"]["false"]
    assert (sink.host, dut.host, dut.verify) == ("sink", None, ("true",))
    assert made.levels["gro"]["on"] == made.levels["cstates"]["all"] != made.levels["cstates"]["c1"]
    assert Experiment.model_validate(json.loads(json.dumps(made.model_dump(mode="json")))) == made


MISTAKES = [
    ('    "on": {}\n', "", "10:3 levels.gro missing"),
    ('    "on": {}', "    no: {}", "10:3 levels.gro missing"),
    ('  gro:\n    "on"', '  gru:\n    "on"', "10:3 levels.gru unknown-name"),
    ("levels:\n  gro:", "levels:\n  mode: {router: {}, nat: {}}\n  gro:", "10:3 levels.mode conflict"),
    (", restore: [reboot-with all]", "", "17:5 levels.cstates.c1.0.restore missing"),
    ("[reboot-with c1]", "[' ']", "17:5 levels.cstates.c1.0.apply.0 missing"),
    ("apply: [reboot-with c1], restore: [reboot-with all]", "reboot: true", "17:5 levels.cstates.c1.0.reboot conflict"),
    ("restore: [reboot-with all]", "restore: [x], back_within: 0s", "17:5 levels.cstates.c1.0.back_within range"),
    ("host: sink", "host: sunk", "12:5 levels.gro.false unfit"),
    ("host: sink", "hosts: sink", "13:10 levels.gro.false.0.hosts unknown-key"),
    ("expensive_to_change: [cstates]", "expensive_to_change: [cstate]", "18:23 expensive_to_change.0 unknown-name"),
    ("expensive_to_change: [cstates]", "expensive_to_change: [mode]", "18:23 expensive_to_change.0 unknown-name"),
    ("{mtu: 9000, gro: false}", "{mtu: 900}", "20:6 exclude.0.mtu unknown-name"),
    ("{mtu: 9000, gro: false}", "{mt: 9000}", "20:6 exclude.0.mt unknown-name"),
    ("{mtu: 9000, gro: false}", "{}", "20:5 exclude.0 missing"),
    ("{mtu: 9000, gro: false}", "{mode: [router, nat]}", "19:1 exclude missing"),
    ("[1500, 9000]", "[1500, 9000, 70000]", "5:21 factors.mtu.2 invalid"),
    ("[1500, 9000]", "[1500, 9000, 576]", "5:21 factors.mtu.2 invalid"),
    ("cable: [", "offloads: [gro=off]\n  cable: [", "7:14 factors.offloads.0 invalid"),
    ("cable: [", "rps: [5-2]\n  cable: [", "7:9 factors.rps.0 invalid"),
    ("cable: [", "rps: [f]\n  cable: [", "7:9 factors.rps.0 invalid"),
    ("cable: [", "boost: [1]\n  cable: [", "7:11 factors.boost.0 invalid"),
    ("cable: [", "sysctl.net core: [1]\n  cable: [", "7:3 factors.sysctl.net core invalid"),
    ("cable: [", 'sysctl.a.b: ["1\\n2"]\n  cable: [', "7:16 factors.sysctl.a.b.0 invalid"),
    ("cable: [", "tunnels: [0, 5000]\n  cable: [", "7:16 factors.tunnels.1 invalid"),
    ("cable: [", "tunnels: [4]\n  cable: [", "7:13 factors.tunnels.0 unfit"),
    ("mode: [router, nat]\n", "mode: [nat, vxlan]\n  tunnels: [0]\n", "5:13 factors.tunnels.0 unfit"),
    ("levels:\n  gro:", "levels:\n  tunnels: {0: {}}\n  gro:", "10:3 levels.tunnels conflict"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_one_mistake_is_refused_where_it_is(old, new, expected):
    text = RIGHT.replace(old, new, 1)
    assert text != RIGHT
    assert expected in brief(faults_of_experiment(text))


def test_what_is_said_of_each(golden):
    golden.check("refusals-factors.txt", page(MISTAKES, RIGHT, faults_of_experiment))


def test_one_level_can_be_asked_for_of_those_with_commands():
    made = experiment_of(RIGHT.encode(), Path("e.yaml"), ["factors.gro=on", "factors.mtu=9000", "exclude=[]"])
    assert (made.factors["gro"], made.exclude) == (("on",), ())
    assert set(made.levels["gro"]) == {"on", "false"}


@pytest.mark.parametrize(
    ("family", "factor", "fits"),
    [
        ("freebsd-pf", "mtu: [9000]", False),
        ("freebsd-pf", "governor: [performance]", False),
        ("freebsd-pf", "sysctl.net.isr.dispatch: [direct]", True),
        ("openbsd-pf", "sysctl.hw.setperf: [0, 100]", True),
        ("openbsd-pf", "setperf: [0, 100]", True),
        ("linux", "setperf: [0, 100]", False),
        ("vpp", "rps: [0-1]", False),
        ("vpp", "governor: [performance]", True),
        ("manual", "sysctl.a.b: [1]", False),
        ("manual", "mtu: [9000]", False),
        ("manual", "jumbo: [9000]", True),
        ("linux", "mtu: [9000]", True),
        ("linux", "tunnels: [0]", True),
        ("freebsd-pf", "tunnels: [0]", False),
    ],
)
def test_a_knob_that_a_testbed_cannot_turn_is_refused_before_a_host_is_reached(tmp_path, family, factor, fits):
    dut = f"{{family: {family}}}" if family == "manual" else f"{{ssh: d, family: {family}}}"
    links = "{a: {path: [source:e0, dut:e0, dut:e1, sink:e0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.1.1/24, 10.0.1.2/24]}}"
    (tmp_path / "bed.yaml").write_text(f"testbed: bed\nhosts: {{source: {{ssh: s}}, dut: {dut}, sink: {{ssh: k}}}}\nlinks: {links}\n")
    text = f"experiment: e\ntestbed: bed.yaml\nfactors: {{mode: [router], {factor}}}\nworkloads:\n  - iperf3: {{links: [[a]]}}\n"
    if fits:
        assert experiment_of(text.encode(), tmp_path / "e.yaml")
    else:
        assert brief(faults_of_experiment(text, path=tmp_path / "e.yaml")) == [f"3:27 factors.{factor.split(':')[0]} unfit"]


def test_a_frame_has_to_pass_at_the_smallest_mtu_that_is_set():
    head = "experiment: e\ntestbed: {lab: three-node}\nworkloads:\n  - sweep: {frame_sizes: [9018], links: [[a]]}\n"
    assert load(f"{head}factors: {{mode: [router], mtu: [9000]}}\n")
    assert brief(faults_of_experiment(f"{head}factors: {{mode: [router], mtu: [9000, 1500]}}\n")) == [
        "4:27 workloads.0.sweep.frame_sizes.0 unfit"
    ]


def test_what_is_left_out_does_not_count_as_planned(monkeypatch):
    monkeypatch.setattr(fits, "MOST_TRIALS", 20)
    many = "experiment: e\ntestbed: {lab: three-node}\nworkloads:\n  - iperf3: {links: [[a]]}\nrepeats: 10\n"
    many += "factors: {mode: [router], cable: [0, 1, 2]}\n"
    assert brief(faults_of_experiment(many)) == ["3:1 workloads unfit"]
    assert len(make_plan(load(many + "exclude: [{cable: 2}]\n"), BED).trials) == 20


def test_excluded_cells_are_left_out_and_dear_factors_change_as_seldom_as_a_persons():
    plan = make_plan(load(RIGHT), BED, seed=1)
    combinations = {tuple(t.cell.factors.values()) for t in plan.trials}
    assert set(plan.trials[0].cell.factors) == {"mode", "mtu", "gro", "cable", "cstates"}
    assert len(combinations) == 2**5 - 8 - 8 + 2  # 9000 without GRO, new cable with NAT, and both
    assert not any(t.cell.factors["mtu"] == "9000" and t.cell.factors["gro"] == "false" for t in plan.trials)
    assert not any(t.cell.factors["cable"] == "new" and t.cell.mode == "nat" for t in plan.trials)
    slow = [(t.cell.factors["cable"], t.cell.factors["cstates"]) for t in plan.trials]
    assert sum(a != b for a, b in pairwise(slow)) == 3, "four stretches"
    assert needs_hand(plan) == ["set cable to old", "set cable to new"]
    assert all(len({(t.cell.repeat, t.cell.factors["cable"], t.cell.factors["cstates"]) for t in block}) == 1 for block in blocks_of(plan))
    assert len(blocks_of(plan)) == 2 * 4
    assert (plan.hand_factors, plan.expensive_factors) == (("cable",), ("cstates",))


def test_as_written_only_one_factor_changes_from_one_level_to_the_next_and_the_last_most_often():
    text = (
        RIGHT.split("levels:\n", maxsplit=1)[0]
        .replace("  cable: [old, new]\n  cstates: [all, c1]\n", "  rps: [0, 1]\n")
        .replace("  gro:", "  offloads:")
    )
    text = text.replace('["on", false]', "[gro on, gro off]") + "workloads: [iperf3: {links: [[a]]}]\norder: as-written\nrepeats: 1\n"
    rows = [tuple(t.cell.factors[n] for n in ("mtu", "offloads", "rps", "mode")) for t in make_plan(load(text), BED).trials]
    assert [mode for *_, mode in rows] == ["router", "nat"] * 8
    levels = [row[:3] for row in rows[::2]]
    changes = [[n for n, (a, b) in enumerate(zip(one, other, strict=True)) if a != b] for one, other in pairwise(levels)]
    assert changes == [[2], [1], [2], [0], [2], [1], [2]]


def test_ceilings_follow_the_level_of_the_mtu():
    text = "experiment: e\ntestbed: {lab: three-node}\nfactors: {mode: [router], mtu: [1500, 9000]}\nworkloads: [iperf3: {links: [[a]]}]\nrepeats: 1\n"
    plan = make_plan(load(text), BED)
    found = {t.cell.factors["mtu"]: t.ceilings["a"]["goodput_bps"] for t in plan.trials}
    # MTU − 52 of headers with timestamps, over MTU + 38 on the wire (RFC 6349 section 4.1.1), of 10 Gb/s
    assert found == {"1500": pytest.approx(10e9 * 1448 / 1538, rel=1e-6), "9000": pytest.approx(10e9 * 8948 / 9038, rel=1e-6)}
