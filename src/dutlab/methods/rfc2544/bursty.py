"""Bursty traffic (RFC 2544 section 21): frames come in bursts at the least gap; finds the least interval of bursts without loss.

For each length of burst, the highest mean rate without loss is found like the throughput, so trials are as long and as strict. A burst
larger than the DUT's buffer loses frames at any rate: then there is no interval.

    interval = frames of a burst / mean rate      from the start of one burst to the start of the next
    between  = interval - frames / highest rate   from the end of one to the start of the next
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dutlab.methods.ports import Generator, Offer, Outcome, Row
from dutlab.methods.rfc2544 import throughput
from dutlab.methods.rfc2544.context import Rfc2544Result, SuiteContext
from dutlab.subject import part_figure

BURSTS = (16, 64, 256, 1024)
"""Frames of a burst."""


@dataclass(frozen=True)
class InBursts:
    """Wrapper of `generator` that sends frames in bursts of `frames` at the same mean rate."""

    generator: Generator
    frames: int

    async def offer(self, offer: Offer) -> Outcome:
        """Offer the load in bursts; see methods.ports."""
        return await self.generator.offer(replace(offer, burst_frames=self.frames))


async def measure(stand: SuiteContext) -> Rfc2544Result:
    """Return one row a length of burst. Raises MeasurementError, InputError, HostError."""
    rows, figures, notes = list[Row](), dict[str, float](), list[str]()
    for frames in BURSTS:
        bounds = await throughput.bounds(stand, InBursts(stand.generator, frames))
        interval_ns = None if bounds.lower_pps is None else frames / bounds.lower_pps * 1e9
        between_ns = None if interval_ns is None else max(interval_ns - frames / stand.maximum * 1e9, 0.0)
        rows.append({
            "burst_frames": frames, "lower_pps": bounds.lower_pps, "upper_pps": bounds.upper_pps,
            "interval_ns": interval_ns, "between_ns": between_ns,
        })  # fmt: skip
        if between_ns is None:
            notes.append(f"bursts of {frames} frames: no distance without loss was found (§21)")
        else:
            figures[part_figure(str(frames), "between_bursts_ns")] = between_ns
    return Rfc2544Result(rows, figures, notes)
