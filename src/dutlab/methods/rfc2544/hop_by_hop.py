"""Frames with a hop-by-hop options header (RFC 5180 section 5.3): what becomes of them at 1 %, 10 % and 50 % of the highest rate.

Each router looks into this header, so the section wants no throughput of such frames: it wants to know what they cost the DUT. That is in
the samples of the trial (`watch: [cpu]`); each row says when its frames began.
"""

from __future__ import annotations

from dutlab.methods.ports import Row
from dutlab.methods.rfc2544.context import Rfc2544Result, SuiteContext
from dutlab.methods.rfc2544.frame_loss import TRIAL_S, at_share

SHARES = (0.01, 0.1, 0.5)


async def measure(stand: SuiteContext) -> Rfc2544Result:
    """One row a share. Raises ToolFailed, HostError."""
    found = [await at_share(stand, share, stand.setting.seconds(TRIAL_S)) for share in SHARES]
    rows: list[Row] = [row for row, _ in found]
    figures = {
        f"loss_at_{round(share * 100)}_percent_ratio": lost
        for share, row in zip(SHARES, rows, strict=True)
        if isinstance(lost := row["loss_ratio"], float)
    }
    return Rfc2544Result(rows, figures, [note for _, note in found if note])
