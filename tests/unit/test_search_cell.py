"""The search as a workload: what a cell asks for, and what the record says."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from cells import cell_of
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError, MeasurementError
from dutlab.methods.ports import Bench, Outcome
from dutlab.methods.search.method import measure
from dutlab.spec.mixes import frame_mix
from dutlab.stats.definitions import RFC2544
from dutlab.stats.rescore import answer, points_of
from dutlab.store.record import TrialRecord
from simulated import Dut, Simulation, in_flight

MIX = frame_mix(64)
SPEEDS = {"a": 1e10, "b": 1e10}


def cell(links=("a",), **params):
    return cell_of("search", links=links, **({"frame_size": 64, "preset": "csit"} | params))


async def test_the_bounds_of_each_goal_are_told_as_they_move_and_close_on_the_answer():
    told = []
    bench = Bench(Simulation(Dut(capacity_pps=1e6)), SPEEDS, tell=lambda *what: told.append(what))
    found = (await measure(bench, cell())).search
    assert {(where, who) for where, who, _ in told} == {("a", "search")}
    for goal in ("ndr", "pdr"):
        uppers = [values[f"{goal}/upper_pps"] for *_, values in told if f"{goal}/upper_pps" in values]
        assert uppers == sorted(uppers, reverse=True), "an upper bound never rises"
        assert uppers[-1] == pytest.approx(found.results[goal].upper_pps)
        assert told[-1][2][f"{goal}/lower_pps"] == pytest.approx(found.results[goal].lower_pps)


async def test_the_figures_are_named_after_the_goals_and_say_their_unit():
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6)), SPEEDS), cell())
    figures, found = measured.figures["a"], measured.search
    assert set(figures) == {
        *(
            f"{goal}/{what}"
            for goal in ("ndr", "pdr")
            for what in ("lower_pps", "upper_pps", "conditional_pps", "lower_bps_l1", "conditional_bps_l1")
        ),
        "search_trials",
        "search_sent_s",
        "search_saved_s",
    }
    assert figures["ndr/lower_pps"] == found.results["ndr"].lower_pps
    assert figures["ndr/lower_bps_l1"] == figures["ndr/lower_pps"] * 672  # RFC 2544 appendix B: 64 bytes take 672 bits of the wire
    assert figures["search_trials"] == len(found.trials)
    assert found.highest_pps == pytest.approx(14_880_952.38)


async def test_what_is_not_known_is_absent_from_the_figures():
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e9)), SPEEDS), cell(preset="rfc2544"))
    assert "throughput/lower_pps" in measured.figures["a"]
    assert "throughput/upper_pps" not in measured.figures["a"]
    silent = await measure(Bench(Simulation(Dut(capacity_pps=1e6), deaf_from=0), SPEEDS), cell(preset="rfc2544"))
    assert "throughput/lower_pps" not in silent.figures["a"]


async def test_links_together_share_rates_and_loss():
    simulation = Simulation(Dut(capacity_pps=1e6))
    measured = await measure(Bench(simulation, SPEEDS), cell(links=("a", "b"), preset="rfc2544"))
    assert list(measured.figures) == ["a", "b", "a+b"]
    lower = measured.search.results["throughput"].lower_pps
    assert lower <= 1e6
    assert measured.figures["a"]["throughput/lower_pps"] == lower
    assert measured.figures["a+b"]["throughput/lower_pps"] == 2 * lower
    assert measured.figures["a+b"]["search_trials"] == measured.figures["a"]["search_trials"]
    assert measured.search.trials[-1].intended_frames == 2 * round(
        measured.search.trials[-1].load_pps * measured.search.trials[-1].duration_s
    )


async def test_the_tables_hold_every_goal_and_every_trial_and_can_be_rescored():
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6)), SPEEDS), cell(preset="rfc2544"))
    trials, (goal,) = measured.tables["trials"], measured.tables["goals"]
    assert [t["number"] for t in trials] == list(range(1, len(measured.search.trials) + 1))
    stopped = [t for t in trials if t["stopped_early_s"] is not None]
    assert stopped
    assert {t["exact"] for t in stopped} == {"no"}
    assert {t["exact"] for t in trials if t not in stopped} == {"yes"}
    again = answer(points_of(trials), RFC2544)
    assert (again.lower_pps, again.upper_pps) == (goal["lower_pps"], goal["upper_pps"])
    assert (goal["name"], goal["loss_ratio"], goal["final_s"], goal["irregular"]) == ("throughput", 0, 60, "")
    row = TrialRecord.model_fields["tables"].annotation
    assert TypeAdapter(row).validate_python({k: [dict(r) for r in v] for k, v in measured.tables.items()})


async def test_what_the_generator_said_of_every_trial_is_kept_packed():
    class Talks(Simulation):
        async def offer(self, offer):
            outcome = await super().offer(offer)
            return replace(outcome, raw={"engine.jsonl": f"trial {len(self.offers)}\n".encode()})

    measured = await measure(Bench(Talks(Dut(capacity_pps=1e6)), SPEEDS), cell(preset="quick"))
    said = gzip.decompress(measured.raw["engine.jsonl.gz"]).decode().splitlines()
    assert said == [f"trial {n}" for n in range(1, len(measured.search.trials) + 1)]


async def test_doubts_are_told_once_with_how_many_trials_they_touch():
    class Doubtful(Simulation):
        async def offer(self, offer):
            outcome = await super().offer(offer)
            return Outcome(outcome.flows, (Doubt(DoubtKind.RX_DROPPED, "3 frames", "a"),), facts={"engine_version": "1"})

    measured = await measure(Bench(Doubtful(Dut(capacity_pps=1e9), obeys=False, reach_pps=3e6), SPEEDS), cell())
    details = {d.kind: d.detail for d in measured.doubts}
    n = len(measured.search.trials)
    assert details[DoubtKind.RX_DROPPED] == f"in {n} of {n} trials"
    limits = [DoubtKind.LIMIT_OF_GENERATOR] * 2
    assert [d.kind for d in measured.doubts] == [DoubtKind.RX_DROPPED, *limits, DoubtKind.SHORT_TRIAL]
    assert [d.about for d in measured.doubts if d.kind in limits] == ["ndr/lower_pps", "pdr/lower_pps"]
    assert measured.facts == {"engine_version": "1"}


async def test_a_search_in_full_raises_no_doubt_about_short_trials_and_tells_its_waits():
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6)), SPEEDS), cell(preset="rfc2544"))
    assert measured.doubts == ()
    patient = await measure(Bench(Simulation(Dut(capacity_pps=1e6)), SPEEDS), cell(preset="rfc2544", drain_s=7.0))
    assert [note for note in measured.notes if note not in patient.notes] == [measured.notes[-1]], "that of its waits"


@pytest.mark.parametrize(
    ("simulation", "kind", "about"),
    [
        (Simulation(Dut(capacity_pps=1e9)), DoubtKind.NO_UPPER_BOUND, "throughput/lower_pps"),
        (Simulation(Dut(capacity_pps=1e9), reach_pps=3e6), DoubtKind.LIMIT_OF_GENERATOR, "throughput/lower_pps"),
        (Simulation(Dut(capacity_pps=1e9, random_loss=0.01)), DoubtKind.NO_LOWER_BOUND, ""),
        (Simulation(Dut(capacity_pps=1e9), deaf_from=0), DoubtKind.NO_LOWER_BOUND, ""),
        (Simulation(Dut(capacity_pps=1e6), deaf_from=3), DoubtKind.SEARCH_CUT, ""),
    ],
)
async def test_an_irregular_result_is_a_doubt_about_its_lower_bound(simulation, kind, about):
    measured = await measure(Bench(simulation, SPEEDS), cell(preset="rfc2544"))
    found = [d for d in measured.doubts if d.kind is kind]
    assert [d.about for d in found] == [about]


async def test_a_search_cut_between_two_bounds_says_how_wide_they_are():
    goals = ({"name": "ndr", "loss_ratio": 0, "exceed_ratio": 0, "final_s": 1, "sum_s": 1},)
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6)), SPEEDS), cell(preset=None, goals=goals, budget_s=6.0))
    ndr = measured.search.results["ndr"]
    assert ndr.width > 0.005
    details = {d.kind: d.detail for d in measured.doubts}
    assert f"{ndr.width:.2%}" in details[DoubtKind.BOUNDS_WIDE] and DoubtKind.SEARCH_CUT in details


async def test_counters_that_contradict_one_another_are_the_gravest_doubt():
    simulation = Simulation(Dut(capacity_pps=1e6), change=lambda n, flow: in_flight(flow) if n == 3 else flow)
    measured = await measure(Bench(simulation, SPEEDS), cell(preset="rfc2544"))
    assert [d.kind for d in measured.doubts] == [DoubtKind.LEDGER_OPEN]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"highest_pps": 2e7}, "20 Mpps .* link a .* 14.88 Mpps"),
        ({"highest_pps": 5.0}, "no room"),
        ({"lowest_pps": 2e7}, "20 Mpps and 14.9 Mpps"),
        ({"lowest_pps": 9.99e5, "highest_pps": 1e6}, "no room"),
    ],
)
async def test_what_cannot_be_searched_is_refused_before_anything_is_sent(params, words):
    simulation = Simulation(Dut(capacity_pps=1e6))
    with pytest.raises(InputError, match=words):
        await measure(Bench(simulation, SPEEDS), cell(**params))
    assert not simulation.offers


async def test_goals_of_the_users_own_and_links_of_any_speed_are_searched():
    goals = ({"name": "mine", "loss_ratio": 0.002, "exceed_ratio": 0.25, "final_s": 2, "sum_s": 8, "width": 0.01},)
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6)), SPEEDS), cell(preset=None, goals=goals))
    assert measured.figures["a"]["mine/lower_pps"] <= 1e6 / 0.998 < measured.figures["a"]["mine/upper_pps"]
    # Links of unknown speed are searched as far as the generator reaches.
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6), reach_pps=4e6), {"a": None}), cell(preset="quick"))
    assert measured.search.highest_pps == 5e6
    assert measured.figures["a"]["ndr/lower_pps"] <= 1e6 < measured.figures["a"]["ndr/upper_pps"]
    # The slowest of several links sets the highest rate.
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e5)), {"a": 1e10, "b": 1e9}), cell(links=("a", "b"), preset="quick"))
    assert measured.search.highest_pps == pytest.approx(1_488_095.24)  # RFC 5180 appendix A
    assert "link b" in measured.search.highest_is


async def test_a_generator_that_sends_nothing_at_full_speed_has_no_range():
    def idle(_, flow):
        return replace(flow, sent_frames=0, received_frames=0, lost_frames=0)

    with pytest.raises(MeasurementError, match="sent nothing"):
        await measure(Bench(Simulation(Dut(capacity_pps=1e6), reach_pps=4e6, change=idle), {}), cell())


async def test_a_search_offers_its_lower_bound_once_more_in_a_full_trial_that_is_not_stopped():
    simulation = Simulation(Dut(capacity_pps=1e6))
    measured = await measure(Bench(simulation, SPEEDS), cell(preset="rfc2544"))
    before, figures = len(simulation.offers), {link: dict(of) for link, of in measured.figures.items()}
    trial = await measured.at_limit()
    (offer,) = simulation.offers[before:]
    assert (offer.rate, offer.duration, offer.stop_after_lost) == (measured.figures["a"]["throughput/lower_pps"], 60.0, None)
    assert trial.row["loss_ratio"] == 0.0
    assert trial.row["received_pps"] == pytest.approx(offer.rate, rel=1e-4)
    assert measured.figures == figures
    # Without a lower bound there is no limit to offer.
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6), deaf_from=0), SPEEDS), cell(preset="rfc2544"))
    assert measured.at_limit is None
