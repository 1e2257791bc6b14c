"""The MLRsearch library, asked one trial at a time."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.errors import MeasurementError
from dutlab.methods.ports import Offer, Outcome
from dutlab.methods.search.mlrsearch import Bounds, Library, LoadOutcome, NextTrial
from dutlab.methods.search.trial import Mark, Role, trial_of
from dutlab.spec.goals import PRESETS
from dutlab.spec.mixes import frame_mix
from dutlab.stats.definitions import PDR_01, RFC2544
from dutlab.stats.rescore import LoadVerdict, classify
from simulated import Dut, Simulation

CSIT = PRESETS["csit"]


def threads():
    return [t for t in threading.enumerate() if t.name == "mlrsearch"]


async def run(library, loss_ratio, most=10_000):
    step, asked = await library.first(), []
    while isinstance(step, NextTrial):
        asked.append(step)
        assert len(asked) < most
        frames = math.ceil(step.load * step.duration)
        step = await library.tell(LoadOutcome(step, frames, frames, round(frames * loss_ratio(step.load))))
    return step, asked


@pytest.mark.parametrize(("loss", "bounds"), [(1.0, Bounds(None, 1e3)), (0.0, Bounds(1e6, None))])
async def test_all_or_nothing_has_one_bound(loss, bounds):
    with Library(CSIT, lowest=1e3, highest=1e6) as library:
        found, _ = await run(library, lambda _: loss)
    assert set(found.values()) == {bounds}


async def test_leaving_a_search_in_its_middle_ends_its_thread():
    with Library(CSIT, lowest=1e3, highest=1e6) as library:
        assert isinstance(await library.first(), NextTrial)
        assert len(threads()) == 1
    assert not threads()
    with Library(CSIT, lowest=1e3, highest=1e6):
        pass  # never begun
    assert not threads()


async def test_what_the_library_raises_is_told_as_a_search_that_gave_up(monkeypatch):
    with Library(CSIT, lowest=1e3, highest=1e6) as library:

        def fails(*_, **__):
            raise RuntimeError("Internal error: load outside limits")

        monkeypatch.setattr("MLRsearch.MultipleLossRatioSearch.search", fails)
        with pytest.raises(MeasurementError, match="Internal error"):
            await library.first()


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_the_loss_ratio_that_is_told_is_the_one_that_the_library_reads(asked, sent, lost):
    told = LoadOutcome(NextTrial(1.0, 1.0), asked, sent, lost)
    from MLRsearch import MeasurementResult  # noqa: PLC0415 -- slow to load below a test

    theirs = MeasurementResult(1.0, 1.0, intended_count=asked, offered_count=sent, loss_count=lost)
    assert told.loss_ratio == theirs.loss_ratio


@settings(max_examples=40)
@given(st.floats(20, 1e9), st.floats(1e-4, 0.9), st.floats(0, 2), st.sampled_from(sorted(PRESETS)))
async def test_no_range_and_no_limit_brings_the_library_to_a_halt(highest, share, limit, preset):
    with Library(PRESETS[preset], lowest=highest * share, highest=highest) as library:
        bounds, _ = await run(library, lambda load: max(0.0, 1 - limit * highest / load))
    for found in bounds.values():
        assert found.lower is not None or found.upper is not None
        if found.lower and found.upper:
            assert found.lower < found.upper


# ---- One trial of a search: its marks, what the search is told of it, what definitions see of it


MIX = frame_mix(64)
TOLERANCE = 0.0025


def offer(rate=1e6, seconds=60.0, allowed=None, links=("a",)):
    return Offer(links, MIX, rate, seconds, stop_after_lost=allowed)


def kept(simulation, asked, change=lambda outcome: outcome):
    return trial_of(asked, change(simulation.trial(asked)), number=1, role=Role.SEARCH, tolerance=TOLERANCE)


def test_a_trial_in_full_is_told_as_it_was():
    trial = kept(Simulation(Dut(capacity_pps=9e5)), offer())
    assert trial.load_outcome(NextTrial(1e6, 60.0), TOLERANCE) == LoadOutcome(NextTrial(1e6, 60.0), 60_000_000, 60_000_000, 6_000_000)
    point = trial.point(TOLERANCE)
    assert (point.load_pps, point.duration_s, point.loss_ratio, point.exact) == (1e6, 60.0, 0.1, True)
    assert (trial.marks, trial.saved_s) == ((), 0.0)


def test_of_a_stopped_trial_only_what_is_certain_of_the_whole_one_is_told():
    trial = kept(Simulation(Dut(capacity_pps=9e5)), offer(allowed=0))
    assert (trial.stopped_early_s, trial.lost_frames, trial.loss_ratio) == (0.1, 10_000, 0.1)
    assert trial.saved_s == pytest.approx(59.9)
    told = trial.load_outcome(NextTrial(1e6, 60.0), TOLERANCE)
    assert told == LoadOutcome(NextTrial(1e6, 60.0), 60_150_008, 60_150_008, 10_000)
    point = trial.point(TOLERANCE)
    assert (point.exact, point.loss_ratio) == (False, told.loss_ratio) and point.loss_ratio < 0.001
    assert classify([point], RFC2544) is LoadVerdict.UPPER
    assert classify([point], PDR_01) is LoadVerdict.UNDECIDED


def test_frames_that_were_not_sent_count_as_lost_for_the_search_and_say_nothing_of_the_device():
    trial = kept(Simulation(Dut(capacity_pps=1e9), reach_pps=8e5), offer())
    assert trial.marks == (Mark.STARVED,)
    assert trial.load_outcome(NextTrial(1e6, 60.0), TOLERANCE).loss_ratio == pytest.approx(0.2)
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
    assert trial.load_outcome(NextTrial(1e6, 60.0), TOLERANCE).loss_ratio == 1.0


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
