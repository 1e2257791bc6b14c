"""The experiment file: what is right loads and round-trips; what is wrong is refused where it is, as the page in tests/golden says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from dutlab.errors import FaultKind
from dutlab.labs import description
from dutlab.plan.trials import make_plan
from dutlab.spec.experiment import Experiment, LabRef, TestbedPath
from dutlab.spec.loader import experiment_of, load_experiment, path_of_testbed, read_experiment
from dutlab.spec.rates import AskedRate, RateUnit
from dutlab.spec.workloads.iperf3 import Iperf3Workload
from dutlab.spec.workloads.sweep import SweepWorkload
from spec_faults import brief, faults_of_experiment, page
from strategies import experiments

RIGHT = """\
experiment: modes
testbed: {lab: three-node}
factors:
  mode: [router, own]
  mtu: [1500, 9000]
workloads:
  - iperf3: {streams: 4, omit: 5s, duration: 30s, links: [[a], [b], [a, b]]}
  - sweep: {frame_sizes: [64, imix], rates: [max, 100kpps], duration: 1.5s, links: [[a]]}
repeats: 2
order: as-written
seed: 7
watch: [cpu]
modes:
  own: {apply: [sysctl -w x=1], verify: [test -e /], restore: [sysctl -w x=0]}
"""
MINIMAL = """\
experiment: least
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep:
"""
TESTBED = """\
testbed: bench
hosts: {source: {ssh: s}, dut: {ssh: d, family: freebsd-pf}, sink: {ssh: k}}
links:
  x: {speed: 1G, path: [source:e0, dut:e0, dut:e1, sink:e0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.1.1/24, 10.0.1.2/24]}
