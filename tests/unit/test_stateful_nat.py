"""The measurements of RFC 9693, over simulated translators."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic import ValidationError

from dutlab.doubts import DoubtKind
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.methods.ports import Bench
from dutlab.methods.rfc2544 import suite as rfc2544
from dutlab.methods.stateful_nat import tear_down
from dutlab.methods.stateful_nat.phases import TRIES, Phases
from dutlab.methods.stateful_nat.suite import measure
from dutlab.plan.cell import Cell
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.stateful_nat import StatefulNatWorkload
from simulated_tables import States, Translator


@pytest.fixture(autouse=True)
def no_rests(monkeypatch):
    """The seconds between two loads pass at once."""
    monkeypatch.setitem(rfc2544.measure.__kwdefaults__, "sleep", lambda _: asyncio.sleep(0))


def cell(**body):
    usual = {"links": [["a"]], "connections": [2000], "scale": 0.01, "latency_repeats": 2}
    (drive,) = StatefulNatWorkload.model_validate({**usual, **body}).drives(["a"])
    return Cell(mode="nat", factors={"mode": "nat"}, tool="engine", links=drive.links, setting=drive.setting, repeat=1)


def translator(most=9000, *, evicts=False, **more):
    return Translator(States(most=most, evicts=evicts), **more)


async def found(generator, **body):
    measured = await measure(Bench(generator, states=generator.states), cell(**body))
    return measured, measured.figures["a"]


def kinds(measured):
    return {doubt.kind for doubt in measured.doubts}


@pytest.mark.parametrize("evicts", [False, True], ids=["drops new connections", "forgets old connections"])
@pytest.mark.parametrize("most", [4096, 3001, 1024])
async def test_the_table_is_found_to_the_connection_whatever_a_full_one_does(most, evicts):
    measured, figures = await found(translator(most, evicts=evicts), tests=["capacity"], fill_rate=10_000.0)
    assert (figures["capacity_connections"], figures["capacity_upper_connections"]) == (most, most + 1)
    (row,) = measured.tables["capacity"]
    assert (row["c0_connections"], row["cs_connections"], row["ct_connections"]) == (1024, most, most + 1)
    failed = next(r for r in reversed(measured.tables["capacity_trials"]) if r["asked_connections"] == most + 1)
    assert (failed["arrived_connections"] == most + 1) == evicts, "one that forgets lets every first frame through"
    assert not kinds(measured)


async def test_the_rate_is_found_within_its_error_and_each_trial_has_an_empty_table_and_connections_of_its_own():
    generator = translator()
    measured, figures = await found(generator, tests=["establishment"], highest=100_000.0)
    # Of 2000 connections the last comes 2000 ÷ R after the first, and 20 + 40 000 x 1999 ÷ R tokens have been there.
    limit = 40_000 * 1999 / 1980
    assert figures["establishment_lower_per_s"] <= limit < figures["establishment_upper_per_s"]
    assert figures["establishment_upper_per_s"] <= figures["establishment_lower_per_s"] / 0.99
    first = [offer for offer in generator.offers if offer.learns]
    answers = [offer for offer in generator.offers if offer.answers_learned]
    assert generator.states.forgotten == len(first) + 1, "and nothing is left in it"
    assert len({offer.traffic.flows.seed for offer in first}) == len(first)
    assert {offer.frames for offer in generator.offers} == {2000}
    assert len(answers) == sum(row["validated_connections"] is not None for row in measured.tables["establishment_trials"])
    assert {offer.rate for offer in answers} <= {offer.rate / 2 for offer in first}, "alpha"
    assert generator.states.kept_s > 0


async def test_known_connections_are_loaded_from_both_sides_right_after_they_were_established():
    generator = translator()
    measured, figures = await found(generator, tests=["throughput", "latency", "frame-loss"], fill_rate=10_000.0)
    assert figures["throughput_pps"] == pytest.approx(30_000, rel=0.01)
    assert figures["latency_mean_ns"] == 100_000
    assert figures["pdv_p999_ns"] == 200_000, "the 99.9th percentile less the least"
    assert 0 < figures["loss_at_max_ratio"] < 1
    assert {"throughput", "latency", "frame_loss"} <= measured.tables.keys()
    for before, load in zip(generator.offers, generator.offers[1:], strict=False):
        if load.answers_learned:
            assert (load.directions, before.learns, before.traffic) == (Directions.BOTH, True, load.traffic)


async def test_all_tests_follow_one_another_with_the_rate_that_the_first_one_finds():
    measured, figures = await found(translator(), highest=100_000.0)
    assert {"establishment_lower_per_s", "throughput_pps", "tear_down_per_s", "capacity_connections"} <= figures.keys()
    assert figures["capacity_connections"] == 9000
    (torn,) = measured.tables["tear_down"]
    assert (torn["tracked_flows"], torn["left_connections"]) == (2000, 0)


async def test_connections_that_share_a_port_are_not_counted_twice():
    measured, figures = await found(translator(alike_from=1500), highest=100_000.0, tests=["establishment", "capacity"], fill_rate=10_000.0)
    assert "establishment_lower_per_s" not in figures
    assert figures["capacity_connections"] == 1500
    assert DoubtKind.NO_LOWER_BOUND in kinds(measured)
    assert measured.tables["establishment_trials"][-1]["different_connections"] == 1500


async def test_without_a_limit_in_reach_there_is_no_upper_bound():
    slow = translator(per_s=1e9, reach_pps=50_000.0)
    measured, figures = await found(slow, tests=["establishment"], highest=100_000.0)
    assert "establishment_upper_per_s" not in figures, "the generator's limit is not the DUT's"
    assert figures["establishment_lower_per_s"] == pytest.approx(50_000, rel=0.02)
    assert DoubtKind.NO_UPPER_BOUND in kinds(measured)
    measured, figures = await found(translator(per_s=1e9), tests=["establishment"], highest=100_000.0)
    assert figures == {"establishment_lower_per_s": 100_000}
    measured, figures = await found(translator(10**6), tests=["capacity"], fill_rate=10_000.0, most_connections=3000)
    assert figures == {"capacity_connections": 3000}
    assert DoubtKind.NO_UPPER_BOUND in kinds(measured)


async def test_a_bound_that_does_not_hold_at_the_end_is_doubted():
    class Tiring(Translator):
        async def offer(self, offer):
            if offer.learns and offer.rate in {before.rate for before in self.offers if before.learns}:
                self.per_s = 1000.0
            return await super().offer(offer)

    measured, _ = await found(Tiring(States(most=9000)), tests=["establishment"], highest=60_000.0)
    assert DoubtKind.BOUNDS_MOVED in kinds(measured)


async def test_what_the_tester_itself_loses_is_tried_again_and_not_for_ever():
    generator = translator(spoilt={1, 4})
    phases = Phases(generator, generator.states, "a", cell().setting)
    trial = await phases.trial(100, 1000.0)
    assert (trial.passes, trial.established) == (True, 100)
    assert sum(offer.learns for offer in generator.offers) == 3
    generator.spoilt = set(range(1000))
    with pytest.raises(MachineTooBusy):
        await phases.trial(100, 1000.0)
    assert sum(offer.learns for offer in generator.offers) == 3 + TRIES


async def test_connections_that_outlive_their_deletion_are_doubted_and_the_commands_own_time_is_told():
    class Deaf(States):
        async def forget(self):
            if self.forgotten < 5:  # one before the table was looked at, three to time, one before the first phase
                await super().forget()

    clock = iter([0.0, 0.01, 1.0, 1.02, 2.0, 2.01, 3.0, 3.51])
    generator = Translator(Deaf(most=9000))
    phases = Phases(generator, generator.states, "a", cell().setting)
    torn = await tear_down.measure(phases, 1000, 10_000.0, clock=lambda: next(clock))
    assert torn.figures == pytest.approx({"tear_down_per_s": 1000 / 0.51, "tear_down_s": 0.51, "tear_down_net_per_s": 2000})
    assert torn.rows[0]["left_connections"] == 1000
    assert [doubt.about for doubt in torn.doubts] == ["tear_down_per_s"]


async def test_a_dut_that_forgets_by_itself_alone_is_waited_for():
    generator, waited = translator(), []

    async def sleep(seconds):
        waited.append(seconds)
        await generator.states.forget()

    phases = Phases(generator, None, "a", cell(expires="30s").setting, sleep=sleep)
    assert (await phases.trial(100, 1000.0)).passes
    assert waited == [30]
    measured = await measure(
        Bench(translator()), cell(tests=["capacity", "tear-down"], fill_rate=10_000.0, expires="0.1s", most_connections=1100, error=100)
    )
    assert any("tear-down" in note for note in measured.notes)
    with pytest.raises(MeasurementError, match="expires"):
        await measure(Bench(translator()), cell(tests=["capacity"], fill_rate=10_000.0))


@pytest.mark.parametrize("every", [2, 3])
async def test_a_frame_that_is_lost_on_the_way_now_and_then_is_no_bound_of_the_table(every):
    class Unsteady(States):
        """Loses the first frame of every second or third filling."""

        def begin(self, flow):
            lost = not self.known and self.forgotten % every == 0 and self.dropped_of != self.forgotten
            self.dropped_of = self.forgotten
            return not lost and super().begin(flow)

        dropped_of = -1

    _, figures = await found(Translator(Unsteady(most=3001)), tests=["capacity"], fill_rate=10_000.0, beta="90%", gamma="90%")
    assert (figures["capacity_connections"], figures["capacity_upper_connections"]) == (3001, 3002)


async def test_a_dut_that_takes_nothing_or_a_generator_that_learns_nothing_gives_no_figure():
    measured, figures = await found(translator(per_s=0.0, depth=0), tests=["establishment", "capacity"], highest=10_000.0)
    assert figures.keys() == {"establishment_upper_per_s"}
    assert DoubtKind.NO_LOWER_BOUND in kinds(measured)
    measured, figures = await found(translator(most=10), tests=["capacity"], fill_rate=10_000.0)
    assert figures == {"capacity_upper_connections": 1024}

    class Mute(Translator):
        async def offer(self, offer):
            return replace(await super().offer(offer), learned={})

    with pytest.raises(MeasurementError, match="addresses and ports"):
        await found(Mute(States(most=9000)), tests=["capacity"], fill_rate=10_000.0)


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"tests": []}, "tests"),
        ({"tests": ["capacity"]}, "fill_rate"),
        ({"tests": ["establishment", "latency"]}, "tests"),
        ({"connections": [5000], "source_ports": 40, "destination_ports": 100}, "connections"),
        ({"connections": [2000, 2000]}, "connections"),
        ({"capacity_from": 5000, "most_connections": 4096}, "capacity_from"),
        ({"alpha": 0.0}, "alpha"),
        ({"links": [["a", "b"]]}, "links"),
        ({"expires": "0.01s"}, "expires"),
    ],
)
def test_what_makes_no_sense_is_refused(body, at):
    with pytest.raises(ValidationError) as refused:
        StatefulNatWorkload.model_validate(body)
    assert at in {str(error["loc"][0]) for error in refused.value.errors()}
