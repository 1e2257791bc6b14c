"""Bounds of devices with memory are tried again at the end; what does not hold is said, and moves no bound."""

from __future__ import annotations

import asyncio

import pytest

from dutlab.doubts import DoubtKind
from dutlab.methods.ports import Bench
from dutlab.methods.rfc2544 import suite
from dutlab.methods.search.account import doubts
from dutlab.methods.search.method import find, measure
from dutlab.methods.search.request import Search
from dutlab.methods.search.trial import Role
from dutlab.plan.cell import Cell
from dutlab.spec.goals import PRESETS
from dutlab.spec.mixes import frame_mix
from dutlab.spec.workloads.rfc2544 import Rfc2544Workload
from dutlab.spec.workloads.search import AgainAtEnd, EarlyStop, SearchWorkload
from dutlab.units import BpsL1
from simulated import LINE_PPS, Dut, Simulation
from simulated_memory import MEMORIES, Memory, Remembering, remembering

MIX = frame_mix(64)


def search(device, **asked):
    wanted = Search(("a",), MIX, PRESETS["rfc2544"], LINE_PPS, **{"again_at_end": AgainAtEnd.BOTH, **asked})
    found = asyncio.run(find(device, wanted))
    return found, found.results["throughput"]


def again(found):
    return [t for t in found.trials if t.role is Role.AGAIN]


@pytest.mark.parametrize("early_stop", list(EarlyStop))
def test_an_upper_bound_of_a_cold_device_that_holds_no_more_is_said(early_stop):
    cold = Remembering(Dut(1e6, buffer_frames=512), memory=Memory(cold_dip=0.3, warm_s=20.0))
    found, result = search(cold, early_stop=early_stop)
    assert result.upper_pps < 0.95e6, "it rests on short trials, from before the device was warm"
    assert len(result.disagreements) == 1, "the upper bound's"
    assert [t.load_pps for t in again(found)] == [result.upper_pps, result.lower_pps]
    assert not any(t.counts for t in again(found)), "the search was over"
    assert DoubtKind.BOUNDS_MOVED in {doubt.kind for doubt in doubts(found, {})}


def test_a_lower_bound_of_a_device_that_has_become_hot_since_is_said():
    hot = Remembering(Dut(1e6, buffer_frames=512), memory=Memory(heat_drop=0.25, heat_s=300.0))
    found, result = search(hot)
    assert [what for what in result.disagreements if "lower bound" in what]
    assert again(found)[-1].load_pps == result.lower_pps, "the lower bound comes last of all"
    hot = Remembering(Dut(1e6, buffer_frames=512), memory=Memory(heat_drop=0.25, heat_s=300.0))
    found, result = search(hot, again_at_end=AgainAtEnd.UPPER)
    assert not [t for t in again(found) if t.load_pps == result.lower_pps], "only what rests on short trials"


def test_steady_devices_agree_and_keep_their_bounds():
    device = Dut(1e6, buffer_frames=512)
    found, result = search(Simulation(device))
    short, of_short = search(Simulation(device), again_at_end=AgainAtEnd.UPPER)
    assert not result.disagreements and (result.lower_pps, result.upper_pps) == (of_short.lower_pps, of_short.upper_pps)
    assert len(found.trials) == len(short.trials) + 1
    assert found.points == short.points, "what is rescored is what the search saw"
    found = asyncio.run(find(Simulation(Dut(1e6)), Search(("a",), MIX, PRESETS["csit"], LINE_PPS, again_at_end=AgainAtEnd.BOTH)))
    assert not again(found), "of goals that allow bad trials"


def test_a_bound_that_the_generator_cannot_offer_again_is_said():
    class Tired(Simulation):
        def trial(self, offer):
            if self.sent_s > 60:
                self.reach_pps = 0.5e6
            return super().trial(offer)

    _, result = search(Tired(Dut(1e6)))
    assert result.disagreements


@pytest.mark.parametrize("kind", MEMORIES)
def test_whatever_a_device_remembers_a_search_ends_and_says_what_its_trials_said(kind):
    found, result = search(remembering(kind, 3, line_pps=LINE_PPS))
    for trial in again(found):
        lost = trial.loss_ratio > 0
        assert any(f"the {'upper' if trial.load_pps == result.upper_pps else 'lower'} bound" in what for what in result.disagreements) == (
            lost is (trial.load_pps == result.lower_pps)
        )


def cell(workload, name):
    (drive,) = workload.drives(["a"])
    assert drive.setting.workload == name
    return Cell(mode="router", factors={"mode": "router"}, tool="engine", links=("a",), setting=drive.setting, repeat=1)


async def no_sleep(_):
    """Time is nobody's here."""


def test_the_suite_tries_both_bounds_of_its_throughput_again_and_doubts_what_moved():
    hot = Remembering(Dut(400_000, buffer_frames=512), memory=Memory(heat_drop=0.25, heat_s=300.0))
    workload = Rfc2544Workload.model_validate({"links": [["a"]], "frame_sizes": [64], "tests": ["throughput"]})
    found = asyncio.run(suite.measure(Bench(hot, {"a": BpsL1(1e9)}), cell(workload, "rfc2544"), sleep=no_sleep))
    assert "the lower bound" in found.tables["throughput"][0]["disagreements"]
    assert [d.about for d in found.doubts if d.kind is DoubtKind.BOUNDS_MOVED] == ["throughput_pps"]


def test_copies_are_a_doubt_of_a_search():
    workload = SearchWorkload.model_validate({"links": [["a"]], "frame_sizes": [64], "preset": "quick"})

    def kinds(share):
        device = Remembering(Dut(400_000), memory=Memory(duplicated_share=share))
        return {d.kind for d in asyncio.run(measure(Bench(device, {"a": BpsL1(1e9)}), cell(workload, "search"))).doubts}

    assert DoubtKind.DUPLICATES in kinds(0.3)
    assert DoubtKind.DUPLICATES not in kinds(0.0)


def test_a_stopped_trial_leaves_the_device_as_it_was_then():
    """The simulation itself: heat follows the time that frames were sent, not the time that was asked for."""

    def heat(obeys):
        device = Remembering(Dut(1e6), obeys=obeys, memory=Memory(heat_drop=0.2, heat_s=30.0))
        search(device, again_at_end=AgainAtEnd.UPPER)
        return device._now.loaded_s

    assert heat(True) < heat(False)
