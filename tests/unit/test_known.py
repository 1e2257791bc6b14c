"""What must be found of known devices: by simulations that behave, and by such as do not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dutlab.methods.known import BURST, CASES, POLICED_PPS, Known
from dutlab.methods.ports import Bench, Latency
from simulated import Dut, Simulation

BY_NAME = {case.name: case for case in CASES}


class Count:
    def __init__(self, frames):
        self.frames = frames

    async def wronged(self):
        return self.frames


def measured(name, simulation, wronged=0):
    return asyncio.run(BY_NAME[name].measure(Bench(simulation), Count(wronged)))


def loses(frames):
    return Simulation(Dut(1e12), change=lambda _, f: replace(f, lost_frames=frames, received_frames=f.sent_frames - frames))


def test_of_ten_thousand_frames_a_device_that_drops_every_seventh_loses_1428():
    assert [(k.figure, k.expected, k.holds) for k in measured("drops", loses(1428), 1428)] == [
        ("lost_frames", 1428, True),
        ("wronged_frames", 1428, True),
    ]


def test_one_frame_more_or_less_is_off():
    assert not measured("drops", loses(1429), 1428)[0].holds
    assert not measured("drops", loses(1427), 1428)[0].holds
    assert not measured("drops", loses(1428), 1427)[1].holds


@pytest.mark.parametrize(
    ("name", "field", "frames"),
    [("duplicates", "duplicated_frames", 909), ("swaps", "reordered_frames", 1000), ("corrupts", "corrupted_frames", 2000)],
)
def test_each_wrong_is_read_from_its_own_count(name, field, frames):
    right = Simulation(Dut(1e12), change=lambda _, f: replace(f, **{field: frames}))
    assert [k.holds for k in measured(name, right, frames)] == [True, True]
    assert not measured(name, Simulation(Dut(1e12)), frames)[0].holds


@pytest.mark.parametrize(("median_ns", "holds"), [(300_000, True), (320_000, True), (320_001, False), (279_999, False)])
def test_a_delay_holds_within_20_microseconds(median_ns, holds):
    latency = Latency(500, median_ns, median_ns, median_ns, median_ns, median_ns, median_ns, median_ns)
    assert [k.holds for k in measured("holds", Simulation(Dut(1e12), change=lambda _, f: replace(f, latency=latency)))] == [holds]


def test_without_a_latency_the_delay_is_off_and_says_why():
    (known,) = measured("holds", Simulation(Dut(1e12)))
    assert (known.holds, known.found, known.why) == (False, None, "the engine gave no latency")


def test_a_burst_holds_to_the_frame():
    queue = Simulation(Dut(0.0, buffer_frames=BURST), reach_pps=1e6)
    assert [(k.found, k.holds) for k in measured("burst", queue)] == [(BURST, True)]
    larger = Simulation(Dut(0.0, buffer_frames=BURST + 1), reach_pps=1e6)
    assert not measured("burst", larger)[0].holds


def test_a_generator_that_cannot_fill_the_queue_proves_nothing():
    (known,) = measured("burst", Simulation(Dut(1e12), reach_pps=1000.0))
    assert (known.holds, known.found) == (False, None)


def test_a_search_finds_the_rate_of_a_policer_with_its_bucket():
    (known,) = measured("polices", Simulation(Dut(POLICED_PPS, buffer_frames=200)))
    assert known.expected == 2100  # 2000 a second, and 200 frames spread over trials of 2 s
    assert known.holds, known
    (wrong,) = measured("polices", Simulation(Dut(POLICED_PPS * 0.98, buffer_frames=200)))
    assert not wrong.holds


def test_a_device_through_which_nothing_comes_is_off_not_an_accident():
    assert not measured("polices", Simulation(Dut(1e12), deaf_from=0))[0].holds


def test_what_was_not_found_never_holds():
    assert not Known("d", "m", "f", 0, None, 1e9).holds
