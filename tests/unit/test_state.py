"""New flows a second and concurrent flows, over simulated DUTs with state tables."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest
from pydantic import ValidationError

from dutlab.doubts import DoubtKind
from dutlab.errors import MeasurementError
from dutlab.methods.ports import Bench
from dutlab.methods.state.suite import measure
from dutlab.plan.cell import Cell
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.state import StateWorkload
from simulated import Dut, Simulation, in_flight
from simulated_tables import StatefulDut, States


def cell(**body):
    (setting,) = StateWorkload.model_validate({"links": [["a"]], "trial": 0.1, **body}).drives(["a"])
    return Cell(mode="nat", factors={"mode": "nat"}, tool="engine", links=setting.links, setting=setting.setting, repeat=1)


def dut(states, *, per_s=40_000.0, **more):
    return StatefulDut(states, Simulation(Dut(capacity_pps=per_s)), **more)


async def found(generator, **body):
    measured = await measure(Bench(generator, states=generator.states), cell(**body))
    return measured, measured.figures["a"]


@pytest.mark.parametrize("evicts", [False, True], ids=["drops new flows", "forgets old flows"])
async def test_both_limits_are_found_whatever_a_full_table_does(evicts):
    states = States(most=9000, evicts=evicts)
    measured, figures = await found(dut(states))
    assert figures["setup_lower_per_s"] <= 40_000 * 1.001 < figures["setup_upper_per_s"] * 1.001
    assert figures["setup_upper_per_s"] / figures["setup_lower_per_s"] < 1.06
    # A thousandth of the flows may fail, and the bounds lie within a twentieth.
    assert 9000 / 1.05 < figures["concurrent_flows"] <= 9009 < figures["concurrent_upper_flows"] * 1.05
    assert any("9000" in note for note in measured.notes)
    row = next(r for r in reversed(measured.tables["concurrent_trials"]) if r["asked_flows"] == figures["concurrent_upper_flows"])
    assert row["early_drop_count" if evicts else "drop_count"] > 0
    assert row["set_up_flows"] == row["asked_flows"] if evicts else row["set_up_flows"] < row["asked_flows"]


@pytest.mark.parametrize(("most", "holds"), [(9000, 9000), (1000, 1000), (9000, 5000), (9000, 20_000)])
async def test_the_size_that_the_dut_tells_is_tried_first_and_found_in_three_trials_where_it_is_true(most, holds):
    class Told(States):
        async def counts(self):
            return replace(await super().counts(), most=most)

    measured, figures = await found(dut(Told(most=holds)), tests=["concurrent"], fill_rate=20_000.0)
    assert holds / 1.05 <= figures["concurrent_flows"] <= holds * 1.001 + 1 < figures["concurrent_upper_flows"] * 1.001 + 1
    assert figures["concurrent_upper_flows"] <= figures["concurrent_flows"] * 1.05
    tried = [row["asked_flows"] for row in measured.tables["concurrent_trials"]]
    assert most < 1024 or tried[:2] == [1024, most]
    assert (tried == [1024, 9000, 9450]) == (most == holds == 9000)


async def test_every_trial_has_an_empty_table_and_flows_of_its_own_and_answers_go_to_the_translated_address():
    generator = dut(States(most=9000))
    await found(generator)
    there = [o for o in generator.offers if o.directions is Directions.FORWARD]
    back = [o for o in generator.offers if o.directions is Directions.ANSWERS]
    assert generator.states.forgotten >= len(there)
    assert all(o.warmup == 0 for o in there)
    assert {o.answered for o in back} == {ip_address("172.16.10.1")}
    for asked, answer in ((generator.offers[i - 1], o) for i, o in enumerate(generator.offers) if o.directions is Directions.ANSWERS):
        assert (asked.traffic, asked.rate, asked.duration) == (answer.traffic, answer.rate, answer.duration)
    rate = [o for o in there if o.traffic.flows.seed and o.duration == pytest.approx(0.1)]
    seeds = [o.traffic.flows.seed for o in rate[:5]]
    assert len(set(seeds)) == len(seeds)
    assert all(o.traffic.flows.count >= round(o.rate * o.duration) for o in there if o.rate)
    assert generator.states.kept_s > 0


async def test_the_end_of_the_ports_is_told_from_the_end_of_the_table():
    generator = dut(States(most=9000))
    measured, figures = await found(generator, tests=["concurrent"], fill_rate=20_000.0, nat_ports=[2000, 3999], destination_ports=1)
    assert 2000 / 1.06 < figures["concurrent_flows"] <= 2002 < figures["concurrent_upper_flows"] * 1.05
    assert generator.states.ports == (2000, 3999)
    assert not any(o.directions is Directions.ANSWERS for o in generator.offers)
    assert any("(drop" in note for note in measured.notes)


async def test_a_dut_that_keeps_no_state_has_no_limit_and_the_words_say_so():
    states = States(most=9000, tracks=False)
    measured, figures = await found(dut(states), most_flows=3000)
    assert figures["concurrent_flows"] == 3000
    assert "concurrent_upper_flows" not in figures
    assert DoubtKind.NO_UPPER_BOUND in {d.kind for d in measured.doubts}
    assert any("tracked none" in n and "how fast it forwards" in n for n in measured.notes)
    assert any("no state" in n for n in measured.notes)


async def test_a_dut_that_loses_everything_or_lets_no_answer_through_has_no_figure():
    generator = dut(States(most=9000))
    generator.simulation.deaf_from = 0
    measured, figures = await found(generator, fill_rate=10_000.0)
    assert figures.keys() <= {"setup_upper_per_s"}
    assert len(measured.tables["concurrent_trials"]) == 1
    assert DoubtKind.NO_LOWER_BOUND in {d.kind for d in measured.doubts}
    assert any("path" in n for n in measured.notes)
    # A dut that lets no answer through is not said to know a flow.
    measured, figures = await found(dut(States(most=9000), answers=False), tests=["concurrent"], fill_rate=10_000.0)
    assert figures.get("concurrent_flows") is None
    assert any("1024" in n for n in measured.notes)


async def test_a_dut_that_goes_dumb_in_mid_search_is_not_given_a_low_limit():
    generator = dut(States(most=9000))
    generator.simulation.deaf_from = 4
    measured, figures = await found(generator, tests=["concurrent"], fill_rate=10_000.0)
    assert "concurrent_upper_flows" not in figures
    (doubt,) = [d for d in measured.doubts if d.kind is DoubtKind.SEARCH_CUT]
    assert "is down" in doubt.detail


async def test_counters_that_contradict_themselves_are_asked_again_and_then_given_up():
    once = dut(States(most=9000), tamper=lambda n, flow: in_flight(flow) if n == 2 else flow)
    _, figures = await found(once, tests=["concurrent"], fill_rate=10_000.0)
    assert 9000 / 1.06 < figures["concurrent_flows"] <= 9009
    always = dut(States(most=9000), tamper=lambda _, flow: in_flight(flow))
    measured, figures = await found(always, tests=["concurrent"], fill_rate=10_000.0)
    assert figures == {}
    assert any("gave no result" in d.detail for d in measured.doubts if d.kind is DoubtKind.SEARCH_CUT)


async def test_frames_lost_to_the_rate_alone_are_tried_more_slowly_and_do_not_count_against_the_table():
    measured, figures = await found(dut(States(most=9000), per_s=10_000.0), tests=["concurrent"], fill_rate=16_000.0)
    assert 9000 / 1.06 < figures["concurrent_flows"] <= 9009
    assert {r["fill_per_s"] for r in measured.tables["concurrent_trials"]} >= {16_000.0, 8_000.0}


async def test_a_search_without_time_or_with_a_slow_or_dying_generator_ends_with_what_it_has():
    measured, figures = await found(dut(States(most=9000)), tests=["concurrent"], fill_rate=1000.0, budget=25.0)
    assert figures == {"concurrent_flows": 9000}
    (doubt,) = [d for d in measured.doubts if d.kind is DoubtKind.SEARCH_CUT]
    assert "raise budget or fill_rate" in doubt.detail
    # A generator that is too slow is named as the limit.
    generator = dut(States(most=9000))
    generator.simulation.reach_pps = 100.0
    measured, figures = await found(generator, tests=["concurrent"], fill_rate=10_000.0)
    assert figures == {}
    assert any("the generator began" in d.detail and "lower fill_rate" in d.detail for d in measured.doubts)
    # A generator that dies in mid search leaves what was found until then.
    generator = dut(States(most=9000))
    generator.simulation.dumb_from = 5
    measured, figures = await found(generator, tests=["concurrent"], fill_rate=10_000.0)
    assert figures == {"concurrent_flows": 9000}
    assert len(measured.tables["concurrent_trials"]) == 2
    assert any("ended early" in d.detail for d in measured.doubts if d.kind is DoubtKind.SEARCH_CUT)


async def test_the_rate_of_a_short_table_is_searched_no_higher_than_a_trial_may_fill_it():
    generator = dut(States(most=2000), per_s=1e6)
    measured, figures = await found(generator, tests=["rate"])
    assert max(o.rate * o.duration for o in generator.offers) <= 2000
    assert "setup_upper_per_s" not in figures
    assert any("at or above" in n for n in measured.notes)
    assert any("begins 1800 flows" in d.detail for d in measured.doubts if d.kind is DoubtKind.NO_UPPER_BOUND)


async def test_what_cannot_be_set_or_is_not_there_fails_in_words():
    with pytest.raises(MeasurementError, match="nf_conntrack_max stays 9000"):
        await found(dut(States(most=9000)), table_flows=4096)
    with pytest.raises(MeasurementError, match="state table"):
        await measure(Bench(dut(States(most=9000))), cell())
    silent = dut(States(most=9000, tells=False))
    measured, figures = await found(silent)
    assert 9000 / 1.06 < figures["concurrent_flows"] <= 9009
    assert measured.tables["concurrent_trials"][0]["tracked_flows"] is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"tests": ["concurrent"]}, "fill_rate"),
        ({"tests": []}, "empty"),
        ({"nat_ports": [3000, 2000]}, "3000 is above 2000"),
        ({"links": [["a", "b"]]}, "one link at a time"),
        ({"trial": 0.001}, "trial"),
        ({"most_flows": 10}, "at least 1024"),
    ],
)
def test_what_makes_no_sense_is_refused(body, says):
    with pytest.raises(ValidationError, match=says):
        StateWorkload.model_validate(body)


async def test_a_limit_that_the_dut_does_not_explain_is_doubted():
    for tells in (True, False):
        measured, _ = await found(dut(States(most=9000, tells=tells)), tests=["concurrent"], fill_rate=10_000.0)
        assert (DoubtKind.LIMIT_UNEXPLAINED in {d.kind for d in measured.doubts}) == (not tells)


async def test_a_test_that_fails_leaves_the_other_as_it_is():
    generator = dut(States(most=9000))
    generator.simulation.dumb_from = 8
    measured, figures = await found(replace(generator))
    assert "setup_lower_per_s" in figures or any("concurrent" in n for n in measured.notes)
    assert any("ended early" in n for n in measured.notes)
