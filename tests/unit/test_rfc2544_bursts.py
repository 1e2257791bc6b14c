"""Back-to-back frames on a simulated DUT whose buffer is known (RFC 2544 section 26.4, RFC 9004)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.errors import MeasurementError
from dutlab.methods.rfc2544 import back_to_back
from dutlab.spec.mixes import frame_mix
from dutlab.units import Pps
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
    assert found.notes == [
        "bursts of 0.3 s came through, so the limit was raised to 1.2 s",
        "bursts of 1.2 s came through: the buffer is larger than found",
    ]


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
