"""A disturbed offer moves nothing: it is offered again, and a search that gets no undisturbed ones has no bound."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cells import cell_of
from disturbance import BusyMachine, no_sleep, record
from dutlab.doubts import DoubtKind
from dutlab.errors import LinkUnsteady, MachineTooBusy, MeasurementError
from dutlab.methods import latency, soak, sweep
from dutlab.methods.ports import Bench, Measured, Offer, Outcome
from dutlab.methods.rfc2544 import suite
from dutlab.methods.search import method as search
from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.methods.search.trial import Mark
from dutlab.methods.state.suite import measure as measure_state
from dutlab.methods.undisturbed import LAB_RIG_PLACES, Undisturbed
from dutlab.plan.cell import Cell
from dutlab.spec.goals import PRESETS
from dutlab.spec.mixes import frame_mix
from dutlab.spec.workloads.state import StateWorkload
from dutlab.store.judged import judged
from dutlab.units import BpsL1, Pps, Seconds
from simulated import LINE_PPS, Dut, Simulation
from simulated_tables import StatefulDut, States

MIX = frame_mix(64)


def offer(rate: float | None = 1e5, **changes: object) -> Offer:
    return Offer(("a",), MIX, None if rate is None else Pps(rate), Seconds(1.0), **changes)


def on(busy: BusyMachine, **changes: object) -> Undisturbed:
    return Undisturbed(busy, busy, sleep=no_sleep, **changes)


def machine(taken, dut=None, **changes) -> BusyMachine:
    return BusyMachine(Simulation(dut or Dut(capacity_pps=1e6)), taken, **changes)


async def test_a_disturbed_offer_is_made_again_and_what_it_gave_is_kept():
    busy = machine(lambda _: 0.0)
    outcome = await on(busy).offer(offer())
    assert (outcome.disturbed, outcome.thrown_away, len(busy.offers)) == ("", (), 1)
    # A disturbed offer is made again and what it gave is kept.
    busy = machine(lambda n: 0.4 if n < 2 else 0.0)
    outcome = await on(busy).offer(offer())
    assert len(busy.offers) == 3 and outcome.disturbed == ""
    assert ["40%" in t.disturbed for t in outcome.thrown_away] == [True, True]
    assert dict(outcome.raw) == {
        "disturbed-1-engine.jsonl": b"offer 0\n",
        "disturbed-2-engine.jsonl": b"offer 1\n",
        "engine.jsonl": b"offer 2\n",
    }


async def test_pauses_grow_while_the_machine_stays_busy():
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    busy = machine(lambda n: 0.4 if 10 <= n < 15 else 0.0)
    wrapped = Undisturbed(busy, busy, sleep=sleep)
    for _ in range(11):
        await wrapped.offer(offer())
    assert pauses == [0.5, 1.0, 2.0, 4.0, 4.0]


async def test_a_machine_that_stays_busy_ends_it_after_a_bounded_number_of_offers():
    busy = machine(lambda _: 0.4)
    with pytest.raises(MachineTooBusy) as caught:
        await on(busy).offer(offer())
    assert len(busy.offers) == 5
    assert len(caught.value.raw) == 5
    # One load that never gets through ends it on a machine that is mostly quiet.
    busy = machine(lambda n: 0.4 if n >= 20 else 0.0)
    wrapped = on(busy)
    for _ in range(20):
        await wrapped.offer(offer())
    with pytest.raises(MachineTooBusy, match="6 times"):
        await wrapped.offer(offer())


async def test_a_load_during_which_something_happens_to_the_dut_is_not_offered_again_but_marked():
    busy = machine(lambda _: 0.4)
    wrapped = on(busy)
    outcome = await wrapped.offer(offer(once=True))
    assert len(busy.offers) == 1
    assert [d.kind for d in outcome.doubts] == [DoubtKind.DISTURBED]
    measured = wrapped.counted(Measured({}))
    assert (measured.offers.made, measured.offers.disturbed, measured.offers.kept) == (1, 1, 1)


async def test_frames_that_were_lost_while_the_rig_waited_are_not_the_duts_and_those_of_an_overload_are():
    busy = machine(lambda n: 0.05 if n == 0 else 0.0, stall_s=lambda n: 0.003 if n == 0 else 0.0)
    outcome = await on(busy).offer(offer())
    assert len(busy.offers) == 2 and outcome.flows[0].lost_frames == 0
    assert outcome.thrown_away[0].flows[0].lost_frames == 300
    # What a dut loses at an overload stays its loss on a machine that is a little busy.
    busy = machine(lambda _: 0.05, Dut(capacity_pps=5e4))
    outcome = await on(busy).offer(offer())
    assert len(busy.offers) == 1 and outcome.flows[0].lost_frames > 40_000
    # Loss at full speed is no verdict and needs no explanation.
    busy = BusyMachine(Simulation(Dut(capacity_pps=1e6), reach_pps=1.001e6), lambda _: 0.05)
    outcome = await on(busy).offer(offer(None))
    assert len(busy.offers) == 1 and outcome.flows[0].lost_frames > 0
    # Where loss is expected, it is no sign of a disturbance.
    busy = machine(lambda n: 0.05 if n == 0 else 0.0, stall_s=lambda n: 0.003 if n == 0 else 0.0)
    outcome = await on(busy).offer(offer(lossy=True))
    assert len(busy.offers) == 1 and outcome.flows[0].lost_frames > 0


async def test_a_full_ring_of_the_sink_in_a_lab_is_the_rigs_however_short_the_wait():
    def stalled(place):
        return machine(lambda n: 0.035 if n == 0 else 0.0, stall_s=lambda n: 0.0005 if n == 0 else 0.0, place=place)

    for place, offers in (("DUT out", 2), ("DUT stack", 1)):
        busy = stalled(place)
        await on(busy, rig_places=LAB_RIG_PLACES).offer(offer())
        assert len(busy.offers) == offers, place


@pytest.mark.parametrize("seed", range(4))
async def test_a_search_beside_other_work_finds_what_it_finds_on_a_quiet_machine(seed):
    """A third of the offers is disturbed and loses frames in stalls of the rig: no bound moves."""
    asked = Search(("a",), MIX, PRESETS["rfc2544"], LINE_PPS)
    quiet = await find(Simulation(Dut(capacity_pps=1e6)), asked)
    dice = random.Random(seed)
    disturbed = [dice.random() < 0.33 for _ in range(2000)]
    busy = machine(lambda n: 0.3 if disturbed[n] else 0.0, stall_s=lambda n: 0.02 if disturbed[n] else 0.0)
    found = await find(on(busy), asked)
    for name, result in quiet.results.items():
        assert found.results[name].lower_pps == pytest.approx(result.lower_pps, rel=0.01)
        assert found.results[name].upper_pps == pytest.approx(result.upper_pps, rel=0.01)
    thrown = [t for t in found.trials if Mark.DISTURBED in t.marks]
    assert len(thrown) == sum(disturbed[: len(busy.offers)]) > 0
    assert not any(t.counts for t in thrown)
    assert [t.number for t in found.trials] == list(range(1, len(found.trials) + 1))


async def test_without_the_wrapper_the_same_stalls_ruin_the_bound():
    """What this is for: unwrapped, the search takes losses of the rig for the DUT's."""
    busy = machine(lambda _: 0.3, stall_s=lambda n: 0.02 if n % 3 == 0 else 0.0)
    found = await find(busy, Search(("a",), MIX, PRESETS["rfc2544"], LINE_PPS))
    lower = found.results["throughput"].lower_pps
    assert lower is None or lower < 0.9e6