"""


def load(text, path=Path("experiment.yaml"), **kwargs):
    return experiment_of(text.encode(), path, **kwargs)


def test_an_experiment_file_becomes_an_experiment():
    experiment = load(RIGHT)
    iperf3, sweep = experiment.workloads
    assert experiment.testbed == LabRef(lab="three-node")
    assert experiment.factors == {"mode": ("router", "own"), "mtu": ("1500", "9000")}
    assert (experiment.hand_factors, experiment.set_factors) == ((), ("mtu",))
    assert isinstance(iperf3, Iperf3Workload) and (iperf3.tool, iperf3.streams, iperf3.omit, iperf3.duration) == ("iperf3", 4, 5.0, 30.0)
    assert isinstance(sweep, SweepWorkload) and (sweep.tool, sweep.rates, sweep.duration) == (
        "engine",
        (None, AskedRate(100e3, RateUnit.PPS)),
        1.5,
    )
    assert sweep.frame_sizes[1].parts == ((64, 7), (594, 4), (1518, 1))
    assert (experiment.repeats, experiment.order, experiment.seed, experiment.watch) == (2, "as-written", 7, ("cpu",))
    assert experiment.modes["own"].restore == ("sysctl -w x=0",)


def test_what_is_left_out_has_its_documented_default():
    experiment = load(MINIMAL)
    (sweep,) = experiment.workloads
    assert [m.size for m in sweep.frame_sizes] == [64, 128, 256, 512, 1024, 1280, 1518]
    assert (sweep.rates, sweep.duration, sweep.warmup, sweep.drain, sweep.links) == ((None,), 30.0, 1.0, 0.5, None)
    assert sweep.link_sets(["a", "b"]) == (("a",), ("b",))
    assert (experiment.repeats, experiment.order, experiment.seed, experiment.watch, experiment.modes) == (
        6,
        "shuffled",
        None,
        ("cpu",),
        {},
    )


MISTAKES = [
    ("router, own", "ruter, own", "4:10 factors.mode.0 unfit"),
    ("router, own", "router, router", "4:18 factors.mode.1 duplicate"),
    ("[router, own]", "[]", "4:3 factors.mode missing"),
    ("[router, own]", "router", "4:3 factors.mode type"),
    ("[1500, 9000]", "[1500, '1500']", "5:15 factors.mtu.1 duplicate"),
    ("[1500, 9000]", "[1500, ~]", "5:15 factors.mtu.1 type"),
    ("  mtu:", "  MTU size:", "5:3 factors.MTU size invalid"),
    ("  mode: [router, own]\n", "", "3:1 factors.mode missing"),
    ("lab: three-node", "lab: three-nodes", "2:11 testbed.lab unknown-name"),
    ("lab: three-node", "lab: three-node, path: x", "2:28 testbed.path unknown-key"),
    ("lab: three-node", "lab: three-node, links: {c: {delay: 20ms}}", "2:36 testbed.links.c unknown-name"),
    ("lab: three-node", "lab: three-node, sensors: {heat: {kind: hwmon, host: sinc}}", "2:58 testbed.sensors.heat.host unknown-name"),
    ("{lab: three-node}", "7", "2:1 testbed type"),
    ("{lab: three-node}", "nosuch.yaml", "2:1 testbed unreadable"),
    ("streams: 4", "streams: 0", "7:14 workloads.0.iperf3.streams range"),
    ("streams: 4", "streams: 4.5", "7:14 workloads.0.iperf3.streams type"),
    ("streams: 4", "stream: 4", "7:14 workloads.0.iperf3.stream unknown-key"),
    ("omit: 5s", "omit: 5", "7:26 workloads.0.iperf3.omit unit"),
    ("omit: 5s", "omit: 1.5s", "7:26 workloads.0.iperf3.omit range"),
    ("omit: 5s", "omit: 61s", "7:26 workloads.0.iperf3.omit range"),
    ("duration: 30s", "duration: 0s", "7:36 workloads.0.iperf3.duration range"),
    ("duration: 30s", "duration: half an hour", "7:36 workloads.0.iperf3.duration unit"),
    ("[a, b]]", "[a, c]]", "7:73 workloads.0.iperf3.links.2.1 unfit"),
    ("[a, b]]", "[a, a]]", "7:69 workloads.0.iperf3.links.2 duplicate"),
    ("[a, b]]", "[b]]", "7:69 workloads.0.iperf3.links.2 duplicate"),
    ("[a, b]]", "[]]", "7:69 workloads.0.iperf3.links.2 missing"),
    ("[[a], [b], [a, b]]", "[a]", "7:59 workloads.0.iperf3.links.0 type"),
    ("[[a], [b], [a, b]]", "[]", "7:51 workloads.0.iperf3.links missing"),
    ("- iperf3:", "- iperf:", "7:5 workloads.0.iperf unknown-name"),
    ("  - iperf3: {streams: 4, omit: 5s, duration: 30s, links: [[a], [b], [a, b]]}", "  - iperf3", "7:5 workloads.0 type"),
    ("[64, imix]", "[63, imix]", "8:27 workloads.1.sweep.frame_sizes.0 range"),
    ("[64, imix]", "[64, imax]", "8:31 workloads.1.sweep.frame_sizes.1 unknown-name"),
    ("[64, imix]", "[64, 64]", "8:31 workloads.1.sweep.frame_sizes.1 duplicate"),
    ("[64, imix]", "[64, 1519]", "8:31 workloads.1.sweep.frame_sizes.1 unfit"),
    ("[64, imix]", "[]", "8:13 workloads.1.sweep.frame_sizes missing"),
    ("[64, imix]", "[{name: web, parts: {64: 7, 594: x}}]", "8:27 workloads.1.sweep.frame_sizes.0 type"),
    ("[64, imix]", "[{name: imix, parts: {64: 7}}]", "8:28 workloads.1.sweep.frame_sizes.0.name duplicate"),
    ("[64, imix]", "[{name: web, parts: {64: 7, 0x40: 1}}]", "8:27 workloads.1.sweep.frame_sizes.0 type"),
    ("100kpps", "100k", "8:51 workloads.1.sweep.rates.1 unit"),
    ("100kpps", "100", "8:51 workloads.1.sweep.rates.1 unit"),
    ("duration: 1.5s", "duration: 10ms", "8:61 workloads.1.sweep.duration range"),
    ("duration: 1.5s", "drain: 1h", "8:61 workloads.1.sweep.drain range"),
    ("repeats: 2", "repeats: 0", "9:1 repeats range"),
    ("repeats: 2", "repeats: yes", "9:1 repeats range"),
    ("repeats: 2", "repeat: 2", "9:1 repeat unknown-key"),
    ("as-written", "random", "10:1 order unknown-name"),
    ("seed: 7", "seed: -7", "11:1 seed range"),
    ("[cpu]", "[cpu, power]", "12:14 watch.1 unknown-name"),
    ("[cpu]", "[cpu, nic]", "12:14 watch.1 unknown-name"),
    ("[cpu]", "[cpu, cpu]", "12:14 watch.1 duplicate"),
    (", restore: [sysctl -w x=0]", "", "14:3 modes.own.restore missing"),
    ("[test -e /]", "['']", "14:42 modes.own.verify.0 missing"),
    ("[test -e /]", "test -e /", "14:33 modes.own.verify type"),
    ("verify: [test -e /]", "ready: [test -e /]", "14:33 modes.own.ready conflict"),
    ("verify: [test -e /]", "start: [''], stop: [a]", "14:41 modes.own.start.0 missing"),
    ("verify: [test -e /]", "start: [a], ready_within: 1h", "14:45 modes.own.ready_within range"),
    ("  own:", "  nat:", "14:3 modes.nat unfit"),
    ("experiment: modes", "experiment: a/b", "1:1 experiment invalid"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), MISTAKES)
def test_one_mistake_is_refused_where_it_is(old, new, expected):
    assert old in RIGHT
    assert expected in brief(faults_of_experiment(RIGHT.replace(old, new, 1)))


def test_what_is_said_of_each(golden):
    golden.check("refusals-experiment.txt", page(MISTAKES, RIGHT, faults_of_experiment))


def test_every_fault_is_reported_at_once_even_those_that_need_the_testbed():
    text = """\
