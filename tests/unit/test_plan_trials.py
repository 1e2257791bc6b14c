"""The plan: every cell once, in an order that can be had again, with an estimate that adds up."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby, pairwise
from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.plan.plan import Plan
from dutlab.plan.trials import GUEST_MODE_S, GUEST_S, HAND_S, LAB_S, MODE_S, REBOOT_S, blocks_of, make_plan, needs_hand, tool_overhead
from dutlab.spec.experiment import Experiment
from dutlab.spec.loader import load_experiment, load_testbed
from dutlab.spec.model import FILE_CONTEXT
from dutlab.spec.testbed import Testbed
from strategies import experiments, raw_links

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTS = {role: {"ssh": role} for role in ("source", "dut", "sink")}
TWO_LINKS = Testbed.model_validate({"testbed": "two", "hosts": HOSTS, "links": raw_links(2)}, context=FILE_CONTEXT)
seeds = st.integers(0, 2**53 - 1)


def experiment(**changes):
    raw = {
        "experiment": "x",
        "testbed": {"lab": "three-node"},
        "factors": {"mode": ["router", "nat"]},
        "workloads": [
            {"iperf3": {"omit": "1s", "duration": "2s", "links": [["a"], ["a", "b"]]}},
            {
                "sweep": {
                    "frame_sizes": [64, 1518, "imix"], "rates": ["max", "1kpps"], "duration": "1s", "warmup": "200ms", "drain": "300ms",
                    "links": [["a"]],
                }
            },
        ],
        "repeats": 3,
    } | changes  # fmt: skip
    return Experiment.model_validate(raw, context=FILE_CONTEXT)


def identity(trial):
    cell = trial.cell
    return (tuple(sorted(cell.factors.items())), cell.workload, cell.links, tuple(sorted(cell.params.items(), key=str)), cell.repeat)


@settings(max_examples=40)
@given(experiments, seeds)
def test_a_plan_has_every_cell_once_a_repeat_and_calls_a_person_as_seldom_as_it_can(made, seed):
    plan = make_plan(made, TWO_LINKS, seed=seed)
    assert plan.seed == seed and make_plan(made, TWO_LINKS, seed=seed) == plan == Plan.from_json(json.loads(json.dumps(plan.to_json())))
    drives = sum(w.count(TWO_LINKS.links) for w in made.workloads)
    assert len(plan.trials) == drives * prod(map(len, made.factors.values())) * made.repeats
    assert set(Counter(identity(t) for t in plan.trials).values()) == {1}
    assert [t.number for t in plan.trials] == list(range(1, len(plan.trials) + 1))
    assert {t.cell.repeat for t in plan.trials} == set(range(1, made.repeats + 1))
    groups = [list(trials) for _, trials in groupby(plan.trials, key=lambda t: t.group)]
    assert [g[0].group for g in groups] == list(range(1, len(groups) + 1))
    for trials in groups:
        assert len({(t.cell.mode, t.cell.repeat, str(t.cell.factors)) for t in trials}) == 1, "one application of a mode"
        assert len(trials) == drives
    stretches = [key for key, _ in groupby(tuple(t.cell.factors[n] for n in plan.hand_factors) for t in plan.trials)]
    combinations = prod(len(made.factors[name]) for name in made.hand_factors)
    assert len(stretches) == len(set(stretches)) == combinations
    assert all(sum(a != b for a, b in zip(one, next_, strict=True)) == 1 for one, next_ in pairwise(stretches))
    assert len(needs_hand(plan)) == (len(made.hand_factors) + combinations - 1 if made.hand_factors else 0)
    blocks = blocks_of(plan)
    assert [t for block in blocks for t in block] == list(plan.trials)
    assert len({len(block) for block in blocks}) == 1
    for block in blocks:
        assert len({identity(t) for t in block}) == len(block)
        assert len({(t.cell.repeat, *(t.cell.factors[name] for name in made.hand_factors)) for t in block}) == 1
        assert {t.cell.mode for t in block} == set(made.factors["mode"])


def test_shuffled_orders_differ_between_seeds_between_repeats_and_within_groups():
    plans = [make_plan(experiment(), TWO_LINKS, seed=s) for s in range(20)]
    assert len({tuple(map(identity, p.trials)) for p in plans}) == 20
    orders = {tuple(t.cell.mode for t in p.trials if t.cell.repeat == 1 and t.cell.workload == "iperf3") for p in plans}
    assert len(orders) == 2
    first = [[identity(t)[1:4] for t in g] for _, g in groupby(plans[0].trials, key=lambda t: t.group)]
    assert len({str(g) for g in first}) == len(first)


def test_as_written_keeps_the_order_of_the_file_and_needs_no_seed():
    plan = make_plan(experiment(order="as-written", repeats=1), TWO_LINKS)
    assert [t.cell.mode for t in plan.trials] == ["router"] * 8 + ["nat"] * 8
    assert [(t.cell.workload, t.cell.link_label, t.cell.params.get("frame_size"), t.cell.params.get("rate_pps")) for t in plan.trials[:8]] == [
        ("iperf3", "a", None, None), ("iperf3", "a+b", None, None),
        ("sweep", "a", 64, None), ("sweep", "a", 64, 1000.0), ("sweep", "a", 1518, None), ("sweep", "a", 1518, 1000.0),
        ("sweep", "a", "imix", None), ("sweep", "a", "imix", 1000.0),
    ]  # fmt: skip
    assert (
        make_plan(experiment(order="as-written"), TWO_LINKS, seed=1).trials
        == make_plan(experiment(order="as-written"), TWO_LINKS, seed=2).trials
    )


def test_a_seed_is_taken_from_the_call_then_the_file_then_drawn_and_always_recorded():
    assert make_plan(experiment(seed=5), TWO_LINKS).seed == 5
    assert make_plan(experiment(seed=5), TWO_LINKS, seed=0).seed == 0
    drawn = {make_plan(experiment(repeats=1), TWO_LINKS).seed for _ in range(5)}
    assert len(drawn) == 5
    seed = drawn.pop()
    assert make_plan(experiment(seed=seed), TWO_LINKS).trials == make_plan(experiment(seed=seed), TWO_LINKS).trials


def test_a_cell_says_all_that_its_tool_needs_with_units():
    plan = make_plan(experiment(order="as-written"), TWO_LINKS)
    iperf3, imix = plan.trials[0].cell, plan.trials[6].cell
    assert (iperf3.tool, iperf3.links, iperf3.params) == ("iperf3", ("a",), {"streams": 4, "omit_s": 1, "duration_s": 2})
    assert (imix.tool, imix.params) == ("engine", {
        "frame_size": "imix", "frame_mix": "64:7,594:4,1518:1", "rate_pps": None, "duration_s": 1.0, "warmup_s": 0.2, "drain_s": 0.3,
    })  # fmt: skip
    assert iperf3.factors == {"mode": "router"}


def test_the_estimate_adds_up():
    plan = make_plan(experiment(), TWO_LINKS)
    iperf3, sweep = 3.0 + tool_overhead("iperf3"), 1.5 + tool_overhead("engine")
    assert {t.cell.workload: t.estimate_s for t in plan.trials} == {"iperf3": pytest.approx(iperf3), "sweep": pytest.approx(sweep)}
    assert plan.estimate_s == pytest.approx(LAB_S + 6 * MODE_S + 3 * 2 * (2 * iperf3 + 6 * sweep), abs=0.1)
    by_hand = make_plan(experiment(factors={"mode": ["router", "nat"], "cable": ["dac", "fibre"]}), TWO_LINKS)
    assert by_hand.estimate_s == pytest.approx(2 * (plan.estimate_s - LAB_S) + LAB_S + 2 * HAND_S, abs=0.2)


def test_guests_and_reboots_take_their_time():
    plain = make_plan(experiment(factors={"mode": ["router"]}), TWO_LINKS).estimate_s
    guest = make_plan(experiment(factors={"mode": ["router"]}, testbed={"lab": "uml-router"}), TWO_LINKS).estimate_s
    assert guest == pytest.approx(plain + GUEST_S + 3 * GUEST_MODE_S, abs=0.2)
    off = {"apply": ["true"], "restore": ["true"], "reboot": True}
    levels = {"mitigations": {"on": {}, "off": off}}
    both = make_plan(experiment(factors={"mode": ["router"], "mitigations": ["on", "off"]}, levels=levels), TWO_LINKS).estimate_s
    assert both == pytest.approx(2 * (plain - LAB_S) + LAB_S + 2 * REBOOT_S, abs=0.2)


def test_ceilings_are_those_of_the_links_speed():
    plan = make_plan(experiment(order="as-written"), TWO_LINKS)
    # 10^10 / ((64 + 20) * 8) frames a second (RFC 2544 appendix B, for 10 Gb/s)
    assert plan.trials[2].ceilings["a"] == {
        "received_pps": pytest.approx(14_880_952.38, abs=0.01),
        "received_bps_l1": 10e9,
        "received_bps_l2": pytest.approx(7.619e9, abs=1e6),
    }
    assert plan.trials[0].ceilings["a"] == {
        "goodput_bps": pytest.approx(9.4148e9, abs=1e5)
    }  # 1448 / 1538 of 10 Gb/s, RFC 6349 section 4.1.1
    links = {name: {k: v for k, v in link.items() if k != "speed"} for name, link in raw_links(2).items()}
    veth = Testbed.model_validate({"testbed": "veth", "hosts": HOSTS, "links": links}, context=FILE_CONTEXT)
    assert all(t.ceilings == {} for t in make_plan(experiment(), veth).trials)


def test_a_mode_with_tunnels_has_the_ceilings_of_what_fits_inside():
    plan = make_plan(experiment(factors={"mode": ["router", "ipsec", "vxlan"]}, order="as-written"), TWO_LINKS)
    of_a = {t.cell.mode: t.ceilings["a"]["goodput_bps"] for t in plan.trials if t.cell.links == ("a",) and t.cell.tool == "iperf3"}
    # RFC 4303 section 2, RFC 4106: 20 + 8 + 8 + 1446 + 2 + 16 fill 1500 bytes, and 52 of those inside are headers of IPv4 and TCP.
    # RFC 7348 section 5: 20 + 8 + 8 + 14 + 1450.
    inside = {"router": 1448, "ipsec": 1394, "vxlan": 1398}
    assert of_a == {mode: pytest.approx(10e9 * payload / 1538) for mode, payload in inside.items()}


def test_what_a_person_must_do_is_said_in_the_order_of_the_plan():
    assert needs_hand(make_plan(experiment(), TWO_LINKS)) == []
    made = experiment(factors={"cable": ["dac", "fibre"], "mode": ["router"], "bios": ["on", "off"]})
    assert make_plan(made, TWO_LINKS).hand_factors == ("cable", "bios")
    assert needs_hand(make_plan(made, TWO_LINKS)) == [
        "set cable to dac",
        "set bios to on",
        "set bios to off",
        "set cable to fibre",
        "set bios to on",
    ]


def test_links_left_out_mean_each_link_alone():
    plan = make_plan(experiment(workloads=[{"iperf3": {}}], repeats=1, order="as-written"), TWO_LINKS)
    assert [(t.cell.mode, t.cell.links) for t in plan.trials] == [("router", ("a",)), ("router", ("b",)), ("nat", ("a",)), ("nat", ("b",))]


@pytest.mark.parametrize(("name", "trials", "most_s"), [("experiment", 352, 90 * 60), ("demo", 176, 7 * 60), ("quick", 24, 75)])
def test_the_examples_take_as_long_as_they_say(name, trials, most_s):
    made = load_experiment(EXAMPLES / "firewall-modes" / f"{name}.yaml")
    plan = make_plan(made, load_testbed(EXAMPLES / "testbeds" / "e302-9d.yaml"))
    assert len(plan.trials) == trials
    assert plan.estimate_s < most_s
    assert {t.cell.mode for t in plan.trials} == {"router", "filter-empty", "filter-default", "nat"}
    assert {t.cell.link_label for t in plan.trials if t.cell.workload == "iperf3"} == {"a", "b", "a+b"}


@pytest.mark.parametrize(("family", "shut"), [("linux", {("sink", "source")}), ("black-box", set())])
def test_a_pair_whose_flow_the_modes_own_rule_drops_is_not_tried(family: str, shut: set[tuple[str, str]]) -> None:
    modes = ["router", "nat", "filter-default"] if family == "linux" else ["as-found"]
    raw = {"experiment": "x", "testbed": {"lab": "three-node"}, "factors": {"mode": modes}, "workloads": [{"matrix": {"duration": "1s"}}]}
    hosts = {**HOSTS, "dut": {"family": family} | ({} if family == "black-box" else {"ssh": "dut"})}
    bed = Testbed.model_validate({"testbed": "t", "hosts": hosts, "links": raw_links(2)}, context=FILE_CONTEXT)
    plan = make_plan(Experiment.model_validate(raw, context=FILE_CONTEXT), bed)
    every = {(a, b) for a in HOSTS for b in HOSTS if a != b}
    for mode in modes:
        for link in ("a", "b"):
            tried = {(t.cell.setting.client, t.cell.setting.server) for t in plan.trials if (t.cell.mode, t.cell.links) == (mode, (link,))}
            assert tried == (every if mode == "router" else every - shut)