def cell(workload: str, **params: object) -> Cell:
    return cell_of(workload, **params)


async def test_a_search_that_gets_no_undisturbed_trial_has_no_bound_and_leaves_all_raw_output():
    for taken in (lambda _: 0.4, lambda n: 0.4 if n >= 6 else 0.0):
        busy = machine(taken)
        asked = cell("search", frame_size="64", preset="quick", highest_pps=2e6, drain_s=0.1)
        with pytest.raises(MachineTooBusy):
            await search.measure(Bench(on(busy)), asked)
    # A machine that gets too busy leaves the raw output of every load.
    busy = machine(lambda n: 0.4 if n >= 6 else 0.0)
    with pytest.raises(MachineTooBusy) as caught:
        await search.measure(Bench(on(busy)), cell("search", frame_size="64", preset="quick", highest_pps=2e6, drain_s=0.1))
    kept = b"".join(caught.value.raw.values()).decode().split()
    assert {int(n) for n in kept if n != "offer"} == set(range(len(busy.offers))) and len(busy.offers) > 10


SUITE = {
    "frame_size": 64, "scale": 0.05, "directions": "forward", "width_ratio": 0.005, "latency_repeats": 20, "burst_repeats": 2,
}  # fmt: skip


@pytest.mark.parametrize("tests", ["throughput", "frame-loss", "throughput,frame-loss"])
async def test_a_machine_that_is_too_busy_ends_an_rfc2544_suite_and_is_no_test_that_failed(tests):
    busy = machine(lambda n: 0.4 if n >= 3 else 0.0)
    with pytest.raises(MachineTooBusy):
        await suite.measure(Bench(on(busy), {"a": BpsL1(1e9)}), cell("rfc2544", **SUITE, tests=tests), sleep=no_sleep)


