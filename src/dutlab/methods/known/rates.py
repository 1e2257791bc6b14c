"""A policer's rate, as each method that finds rates must find it, and the burst that its bucket takes.

A trial of T seconds begins with a full bucket of d frames: it refills within d ÷ r seconds, and between two trials more time passes. With r
a second, up to r + d ÷ T pass whole; of R a second, r + d ÷ T pass and the rest is lost; a burst of B at R passes whole up to
B = d ÷ (1 - r ÷ R), since the bucket goes on filling meanwhile (RFC 9004 section 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dutlab.errors import MeasurementError
from dutlab.methods import loadtest, search
from dutlab.methods.known.case import FRAME_SIZE, LINK, Case, Counted, Known, Params, cell, policed, policer
from dutlab.methods.ports import Bench, Method
from dutlab.methods.rfc2544 import back_to_back, suite
from dutlab.spec.goals import Goal, goals_text
from dutlab.units import ETH_L1_OVERHEAD_BYTES, BpsL1, Seconds

POLICED_PPS, POLICED_DEPTH, POLICED_S = 2000, 200, Seconds(2.0)
WITHIN = 0.005
"""Of the rate that is asked for; the search is made to look twice as closely."""
_WIDTH = 0.0025

SUITE_SCALE, SUITE_S = 0.02, 60 * 0.02
BURSTS = 3
"""Repeats, of which the longest counts: a sender that loses its core for a moment then sends faster, which only shortens a burst."""
SUITE_LINE_PPS = 2 * POLICED_PPS
"""The line rate that the suite is told: the ramp of the frame loss test is then short, and a burst needs no fast generator."""

RAMP_TO_PPS, RAMP_S, HOLD_S = 2400, 16.0, 2.0


async def _search(bench: Bench, _: Counted) -> list[Known]:
    goal = Goal("ndr", 0.0, 0.0, POLICED_S, POLICED_S, _WIDTH, POLICED_S, 1)
    params: Params = {
        "goals": goals_text([goal]),
        "highest_pps": 2.0 * POLICED_PPS,
        "lowest_pps": POLICED_PPS / 4,
        "warmup_s": 0.0,
        "drain_s": 0.2,
    }
    expected = POLICED_PPS + POLICED_DEPTH / POLICED_S
    found = await _figures(search.measure, bench, "search", params)
    return found.against(policed(POLICED_PPS, POLICED_DEPTH), [("ndr_lower_pps", expected, expected * WITHIN)])


async def _suite(bench: Bench, _: Counted) -> list[Known]:
    """Throughput, frame loss and back-to-back of RFC 2544 on one policer."""
    line = BpsL1(SUITE_LINE_PPS * 8.0 * (int(FRAME_SIZE) + ETH_L1_OVERHEAD_BYTES))
    params: Params = {
        "tests": "throughput,frame-loss,back-to-back",
        "scale": SUITE_SCALE,
        "directions": "forward",
        "width_ratio": _WIDTH,
        "latency_repeats": 1,
        "burst_repeats": BURSTS,
    }
    found = await _figures(suite.measure, replace(bench, speeds={LINK: line}), "rfc2544", params)
    passing = POLICED_PPS + POLICED_DEPTH / SUITE_S
    burst = POLICED_DEPTH / (1 - POLICED_PPS / SUITE_LINE_PPS)
    answers = [
        ("throughput_pps", passing, passing * WITHIN),
        ("loss_at_max_ratio", 1 - passing / SUITE_LINE_PPS, WITHIN),
        ("burst_max_frames", burst, burst * back_to_back.RESOLUTION + 1),  # so near the search for the burst goes
    ]
    return found.against(policed(POLICED_PPS, POLICED_DEPTH), answers)


async def _ramp(bench: Bench, _: Counted) -> list[Known]:
    rise_pps = RAMP_TO_PPS / RAMP_S
    """A second."""
    params: Params = {
        "warmup_pps": 0.0,
        "warmup_s": 0.0,
        "target_percent": 100.0,
        "rampup_s": RAMP_S,
        "hold_s": HOLD_S,
        "line_rate_bps_l1": RAMP_TO_PPS * 8.0 * (int(FRAME_SIZE) + ETH_L1_OVERHEAD_BYTES),
        "drain_s": 0.2,
    }
    found = await _figures(loadtest.measure, bench, "loadtest", params)
    over_pps = RAMP_TO_PPS - POLICED_PPS
    sent = RAMP_TO_PPS * (RAMP_S / 2 + HOLD_S)
    lost = over_pps**2 / rise_pps / 2 + over_pps * HOLD_S - POLICED_DEPTH
    # The bucket is empty when the ramp has brought as many too many. A second that ends then passes whole, one that begins then passes
    # what is policed; the saturated one is between them, depending on when the seconds begin.
    most = POLICED_PPS + (2 * POLICED_DEPTH * rise_pps) ** 0.5 - rise_pps / 2
    middle, half = (most + POLICED_PPS) / 2, (most - POLICED_PPS) / 2
    answers = [
        ("saturation_pps", middle, half + WITHIN * POLICED_PPS),
        ("loss_ratio", lost / sent, WITHIN * POLICED_PPS * (RAMP_S + HOLD_S) / sent),
    ]
    return found.against(policed(POLICED_PPS, POLICED_DEPTH), answers)


@dataclass(frozen=True)
class _Found:
    """The figures of a method, or why it has none."""

    method: str
    figures: Mapping[str, float]
    why: str

    def against(self, device: str, answers: Sequence[tuple[str, float, float]]) -> list[Known]:
        """Each (figure, answer, tolerance)."""
        why = self.why or "it was not found"
        return [
            Known(device, self.method, figure, expected, self.figures.get(figure), tolerance, "" if figure in self.figures else why)
            for figure, expected, tolerance in answers
        ]


async def _figures(measure: Method, bench: Bench, workload: str, params: Params) -> _Found:
    try:
        measured = await measure(bench, cell(workload, params))
    except MeasurementError as e:
        return _Found(workload, {}, str(e))
    return _Found(workload, measured.figures[LINK], "; ".join(measured.notes))


CASES = (
    Case("policed-ramp", "loadtest", policer(POLICED_PPS, POLICED_DEPTH), _ramp, seconds=20.0),
    Case("policed-suite", "rfc2544", policer(POLICED_PPS, POLICED_DEPTH), _suite, seconds=60.0),
    Case("polices", "search", policer(POLICED_PPS, POLICED_DEPTH), _search, seconds=60.0),
)
