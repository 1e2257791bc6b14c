"""The experiment file: what is right loads and round-trips; what is wrong is refused with these very lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from dutlab.errors import SpecRefused
from dutlab.labs import description
from dutlab.plan.trials import make_plan
from dutlab.spec.experiment import Experiment, LabRef, TestbedPath
from dutlab.spec.loader import experiment_of, load_experiment, path_of_testbed, read_experiment
from dutlab.spec.mixes import Mix
from dutlab.spec.rates import AskedRate, RateUnit
from dutlab.spec.sensors import WATCHES
from dutlab.spec.workloads.iperf3 import Iperf3Workload
from dutlab.spec.workloads.sweep import SweepWorkload
from dutlab.workloads import settable
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


def load(tmp_path, text, **kwargs):
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    return load_experiment(path, **kwargs)


def faults(tmp_path, text, **kwargs):
    with pytest.raises(SpecRefused) as refused:
        load(tmp_path, text, **kwargs)
    return [str(f).replace(str(tmp_path / "experiment.yaml"), "").replace(f"{tmp_path}/", "") for f in refused.value.faults]


def test_an_experiment_file_becomes_an_experiment(tmp_path):
    experiment = load(tmp_path, RIGHT)
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


def test_what_is_left_out_has_its_documented_default(tmp_path):
    experiment = load(tmp_path, MINIMAL)
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


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("router, own", "ruter, own", ":4:10: factors.mode.0: no mode 'ruter' for the DUT of lab three-node, of family linux (known: filter-1, filter-25, filter-default, filter-empty, filter-own, gre, ikev2, ikev2-3des-md5, ikev2-aes-cbc-sha1, ikev2-aes-cbc-sha2-512, ikev2-aes-gcm-256, ikev2-cbc, ikev2-chacha20-poly1305, ikev2-host, ikev2-null, ipip, ipsec, ipsec-3des-md5, ipsec-aes-cbc-sha1, ipsec-aes-cbc-sha2-512, ipsec-aes-gcm-256, ipsec-cbc, ipsec-chacha20-poly1305, ipsec-null, ipsec-require, nat, nat-open, own, router, vxlan, wireguard; did you mean router?)"),
        ("router, own", "router, router", ":4:18: factors.mode.1: duplicate 'router'; `repeats` repeats trials"),
        ("[router, own]", "[]", ":4:3: factors.mode: empty; a factor has at least one level"),
        ("[router, own]", "router", ":4:3: factors.mode: must be a list, as in [a, b]"),
        ("[1500, 9000]", "[1500, '1500']", ":5:15: factors.mtu.1: duplicate '1500'; `repeats` repeats trials"),
        ("[1500, 9000]", "[1500, ~]", ":5:15: factors.mtu.1: must be text"),
        ("  mtu:", "  MTU size:", ":5:3: factors.MTU size: 'MTU size' is not a name; use a-z, 0-9 and - inside, at most 48 of them: it becomes part of file names"),
        ("  mode: [router, own]\n", "", ":3:1: factors.mode: missing; write the modes to measure, as in [router, nat]; a mode with no commands can be written under `modes:`"),
        ("lab: three-node", "lab: three-nodes", ":2:11: testbed.lab: there is no lab 'three-nodes' (known: back-to-back, fan-in, flat, four-hosts, jbod, qemu-router, qemu-router-vmxnet3, qemu-two-sites, raid, three-node, three-node-rfc2544, three-node-rfc5180, three-node-ssh, two-routers, uml-router, uml-two-sites; did you mean three-node?)"),
        ("lab: three-node", "lab: three-node, path: x", ":2:28: testbed.path: unknown key (known: lab, sensors)"),
        (
            "lab: three-node",
            "lab: three-node, sensors: {heat: {kind: hwmon, host: sinc}}",
            ":2:58: testbed.sensors.heat.host: there is no host 'sinc' (known: dut, sink, source; did you mean sink?)",
        ),
        ("{lab: three-node}", "7", ":2:1: testbed: must be {lab: NAME} or the path of a testbed file"),
        ("{lab: three-node}", "nosuch.yaml", ":2:1: testbed: nosuch.yaml cannot be read: No such file or directory"),
        ("streams: 4", "streams: 0", ":7:14: workloads.0.iperf3.streams: must be at least 1"),
        ("streams: 4", "streams: 4.5", ":7:14: workloads.0.iperf3.streams: must be a whole number"),
        ("streams: 4", "stream: 4", ":7:14: workloads.0.iperf3.stream: unknown key (known: direction, duration, ends_apart, links, omit, streams, zerocopy; did you mean streams?)"),
        ("omit: 5s", "omit: 5", ":7:26: workloads.0.iperf3.omit: 5 has no unit; write it as in 30s"),
        ("omit: 5s", "omit: 1.5s", ":7:26: workloads.0.iperf3.omit: iperf3 takes whole seconds, not 1.5s"),
        ("omit: 5s", "omit: 61s", ":7:26: workloads.0.iperf3.omit: iperf3 takes 0s to 60s, not 61s"),
        ("duration: 30s", "duration: 0s", ":7:36: workloads.0.iperf3.duration: iperf3 takes 1s to 86400s, not 0s"),
        ("duration: 30s", "duration: half an hour", ":7:36: workloads.0.iperf3.duration: 'half an hour' is not a duration; write a number and one of ns, us, ms, s, min, h, d, as in 30s"),
        ("[a, b]]", "[a, c]]", ":7:73: workloads.0.iperf3.links.2.1: lab three-node has no link 'c' (known: a, b)"),
        ("[a, b]]", "[a, a]]", ":7:69: workloads.0.iperf3.links.2: duplicate link in one set"),
        ("[a, b]]", "[b]]", ":7:69: workloads.0.iperf3.links.2: duplicate b; `repeats` repeats trials"),
        ("[a, b]]", "[]]", ":7:69: workloads.0.iperf3.links.2: empty; a trial needs a link"),
        ("[[a], [b], [a, b]]", "[a]", ":7:59: workloads.0.iperf3.links.0: must be a list of the links that are driven at once, as in [a, b]"),
        ("[[a], [b], [a, b]]", "[]", ":7:51: workloads.0.iperf3.links: empty; write sets of links, as in [[a], [b], [a, b]]"),
        ("- iperf3:", "- iperf:", f":7:5: workloads.0.iperf: unknown workload (known: {', '.join(sorted(settable()))}; did you mean iperf3?)"),
        ("  - iperf3: {streams: 4, omit: 5s, duration: 30s, links: [[a], [b], [a, b]]}", "  - iperf3",
         f":7:5: workloads.0: must be one of {', '.join(settable())} with its settings, as in `- sweep: {{duration: 30s}}`"),
        ("[64, imix]", "[63, imix]", ":8:27: workloads.1.sweep.frame_sizes.0: 63 is not a frame size; 64 to 9234 bytes with FCS can be sent"),
        ("[64, imix]", "[64, imax]", ":8:31: workloads.1.sweep.frame_sizes.1: 'imax' is not a frame size, a genome or a mix (known: imix, imix-csit, imix-csit-v6, imix-ip, imix-spirent, imix-trex, imix-trex-4-rates, imix-trex-bench, imix-trex-hlt, imix-web; did you mean imix?)"),
        ("[64, imix]", "[64, 64]", ":8:31: workloads.1.sweep.frame_sizes.1: duplicate; `repeats` repeats trials"),
        ("[64, imix]", "[64, 1519]", ":8:31: workloads.1.sweep.frame_sizes.1: 1519 bytes with FCS do not pass link a: its MTU of 1500 carries 1518"),
        ("[64, imix]", "[]", ":8:13: workloads.1.sweep.frame_sizes: empty; write at least one"),
        ("[64, imix]", "[{name: web, parts: {64: 7, 594: x}}]", ":8:27: workloads.1.sweep.frame_sizes.0: weight of 594 must be a whole number, not 'x'"),
        ("[64, imix]", "[{name: imix, parts: {64: 7}}]", ":8:28: workloads.1.sweep.frame_sizes.0.name: 'imix' already means something else; give the mix a name of its own"),
        ("[64, imix]", "[{name: web, parts: {64: 7, 0x40: 1}}]", ":8:27: workloads.1.sweep.frame_sizes.0: frame size must be a whole number, not '0x40'"),
        ("100kpps", "100k", ":8:51: workloads.1.sweep.rates.1: '100k' does not say its layer; write 100k-l1 (with preamble and gap) or 100k-l2 (frames with FCS)"),
        ("100kpps", "100", ":8:51: workloads.1.sweep.rates.1: 100 has no unit; write max, 100kpps, 80%, 5Gbit/s-l1 (with preamble and gap) or 5Gbit/s-l2 (frames with FCS)"),
        ("duration: 1.5s", "duration: 10ms", ":8:61: workloads.1.sweep.duration: must be 0.1s to 86400s, not 0.01s"),
        ("duration: 1.5s", "drain: 1h", ":8:61: workloads.1.sweep.drain: must be 0s to 600s, not 3600s"),
        ("repeats: 2", "repeats: 0", ":9:1: repeats: must be a whole number from 1 to 1000, or {until: 2%, most: 12}"),
        ("repeats: 2", "repeats: yes", ":9:1: repeats: must be a whole number from 1 to 1000, or {until: 2%, most: 12}"),
        ("repeats: 2", "repeat: 2", ":9:1: repeat: unknown key (known: dear, disturbed, exclude, experiment, factors, generator, levels, modes, order, profile, repeat_disturbed, repeats, seed, testbed, watch, workloads; did you mean repeats?)"),
        ("as-written", "random", ":10:1: order: must be 'shuffled' or 'as-written'"),
        ("seed: 7", "seed: -7", ":11:1: seed: must be at least 0"),
        ("[cpu]", "[cpu, power]", f":12:14: watch.1: 'power' cannot be watched (known: {', '.join(sorted(WATCHES))}; did you mean perf?)"),
        ("[cpu]", "[cpu, nic]", f":12:14: watch.1: 'nic' cannot be watched (known: {', '.join(sorted(WATCHES))})"),
        ("[cpu]", "[cpu, cpu]", ":12:14: watch.1: duplicate cpu"),
        (", restore: [sysctl -w x=0]", "", ":14:3: modes.own.restore: missing; a mode that changes the DUT says how to put it back"),
        ("[test -e /]", "['']", ":14:42: modes.own.verify.0: empty command"),
        ("[test -e /]", "test -e /", ":14:33: modes.own.verify: must be a list, as in [a, b]"),
        ("  own:", "  nat:", ":14:3: modes.nat: family linux already has a mode nat; give yours another name"),
        ("experiment: modes", "experiment: a/b", ":1:1: experiment: 'a/b' is not a name; use a-z, 0-9 and - inside, at most 48 of them: it becomes part of file names"),
    ],
)  # fmt: skip
def test_one_mistake_is_refused_where_it_stands(tmp_path, old, new, expected):
    assert old in RIGHT
    assert expected in faults(tmp_path, RIGHT.replace(old, new, 1))


def test_every_fault_is_reported_at_once_even_those_that_need_the_testbed(tmp_path):
    text = """\
