"""Which generator drives what: named once, nearest wins, and what it cannot do is a fault of the file."""

from __future__ import annotations

import inspect
import re
from contextlib import nullcontext

import pytest
from pydantic import TypeAdapter

from dutlab import choices
from dutlab.by_path import named
from dutlab.errors import FaultKind, SpecRefused
from dutlab.plan.trials import make_plan
from dutlab.spec.generators import ENGINE, GENERATORS, Generator, GeneratorFeature
from dutlab.spec.generators.engine import EngineModel
from dutlab.spec.generators.ipgen import IpgenModel
from dutlab.spec.loader import experiment_of, load_testbed
from dutlab.spec.traffic import Traffic

TESTBED = """
testbed: rig
hosts:
  source: {ssh: root@192.0.2.11}
  dut: {ssh: root@192.0.2.1}
  sink: {ssh: root@192.0.2.12}
links:
  a: {speed: 10G, path: [source:eth1, dut:eth1, dut:eth2, sink:eth1],
      addresses: [10.0.1.2/24, 10.0.1.1/24, 10.0.2.1/24, 10.0.2.2/24]}
"""


def experiment(tmp_path, workload, *, top="", testbed="{lab: three-node}"):
    text = f"experiment: x\ntestbed: {testbed}\n{top}\nfactors: {{mode: [router]}}\nworkloads: [{workload}]\nrepeats: 1\n"
    return experiment_of(text.encode(), tmp_path / "e.yaml")


def faults(tmp_path, workload, **more):
    with pytest.raises(SpecRefused) as refused:
        experiment(tmp_path, workload, **more)
    return refused.value.faults


def plan(tmp_path, workload, *, of_testbed="", **more):
    (tmp_path / "t.yaml").write_text(TESTBED + of_testbed)
    made = make_plan(experiment(tmp_path, workload, testbed="t.yaml", **more), load_testbed(tmp_path / "t.yaml"))
    return [(trial.cell.tool, trial.cell.params.get("generator")) for trial in made.trials]


def test_the_nearest_generator_counts_and_the_engine_leaves_no_trace(tmp_path):
    sweep, own = "sweep: {frame_sizes: [64]}", "sweep: {frame_sizes: [64], generator: {trafgen: {cores: [0]}}}"
    assert plan(tmp_path, sweep) == [("engine", None)]
    assert plan(tmp_path, sweep, of_testbed="generator: trafgen") == [("trafgen", "trafgen")]
    assert plan(tmp_path, sweep, top="generator: engine", of_testbed="generator: trafgen") == [("engine", None)]
    assert plan(tmp_path, own, top="generator: engine") == [("trafgen", '{"trafgen":{"cores":[0]}}')]
    assert plan(tmp_path, "iperf3: {}", top="generator: trafgen") == [("iperf3", None)]


def test_two_generators_of_one_sweep_are_two_workloads(tmp_path):
    two = "sweep: {frame_sizes: [64]}}, {sweep: {frame_sizes: [64], generator: trafgen}"
    assert sorted(plan(tmp_path, f"{{{two}}}", top="order: as-written")) == [("engine", None), ("trafgen", "trafgen")]


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_choice_is_read_back_from_its_text(kind):
    model = GENERATORS[kind].model_validate({"cores": [0]})
    written = TypeAdapter(Generator)
    for one in (model, GENERATORS[kind]()):
        assert written.validate_json(written.dump_json(one)) == one


def test_every_generator_but_the_engine_has_what_makes_it():
    assert [model.kind for model in GENERATORS.values()] == list(choices.GENERATORS)
    assert not [kind for kind, model in GENERATORS.items() if model.stepped and GeneratorFeature.PROFILE in model.lacks]
    for kind, plug in choices.GENERATORS.items():
        assert kind == ENGINE.kind or list(inspect.signature(named(plug.make)).parameters) == ["model", "place"]


def test_the_engine_lacks_nothing_and_is_named_wherever_another_is_refused():
    assert not ENGINE.missing
    for model in GENERATORS.values():
        assert set(model.lacks) <= set(GeneratorFeature)


