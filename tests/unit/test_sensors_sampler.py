"""Readings of one core a second, turned into samples."""

from __future__ import annotations

import pytest

from dutlab.runner.trial import doubts_of
from dutlab.sensors.cores import samples
from dutlab.sensors.sensor import WATCH_COST, Sample, Watched
from dutlab.systems.linux_proc import parse_reading
from dutlab.systems.watched import CpuReading


def turn(uptime: float, *, softirq: int, idle: int, processed: int, own: str = "0m0.0s") -> CpuReading:
    return parse_reading(
        f"\x1euptime\n{uptime:.2f} 0.00\n\x1estat\ncpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 {idle} 0 0 {softirq} 0 0 0\nctxt 5\n"
        f"\x1esoftnet\n{processed:08x} 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n\x1eown\n{own} 0m0.0s\n0m0.0s 0m0.0s\n\x1eend\n"
    )


def test_each_sample_is_the_mean_since_the_reading_before() -> None:
    found = list(samples([turn(100.0, softirq=0, idle=0, processed=0), turn(102.0, softirq=150, idle=50, processed=5000)], host="dut"))
    assert Sample(2.0, "dut", "cpu", "cpu0_softirq_percent", "%", 75.0) in found
    assert Sample(2.0, "dut", "cpu", "cpu0_idle_percent", "%", 25.0) in found
    assert Sample(2.0, "dut", "cpu", "cpu0_softnet_processed_per_s", "/s", 2500.0) in found
    # One reading makes no sample.
    assert list(samples([turn(1.0, softirq=0, idle=0, processed=0)], host="dut")) == []
    assert list(samples([], host="dut")) == []
    # A packet counter that wrapped is put right.
    found = samples([turn(1.0, softirq=0, idle=0, processed=2**32 - 100), turn(2.0, softirq=1, idle=99, processed=100)], host="dut")
    assert next(s.value for s in found if s.name == "cpu0_softnet_processed_per_s") == pytest.approx(200.0)


def test_times_count_from_the_trials_start() -> None:
    readings = [turn(100.0 + s, softirq=50 * s, idle=50 * s, processed=s) for s in range(4)]
    assert sorted({s.t_s for s in samples(readings, host="dut")}) == [1.0, 2.0, 3.0]
    assert sorted({s.t_s for s in samples(readings, host="dut", ahead_s=1.5)}) == [-0.5, 0.5, 1.5]


def test_the_loop_tells_what_it_takes_of_its_core_and_more_than_a_percent_is_a_doubt() -> None:
    first, then = (turn(s, softirq=0, idle=100, processed=0, own=own) for s, own in ((1.0, "1m0.25s"), (3.0, "1m0.29s")))
    (cost,) = [s for s in samples([first, then], host="dut") if s.name == WATCH_COST]
    assert (cost.sensor, cost.value) == ("cpu", pytest.approx(2.0))
    # Watching is a doubt where it costs more than a percent of a core.
    dear, cheap = (Watched([Sample(1.0, "dut", "cpu", WATCH_COST, "%", value)]) for value in (1.5, 0.2))
    assert [d.kind.name for d in doubts_of(dear)] == ["WATCHING_COSTS"]
    assert doubts_of(cheap) == doubts_of(Watched()) == []
