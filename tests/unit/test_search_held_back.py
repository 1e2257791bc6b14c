"""A DUT whose port does not take what it would lose (the full ring of a veth pair) against a generator that is too slow."""

from __future__ import annotations

import pytest

from dutlab.doubts import DoubtKind
from dutlab.methods.ledger import doubts_of, failed_frames, made_frames
from dutlab.methods.ports import Offer
from dutlab.methods.search.method import find
from dutlab.methods.search.mlrsearch import NextTrial
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import Irregular
from dutlab.methods.search.trial import Mark, Role, trial_of
from dutlab.spec.goals import PRESETS
from dutlab.spec.mixes import frame_mix
from simulated import LINE_PPS, Dut, Simulation, any_dut

MIX = frame_mix(64)


def asked(preset="csit", highest=LINE_PPS):
    return Search(("a",), MIX, PRESETS[preset], highest)


def test_frames_that_the_dut_did_not_take_were_made_and_failed():
    offer = Offer(("a",), MIX, 1e6, 1.0)
    (flow,) = Simulation(Dut(capacity_pps=4e5), held_back=True, reach_pps=9e5).trial(offer).flows
    assert flow.balances
    assert (flow.intended_frames, flow.sent_frames, flow.backpressure_frames, flow.lost_frames) == (1_000_000, 400_000, 500_000, 0)
    assert (made_frames(flow), failed_frames(flow)) == (900_000, 500_000)
    (starved,) = doubts_of(offer, flow)
    assert starved.kind is DoubtKind.TX_STARVED
    (flow,) = Simulation(Dut(capacity_pps=4e5), held_back=True).trial(offer).flows
    assert not doubts_of(offer, flow)  # the generator made them all


def test_a_trial_whose_frames_were_not_taken_is_told_as_one_that_lost_them():
    offer, ask = Offer(("a",), MIX, 1e6, 1.0), NextTrial(1e6, 1.0)
    lost, refused = (
        trial_of(offer, Simulation(Dut(capacity_pps=4e5), held_back=how).trial(offer), number=1, role=Role.SEARCH, tolerance=0.0025)
        for how in (False, True)
    )
    assert refused.backpressure_frames == lost.lost_frames == 600_000
    assert refused.load_outcome(ask, 0.0025) == lost.load_outcome(ask, 0.0025)
    assert refused.point(0.0025) == lost.point(0.0025)
    assert refused.marks == ()
    # A dut that takes nothing is silent and no contradiction.
    offer = Offer(("a",), MIX, 1e6, 1.0)
    outcome = Simulation(Dut(capacity_pps=1e6), held_back=True, deaf_from=0).trial(offer)
    assert trial_of(offer, outcome, number=1, role=Role.SEARCH, tolerance=0.0025).marks == (Mark.SILENT,)


@pytest.mark.parametrize("seed", range(4))
async def test_the_limit_is_the_same_whether_the_dut_loses_frames_or_does_not_take_them(seed):
    lost = await find(Simulation(any_dut(seed), seed), asked())
    refused = await find(Simulation(any_dut(seed), seed, held_back=True), asked())
    assert refused.results == lost.results
    assert [(t.load_pps, t.stopped_early_s) for t in refused.trials] == [(t.load_pps, t.stopped_early_s) for t in lost.trials]


async def test_a_slow_generator_before_a_dut_that_takes_all_is_the_limit_and_a_dut_that_does_not_is():
    slow = await find(Simulation(Dut(capacity_pps=1e9), held_back=True, reach_pps=3e6), asked("rfc2544"))
    assert slow.results["throughput"].irregular == (Irregular.GENERATOR,)
    held = await find(Simulation(Dut(capacity_pps=1e6), held_back=True, reach_pps=3e6), asked("rfc2544"))
    assert held.results["throughput"].regular
    assert held.results["throughput"].lower_pps <= 1e6 < held.results["throughput"].upper_pps
    # Without a highest rate the search goes to twice what the dut took.
    found = await find(Simulation(Dut(capacity_pps=1e6), held_back=True, reach_pps=9e6), asked(highest=None))
    assert found.highest_pps == pytest.approx(2e6), "twice what the DUT took at full speed"
    assert all(r.regular for r in found.results.values())