@pytest.mark.parametrize("test", ["rate", "concurrent"])
@pytest.mark.parametrize("quiet", [0, 2])
async def test_a_machine_that_is_too_busy_ends_the_tests_of_a_state_table_and_is_no_test_that_failed(test, quiet):
    busy = BusyMachine(StatefulDut(States(most=9000), Simulation(Dut(capacity_pps=4e4))), lambda n: 0.4 if n >= quiet else 0.0)
    (drive,) = StateWorkload.model_validate({"links": [["a"]], "trial": 0.1, "tests": [test], "fill_rate": 2e4}).drives(["a"])
    with pytest.raises(MachineTooBusy):
        await measure_state(
            Bench(on(busy), states=busy.generator.states),
            Cell(mode="nat", factors={}, tool="engine", links=("a",), setting=drive.setting, repeat=1),
        )


async def test_a_search_says_how_often_it_was_disturbed():
    busy = machine(lambda n: 0.4 if n % 5 == 0 else 0.0)
    wrapped = on(busy)
    found = wrapped.counted(
        await search.measure(Bench(wrapped), cell("search", frame_size="64", preset="quick", highest_pps=2e6, drain_s=0.1))
    )
    times = sum(n % 5 == 0 for n in range(len(busy.offers)))
    assert (found.offers.made, found.offers.disturbed, found.offers.kept) == (len(busy.offers), times, 0)
    assert any(f"{times} of {len(busy.offers)} offers" in note for note in found.notes)
    assert sum("offered again" in row["marks"] for row in found.tables["trials"]) == times


async def test_a_sweep_or_a_soak_is_marked_whole_and_does_not_count():
    for method, asked in (
        (sweep, cell("sweep", frame_size="64", duration_s=1.0, rate_pps=1e5)),
        (soak, cell("soak", frame_size="64", duration_s=5.0, rate_pps=1e5, share_percent=100.0)),
    ):
        busy = machine(lambda _: 0.4)
        wrapped = on(busy, most_again=0)
        found = wrapped.counted(await method.measure(Bench(wrapped), asked))
        assert len(busy.offers) == 1
        kept = record(1).model_copy(update={"offers": found.offers})
        assert judged([kept])[0].status == "disturbed"
        assert judged([kept], count=True)[0].status == "measured"


async def test_each_point_of_a_latency_curve_is_of_an_undisturbed_offer():
    busy = machine(lambda n: 0.4 if n == 1 else 0.0)
    wrapped = on(busy)
    asked = cell("latency", frame_size="64", rate_pps=1e5, duration_s=1.0, shares_percent="50,100")
    with pytest.raises(MeasurementError, match="no latency is known"):  # the simulation has no clocks; what was offered counts here
        await latency.measure(Bench(wrapped), asked)
    assert [o.rate for o in busy.offers] == [5e4, 1e5, 1e5]


class Unsteady:
    """The link of the sink goes down in the first so many offers."""

    def __init__(self, times: int) -> None:
        self.inner, self.times, self.offers = Simulation(Dut(capacity_pps=1e6)), times, 0

    async def offer(self, offer: Offer) -> Outcome:
        self.offers += 1
        outcome = await self.inner.offer(offer)
        if self.offers > self.times:
            return outcome
        (flow,) = outcome.flows
        cut = replace(flow, received_frames=flow.received_frames - 500, lost_frames=flow.lost_frames + 500)
        return replace(outcome, flows=(cut,), link_lost="the link of sink:eth-a went down")


async def test_a_load_during_which_a_link_went_down_is_offered_again_whatever_is_done_with_disturbed_ones_and_charged_to_nobody():
    unsteady, quiet = Unsteady(2), machine(lambda _: 0.0)
    wrapped = Undisturbed(unsteady, quiet, most_again=0, sleep=no_sleep)
    outcome = await wrapped.offer(offer())
    assert (outcome.flows[0].lost_frames, outcome.disturbed, outcome.link_lost) == (0, "", "")
    assert [bool(thrown.link_lost) for thrown in outcome.thrown_away] == [True, True]
    counted = wrapped.counted(Measured(figures={})).offers
    assert (counted.made, counted.disturbed, counted.link_lost) == (3, 0, 2)


async def test_a_link_that_goes_down_in_every_attempt_leaves_no_result():
    with pytest.raises(LinkUnsteady):
        await Undisturbed(Unsteady(100), machine(lambda _: 0.0), sleep=no_sleep).offer(offer())


async def test_a_load_during_which_the_device_is_meant_to_take_its_link_down_counts():
    unsteady = Unsteady(1)
    outcome = await Undisturbed(unsteady, machine(lambda _: 0.0), sleep=no_sleep).offer(offer(once=True))
    assert (unsteady.offers, outcome.flows[0].lost_frames, outcome.thrown_away) == (1, 500, ())
