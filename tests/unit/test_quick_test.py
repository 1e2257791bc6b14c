"""A quick test: the search of its goals, the latency at half of what it found, and what is said where there is no half."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dutlab.methods.ports import Bench
from dutlab.methods.quick_test import measure
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.quick_test import QuickTestWorkload
from dutlab.units import BpsL1
from queueing import OWN_WAY_NS, Queueing
from simulated import Dut


def cell(**keys):
    (setting,) = QuickTestWorkload.model_validate({"frame_sizes": [64], "links": [["a"]], **keys}).drives(["a"])
    return Cell(mode="as-found", factors={"mode": "as-found"}, tool="engine", links=setting.links, setting=setting.setting, repeat=1)


def run(generator, of=None):
    return asyncio.run(measure(Bench(generator, {"a": BpsL1(1e9)}), of or cell()))


def test_the_last_trial_is_at_half_of_the_rate_without_loss_and_its_latency_is_the_devices():
    generator = Queueing(Dut(capacity_pps=100_000.0))
    found = run(generator)
    figures = found.figures["a"]
    assert figures["ndr/lower_pps"] == pytest.approx(100_000, rel=0.021) and figures["ndr/lower_pps"] <= 100_000
    assert generator.seen[-1].rate == figures["half/load_pps"] == figures["ndr/lower_pps"] / 2
    assert generator.seen[-1].duration == 5.0
    # M/D/1 at a load of a half: half a service of 10 000 ns is waited
    assert figures["half/latency_p50_ns"] == pytest.approx(OWN_WAY_NS + 5000, rel=0.01)
    assert figures["half/loss_ratio"] == 0.0
    assert [f.link for f in found.flows] == ["a"]


def test_a_device_that_loses_a_little_at_any_rate_has_a_pdr_and_no_half_load():
    generator = Queueing(Dut(capacity_pps=100_000.0, random_loss=0.002))
    found = run(generator)
    figures = found.figures["a"]
    assert "ndr/lower_pps" not in figures and figures["pdr/lower_pps"] == pytest.approx(100_000, rel=0.03)
    assert not [name for name in figures if name.startswith("half")]
    assert any(note.startswith("no latency at half load") for note in found.notes)


def test_a_scale_shortens_every_trial_and_is_said():
    generator = Queueing(Dut(capacity_pps=100_000.0))
    found = run(generator, cell(scale=0.1))
    assert max(offer.duration for offer in generator.seen) == pytest.approx(0.5)
    assert max(offer.warmup for offer in generator.seen) == pytest.approx(0.05)
    assert any("every duration is 0.1" in note for note in found.notes)
    assert not any("every duration" in note for note in run(Queueing(Dut(capacity_pps=100_000.0))).notes)


@pytest.mark.parametrize("keys", [{"scale": 0.01}, {"scale": 2}, {"budget": "0s"}, {"latency": "0s"}])
def test_times_that_cannot_be_kept_are_refused(keys):
    with pytest.raises(ValueError, match="must be"):
        cell(**keys)


def test_half_a_load_that_was_not_made_has_no_figures():
    def short(number, flow):
        half = flow.sent_frames // 2
        last = number == whole
        return replace(flow, sent_frames=half, received_frames=half, refused_frames=flow.intended_frames - half) if last else flow

    searching = Queueing(Dut(capacity_pps=100_000.0))
    run(searching)
    whole = len(searching.seen) - 1
    figures = run(Queueing(Dut(capacity_pps=100_000.0), change=short)).figures["a"]
    assert "ndr/lower_pps" in figures and not [name for name in figures if name.startswith("half/")]
