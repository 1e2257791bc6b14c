"""Back-to-back frames (RFC 2544 section 26.4) with the corrections of RFC 9004: the longest burst without loss at the highest rate.

Each repeat is a separate search: the burst doubles from a short one until frames are lost, then the gap is halved (RFC 9004 section 6.2
asks for a binary search) until it is a hundredth of the burst. Frames that the DUT's port did not take count as lost. If the generator did
not make a burst in full and nothing was lost, the result is not known, so the test ends.

    implied   = mean burst / highest rate                    (RFC 9004 section 6.4)
    corrected = implied x (1 - throughput / highest rate)    the DUT forwards while the burst fills its buffer

A DUT that forwards at its throughput needs burst / throughput for the whole burst. Of this time, burst / highest rate passes during
sending. The rest is added to the usual drain, for any depth of the buffer: otherwise frames still in the buffer at the end would count as
lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, pstdev

from dutlab.errors import MeasurementError
from dutlab.methods.bracket import Bracket, bracket
from dutlab.methods.ledger import RATE_TOLERANCE
from dutlab.methods.ports import Outcome, Row
from dutlab.methods.rfc2544.context import STARVED_TRIES, Rfc2544Result, SuiteContext, failed, made
from dutlab.units import Pps, Seconds

SHORTEST_FRAMES = 16
RESOLUTION = 0.01
RAISED = 4
"""Factor on the time limit of a burst, applied once if a burst of that length passes (RFC 9004 section 6.2)."""


async def measure(stand: SuiteContext, throughput: Pps) -> Rfc2544Result:
    """Return one row a repeat. Only for a throughput below the highest rate (RFC 9004 section 6.1): else every burst passes.

    Raises MeasurementError if the generator does not make the bursts, ToolFailed, HostError.
    """
    if throughput >= stand.maximum:
        return Rfc2544Result([], {}, ["back-to-back is left out: the throughput is the highest rate (RFC 9004 section 6.1)"])
    if len(stand.setting.frame_size.parts) > 1:
        return Rfc2544Result([], {}, ["back-to-back is left out: RFC 9004 is for frames of one size"])
    limit, rows, notes = stand.setting.seconds(stand.setting.burst_limit_s), list[Row](), list[str]()
    bursts = _Bursts(stand, throughput)
    for repeat in range(1, stand.setting.burst_repeats + 1):
        longest = await bursts.longest(limit)
        if longest.failed_from is None and not notes:
            notes.append(f"bursts of {limit:g} s came through, so the limit was raised to {RAISED * limit:g} s")
            limit = Seconds(RAISED * limit)
            longest = await bursts.longest(limit)
        rows.append({"repeat": repeat, "burst_frames": longest.held, "lost_from_frames": longest.failed_from})
    lengths = [float(row["burst_frames"] or 0) for row in rows]
    if any(row["lost_from_frames"] is None for row in rows):
        notes.append(f"bursts of {limit:g} s came through: the buffer is larger than found")
    if not all(lengths):
        notes.append(
            f"in {sum(not b for b in lengths)} of {len(lengths)} repeats frames were lost from a burst of {SHORTEST_FRAMES} already"
        )
    return Rfc2544Result(rows, {**spread(lengths), **buffer_times(fmean(lengths), throughput=throughput, maximum=stand.maximum)}, notes)


def spread(bursts: list[float]) -> Mapping[str, float]:
    """Return mean, least, most and standard deviation, as RFC 9004 section 7 reports them."""
    return {
        "burst_mean_frames": fmean(bursts),
        "burst_min_frames": min(bursts),
        "burst_max_frames": max(bursts),
        "burst_stddev_frames": pstdev(bursts),
    }


def buffer_times(burst: float, *, throughput: Pps, maximum: Pps) -> Mapping[str, float]:
    """Return implied and corrected buffer time of a mean burst (RFC 9004 section 6.4)."""
    implied = burst / maximum
    return {"buffer_implied_ns": implied * 1e9, "buffer_corrected_ns": implied * (1 - throughput / maximum) * 1e9}


class _Bursts:
    """Bursts through one DUT. Its throughput gives the time that it needs for each."""

    def __init__(self, stand: SuiteContext, throughput: Pps) -> None:
        self._stand, self._throughput = stand, throughput

    async def longest(self, limit: Seconds) -> Bracket:
        most = max(int(self._stand.maximum * limit), SHORTEST_FRAMES)
        return await bracket(self._whole, first=SHORTEST_FRAMES, most=most, resolution=RESOLUTION)

    async def _whole(self, frames: int) -> bool:
        """Return True if a burst of `frames` in each direction passed without loss.

        A shorter or slower burst with loss also counts as a loss.
        """
        maximum = self._stand.maximum
        sending = Seconds(frames / maximum)
        settling = Seconds(frames / self._throughput - sending)
        for _ in range(STARVED_TRIES):
            outcome = await self._stand.generator.offer(
                self._stand.load(maximum, sending, warmup=Seconds(0.0), settling=settling),
            )
            if failed(outcome.flows):
                return False
            if _was_made(outcome, frames):
                return True
        came = min((made([flow]) for flow in outcome.flows), default=0)
        raise MeasurementError(f"the generator made {came} of the {frames} frames of a burst, so the longest is not known")


def _was_made(outcome: Outcome, frames: int) -> bool:
    return bool(outcome.flows) and all(made([flow]) >= frames * (1 - RATE_TOLERANCE) for flow in outcome.flows)
