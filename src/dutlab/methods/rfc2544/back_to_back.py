"""Back-to-back frames (RFC 2544 section 26.4) with the corrections of RFC 9004: the longest whole burst at the highest rate.

A repeat is a search of its own: the burst doubles from a short one until frames are lost, then the gap is halved (RFC 9004 section 5.4
asks for a binary search) until it is a hundredth of the burst. Frames that the DUT's port did not take count as lost.

    implied   = mean burst / highest rate                    (RFC 9004 section 6)
    corrected = implied x (1 - throughput / highest rate)    the DUT forwards while the burst fills its buffer
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, pstdev

from dutlab.methods.bracket import Bracket, bracket
from dutlab.methods.ports import Row
from dutlab.methods.rfc2544.stand import Result, Stand, failed, made
from dutlab.units import Pps, Seconds

LONGEST_S = 30.0  # RFC 9004 section 5.4: the upper limit of a burst
SHORTEST_FRAMES = 16
RESOLUTION = 0.01


async def measure(stand: Stand, throughput: Pps) -> Result:
    """One row a repeat. Only for a throughput below the highest rate (RFC 9004 section 5.2): else every burst comes through."""
    if throughput >= stand.maximum:
        return Result([], {}, ["back-to-back is left out: the throughput is the highest rate (RFC 9004 section 5.2)"])
    rows = list[Row]()
    for repeat in range(1, stand.asked.burst_repeats + 1):
        longest = await _longest(stand)
        rows.append({"repeat": repeat, "burst_frames": longest.held, "lost_from_frames": longest.failed_from})
    bursts = [float(row["burst_frames"] or 0) for row in rows]
    notes = []
    if any(row["lost_from_frames"] is None for row in rows):
        notes.append(f"bursts of {stand.asked.seconds(LONGEST_S):g} s came through: the buffer is larger than found")
    if not all(bursts):
        notes.append(f"in {sum(not b for b in bursts)} of {len(bursts)} repeats frames were lost from a burst of {SHORTEST_FRAMES} already")
    return Result(rows, {**spread(bursts), **buffer_times(fmean(bursts), throughput=throughput, maximum=stand.maximum)}, notes)


def spread(bursts: list[float]) -> Mapping[str, float]:
    """Mean, least, most and standard deviation, which RFC 9004 section 6 has reported."""
    return {
        "burst_mean_frames": fmean(bursts),
        "burst_min_frames": min(bursts),
        "burst_max_frames": max(bursts),
        "burst_stddev_frames": pstdev(bursts),
    }


def buffer_times(burst: float, *, throughput: Pps, maximum: Pps) -> Mapping[str, float]:
    """Implied and corrected buffer time of a mean burst (RFC 9004 section 6)."""
    implied = burst / maximum
    return {"buffer_implied_ns": implied * 1e9, "buffer_corrected_ns": implied * (1 - throughput / maximum) * 1e9}


async def _longest(stand: Stand) -> Bracket:
    most = max(int(stand.maximum * stand.asked.seconds(LONGEST_S)), SHORTEST_FRAMES)
    return await bracket(lambda frames: _whole(stand, frames), first=SHORTEST_FRAMES, most=most, resolution=RESOLUTION)


async def _whole(stand: Stand, frames: int) -> bool:
    """Whether a burst of `frames` on each way came out whole. A burst that was not even made did not."""
    outcome = await stand.offer(stand.maximum, Seconds(frames / stand.maximum), warmup=Seconds(0.0))
    return failed(outcome.flows) == 0 and made(outcome.flows) > 0
