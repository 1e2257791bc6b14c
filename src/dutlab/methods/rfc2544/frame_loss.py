"""Frame loss rate (RFC 2544 section 26.3): from the highest rate down in steps of a tenth until two trials in a row lose nothing."""

from __future__ import annotations

from dutlab.methods.ports import Row
from dutlab.methods.rfc2544.stand import Result, Stand, failed, made, made_pps
from dutlab.units import Pps, Seconds

TRIAL_S = 60.0  # RFC 2544 section 24
STEPS = 10
"""Of the highest rate: no step is more than a tenth of it."""
CLEAN = 2


async def measure(stand: Stand) -> Result:
    """One row a rate. Raises ToolFailed, HostError."""
    rows, clean = list[Row](), 0
    for step in range(STEPS, 0, -1):
        rows.append(await at_share(stand, step / STEPS, stand.asked.seconds(TRIAL_S)))
        clean = 0 if rows[-1]["failed_frames"] else clean + 1
        if clean == CLEAN:
            break
    figures = {"loss_at_max_ratio": first} if isinstance(first := rows[0]["loss_ratio"], float) else {}
    notes = [] if clean == CLEAN else ["down to a tenth of the highest rate no two rates in a row were without loss"]
    return Result(rows, figures, notes)


async def at_share(stand: Stand, share: float, duration: Seconds) -> Row:
    """What became of frames offered at a share of the highest rate. Raises ToolFailed, HostError."""
    rate = Pps(stand.maximum * share)
    outcome = await stand.offer(rate, duration)
    lost, offered = failed(outcome.flows), made(outcome.flows)
    return {
        "offered_share_ratio": share,
        "asked_pps": rate,
        "made_pps": made_pps(outcome.flows),
        "failed_frames": lost,
        "loss_ratio": lost / offered if offered else None,
        "began_s": outcome.began_s,
    }
