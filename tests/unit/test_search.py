"""The search against devices whose limit is known, and against bad luck of every kind."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.analysis.rescore import RFC2544, Verdict, answer, by_load, classify, points_of
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import HostError, InputError, MeasurementError, ToolFailed
from dutlab.methods import search
from dutlab.methods.goals import PRESETS
from dutlab.methods.mixes import frame_mix
from dutlab.methods.ports import Outcome
from dutlab.methods.search import Search, find, measure
from dutlab.methods.search_result import Irregular
from dutlab.methods.search_trial import Mark, Role
from dutlab.plan.cell import Cell
from simulated import LINE_PPS, Dut, Simulation, in_flight

MIX = frame_mix(64)
SPEEDS = {"a": 1e10, "b": 1e10}


def cell(links=("a",), **params):
    return Cell(
        mode="router",
        factors={},
        workload="search",
        tool="engine",
        links=links,
        params={"frame_size": 64, "preset": "csit"} | params,
        repeat=1,
    )


def asked(preset="csit", highest=LINE_PPS, **changes):
    return Search(("a",), MIX, PRESETS[preset], highest, **changes)


def why(found):
    return {name: result.irregular for name, result in found.results.items()}


async def test_ndr_and_pdr_of_a_sharp_limit_are_found_in_one_search():
    found = await find(Simulation(Dut(capacity_pps=1e6)), asked())
    ndr, pdr = found.results["ndr"], found.results["pdr"]
    assert ndr.lower_pps <= 1e6 < ndr.upper_pps
    assert pdr.lower_pps <= 1e6 / 0.995 < pdr.upper_pps  # 0.5 % of what is offered may be lost
    for result in (ndr, pdr):
        assert result.regular
        assert (result.upper_pps - result.lower_pps) / result.upper_pps <= 0.005
        assert result.lower_pps * (1 - result.goal.loss_ratio) <= result.conditional_pps <= result.lower_pps
    assert ndr.conditional_pps == ndr.lower_pps
    assert not found.notes


async def test_every_trial_is_kept_with_what_was_asked_and_what_became_of_it():
    simulation = Simulation(Dut(capacity_pps=1e6))
    found = await find(simulation, asked("rfc2544"))
    assert [t.number for t in found.trials] == list(range(1, len(simulation.offers) + 1))
    for trial, offer in zip(found.trials, simulation.offers, strict=True):
        assert (trial.load_pps, trial.duration_s, trial.allowed_frames) == (offer.rate, offer.duration, offer.stop_after_lost)
        assert trial.sent_frames == trial.received_frames + trial.lost_frames
        assert trial.counts
        assert trial.role is Role.SEARCH
    assert found.sent_s == pytest.approx(simulation.sent_s)
    assert sum(t.duration_s for t in found.trials) == pytest.approx(found.sent_s + found.saved_s)
    assert max(t.sent_s for t in found.trials) == 60


async def test_the_lower_bound_of_rfc2544_was_confirmed_by_a_trial_of_sixty_seconds():
    found = await find(Simulation(Dut(capacity_pps=1e6, buffer_frames=512)), asked("rfc2544"))
    lower = found.results["throughput"].lower_pps
    assert [t for t in found.trials if t.load_pps == lower and t.sent_s == 60 and t.lost_frames == 0]


async def test_the_results_are_what_rescoring_its_trials_gives():
    found = await find(Simulation(Dut(capacity_pps=2e6, capacity_spread=0.002), seed=7), asked())
    for result in found.results.values():
        again = answer(found.points, result.goal.definition)
        assert (again.lower_pps, again.upper_pps, again.conditional_pps) == (result.lower_pps, result.upper_pps, result.conditional_pps)


async def test_a_device_that_loses_nothing_has_no_upper_bound_and_says_so():
    found = await find(Simulation(Dut(capacity_pps=1e9)), asked())
    assert why(found) == {"ndr": (Irregular.NO_UPPER,), "pdr": (Irregular.NO_UPPER,)}
    assert {(r.lower_pps, r.upper_pps, r.conditional_pps) for r in found.results.values()} == {(LINE_PPS, None, LINE_PPS)}


async def test_a_device_that_loses_some_of_everything_has_no_lower_bound():
    found = await find(Simulation(Dut(capacity_pps=1e9, random_loss=0.01)), asked())
    assert why(found) == {"ndr": (Irregular.NO_LOWER,), "pdr": (Irregular.NO_LOWER,)}
    assert {(r.lower_pps, r.upper_pps, r.conditional_pps) for r in found.results.values()} == {(None, found.lowest_pps, None)}


async def test_a_path_through_which_nothing_comes_is_told_from_a_slow_one():
    found = await find(Simulation(Dut(capacity_pps=1e6), deaf_from=0), asked())
    assert why(found) == {"ndr": (Irregular.SILENT,), "pdr": (Irregular.SILENT,)}
    assert {r.lower_pps for r in found.results.values()} == {None}
    assert len(found.trials) <= 30  # and does not take an hour to be told
    assert "is the path through the DUT open?" in found.notes[0]


@pytest.mark.parametrize("from_trial", [1, 2, 3, 5, 8, 20])
async def test_a_device_that_dies_in_mid_search_ends_it_and_is_not_called_slow(from_trial):
    found = await find(Simulation(Dut(capacity_pps=1e6), deaf_from=from_trial), asked())
    assert why(found) == {"ndr": (Irregular.ENDED,), "pdr": (Irregular.ENDED,)}
    assert f"from trial {from_trial + 1} on nothing came back" in found.ended
    assert "the DUT is down, or the path is" in found.ended
    control = found.trials[-1]
    assert (control.role, control.counts, control.received_frames) == (Role.CONTROL, False, 0)
    assert not any(t.counts for t in found.trials if t.received_frames == 0)


async def test_a_device_that_was_away_for_one_trial_is_searched_on():
    found = await find(Simulation(Dut(capacity_pps=1e6), deaf_from=4, deaf_until=5), asked())
    assert all(r.regular for r in found.results.values())
    assert [t.role for t in found.trials[4:6]] == [Role.SEARCH, Role.CONTROL]
    assert found.trials[4].counts
    assert Mark.SILENT in found.trials[4].marks


async def test_a_negative_loss_is_marked_and_the_trial_offered_once_more():
    simulation = Simulation(Dut(capacity_pps=1e6), change=lambda n, flow: in_flight(flow) if n == 3 else flow)
    found = await find(simulation, asked())
    assert all(r.regular for r in found.results.values())
    bad, again = found.trials[3:5]
    assert (bad.marks, bad.counts, bad.lost_frames) == ((Mark.CONTRADICTORY,), False, -7)
    assert "link a: 7 frames more came back than were sent" in bad.detail
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
    assert "two trials in a row at" in found.ended
    assert "7 frames more came back than were sent" in found.ended
    assert result.lower_pps is None  # the trial that would have confirmed it told nothing
    assert result.upper_pps == clean.results["throughput"].upper_pps
    assert [t.counts for t in found.trials[-2:]] == [False, False]


@pytest.mark.parametrize(
    ("tampered", "words"),
    [
        ({"lost_frames": 5}, "do not add up"),
        ({"sent_frames": 0, "received_frames": 0, "asked_frames": 0, "refused_frames": 0, "lost_frames": 0}, "nothing was sent"),
        ({"link": "z"}, "no account of link a"),
    ],
)
async def test_counters_that_contradict_one_another_end_the_search(tampered, words):
    found = await find(Simulation(Dut(capacity_pps=1e6), change=lambda _, flow: replace(flow, **tampered)), asked())
    assert words in found.ended
    assert why(found) == {"ndr": (Irregular.ENDED,), "pdr": (Irregular.ENDED,)}
    assert {(r.lower_pps, r.upper_pps) for r in found.results.values()} == {(None, None)}
    assert len(found.trials) == 2


async def test_more_frames_than_were_asked_for_are_a_contradiction():
    def more(_, flow):
        return replace(
            flow,
            asked_frames=flow.asked_frames * 2,
            sent_frames=flow.sent_frames * 2,
            received_frames=flow.sent_frames * 2 - flow.lost_frames,
        )

    found = await find(Simulation(Dut(capacity_pps=1e6), change=more), asked())
    assert "frames were asked for and" in found.ended


async def test_a_generator_that_stops_a_trial_without_cause_is_caught():
    class Hasty(Simulation):
        async def offer(self, offer):
            return replace(await super().offer(offer), stopped_early_s=0.1)

    found = await find(Hasty(Dut(capacity_pps=1e6)), asked())
    assert "stopped early with" in found.ended


async def test_a_generator_slower_than_the_device_is_named_as_the_limit():
    found = await find(Simulation(Dut(capacity_pps=1e9), reach_pps=3e6), asked("rfc2544"))
    result = found.results["throughput"]
    assert result.irregular == (Irregular.GENERATOR,)
    assert result.upper_pps is None  # no rate is made up for the device
    assert 3e6 * 0.99 <= result.lower_pps <= 3e6 * 1.005
    assert "the generator reached 3 Mpps at most where it was asked for more" in found.notes
    starved = [t for t in found.trials if Mark.STARVED in t.marks]
    assert starved
    assert [t.sent_pps for t in starved] == [pytest.approx(3e6)] * len(starved)


async def test_a_generator_that_takes_its_time_did_not_reach_the_rate():
    def slowly(_, flow):
        return replace(flow, sent_seconds=max(flow.sent_frames / 3e6, flow.sent_seconds))

    found = await find(Simulation(Dut(capacity_pps=1e9), change=slowly), asked("rfc2544"))
    assert found.results["throughput"].irregular == (Irregular.GENERATOR,)
    assert found.results["throughput"].lower_pps <= 3e6 * 1.005


async def test_a_device_slower_than_the_generator_has_a_regular_result_although_the_generator_is_slow_too():
    found = await find(Simulation(Dut(capacity_pps=1e6), reach_pps=3e6), asked("rfc2544"))
    assert found.results["throughput"].regular
    assert found.results["throughput"].lower_pps <= 1e6 < found.results["throughput"].upper_pps


async def test_without_a_highest_rate_the_generators_own_is_found_first():
    simulation = Simulation(Dut(capacity_pps=1e6), reach_pps=3e6)
    found = await find(simulation, asked(highest=None))
    assert (simulation.offers[0].rate, found.trials[0].role, found.trials[0].counts) == (None, Role.REACH, False)
    assert (found.highest_pps, found.highest_is) == (3.75e6, "a quarter above what the generator reached at full speed")
    assert all(r.regular for r in found.results.values())
    unlimited = await find(Simulation(Dut(capacity_pps=1e9), reach_pps=3e6), asked(highest=None))
    assert why(unlimited) == {"ndr": (Irregular.GENERATOR,), "pdr": (Irregular.GENERATOR,)}
    assert "the generator reached 3 Mpps at most where it was asked for more" in unlimited.notes


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
    assert found.trials[5].detail == "source: simulation: printed garbage"
    dumb = await find(Simulation(Dut(capacity_pps=1e6), dumb_from=5), asked())
    assert why(dumb) == {"ndr": (Irregular.ENDED,), "pdr": (Irregular.ENDED,)}
    assert "source: simulation: ended early" in dumb.ended
    assert len(dumb.trials) == 7


async def test_a_generator_that_never_worked_is_an_error_and_no_result():
    with pytest.raises(ToolFailed, match="ended early"):
        await find(Simulation(Dut(capacity_pps=1e6), dumb_from=0), asked())


async def test_a_host_that_vanishes_is_not_hidden_in_a_result():
    class Vanishes(Simulation):
        async def offer(self, offer):
            raise HostError("no route", host="source")

    with pytest.raises(HostError):
        await find(Vanishes(Dut(capacity_pps=1e6)), asked())
    assert not [t for t in threading.enumerate() if t.name == "mlrsearch"]


async def test_a_search_that_is_given_too_little_time_ends_with_what_it_has():
    found = await find(Simulation(Dut(capacity_pps=1e6)), asked("rfc2544", budget=12.0))
    assert found.results["throughput"].irregular == (Irregular.ENDED,)
    assert "it was given 12 s" in found.ended
    assert found.results["throughput"].upper_pps is not None
    assert found.results["throughput"].lower_pps is None


async def test_cancelling_a_search_cancels_its_trial_and_ends_its_thread():
    cancelled = []

    class Slow(Simulation):
        async def offer(self, offer):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(offer)
                raise

    task = asyncio.create_task(find(Slow(Dut(capacity_pps=1e6)), asked()))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(cancelled) == 1
    assert not [t for t in threading.enumerate() if t.name == "mlrsearch"]


async def test_rates_above_the_upper_bound_that_met_the_goal_are_told():
    goals, inverted = PRESETS["rfc2544"] + PRESETS["quick"], []
    for seed in range(40):
        dut = Dut(capacity_pps=1e6, stalls_per_s=0.1, stall_s=0.01)
        found = await find(Simulation(dut, seed), Search(("a",), MIX, goals, LINE_PPS))
        for name, result in found.results.items():
            above = [at for load, at in by_load(found.points).items() if result.upper_pps and load > result.upper_pps]
            assert result.inversions == sum(classify(at, result.goal.definition) is Verdict.LOWER for at in above)
            told = f"{name}: the goal was met at {result.inversions} rates above its upper bound"
            assert (told in found.notes) == (result.inversions > 0)
            inverted += [name] * result.inversions
    assert inverted


# ---- by the cell ----


async def test_the_figures_are_named_after_the_goals_and_say_their_unit():
    measured = await measure(Simulation(Dut(capacity_pps=1e6)), cell(), SPEEDS)
    figures, found = measured.figures["a"], measured.found
    assert set(figures) == {
        *(
            f"{goal}_{what}"
            for goal in ("ndr", "pdr")
            for what in ("lower_pps", "upper_pps", "conditional_pps", "lower_bps_l1", "conditional_bps_l1")
        ),
        "search_trials",
        "search_sent_s",
        "search_saved_s",
    }
    assert figures["ndr_lower_pps"] == found.results["ndr"].lower_pps
    assert figures["ndr_lower_bps_l1"] == figures["ndr_lower_pps"] * 672  # RFC 2544 appendix B: 64 bytes take 672 bits of the wire
    assert figures["search_trials"] == len(found.trials)
    assert found.highest_pps == pytest.approx(14_880_952.38)
    assert found.highest_is == "the line rate of link a"


async def test_what_is_not_known_is_absent_from_the_figures():
    measured = await measure(Simulation(Dut(capacity_pps=1e9)), cell(preset="rfc2544"), SPEEDS)
    assert "throughput_lower_pps" in measured.figures["a"]
    assert "throughput_upper_pps" not in measured.figures["a"]
    assert measured.notes[0].startswith("throughput: no more is lost than the goal allows at the highest rate")
    silent = await measure(Simulation(Dut(capacity_pps=1e6), deaf_from=0), cell(preset="rfc2544"), SPEEDS)
    assert "throughput_lower_pps" not in silent.figures["a"]


async def test_links_together_share_rates_and_loss():
    simulation = Simulation(Dut(capacity_pps=1e6))
    measured = await measure(simulation, cell(links=("a", "b"), preset="rfc2544"), SPEEDS)
    assert list(measured.figures) == ["a", "b", "a+b"]
    lower = measured.found.results["throughput"].lower_pps
    assert lower <= 1e6
    assert measured.figures["a"]["throughput_lower_pps"] == lower
    assert measured.figures["a+b"]["throughput_lower_pps"] == 2 * lower
    assert measured.figures["a+b"]["search_trials"] == measured.figures["a"]["search_trials"]
    assert measured.found.trials[-1].asked_frames == 2 * round(measured.found.trials[-1].load_pps * measured.found.trials[-1].duration_s)


async def test_the_raw_file_holds_every_trial_and_can_be_rescored():
    measured = await measure(Simulation(Dut(capacity_pps=1e6)), cell(preset="rfc2544"), SPEEDS)
    raw = json.loads(measured.raw["search.json"])
    assert len(raw["trials"]) == len(measured.found.trials)
    stopped = [t for t in raw["trials"] if "stopped_early_s" in t]
    assert stopped
    assert {"load_pps", "duration_s", "sent_frames", "received_frames", "lost_frames", "loss_ratio", "role", "counts"} <= set(stopped[0])
    again = answer(points_of(raw["points"]), RFC2544)
    assert (again.lower_pps, again.upper_pps) == (raw["goals"]["throughput"]["lower_pps"], raw["goals"]["throughput"]["upper_pps"])
    assert raw["goals"]["throughput"]["irregular"] == []


async def test_doubts_are_told_once_with_how_many_trials_they_touch():
    class Doubtful(Simulation):
        async def offer(self, offer):
            outcome = await super().offer(offer)
            return Outcome(outcome.flows, (Doubt(DoubtKind.RX_DROPPED, "3 frames", "a"),), facts={"engine_version": "1"})

    measured = await measure(Doubtful(Dut(capacity_pps=1e9), obeys=False, reach_pps=3e6), cell(), SPEEDS)
    details = {d.kind: d.detail for d in measured.doubts}
    n = len(measured.found.trials)
    assert details[DoubtKind.RX_DROPPED] == f"in {n} of {n} trials"
    assert details[DoubtKind.SHORT_TRIAL] == "1 s"
    assert details[DoubtKind.TX_STARVED] == "the generator reached 3 Mpps at most where it was asked for more"
    assert len(details) == len(measured.doubts)
    assert measured.facts == {"engine_version": "1"}


async def test_a_search_in_full_raises_no_doubt_about_short_trials_and_tells_its_waits():
    measured = await measure(Simulation(Dut(capacity_pps=1e6)), cell(preset="rfc2544"), SPEEDS)
    assert measured.doubts == ()
    assert "waits of 0.5 s after a trial, where RFC 2544 section 23 has 2 s and 5 s" in measured.notes
    patient = await measure(Simulation(Dut(capacity_pps=1e6)), cell(preset="rfc2544", drain_s=7.0), SPEEDS)
    assert not any("waits" in note for note in patient.notes)


async def test_counters_that_contradict_one_another_are_the_gravest_doubt():
    simulation = Simulation(Dut(capacity_pps=1e6), change=lambda n, flow: in_flight(flow) if n == 3 else flow)
    measured = await measure(simulation, cell(preset="rfc2544"), SPEEDS)
    assert [d.kind for d in measured.doubts] == [DoubtKind.LEDGER_OPEN]
    assert measured.doubts[0].detail.startswith("trial 4: link a: 7 frames more came back")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"preset": None}, "needs either a preset or goals"),
        ({"goals": "[]"}, "needs either a preset or goals"),
        ({"preset": "ndr"}, "known are"),
        ({"preset": None, "goals": "[]"}, "there is no goal"),
        ({"highest_pps": 2e7}, "20 Mpps of 64 is above what link a carries, 14.88 Mpps"),
        ({"highest_pps": 0}, "no room for a search"),
        ({"highest_pps": -5.0}, "no room for a search"),
        ({"highest_pps": 5.0}, "no room for a search"),
        ({"lowest_pps": 0}, "no room for a search"),
        ({"lowest_pps": 2e7}, "no room for a search between 20 Mpps and 14.9 Mpps"),
        ({"lowest_pps": 9.99e5, "highest_pps": 1e6}, "no room for a search"),
        ({"highest_pps": float("nan")}, "no room for a search"),
        ({"frame_size": 63}, "no frame size"),
    ],
)
async def test_what_cannot_be_searched_is_refused_in_words_before_anything_is_sent(params, words):
    simulation = Simulation(Dut(capacity_pps=1e6))
    with pytest.raises(InputError, match=words):
        await measure(simulation, cell(**params), SPEEDS)
    assert not simulation.offers


async def test_goals_of_the_users_own_are_searched():
    goals = json.dumps([{"name": "mine", "loss_ratio": 0.002, "exceed_ratio": 0.25, "final_s": 2, "sum_s": 8, "width": 0.01}])
    measured = await measure(Simulation(Dut(capacity_pps=1e6)), cell(preset=None, goals=goals), SPEEDS)
    assert measured.figures["a"]["mine_lower_pps"] <= 1e6 / 0.998 < measured.figures["a"]["mine_upper_pps"]


async def test_links_of_unknown_speed_are_searched_as_far_as_the_generator_reaches():
    measured = await measure(Simulation(Dut(capacity_pps=1e6), reach_pps=4e6), cell(preset="quick"), {"a": None})
    assert measured.found.highest_pps == 5e6
    assert measured.figures["a"]["ndr_lower_pps"] <= 1e6 < measured.figures["a"]["ndr_upper_pps"]


async def test_a_generator_that_sends_nothing_at_full_speed_has_no_range():
    def idle(_, flow):
        return replace(flow, sent_frames=0, received_frames=0, lost_frames=0)

    with pytest.raises(MeasurementError, match="the generator sent nothing"):
        await measure(Simulation(Dut(capacity_pps=1e6), reach_pps=4e6, change=idle), cell(), {})


async def test_the_slowest_of_several_links_sets_the_highest_rate():
    measured = await measure(Simulation(Dut(capacity_pps=1e5)), cell(links=("a", "b"), preset="quick"), {"a": 1e10, "b": 1e9})
    assert measured.found.highest_pps == pytest.approx(1_488_095.24)  # RFC 5180 appendix A
    assert measured.found.highest_is == "the line rate of link b"


duts = st.builds(
    Dut,
    capacity_pps=st.floats(0, 3e7),
    buffer_frames=st.sampled_from([0, 100, 1e5]),
    capacity_spread=st.sampled_from([0, 0.001, 0.3]),
    slow_share=st.floats(0, 1),
    slow_capacity=st.floats(0, 1),
    random_loss=st.sampled_from([0, 1e-9, 1e-4, 0.1]),
    stalls_per_s=st.sampled_from([0, 0.01, 10]),
    stall_s=st.sampled_from([0, 0.001, 0.5]),
)


@settings(deadline=None)  # a whole search on a busy machine
@given(
    dut=duts,
    seed=st.integers(0, 10**6),
    reach=st.sampled_from([1e12, 1e7, 1e5]),
    preset=st.sampled_from(["rfc2544", "csit", "tst009", "quick"]),
    highest=st.sampled_from([LINE_PPS, 1e4, None]),
    deaf=st.none() | st.integers(0, 20),
    flight=st.integers(0, 40),
)
async def test_whatever_the_device_does_bounds_are_ordered_backed_by_trials_and_marked_where_one_is_missing(
    dut, seed, reach, preset, highest, deaf, flight
):
    simulation = Simulation(dut, seed, reach, deaf_from=deaf, change=lambda n, flow: in_flight(flow) if n == flight else flow)
    found = await find(simulation, asked(preset, highest))
    for result in found.results.values():
        assert result.regular <= (result.lower_pps is not None and result.upper_pps is not None)
        if result.lower_pps is not None:
            points = [p for p in found.points if p.load_pps == result.lower_pps]
            assert sum(p.duration_s for p in points if p.loss_ratio <= result.goal.loss_ratio) > 0
            assert 0 <= result.conditional_pps <= result.lower_pps
        if result.upper_pps is not None:
            assert any(p.loss_ratio > result.goal.loss_ratio for p in found.points if p.load_pps == result.upper_pps)
        if result.regular:
            assert result.lower_pps < result.upper_pps
            assert (result.upper_pps - result.lower_pps) / result.upper_pps <= result.goal.width
    assert math.isfinite(found.sent_s)
    assert json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert Irregular.UNLIKE not in {w for r in found.results.values() for w in r.irregular}


def test_the_tolerance_of_a_rate_never_hides_a_width():
    assert asked("rfc2544").tolerance == 0.0025
    assert asked("quick").tolerance == 0.005
    assert search.Search(("a",), MIX, PRESETS["quick"], 1e6).early_stop is search.EarlyStop.AT_ONCE
