"""The search against bad luck: devices without a limit, dead ones, counters that contradict one another, generators that fail."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import HostError, ToolFailed
from dutlab.methods.search.account import doubts
from dutlab.methods.search.log import Ended, SearchLog
from dutlab.methods.search.method import find
from dutlab.methods.search.mlrsearch import NextTrial
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import Irregular
from dutlab.methods.search.trial import Mark, Role
from dutlab.spec.goals import PRESETS
from dutlab.spec.mixes import frame_mix
from dutlab.stats.rescore import LoadVerdict, by_load, classify
from dutlab.units import Pps, Seconds
from simulated import LINE_PPS, Dut, Simulation, in_flight

MIX = frame_mix(64)
COUNTS = ("intended_frames", "sent_frames", "refused_frames", "received_frames", "lost_frames")


def asked(preset="csit", highest=LINE_PPS, **changes):
    return Search(("a",), MIX, PRESETS[preset], highest, **changes)


def why(found):
    return {name: result.irregular for name, result in found.results.items()}


async def test_devices_that_lose_nothing_some_or_all_of_everything_are_told_apart():
    found = await find(Simulation(Dut(capacity_pps=1e9)), asked())
    assert why(found) == {"ndr": (Irregular.NO_UPPER,), "pdr": (Irregular.NO_UPPER,)}
    assert {(r.lower_pps, r.upper_pps, r.conditional_pps) for r in found.results.values()} == {(LINE_PPS, None, LINE_PPS)}
    # A device that loses some of everything has no lower bound.
    found = await find(Simulation(Dut(capacity_pps=1e9, random_loss=0.01)), asked())
    assert why(found) == {"ndr": (Irregular.NO_LOWER,), "pdr": (Irregular.NO_LOWER,)}
    assert {(r.lower_pps, r.upper_pps, r.conditional_pps) for r in found.results.values()} == {(None, found.lowest_pps, None)}
    # A path through which nothing comes is told from a slow one.
    found = await find(Simulation(Dut(capacity_pps=1e6), deaf_from=0), asked())
    assert why(found) == {"ndr": (Irregular.SILENT,), "pdr": (Irregular.SILENT,)}
    assert {r.lower_pps for r in found.results.values()} == {None}
    assert len(found.trials) <= 30  # and does not take an hour to be told


@pytest.mark.parametrize("from_trial", [1, 2, 5, 20])
async def test_a_device_that_dies_in_mid_search_ends_it_and_is_not_called_slow(from_trial):
    found = await find(Simulation(Dut(capacity_pps=1e6), deaf_from=from_trial), asked())
    assert why(found) == {"ndr": (Irregular.ENDED,), "pdr": (Irregular.ENDED,)}
    silent, control = found.trials[-2:]
    assert (silent.number, control.role, control.counts, control.received_frames) == (from_trial + 1, Role.CONTROL, False, 0)
    assert not any(t.counts for t in found.trials if t.received_frames == 0)


async def test_a_device_that_was_away_or_contradicted_itself_for_one_trial_is_searched_on():
    found = await find(Simulation(Dut(capacity_pps=1e6), deaf_from=4, deaf_until=5), asked())
    assert all(r.regular for r in found.results.values())
    assert [t.role for t in found.trials[4:6]] == [Role.SEARCH, Role.CONTROL]
    assert found.trials[4].counts
    assert Mark.SILENT in found.trials[4].marks
    # A negative loss is marked and the trial offered once more.
    simulation = Simulation(Dut(capacity_pps=1e6), change=lambda n, flow: in_flight(flow) if n == 3 else flow)
    found = await find(simulation, asked())
    assert all(r.regular for r in found.results.values())
    bad, again = found.trials[3:5]
    assert (bad.marks, bad.counts, bad.lost_frames) == ((Mark.CONTRADICTORY,), False, -7)
    assert Mark.REPEATED in again.marks
    assert again.counts
    assert (again.load_pps, again.duration_s) == (bad.load_pps, bad.duration_s)


async def test_a_negative_loss_that_stays_ends_the_search_irregularly_with_what_is_certain():
    clean = await find(Simulation(Dut(capacity_pps=1e6)), asked("rfc2544"))
    last = len(clean.trials) - 1
    simulation = Simulation(Dut(capacity_pps=1e6), change=lambda n, flow: in_flight(flow) if n >= last else flow)
    found = await find(simulation, asked("rfc2544"))
    result = found.results["throughput"]
    assert result.irregular == (Irregular.ENDED,)
    assert {t.marks[0] for t in found.trials[-2:]} == {Mark.CONTRADICTORY} and {t.load_pps for t in found.trials[-2:]} == {
        found.trials[-1].load_pps
    }
    assert result.lower_pps is None  # the trial that would have confirmed it told nothing
    assert result.upper_pps == clean.results["throughput"].upper_pps
    assert [t.counts for t in found.trials[-2:]] == [False, False]


@pytest.mark.parametrize(
    ("tamper", "mark", "doubt"),
    [
        (lambda flow: {"lost_frames": 5}, Mark.CONTRADICTORY, DoubtKind.LEDGER_OPEN),
        (lambda flow: dict.fromkeys(COUNTS, 0), Mark.IDLE, DoubtKind.TX_STARVED),
        (lambda flow: {"link": "z"}, Mark.CONTRADICTORY, DoubtKind.LEDGER_OPEN),
        (
            lambda flow: {
                "intended_frames": flow.intended_frames * 2,
                "sent_frames": flow.sent_frames * 2,
                "received_frames": flow.sent_frames * 2 - flow.lost_frames,
            },
            Mark.CONTRADICTORY,
            DoubtKind.LEDGER_OPEN,
        ),
    ],
    ids=["lost", "idle", "another link", "more than were asked for"],
)
async def test_counters_that_contradict_one_another_end_the_search(tamper, mark, doubt):
    found = await find(Simulation(Dut(capacity_pps=1e6), change=lambda _, flow: replace(flow, **tamper(flow))), asked())
    assert mark in found.trials[-1].marks
    assert {d.kind for d in doubts(found, {})} & {DoubtKind.LEDGER_OPEN, DoubtKind.TX_STARVED} == {doubt}
    assert why(found) == {"ndr": (Irregular.ENDED,), "pdr": (Irregular.ENDED,)}
    assert {(r.lower_pps, r.upper_pps) for r in found.results.values()} == {(None, None)}
    assert len(found.trials) == 2


async def test_a_generator_that_stops_a_trial_without_cause_is_caught():
    class Hasty(Simulation):
        async def offer(self, offer):
            return replace(await super().offer(offer), stopped_early_s=0.1)

    found = await find(Hasty(Dut(capacity_pps=1e6)), asked())
    assert why(found) == {"ndr": (Irregular.ENDED,), "pdr": (Irregular.ENDED,)} and found.trials[-1].marks[0] is Mark.CONTRADICTORY


async def test_a_generator_slower_than_the_device_is_named_as_the_limit_and_not_one_that_is_faster():
    found = await find(Simulation(Dut(capacity_pps=1e9), reach_pps=3e6), asked("rfc2544"))
    result = found.results["throughput"]
    assert result.irregular == (Irregular.GENERATOR,)
    assert result.upper_pps is None  # no rate is made up for the device
    assert 3e6 * 0.99 <= result.lower_pps <= 3e6 * 1.005
    starved = [t for t in found.trials if Mark.STARVED in t.marks]
    assert starved
    assert [t.made_pps for t in starved] == [pytest.approx(3e6)] * len(starved)

    # A generator that takes its time did not reach the rate.
    def slowly(_, flow):
        return replace(flow, sent_seconds=max(flow.sent_frames / 3e6, flow.sent_seconds))

    found = await find(Simulation(Dut(capacity_pps=1e9), change=slowly), asked("rfc2544"))
    assert found.results["throughput"].irregular == (Irregular.GENERATOR,)
    assert found.results["throughput"].lower_pps <= 3e6 * 1.005
    # A device slower than the generator has a regular result although the generator is slow too.
    found = await find(Simulation(Dut(capacity_pps=1e6), reach_pps=3e6), asked("rfc2544"))
    assert found.results["throughput"].regular
    assert found.results["throughput"].lower_pps <= 1e6 < found.results["throughput"].upper_pps


async def test_without_a_highest_rate_the_generators_own_is_found_first():
    simulation = Simulation(Dut(capacity_pps=1e6), reach_pps=3e6)
    found = await find(simulation, asked(highest=None))
    assert (simulation.offers[0].rate, found.trials[0].role, found.trials[0].counts) == (None, Role.REACH, False)
    assert found.highest_pps == 3.75e6, "a quarter above what the generator reached"
    assert all(r.regular for r in found.results.values())
    unlimited = await find(Simulation(Dut(capacity_pps=1e9), reach_pps=3e6), asked(highest=None))
    assert why(unlimited) == {"ndr": (Irregular.GENERATOR,), "pdr": (Irregular.GENERATOR,)}
    assert "3 Mpps" in unlimited.reach


async def test_a_generator_that_fails_once_is_asked_again_and_one_that_stays_dumb_ends_the_search():
    class Stumbles(Simulation):
        async def offer(self, offer):
            outcome = await super().offer(offer)
            if len(self.offers) == 6:
                raise ToolFailed("printed garbage", tool="simulation", host="source")
            return outcome

    found = await find(Stumbles(Dut(capacity_pps=1e6)), asked())
    assert all(r.regular for r in found.results.values())
    assert found.trials[5].marks == (Mark.NO_ACCOUNT,)
    dumb = await find(Simulation(Dut(capacity_pps=1e6), dumb_from=5), asked())
    assert why(dumb) == {"ndr": (Irregular.ENDED,), "pdr": (Irregular.ENDED,)}
    assert len(dumb.trials) == 7
    with pytest.raises(ToolFailed):
        await find(Simulation(Dut(capacity_pps=1e6), dumb_from=0), asked())


async def test_a_host_that_vanishes_is_not_hidden_in_a_result():
    class Vanishes(Simulation):
        async def offer(self, offer):
            raise HostError("no route", host="source")

    with pytest.raises(HostError):
        await find(Vanishes(Dut(capacity_pps=1e6)), asked())
    assert not [t for t in threading.enumerate() if t.name == "mlrsearch"]


@pytest.mark.timing
async def test_a_search_that_is_given_too_little_time_ends_with_what_it_has():
    found = await find(Simulation(Dut(capacity_pps=1e6)), asked("rfc2544", budget=12.0))
    assert found.results["throughput"].irregular == (Irregular.ENDED,)
    assert found.results["throughput"].upper_pps is not None
    assert found.results["throughput"].lower_pps is None


async def test_what_stands_around_trials_is_spent_too():
    class Slow(Simulation):
        now_s = 0.0

        async def offer(self, offer):
            self.now_s += 5.0
            return await super().offer(offer)

    generator = Slow(Dut(capacity_pps=1e6))
    log = SearchLog(generator, asked(budget=12.0), clock=lambda: generator.now_s)
    for _ in range(3):
        await log.answer(NextTrial(Pps(1000.0), Seconds(1.0)))
    with pytest.raises(Ended, match=r"15 s .* 12 s"):
        await log.answer(NextTrial(Pps(1000.0), Seconds(1.0)))


async def test_cancelling_a_search_cancels_its_trial_and_ends_its_thread():
    begun, cancelled = asyncio.Event(), []

    class Slow(Simulation):
        async def offer(self, offer):
            begun.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(offer)
                raise

    task = asyncio.create_task(find(Slow(Dut(capacity_pps=1e6)), asked()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(cancelled) == 1
    assert not [t for t in threading.enumerate() if t.name == "mlrsearch"]


async def test_rates_above_the_upper_bound_that_met_the_goal_are_told():
    goals, inverted = PRESETS["rfc2544"] + PRESETS["quick"], []
    for seed in range(12):
        dut = Dut(capacity_pps=1e6, stalls_per_s=0.1, stall_s=0.01)
        found = await find(Simulation(dut, seed), Search(("a",), MIX, goals, LINE_PPS))
        for name, result in found.results.items():
            above = [at for load, at in by_load(found.points).items() if result.upper_pps and load > result.upper_pps]
            assert result.inversions == sum(classify(at, result.goal.definition) is LoadVerdict.LOWER for at in above)
            about = [d for d in doubts(found, {}) if d.kind is DoubtKind.GOAL_MET_ABOVE and d.detail.startswith(name)]
            assert bool(about) == (result.inversions > 0)
            inverted += [name] * result.inversions
    assert inverted


async def test_what_searches_say_of_bad_luck(golden):
    devices = {
        "never loses": Simulation(Dut(capacity_pps=1e9)),
        "always loses": Simulation(Dut(capacity_pps=1e9, random_loss=0.01)),
        "silent": Simulation(Dut(capacity_pps=1e6), deaf_from=0),
        "dies": Simulation(Dut(capacity_pps=1e6), deaf_from=5),
        "contradicts itself": Simulation(Dut(capacity_pps=1e6), change=lambda n, flow: in_flight(flow) if n >= 4 else flow),
        "slow generator": Simulation(Dut(capacity_pps=1e9), reach_pps=3e6),
        "generator fails": Simulation(Dut(capacity_pps=1e6), dumb_from=5),
    }
    searches = [(name, await find(device, asked("rfc2544"))) for name, device in devices.items()]
    searches.append(("too little time", await find(Simulation(Dut(capacity_pps=1e6)), asked("rfc2544", budget=1.0))))
    pages = [[f"# {name}", *found.notes, *(f"{d.kind.name}: {d.detail}" for d in doubts(found, {}))] for name, found in searches]
    golden.check("search-bad-luck.txt", "\n".join(line for page in pages for line in page) + "\n")