experiment: Bad
testbed: {lab: three-node}
factors: {mode: [ruter]}
workloads:
  - iperf3: {duration: 10, links: [[z]]}
  - sweep: {frame_sizes: [9000], colour: red}
"""
    assert faults(tmp_path, text) == [
        ":1:1: experiment: 'Bad' is not a name; use a-z, 0-9 and - inside, at most 48 of them: it becomes part of file names",
        ":3:18: factors.mode.0: no mode 'ruter' for the DUT of lab three-node, of family linux (known: filter-1, filter-25, filter-default, filter-empty, filter-own, gre, ikev2, ikev2-3des-md5, ikev2-aes-cbc-sha1, ikev2-aes-cbc-sha2-512, ikev2-aes-gcm-256, ikev2-cbc, ikev2-chacha20-poly1305, ikev2-host, ikev2-null, ipip, ipsec, ipsec-3des-md5, ipsec-aes-cbc-sha1, ipsec-aes-cbc-sha2-512, ipsec-aes-gcm-256, ipsec-cbc, ipsec-chacha20-poly1305, ipsec-null, ipsec-require, nat, nat-open, router, vxlan, wireguard; did you mean router?)",
        ":5:14: workloads.0.iperf3.duration: 10 has no unit; write it as in 30s",
        ":5:37: workloads.0.iperf3.links.0.0: lab three-node has no link 'z' (known: a, b)",
        ":6:34: workloads.1.sweep.colour: unknown key (known: directions, drain, duration, frame_sizes, generator, links, rates, traffic, warmup)",
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
def test_a_key_that_is_wrong_hides_no_other_and_a_key_that_is_right_is_not_blamed(tmp_path, body, expected):
    kind = body.split(":")[0]
    with pytest.raises(SpecRefused) as refused:
        experiment_of(
            f"experiment: x\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\nworkloads:\n- {body}\n".encode(),
            tmp_path / "e.yaml",
        )
    assert {fault.path.removeprefix(f"workloads.0.{kind}.") for fault in refused.value.faults} == expected


def test_a_value_as_long_as_a_file_is_not_printed_whole(tmp_path):
    with pytest.raises(SpecRefused) as refused:
        experiment_of(f"experiment: {'x' * 200_000}\n".encode(), tmp_path / "e.yaml")
    said = str(refused.value)
    assert len(said) < 4000 and "experiment: 'xxx" in said and "it becomes part of file names" in said


def test_a_path_of_testbed_stands_beside_the_experiment_and_bounds_it(tmp_path):
    (tmp_path / "bench.yaml").write_text(TESTBED)
    text = (
        MINIMAL.replace("{lab: three-node}", "bench.yaml")
        .replace("[router]", "[pass]")
        .replace("- sweep:", "- sweep: {rates: [1.4Mpps, 1.5Mpps], frame_sizes: [64]}")
    )
    assert faults(tmp_path, text) == [
        ":3:18: factors.mode.0: no mode 'pass' for the DUT of testbed bench, of family freebsd-pf (known: filter-1, filter-25, filter-default, filter-empty, filter-own, ipsec, ipsec-cbc, nat, nat-open, router)",
        ":5:30: workloads.0.sweep.rates.1: 1.5 Mpps of frame size 64 is more than link x carries (1.49 Mpps)",
    ]
    text = text.replace(", 1.5Mpps", "") + "modes: {pass: {}}\n"
    experiment = load(tmp_path, text)
    assert experiment.testbed == TestbedPath(path="bench.yaml")
    assert path_of_testbed(tmp_path / "experiment.yaml", experiment.testbed) == tmp_path / "bench.yaml"
    other = tmp_path / "elsewhere.yaml"
    other.write_text(TESTBED.replace("x:", "y:"))
    assert load(tmp_path, text, testbed=other).testbed == TestbedPath(path=str(other))


def test_faults_of_the_path_of_testbed_are_reported_with_the_experiments(tmp_path):
    (tmp_path / "bench.yaml").write_text(TESTBED.replace("1G", "1 Gb"))
    text = MINIMAL.replace("{lab: three-node}", "bench.yaml") + "colour: red\n"
    assert faults(tmp_path, text) == [
        "bench.yaml:4:7: links.x.speed: '1 Gb' is an amount, not a rate: per what time? Write 1 Gbit/s",
        ":6:1: colour: unknown key (known: dear, disturbed, exclude, experiment, factors, generator, levels, modes, order, profile, repeat_disturbed, repeats, seed, testbed, watch, workloads)",
    ]


def test_two_workloads_may_not_ask_for_the_same_trial(tmp_path):
    text = MINIMAL + "  - sweep: {frame_sizes: [64], links: [[b]]}\n"
    assert faults(tmp_path, text) == [":6:5: workloads.1: asks for trials that workload 1 asks for too; `repeats` repeats trials"]


def test_a_plan_of_absurd_size_is_refused_before_it_is_made(tmp_path):
    sizes = ", ".join(map(str, range(64, 1000)))
    text = MINIMAL.replace("- sweep:", f"- sweep: {{frame_sizes: [{sizes}], rates: [max, 1pps, 2pps]}}") + "repeats: 1000\n"
    assert faults(tmp_path, text) == [":4:1: workloads: 5616000 trials in all; at most 100000 can be planned"]


def test_a_mix_of_ones_own_has_its_average_and_its_text():
    mix = Mix.model_validate({"name": "web", "parts": {"1518": 1, "64": 7, "594": 4}})
    assert mix.text == "64:7,594:4,1518:1"
    assert mix.mean == pytest.approx(361.83, abs=0.01)  # RFC-style simple IMIX: (7*64 + 4*594 + 1518) / 12
    assert Mix.model_validate("imix-csit").mean == pytest.approx(353.83, abs=0.01)  # as CSIT publishes it


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
def test_a_workload_is_read_again_from_its_run_as_it_was_written(tmp_path, workload):
    lab, mode = ("raid", "as-found") if workload.startswith("pts") else ("three-node", "router")
    (tmp_path / "e.yaml").write_text(f"experiment: x\ntestbed: {{lab: {lab}}}\nfactors: {{mode: [{mode}]}}\nworkloads:\n  - {workload}\n")
    experiment = load_experiment(tmp_path / "e.yaml")
    assert Experiment.model_validate(json.loads(json.dumps(experiment.model_dump(mode="json")))) == experiment


@pytest.mark.parametrize("name", ["experiment", "demo", "quick"])
def test_every_example_loads(name):
    example = Path(__file__).parents[2] / "examples" / "firewall-modes" / f"{name}.yaml"
    assert load_experiment(example).factors["mode"] == ("router", "filter-empty", "filter-default", "nat")


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


def test_what_a_kernel_routes_itself_is_refused_where_source_and_sink_are_one_machine(tmp_path):
    (tmp_path / "testbed.yaml").write_text((Path(__file__).parents[2] / "examples" / "testbeds" / "black-box.yaml").read_text())
    path = tmp_path / "experiment.yaml"
    head = "experiment: x\ntestbed: testbed.yaml\nfactors: {mode: [as-found]}\nworkloads:\n"
    path.write_text(head + "  - quick-test:\n")
    assert load_experiment(path).workloads[0].kind == "quick-test"
    for kind in ("iperf3", "path-mtu", "matrix"):
        path.write_text(head + f"  - {kind}:\n")
        with pytest.raises(SpecRefused, match="are one machine, whose kernel hands such packets over itself"):
            load_experiment(path)


@pytest.mark.parametrize("mode", ["nat", "filter-default"])
@pytest.mark.parametrize("body", ["loadtest: {links: [[a]]}", "sweep: {directions: both}", "rfc2544: {directions: both}"])
def test_frames_from_the_sink_are_refused_in_modes_whose_rule_drops_them(tmp_path, mode, body):
    text = MINIMAL.replace("[router]", f"[router, {mode}]").replace("sweep:", body)
    (refused,) = faults(tmp_path, text)
    assert f"mode {mode} admits no flow from outside" in refused
    forward = text.replace("directions: both", "directions: forward").replace("{links: [[a]]}", "{links: [[a]], directions: forward}")
    assert load(tmp_path, forward)
    assert load(tmp_path, text.replace(f"[router, {mode}]", "[router, filter-empty]"))


def test_a_mode_of_ones_own_may_admit_whatever_it_likes(tmp_path):
    own = TESTBED.replace("family: freebsd-pf", "family: freebsd")
    (tmp_path / "testbed.yaml").write_text(own)
    text = MINIMAL.replace("{lab: three-node}", "testbed.yaml").replace("[router]", "[nat]").replace("sweep:", "sweep: {directions: both}")
    assert load(tmp_path, text + "modes: {nat: {apply: [pfctl -f /etc/nat.conf], restore: [pfctl -f /etc/pf.conf]}}\n")


def test_ipv6_has_no_broadcast_frames(tmp_path):
    """RFC 5180 section 6."""
    body = "rfc2544: {modifiers: [broadcast], frame_sizes: [128]}"
    assert load(tmp_path, MINIMAL.replace("sweep:", body))
    assert "IPv6 has no broadcast" in "".join(faults(tmp_path, MINIMAL.replace("three-node", "three-node-rfc5180").replace("sweep:", body)))
