"""Frame loss rate (RFC 2544 section 26.3): from the highest rate down in steps of a tenth, until two trials in a row lose nothing."""

from __future__ import annotations

from dutlab.methods.ports import Row
from dutlab.methods.rfc2544.context import Rfc2544Result, SuiteContext, failed, made, made_pps
from dutlab.subject import part_figure, share_part
from dutlab.units import Pps, Seconds

TRIAL_S = 60.0  # RFC 2544 section 24
HOP_BY_HOP_SHARES = (0.01, 0.1, 0.5)
STEPS = 10
"""Steps of the highest rate: RFC 2544 section 26.3 allows at most a tenth each."""
CLEAN = 2


async def measure(stand: SuiteContext) -> Rfc2544Result:
    """Return one row a rate. Raises ToolFailed, HostError."""
    rows, notes, clean = list[Row](), list[str](), 0
    for step in range(STEPS, 0, -1):
        row, note = await at_share(stand, step / STEPS, stand.setting.seconds(TRIAL_S))
        rows.append(row)
        notes += [note] if note else []
        clean = clean + 1 if row["loss_ratio"] == 0.0 else 0
        if clean == CLEAN:
            break
    figures = {"loss_at_max_ratio": first} if isinstance(first := rows[0]["loss_ratio"], float) else {}
    notes += [] if clean == CLEAN else ["down to a tenth of the highest rate no two rates in a row were without loss"]
    return Rfc2544Result(rows, figures, notes)


async def at_share(stand: SuiteContext, share: float, duration: Seconds) -> tuple[Row, str]:
    """Return the loss at a share of the highest rate; if the generator did not make the rate, no loss and a note. Raises as measure."""
    rate = Pps(stand.maximum * share)
    outcome, short = await stand.offer_in_full(stand.load(rate, duration))
    lost, offered = failed(outcome.flows), made(outcome.flows)
    row: Row = {
        "offered_share_ratio": share,
        "intended_pps": rate,
        "made_pps": made_pps(outcome.flows),
        "failed_frames": lost,
        "loss_ratio": lost / offered if offered and not short else None,
        "began_s": outcome.began_s,
    }
    return row, f"no loss is known at {share:.0%} of the highest rate, which the generator did not make: {short}" if short else ""


async def hop_by_hop(stand: SuiteContext) -> Rfc2544Result:
    """Measure frames with a hop-by-hop options header at shares of the highest rate (RFC 5180 section 5.3), one row a share.

    Each router must process this header. So the section asks for their cost in resources of the DUT, not for a throughput. The cost is in
    the samples of the trial (`watch: [cpu]`); each row has the time of its first frame. Raises ToolFailed, HostError.
    """
    outcomes = [await at_share(stand, share, stand.setting.seconds(TRIAL_S)) for share in HOP_BY_HOP_SHARES]
    rows: list[Row] = [row for row, _ in outcomes]
    figures = {
        part_figure(share_part(round(share * 100)), "loss_ratio"): lost
        for share, row in zip(HOP_BY_HOP_SHARES, rows, strict=True)
        if isinstance(lost := row["loss_ratio"], float)
    }
    return Rfc2544Result(rows, figures, [note for _, note in outcomes if note])
