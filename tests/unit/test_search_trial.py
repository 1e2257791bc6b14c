"""One trial of a search: its marks, what the search is told of it, what definitions see of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutlab.methods.ports import Offer, Outcome
from dutlab.methods.search.mlrsearch import LoadOutcome, NextTrial
from dutlab.methods.search.trial import Mark, Role, trial_of
from dutlab.spec.mixes import frame_mix
from dutlab.stats.rescore import PDR_01, RFC2544, LoadVerdict, classify
from simulated import Dut, Simulation

MIX = frame_mix(64)
TOLERANCE = 0.0025


def offer(rate=1e6, seconds=60.0, allowed=None, links=("a",)):
    return Offer(links, MIX, rate, seconds, stop_after_lost=allowed)


def kept(simulation, asked, change=lambda outcome: outcome):
    return trial_of(asked, change(simulation.trial(asked)), number=1, role=Role.SEARCH, tolerance=TOLERANCE)


def test_a_trial_in_full_is_told_as_it_was():
    trial = kept(Simulation(Dut(capacity_pps=9e5)), offer())
    assert trial.told(NextTrial(1e6, 60.0), TOLERANCE) == LoadOutcome(NextTrial(1e6, 60.0), 60_000_000, 60_000_000, 6_000_000)
    point = trial.point(TOLERANCE)
    assert (point.load_pps, point.duration_s, point.loss_ratio, point.exact) == (1e6, 60.0, 0.1, True)
    assert (trial.marks, trial.saved_s) == ((), 0.0)


def test_of_a_stopped_trial_only_what_is_certain_of_the_whole_one_is_told():
    trial = kept(Simulation(Dut(capacity_pps=9e5)), offer(allowed=0))
    assert (trial.stopped_early_s, trial.lost_frames, trial.loss_ratio) == (0.1, 10_000, 0.1)
    assert trial.saved_s == pytest.approx(59.9)
    told = trial.told(NextTrial(1e6, 60.0), TOLERANCE)
    assert told == LoadOutcome(NextTrial(1e6, 60.0), 60_150_008, 60_150_008, 10_000)
    point = trial.point(TOLERANCE)
    assert (point.exact, point.loss_ratio) == (False, told.loss_ratio) and point.loss_ratio < 0.001
    assert classify([point], RFC2544) is LoadVerdict.UPPER
    assert classify([point], PDR_01) is LoadVerdict.UNDECIDED


def test_frames_that_were_not_sent_count_as_lost_for_the_search_and_say_nothing_of_the_device():
    trial = kept(Simulation(Dut(capacity_pps=1e9), reach_pps=8e5), offer())
    assert trial.marks == (Mark.STARVED,)
    assert trial.told(NextTrial(1e6, 60.0), TOLERANCE).loss_ratio == pytest.approx(0.2)
    assert trial.point(TOLERANCE).exact is False
    assert classify([trial.point(TOLERANCE)], RFC2544) is LoadVerdict.UNDECIDED
    trial = kept(Simulation(Dut(capacity_pps=7e5), reach_pps=8e5), offer())
    assert trial.marks == (Mark.STARVED,)
    assert classify([trial.point(TOLERANCE)], RFC2544) is LoadVerdict.UPPER, "what it loses below the rate it loses at it too"


def test_a_loss_ratio_that_is_told_is_never_above_one():
    def slow_and_lost(outcome):
        (flow,) = outcome.flows
        return Outcome((replace(flow, sent_seconds=120.0, received_frames=0, lost_frames=flow.sent_frames),))

    trial = kept(Simulation(Dut(capacity_pps=1e9)), offer(), slow_and_lost)
    assert Mark.STARVED in trial.marks
    assert trial.told(NextTrial(1e6, 60.0), TOLERANCE).loss_ratio == 1.0


def test_a_rate_missed_by_less_than_the_tolerance_or_before_a_stop_was_reached():
    assert kept(Simulation(Dut(capacity_pps=1e9), reach_pps=0.998e6), offer()).marks == ()
    assert kept(Simulation(Dut(capacity_pps=1e9), reach_pps=0.997e6), offer()).marks == (Mark.STARVED,)
    # A generator that was stopped before it reached the rate is not called slow.
    trial = kept(Simulation(Dut(capacity_pps=1e5), reach_pps=8e5), offer(allowed=0))
    assert trial.stopped_early_s == 0.1
    assert trial.marks == ()


def test_a_link_from_which_next_to_nothing_came_back_is_marked():
    def one_silent(outcome):
        a, b = outcome.flows
        return Outcome((a, replace(b, received_frames=0, lost_frames=b.sent_frames)))

    assert kept(Simulation(Dut(capacity_pps=1e9)), offer(links=("a", "b")), one_silent).marks == (Mark.SILENT,)
    assert kept(Simulation(Dut(capacity_pps=999.0)), offer()).marks == (Mark.SILENT,)
    assert kept(Simulation(Dut(capacity_pps=1001.0)), offer()).marks == ()


def test_what_is_written_down_has_units_in_its_names():
    row = kept(Simulation(Dut(capacity_pps=1e9)), offer()).row(TOLERANCE)
    assert (row["load_pps"], row["duration_s"], row["received_frames"], row["loss_ratio"], row["allowed_frames"]) == (
        1e6,
        60,
        60_000_000,
        0,
        None,
    )
    assert (row["role"], row["counts"], row["exact"], row["marks"], row["detail"]) == ("search", "no", "yes", "", "")
    plain = {"number", "role", "counts", "marks", "detail", "exact"}
    assert all(name.rpartition("_")[2] in ("pps", "s", "frames", "ratio") for name in row.keys() - plain)
