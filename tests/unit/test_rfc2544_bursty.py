"""Bursty traffic (RFC 2544 section 21) on a simulated DUT whose buffer and capacity are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dutlab.methods.ports import Bench, Offer
from dutlab.methods.rfc2544 import suite
from dutlab.plan.cell import Cell
from dutlab.spec.generators import ENGINE, GENERATORS
from dutlab.spec.links import Port
from dutlab.spec.mixes import frame_mix
from dutlab.spec.shape import LinkBounds
from dutlab.spec.workloads.rfc2544 import Rfc2544Workload
from dutlab.tools.engine.load import Direction, EngineLoad
from dutlab.units import BpsL1, Pps, Seconds, line_rate
from simulated import Dut, Simulation

CAPACITY, BUFFER = 400_000, 200
HIGHEST = line_rate(BpsL1(1e9), 64)


class Buffered(Simulation):
    """A burst of n frames at the highest rate leaves n x (1 - capacity / highest rate) of them waiting: more than the buffer holds are lost."""

    async def offer(self, offer: Offer):
        outcome = await super().offer(offer)
        over = offer.burst_frames * (1 - CAPACITY / HIGHEST) - BUFFER
        if over <= 0:
            return outcome
        lost = max(1, round(over))
        flows = [replace(f, lost_frames=f.lost_frames + lost, received_frames=f.received_frames - lost) for f in outcome.flows]
        return replace(outcome, flows=tuple(flows))


async def no_sleep(_):
    """Time is nobody's here."""


async def test_bursts_that_the_buffer_holds_may_follow_as_fast_as_the_dut_forwards_and_larger_ones_never():
    workload = Rfc2544Workload.model_validate({"links": [["a"]], "frame_sizes": [64], "tests": ["bursty"], "scale": 0.05})
    (setting,) = workload.drives(["a"])
    cell = Cell(mode="router", factors={}, tool="engine", links=("a",), setting=setting.setting, repeat=1)
    generator = Buffered(Dut(CAPACITY))
    found = await suite.measure(Bench(generator, {"a": BpsL1(1e9)}), cell, sleep=no_sleep)
    assert {o.burst_frames for o in generator.offers} == {16, 64, 256, 1024}
    for frames in (16, 64, 256):  # 256 x (1 - 400 000 / 1 488 095) = 187 wait, 1024 leave 749
        expected_ns = (frames / CAPACITY - frames / HIGHEST) * 1e9
        assert found.figures["a"][f"{frames}/between_bursts_ns"] == pytest.approx(expected_ns, rel=0.01)
    assert "1024/between_bursts_ns" not in found.figures["a"]
    assert "bursts of 1024 frames: no distance without loss was found (§21)" in found.notes
    assert [row["burst_frames"] for row in found.tables["bursty"]] == [16, 64, 256, 1024]
    assert not [row for row in found.tables["deviations"] if str(row["text"]).startswith("§21")]


def test_bursts_are_asked_for_in_the_engines_words_and_of_generators_that_can():
    port = Port(host="source", interface="p")
    direction = Direction("a", "a", port, port, "198.18.1.2", "198.19.1.2", "02:00:00:00:00:01", 49152, isolated=False)
    offer = Offer(("a",), frame_mix(64), Pps(1000), Seconds(1), burst_frames=64)
    assert EngineLoad(offer).send_plan(direction, 1)["streams"][0]["rate"] == {"bursts_at": {"frames": 64, "pps": 1000}}
    assert EngineLoad(replace(offer, rate=None)).send_plan(direction, 1)["streams"][0]["rate"] == {"max": True}
    _, beside = EngineLoad(replace(offer, broadcast_ratio=0.01)).send_plan(direction, 1, 2)["streams"]
    assert beside["rate"] == {"pps": 10}
    assert "bursty" not in Rfc2544Workload.model_validate({}).tests
    asked = Rfc2544Workload.model_validate({"tests": ["bursty"]})
    assert not list(asked.beyond(ENGINE, {"a": LinkBounds()}))
    for kind in set(GENERATORS) - {"engine"}:
        generator = GENERATORS[kind].model_validate({})
        assert any("frames in bursts" in what for _, what in asked.beyond(generator, {"a": LinkBounds()})), kind