@pytest.mark.parametrize(
    ("workload", "place", "what"),
    [
        ("sweep: {frame_sizes: [64, imix]}", "workloads.0.sweep.frame_sizes.1", "frames of several sizes"),
        ("sweep: {frame_sizes: [aaafg]}", "workloads.0.sweep.frame_sizes.0", "sizes in an order"),
        ("sweep: {frame_sizes: [64], traffic: {flows: 4}}", "workloads.0.sweep.traffic.flows", "several flows"),
        ("sweep: {frame_sizes: [128], traffic: {transport: tcp}}", "workloads.0.sweep.traffic.transport", "other than UDP"),
        ("sweep: {frame_sizes: [68], traffic: {vlans: [7]}}", "workloads.0.sweep.traffic.vlans", "VLAN tags"),
        ("loadtest: {frame_sizes: [64], generator: {trafgen: {streams: 2}}}", "workloads.0.loadtest", "a rate that changes in time"),
        ("latency: {}", "workloads.0.latency", "latency"),
        ("soak: {rate: 1kpps}", "workloads.0.soak", "what was lost in each second"),
        ("rfc2544: {}", "workloads.0.rfc2544.tests.1", "latency"),
        ("search: {generator: {trafgen: {streams: 2}}}", "workloads.0.search", "it sends one stream"),
    ],
)
def test_what_a_generator_cannot_do_is_a_fault_with_its_place_and_who_can(tmp_path, workload, place, what):
    (fault,) = [of for of in faults(tmp_path, workload, top="generator: trafgen") if of.path == place and what in of.what]
    assert ((fault.line, fault.kind) == (5, FaultKind.UNFIT) and fault.what.endswith("use engine")) or "use engine or" in fault.what


@pytest.mark.parametrize(
    ("generator", "workload", "at"),
    [
        ("trex", "sweep: {frame_sizes: [64], traffic: {flows: 4}}", "sweep.traffic.flows"),
        ("trex", "latency: {}", "latency"),
        ("pkt-gen", "sweep: {frame_sizes: [imix]}", "sweep.frame_sizes.0"),
        ("pkt-gen", "sweep: {frame_sizes: [64], directions: both}", "sweep.directions"),
        ("pkt-gen", "sweep: {frame_sizes: [4000]}", "sweep.frame_sizes.0"),
        ("pkt-gen", "sweep: {frame_sizes: [64]}", "sweep"),  # its ports are called eth-a
        ("ipgen", "sweep: {frame_sizes: [64]}", "sweep"),  # its ends are two namespaces
        ("trex", "generators: {generators: [trex], frame_sizes: [64]}", "generators"),
        ("ipgen", "generators: {generators: [ipgen], frame_sizes: [64], senders: [sink]}", "generators.senders.0"),
        ("{trex: {profile: /bench.py, config: /cfg.yaml}}", "sweep: {frame_sizes: [64, 128]}", "sweep.frame_sizes"),
        ("ipgen", "sweep: {frame_sizes: [64], links: [[a, b]]}", "sweep.links.0"),
        ("ipgen", "sweep: {frame_sizes: [1522]}", "sweep.frame_sizes.0"),
    ],
)
def test_each_other_generator_refuses_what_it_cannot_do(tmp_path, generator, workload, at):
    found = [(of.path, of.kind) for of in faults(tmp_path, workload, top=f"generator: {generator}")]
    assert (f"workloads.0.{at}", FaultKind.UNFIT) in found


def test_a_mixed_load_both_ways_on_two_links_is_trexs_to_send(tmp_path):
    sweep = "sweep: {frame_sizes: [imix], directions: both, rates: [1kpps], links: [[a, b]], generator: {trex: {path: /opt/v3.08, config: /etc/trex_cfg.yaml}}}"
    assert experiment(tmp_path, sweep).workloads[0].generator.path == "/opt/v3.08"


@pytest.mark.parametrize(
    ("workload", "top", "expected"),
    [
        ("sweep: {}", "generator: trafgn", "generator unknown-name"),
        ("sweep: {generator: trafgn}", "", "workloads.0.sweep.generator unknown-name"),
        ("sweep: {generator: {trafgen: {core: 1}}}", "", "workloads.0.sweep.generator.trafgen.core unknown-key"),
        ("sweep: {generator: {trafgen: {cores: [1, 1]}}}", "", "workloads.0.sweep.generator.trafgen.cores duplicate"),
        ("sweep: {generator: [trafgen]}", "", "workloads.0.sweep.generator type"),
        ("iperf3: {generator: trafgen}", "", "workloads.0.iperf3.generator unknown-key"),
        ("sweep: {frame_sizes: [64], generator: {trex: {path: opt/trex}}}", "", "workloads.0.sweep.generator.trex.path invalid"),
        ("sweep: {frame_sizes: [64], generator: {trex: {tunables: {size: 64}}}}", "", "workloads.0.sweep.generator.trex.tunables conflict"),
        ("sweep: {frame_sizes: [64], generator: {trex: {address: 10.0.0.1}}}", "", "workloads.0.sweep.generator.trex.address conflict"),
    ],
)
def test_a_mistyped_generator_or_option_is_told(tmp_path, workload, top, expected):
    assert expected in [f"{of.path} {of.kind}" for of in faults(tmp_path, workload, top=top)]


def test_traffic_of_one_udp_flow_asks_for_nothing_special():
    assert Traffic().text() is None


@pytest.mark.parametrize(("size", "ipv6", "fits"), [(64, False, True), (83, True, False), (84, True, True)])
def test_a_frame_of_the_engine_has_room_for_its_probe(size, ipv6, fits):
    why = EngineModel().size_fault(size, ipv6=ipv6)
    assert (why == "") is fits
    assert fits or re.search(r"\b84\b", why)


