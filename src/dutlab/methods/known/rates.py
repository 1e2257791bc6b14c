"""Policer as a test device: the results of each method that finds rates, and the burst that its bucket takes.

A trial of T seconds begins with a full bucket of d frames: it refills within d ÷ r seconds, and the pause between two trials is longer.
With r frames a second, rates up to r + d ÷ T pass completely. Of a higher rate R, r + d ÷ T pass and the rest is lost. A burst at R passes
completely up to d ÷ (1 - r ÷ R) frames, since the bucket keeps refilling (RFC 9004 section 6).
"""

from __future__ import annotations

from dataclasses import replace

from dutlab.choices import Benchmark
from dutlab.methods import loadtest
from dutlab.methods.known.case import DRAINED, FRAME, LINK, Case, FaultyDevice, Known, found_by, policed, policer
from dutlab.methods.ports import NO_TIME, Bench
from dutlab.methods.rfc2544 import back_to_back, suite
from dutlab.methods.rfc2544.deviations import BURST_LIMIT_S
from dutlab.methods.search import method as search
from dutlab.spec.goals import Goal
from dutlab.spec.workloads.loadtest import LoadtestSetting
from dutlab.spec.workloads.rfc2544 import Rfc2544Setting
from dutlab.spec.workloads.search import SearchSetting
from dutlab.stats.rescore import LOSS_THRESHOLD
from dutlab.units import ETH_L1_OVERHEAD_BYTES, BpsL1, Pps, Seconds

POLICED_PPS, POLICED_DEPTH, POLICED_S = 2000, 200, Seconds(2.0)
WITHIN = 0.005
"""Tolerance as a share of the asked rate; the width of the search is half as large."""
_WIDTH = 0.0025

SUITE_SCALE, SUITE_S = 0.02, 60 * 0.02
BURSTS = 3
"""Repeats, of which the longest burst counts. A sender that loses its core for a moment then sends faster, which only shortens a burst."""
SUITE_LINE_PPS = 2 * POLICED_PPS
"""Line rate of the suite: low, so that the ramp of the frame loss test is short and a burst needs no fast generator."""

RAMP_TO_PPS, RAMP_S, HOLD_S = 2400, 16.0, 2.0


async def _search(bench: Bench, _: FaultyDevice) -> list[Known]:
    goal = Goal("ndr", 0.0, 0.0, POLICED_S, POLICED_S, _WIDTH, POLICED_S, 1)
    setting = SearchSetting(
        frame_size=FRAME,
        goals=(goal,),
        highest_pps=Pps(2.0 * POLICED_PPS),
        lowest_pps=Pps(POLICED_PPS / 4),
        warmup_s=NO_TIME,
        drain_s=DRAINED,
    )
    expected = POLICED_PPS + POLICED_DEPTH / POLICED_S
    result = await found_by(search.measure, bench, setting)
    return result.against(policed(POLICED_PPS, POLICED_DEPTH), [("ndr/lower_pps", expected, expected * WITHIN)])


async def _suite(bench: Bench, _: FaultyDevice) -> list[Known]:
    """Run throughput, frame loss and back-to-back of RFC 2544 on one policer."""
    line = BpsL1(SUITE_LINE_PPS * 8.0 * (FRAME.mean + ETH_L1_OVERHEAD_BYTES))
    setting = Rfc2544Setting(
        frame_size=FRAME,
        tests=(Benchmark.THROUGHPUT, Benchmark.FRAME_LOSS, Benchmark.BACK_TO_BACK),
        scale=SUITE_SCALE,
        width_ratio=_WIDTH,
        latency_repeats=1,
        burst_repeats=BURSTS,
        burst_limit_s=Seconds(BURST_LIMIT_S),
        recovery_repeats=1,
        reset_repeats=1,
    )
    result = await found_by(suite.measure, replace(bench, speeds={LINK: line}), setting)
    passing = POLICED_PPS + POLICED_DEPTH / SUITE_S
    burst = POLICED_DEPTH / (1 - POLICED_PPS / SUITE_LINE_PPS)
    answers = [
        ("throughput_pps", passing, passing * WITHIN),
        ("loss_at_max_ratio", 1 - passing / SUITE_LINE_PPS, WITHIN),
        ("burst_max_frames", burst, burst * back_to_back.RESOLUTION + 1),  # precision of the search for the burst
    ]
    return result.against(policed(POLICED_PPS, POLICED_DEPTH), answers)


async def _ramp(bench: Bench, _: FaultyDevice) -> list[Known]:
    rise_pps = RAMP_TO_PPS / RAMP_S
    """Rise in frames a second, each second."""
    setting = LoadtestSetting(
        frame_size=FRAME,
        warmup_pps=0.0,
        warmup_s=NO_TIME,
        target_percent=100.0,
        rampup_s=Seconds(RAMP_S),
        hold_s=Seconds(HOLD_S),
        line_rate_bps_l1=RAMP_TO_PPS * 8.0 * (FRAME.mean + ETH_L1_OVERHEAD_BYTES),
        threshold_percent=LOSS_THRESHOLD * 100,
        drain_s=DRAINED,
    )
    result = await found_by(loadtest.measure, bench, setting)
    over_pps = RAMP_TO_PPS - POLICED_PPS
    sent = RAMP_TO_PPS * (RAMP_S / 2 + HOLD_S)
    lost = over_pps**2 / rise_pps / 2 + over_pps * HOLD_S - POLICED_DEPTH
    # The bucket is empty once the excess frames of the ramp equal its depth. A second that ends then passes completely; one that begins
    # then passes at the policed rate. The saturated second is between these two, depending on when the seconds begin.
    most = POLICED_PPS + (2 * POLICED_DEPTH * rise_pps) ** 0.5 - rise_pps / 2
    middle, half = (most + POLICED_PPS) / 2, (most - POLICED_PPS) / 2
    answers = [
        ("saturation_pps", middle, half + WITHIN * POLICED_PPS),
        ("loss_ratio", lost / sent, WITHIN * POLICED_PPS * (RAMP_S + HOLD_S) / sent),
    ]
    return result.against(policed(POLICED_PPS, POLICED_DEPTH), answers)


CASES = (
    Case("policed-ramp", "loadtest", policer(POLICED_PPS, POLICED_DEPTH), _ramp, seconds=20.0),
    Case("policed-suite", "rfc2544", policer(POLICED_PPS, POLICED_DEPTH), _suite, seconds=60.0),
    Case("polices", "search", policer(POLICED_PPS, POLICED_DEPTH), _search, seconds=60.0),
)