experiment: Bad
testbed: {lab: three-node}
factors: {mode: [ruter]}
workloads:
  - iperf3: {duration: 10, links: [[z]]}
  - sweep: {frame_sizes: [9000], colour: red}
"""
    assert brief(faults_of_experiment(text)) == [
        "1:1 experiment invalid",
        "3:18 factors.mode.0 unfit",
        "5:14 workloads.0.iperf3.duration unit",
        "5:37 workloads.0.iperf3.links.0.0 unfit",
        "6:34 workloads.1.sweep.colour unknown-key",
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("sweep: {rates: [much], duration: 1ms, warmup: 700s}", {"rates.0", "duration", "warmup"}),
        ("iperf3: {streams: 0, omit: 1.5s, duration: 0s}", {"streams", "omit", "duration"}),
        ("search: {frame_sizes: [9500], budget: 1ms, drain: 700s}", {"frame_sizes.0", "budget", "drain"}),
        ("search: {goals: [{name: a b, loss: 200%, exceed: 0%, final: 0s, sum: 1s}]}", {f"goals.0.{k}" for k in ("name", "loss", "final")}),
        ("sweep: {rates: [1pps, 20pps], duration: 100ms}", {"rates.0"}),
        ("latency: {rate: 100pps, idle_rate: 1kpps}", {"idle_rate"}),
        ("latency: {rate: much, idle_rate: 1kpps}", {"rate"}),
    ],
)
def test_a_key_that_is_wrong_hides_no_other_and_a_key_that_is_right_is_not_blamed(body, expected):
    kind = body.split(":")[0]
    found = faults_of_experiment(MINIMAL.replace("sweep:", body))
    assert {fault.path.removeprefix(f"workloads.0.{kind}.") for fault in found} == expected


def test_a_value_as_long_as_a_file_is_not_printed_whole():
    said = "\n".join(map(str, faults_of_experiment(f"experiment: {'x' * 200_000}\n")))
    assert len(said) < 4000 and "experiment: 'xxx" in said


def test_a_path_of_testbed_is_relative_to_the_experiment_and_bounds_it(tmp_path):
    (tmp_path / "bench.yaml").write_text(TESTBED)
    path = tmp_path / "experiment.yaml"
    text = (
        MINIMAL.replace("{lab: three-node}", "bench.yaml")
        .replace("[router]", "[pass]")
        .replace("- sweep:", "- sweep: {rates: [1.4Mpps, 1.5Mpps], frame_sizes: [64]}")
    )
    assert brief(faults_of_experiment(text, path=path)) == ["3:18 factors.mode.0 unfit", "5:30 workloads.0.sweep.rates.1 unfit"]
    text = text.replace(", 1.5Mpps", "") + "modes: {pass: {}}\n"
    experiment = load(text, path)
    assert experiment.testbed == TestbedPath(path="bench.yaml")
    assert path_of_testbed(path, experiment.testbed) == tmp_path / "bench.yaml"
    other = tmp_path / "elsewhere.yaml"
    other.write_text(TESTBED.replace("x:", "y:"))
    assert load(text, path, testbed=other).testbed == TestbedPath(path=str(other))
    (tmp_path / "bench.yaml").write_text(TESTBED.replace("1G", "1 Gb"))
    found = faults_of_experiment(text + "colour: red\n", path=path)
    assert [Path(fault.file).name for fault in found] == ["bench.yaml", "experiment.yaml"], "the faults of both"
    assert brief(found) == ["4:7 links.x.speed unit", "7:1 colour unknown-key"]


def test_two_workloads_may_not_ask_for_the_same_trial_nor_a_plan_be_of_absurd_size():
    text = MINIMAL + "  - sweep: {frame_sizes: [64], links: [[b]]}\n"
    assert brief(faults_of_experiment(text)) == ["6:5 workloads.1 unfit"]
    sizes = ", ".join(map(str, range(64, 1000)))
    text = MINIMAL.replace("- sweep:", f"- sweep: {{frame_sizes: [{sizes}], rates: [max, 1pps, 2pps]}}") + "repeats: 1000\n"
    assert brief(faults_of_experiment(text)) == ["4:1 workloads unfit"]


@settings(max_examples=25)
@given(experiments)
def test_an_experiment_survives_json(experiment):
    assert Experiment.model_validate(json.loads(json.dumps(experiment.model_dump(mode="json")))) == experiment


EXPERIMENTS = [path for path in sorted((Path(__file__).parents[2] / "examples").glob("*/*.yaml")) if "experiment: " in path.read_text()]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_example_is_read_again_from_its_run_as_it_was_written(path):
    experiment = load_experiment(path)
    assert Experiment.model_validate(json.loads(json.dumps(experiment.model_dump(mode="json")))) == experiment


@pytest.mark.parametrize(
    "workload",
    ['steps: {run: {source: ["true"]}}', "pts: {tests: [write-saturation], saturation_passes: 2}", "matrix: {}", "matrix: {protocol: udp}"],
)
def test_a_workload_is_read_again_from_its_run_as_it_was_written(workload):
    text = MINIMAL.replace("sweep:", workload)
    experiment = load(text.replace("three-node", "raid").replace("router", "as-found") if workload.startswith("pts") else text)
    assert Experiment.model_validate(json.loads(json.dumps(experiment.model_dump(mode="json")))) == experiment


@pytest.mark.parametrize(("name", "cells", "most_s"), [("levels", 12, 15 * 60), ("openbsd-levels", 12, 60 * 60)])
def test_the_examples_of_levels_load_and_are_planned(name, cells, most_s):
    """12 of 16, and as many of 32 as the review of OpenBSD measured."""
    path = Path(__file__).parents[2] / "examples" / "firewall-modes" / f"{name}.yaml"
    made = read_experiment(path)
    plan = make_plan(made.experiment, made.testbed or description("three-node").testbed)
    assert (plan.cells, len(plan.trials)) == (cells, cells * 6)
    assert plan.estimate_s < most_s
    assert set(made.experiment.hand_factors) == (set() if name == "levels" else {"cpb", "pcie-power"})
    if name == "openbsd-levels":
        measured = {tuple(t.cell.factors[n] for n in ("mtu", "setperf", "cpb", "pcie-power", "mode")) for t in plan.trials}
        published = (Path(__file__).parents[1] / "data" / "apu2-openbsd-factors.csv").read_text().splitlines()[1:]
        assert measured == {tuple(line.split(",")[:5]) for line in published}


def test_what_a_kernel_routes_itself_is_refused_where_source_and_sink_are_one_machine():
    path = Path(__file__).parents[2] / "examples" / "testbeds" / "experiment.yaml"
    text = MINIMAL.replace("{lab: three-node}", "black-box.yaml").replace("router", "as-found")
    assert load(text.replace("sweep:", "quick-test:"), path).workloads[0].kind == "quick-test"
    for kind in ("iperf3", "path-mtu", "matrix"):
        assert brief(faults_of_experiment(text.replace("sweep:", f"{kind}:"), path=path)) == [f"5:5 workloads.0.{kind} unfit"]


@pytest.mark.parametrize("mode", ["nat", "filter-default"])
@pytest.mark.parametrize("body", ["loadtest: {links: [[a]]}", "sweep: {directions: both}", "rfc2544: {directions: both}"])
def test_frames_from_the_sink_are_refused_in_modes_whose_rule_drops_them(mode, body):
    text = MINIMAL.replace("[router]", f"[router, {mode}]").replace("sweep:", body)
    (refused,) = faults_of_experiment(text)
    assert refused.kind is FaultKind.UNFIT and f"mode {mode}" in refused.what
    forward = text.replace("directions: both", "directions: forward").replace("{links: [[a]]}", "{links: [[a]], directions: forward}")
    assert load(forward)
    assert load(text.replace(f"[router, {mode}]", "[router, filter-empty]"))


def test_a_mode_of_ones_own_may_admit_whatever_it_likes(tmp_path):
    (tmp_path / "testbed.yaml").write_text(TESTBED.replace("family: freebsd-pf", "family: freebsd"))
    text = MINIMAL.replace("{lab: three-node}", "testbed.yaml").replace("[router]", "[nat]").replace("sweep:", "sweep: {directions: both}")
    assert load(text + "modes: {nat: {apply: [pfctl -f /etc/nat.conf], restore: [pfctl -f /etc/pf.conf]}}\n", tmp_path / "e.yaml")
    (refused,) = faults_of_experiment(text + "modes: {nat: {start: [pfproxy]}}\n", path=tmp_path / "e.yaml")
    assert refused.kind is FaultKind.UNFIT and "Linux" in refused.what, "programs are started on Linux alone"
    changed = MINIMAL.replace("sweep:", "reconf: {rate: 1kpps, to: [ovs-router], links: [[a]]}")
    assert brief(faults_of_experiment(changed)) == ["5:27 workloads.0.reconf.to unfit"], "no other mode ends its programs"
    assert load(changed.replace("[router]", "[ovs-router]").replace("to: [ovs-router]", "to: [reload]"))


def test_broadcast_frames_are_for_links_that_are_isolated(tmp_path):
    """RFC 6815: they reach whatever else is there."""
    text = MINIMAL.replace("{lab: three-node}", "testbed.yaml").replace("sweep:", "rfc2544: {modifiers: [broadcast], frame_sizes: [128]}")
    (tmp_path / "testbed.yaml").write_text(TESTBED)
    (refused,) = faults_of_experiment(text, path=tmp_path / "e.yaml")
    assert refused.path.startswith("workloads.0.rfc2544.modifiers") and refused.kind is FaultKind.UNFIT
    (tmp_path / "testbed.yaml").write_text(TESTBED.replace("speed: 1G, path", "speed: 1G, isolated: true, path"))
    assert load(text, tmp_path / "e.yaml")


def test_ipv6_has_no_broadcast_frames():
    """RFC 5180 section 6."""
    text = MINIMAL.replace("sweep:", "rfc2544: {modifiers: [broadcast], frame_sizes: [128]}")
    assert load(text)
    (refused,) = faults_of_experiment(text.replace("three-node", "three-node-rfc5180"))
    assert refused.path.startswith("workloads.0.rfc2544.modifiers") and refused.kind is FaultKind.UNFIT