@pytest.mark.parametrize("workload", ["sweep: {rates: [1kpps], ", "search: {", "latency: {rate: 1kpps, ", "soak: {rate: 1kpps, "])
def test_what_varies_and_bursts_is_asked_of_the_engine_only_and_refused_where_it_is_written(tmp_path, workload):
    body = "frame_sizes: [128], traffic: {vary: {ttl: [64, 128]}, burst: 8}}"
    experiment(tmp_path, workload + body)
    for kind in sorted(GENERATORS.keys() - {"engine"}):
        said = faults(tmp_path, workload + "generator: " + kind + ", " + body)
        for key, feature in (("vary", GeneratorFeature.VARIED), ("burst", GeneratorFeature.BURSTS)):
            (fault,) = [of for of in said if feature.value in of.what]
            assert (fault.line, fault.path.split(".", 3)[3], fault.kind) == (5, f"traffic.{key}", FaultKind.UNFIT)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("sweep: {frame_sizes: [64], rates: [1kpps], traffic: {vary: {flow-label: 0..9}}}", "vary.flow-label unfit"),
        ("sweep: {frame_sizes: [64], rates: [1kpps], traffic: {vary: {bits@60+8: 0..9}}}", "vary.bits@60+8 unfit"),
        ("sweep: {frame_sizes: [64], rates: [1kpps], traffic: {vary: {ttl: 1..999}}}", "vary.ttl.to range"),
        ("sweep: {frame_sizes: [64], directions: both, traffic: {vary: {source-address: 10.0.0.1..10.0.0.9}}}", "vary invalid"),
        ("sweep: {frame_sizes: [64], rates: [max], traffic: {burst: 8}}", "burst conflict"),
        ("sweep: {frame_sizes: [64], rates: [9kpps], traffic: {burst: {frames: 8, rate: 9kpps}}}", "burst.rate unfit"),
        ("soak: {rate: 10kpps, share: 90%, traffic: {burst: {frames: 8, rate: 9kpps}}}", "burst.rate unfit"),
        ("search: {traffic: {burst: {frames: 8, rate: 9kpps}}}", "burst.rate conflict"),
    ],
)
def test_traffic_that_the_links_or_the_load_do_not_allow_is_refused_where_it_is_written(tmp_path, workload, expected):
    with pytest.raises(SpecRefused) as refused:
        plan(tmp_path, workload)
    assert expected in [f"{of.path.partition('.traffic.')[2]} {of.kind}" for of in refused.value.faults if of.line == 5]


ONE_TESTER = TESTBED.replace("root@192.0.2.12", "root@192.0.2.11")


@pytest.mark.parametrize(
    ("bed", "generator", "is_refused"),
    [
        (TESTBED, "ipgen", True),
        (ONE_TESTER, "ipgen", False),
        (TESTBED, "trex", True),
        (ONE_TESTER, "trex", False),
        (TESTBED, "{trex: {server: running, address: 10.9.9.9}}", False),
        (TESTBED, "pkt-gen", False),
        (TESTBED.replace("sink:eth1", "sink:ix-1"), "pkt-gen", True),
        ("lab", "ipgen", False),
    ],
)
def test_what_a_run_would_refuse_is_refused_before(tmp_path, bed, generator, is_refused):
    (tmp_path / "t.yaml").write_text(bed)
    named = {"testbed": "{lab: two-port}"} if bed == "lab" else {"testbed": "t.yaml"}
    with pytest.raises(SpecRefused) if is_refused else nullcontext():
        experiment(tmp_path, f"sweep: {{frame_sizes: [64], generator: {generator}}}", **named)


def test_an_estimate_knows_how_long_a_generator_takes_to_begin(tmp_path):
    (tmp_path / "t.yaml").write_text(ONE_TESTER)
    bed = load_testbed(tmp_path / "t.yaml")
    seconds = {}
    for generator in ("engine", "ipgen"):
        for workload in (
            "sweep: {frame_sizes: [64]}",
            "search: {frame_sizes: [64], preset: quick}",
            "loadtest: {frame_sizes: [64], directions: forward, rampup: 60s, hold: 0s}",
        ):
            made = make_plan(experiment(tmp_path, workload.replace("[64]", f"[64], generator: {generator}", 1), testbed="t.yaml"), bed)
            seconds[generator, workload.partition(":")[0]] = sum(trial.estimate_s for trial in made.trials)
    begins = IpgenModel.begins_s
    assert seconds["ipgen", "sweep"] - seconds["engine", "sweep"] == pytest.approx(begins, abs=1)
    assert seconds["ipgen", "search"] - seconds["engine", "search"] > 10 * begins
    assert seconds["ipgen", "loadtest"] - seconds["engine", "loadtest"] == pytest.approx(60 * begins, abs=1), "a step a second"
