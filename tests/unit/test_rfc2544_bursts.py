"""Back-to-back frames on a simulated DUT whose buffer is known (RFC 2544 section 26.4, RFC 9004)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.errors import MeasurementError
from dutlab.methods.ports import Bench, Offer
from dutlab.methods.rfc2544 import back_to_back, suite
from dutlab.plan.cell import Cell
from dutlab.spec.generators import ENGINE, GENERATORS
from dutlab.spec.links import Port
from dutlab.spec.mixes import frame_mix
from dutlab.spec.shape import LinkBounds
from dutlab.spec.workloads.rfc2544 import Rfc2544Workload
from dutlab.tools.engine.load import Direction, EngineLoad
from dutlab.units import BpsL1, Pps, Seconds, line_rate
from rfc2544_context import MAX, stand
from simulated import Dut, Simulation
from simulated_memory import Remembering


@settings(max_examples=15)
@given(buffer=st.integers(64, 60_000), capacity=st.floats(100_000, 900_000), held_back=st.booleans())
def test_the_corrected_buffer_time_is_that_of_the_buffer(buffer, capacity, held_back):
    """RFC 9004: a burst of n frames at rate R leaves n (1 - C/R) frames in the buffer, so corrected time x R is the buffer."""
    generator = Simulation(Dut(capacity, buffer_frames=buffer), held_back=held_back)
    found = asyncio.run(back_to_back.measure(stand(generator), Pps(capacity)))
    frames = found.figures["buffer_corrected_ns"] / 1e9 * MAX
    assert frames == pytest.approx(buffer, rel=back_to_back.RESOLUTION * 2, abs=2)
    assert found.figures["burst_stddev_frames"] == 0
    assert found.figures["burst_mean_frames"] == pytest.approx(buffer / (1 - capacity / MAX), rel=0.02, abs=2)


async def test_bursts_are_not_preceded_by_load_and_left_out_at_line_rate():
    generator = Simulation(Dut(500_000, buffer_frames=100))
    await back_to_back.measure(stand(generator), Pps(500_000))
    assert {o.warmup for o in generator.offers} == {0.0}
    found = await back_to_back.measure(stand(Simulation(Dut(2e6))), MAX)
    assert not found.rows
    assert "RFC 9004 section 6.1" in found.notes[0]


async def test_a_buffer_larger_than_the_longest_burst_is_a_lower_limit():
    found = await back_to_back.measure(stand(Simulation(Dut(500_000, buffer_frames=1e9)), scale=0.01), Pps(500_000))
    assert found.rows[0] == {"repeat": 1, "burst_frames": 1_200_000, "lost_from_frames": None}
    assert [re.findall(r"[\d.]+ s\b", note) for note in found.notes] == [["0.3 s", "1.2 s"], ["1.2 s"]], "the limit is raised once"


@pytest.mark.parametrize("seconds", [0.5, 2.0, 4.0, 40.0])
async def test_a_buffer_is_found_however_long_it_takes_to_empty(seconds):
    """Corrected time is that of the buffer at the highest rate; half of that rate empties it, in twice as long as that."""
    generator = Remembering(Dut(MAX / 2, buffer_frames=seconds * MAX))
    found = await back_to_back.measure(stand(generator, burst_repeats=1), Pps(MAX / 2))
    assert found.figures["buffer_corrected_ns"] == pytest.approx(seconds * 1e9, rel=2 * back_to_back.RESOLUTION)
    assert bool(found.notes) == (seconds > 15.0), "a burst of 30 s fills a buffer of 15 s; larger ones need the higher limit"


async def test_bursts_of_several_frame_sizes_have_no_back_to_back_test():
    of = stand(Simulation(Dut(400_000)))
    found = await back_to_back.measure(replace(of, setting=of.setting.model_copy(update={"frame_size": frame_mix("imix")})), Pps(400_000))
    assert not found.rows and not found.figures
    assert "frames of one size" in found.notes[0]


@pytest.mark.parametrize("made", [0.8, 0.51, 0.49])
async def test_a_burst_that_was_not_made_is_no_whole_burst(made):
    """Half of the frames are forwarded, so bursts of a thousand are whole; slower ones never fill the buffer."""
    generator = Simulation(Dut(MAX / 2, buffer_frames=500), reach_pps=MAX * made)
    with pytest.raises(MeasurementError, match="the generator made"):
        await back_to_back.measure(stand(generator), Pps(MAX / 2))


async def test_a_burst_that_the_generator_missed_once_is_offered_again():
    def short(number, flow):
        less = flow.sent_frames // 2
        return (
            replace(flow, sent_frames=less, received_frames=less, refused_frames=less) if number % 5 == 3 and not flow.lost_frames else flow
        )

    generator = Simulation(Dut(MAX / 2, buffer_frames=500), change=short)
    found = await back_to_back.measure(stand(generator), Pps(MAX / 2))
    assert found.figures["burst_mean_frames"] == pytest.approx(1000, rel=0.02)


async def test_a_dut_without_buffer_has_no_burst():
    found = await back_to_back.measure(stand(Simulation(Dut(1000))), Pps(1000))
    assert found.figures["burst_mean_frames"] <= 1
    assert found.figures["buffer_corrected_ns"] < 1001


# ---- Bursty traffic (RFC 2544 section 21) on a simulated DUT whose buffer and capacity are known


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
    assert any("1024 frames" in note and "§21" in note for note in found.notes)
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
