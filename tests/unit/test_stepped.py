"""A ramp of a generator that cannot ramp: the same answer as of one that can, and a doubt that says how."""

from __future__ import annotations

import asyncio

import pytest

from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.methods.loadtest import measure
from dutlab.methods.ports import Bench, Offer, Stretch
from dutlab.spec.mixes import frame_mix
from dutlab.spec.traffic import Directions
from dutlab.tools.generators.stepped import Stepped, rates_of
from dutlab.units import Pps, Seconds
from simulated import Dut, Simulation

RAMP = (Stretch(Seconds(10.0), Pps(0.0), Pps(100_000.0)),)


class Rated(Simulation):
    """A simulation that refuses profiles, and has what a generator tool has."""

    async def offer(self, offer):
        assert not offer.profile
        return await super().offer(offer)

    async def check(self):
        return "1.0"

    async def close(self):
        pass


def offered(offer):
    inner = Rated(Dut(capacity_pps=60_000.0))
    return inner, asyncio.run(Stepped(inner).offer(offer))


def test_each_second_has_the_mean_rate_of_the_ramp_in_it_and_what_is_no_ramp_stays():
    assert rates_of(RAMP, 12) == pytest.approx(
        [5_000, 15_000, 25_000, 35_000, 45_000, 55_000, 65_000, 75_000, 85_000, 95_000, 100_000, 100_000]
    )
    assert rates_of((Stretch(Seconds(5.0), Pps(0.0), Pps(0.0)),), 2) == [1.0, 1.0], "nothing cannot be asked for"
    # What is no ramp goes through unchanged.
    offer = Offer(("a",), frame_mix(64), Pps(1000.0), Seconds(3.0))
    inner, outcome = offered(offer)
    assert inner.offers == [offer] and not outcome.doubts


def test_the_steps_are_added_up_and_read_once_a_second():
    offer = Offer(("a",), frame_mix(64), None, Seconds(10.0), profile=RAMP, directions=Directions.BOTH)
    inner, outcome = offered(offer)
    assert [o.rate for o in inner.offers] == pytest.approx(rates_of(RAMP, 10))
    assert all(o.duration == 1.0 and o.drain <= 0.2 for o in inner.offers[:-1]) and inner.offers[-1].drain == offer.drain
    assert [f.link for f in outcome.flows] == ["a", "a.back"]
    for flow in outcome.flows:
        assert flow.balances
        assert flow.sent_frames == pytest.approx(500_000, abs=10) and flow.sent_seconds == pytest.approx(10.0)
        assert flow.lost_frames == pytest.approx(5_000 + 15_000 + 25_000 + 35_000, rel=0.01), "above 60 000 a second everything is lost"
        lost = [r.value for r in outcome.readings if (r.link, r.name) == (flow.link, "lost_pps")]
        assert lost == pytest.approx([0] * 6 + [5_000, 15_000, 25_000, 35_000], abs=50)
    assert [d.kind for d in outcome.doubts] == [DoubtKind.STEPPED]
    at = [r.at_s - outcome.began_s for r in outcome.readings if (r.link, r.name) == ("a", "offered_pps")]
    assert at == pytest.approx(range(1, 11), abs=1e-3)


def test_a_load_test_finds_the_same_saturation_by_steps_as_by_a_ramp():
    params = {
        "frame_size": 64, "frame_mix": "64:1", "directions": "forward", "warmup_pps": 1000.0, "warmup_s": 2.0, "target_percent": 10.0,
        "rampup_s": 30.0, "hold_s": 3.0, "line_rate_bps_l1": 1e9, "threshold_percent": 0.1, "drain_s": 0.5,
    }  # fmt: skip
    cell = cell_of("loadtest", **params)
    dut = Dut(capacity_pps=80_000.0)
    smooth = asyncio.run(measure(Bench(Simulation(dut)), cell)).figures["a"]
    steps = asyncio.run(measure(Bench(Stepped(Rated(dut))), replace_tool(cell)))
    assert steps.figures["a"]["saturation_s"] == pytest.approx(smooth["saturation_s"], abs=1.0)
    assert steps.figures["a"]["max_received_pps"] == pytest.approx(smooth["max_received_pps"], rel=0.01)
    assert {d.kind for d in steps.doubts} == {DoubtKind.STEPPED}


def replace_tool(cell):
    return cell.model_copy(update={"tool": "trafgen"})
