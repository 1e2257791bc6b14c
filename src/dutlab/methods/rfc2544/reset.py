"""Reset (RFC 2544 section 26.6, RFC 6201): load goes on while the DUT is reset; lost frames ÷ offered rate is the time out of service.

Each kind is repeated and the mean of the repeats is the answer; a repeat without a time leaves none.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean

from dutlab.methods.ports import ResetKind, Row
from dutlab.methods.reconf import under_load
from dutlab.methods.rfc2544.context import Rfc2544Result, SuiteContext, failed, made, starved_words
from dutlab.units import Pps, Seconds

BEFORE_S = 15.0  # RFC 6201 section 4: forwarding without loss for at least 15 s
AFTER_S = 45.0
"""Long enough for a software router to be back; a DUT that is not is said to be so."""
LEAST_S = 4.0
"""However short a scaled stretch would be: the reset must fall into the load, and a generator takes its time to begin."""


async def measure(stand: SuiteContext, throughput: Pps) -> Rfc2544Result:
    """One row a repeat of each kind of reset that the DUT knows; none is a sentence. Raises ToolFailed, HostError."""
    if stand.device is None or not stand.device.resets:
        return Rfc2544Result([], {}, ["reset is left out: this DUT cannot be reset by command"])
    rows, figures, notes = list[Row](), dict[str, float](), list[str]()
    for kind in stand.device.resets:
        took = list[float]()
        for repeat in range(1, stand.setting.reset_repeats + 1):
            row, note = await _one(stand, throughput, kind)
            rows.append({"repeat": repeat, **row})
            notes += [note] if note and note not in notes else []
            took += [value] if isinstance(value := row["reset_ns"], float) else []
        if len(took) == stand.setting.reset_repeats:
            figures[f"reset_{kind.value}_ns"] = fmean(took)
    return Rfc2544Result(rows, figures, notes)


async def _one(stand: SuiteContext, rate: Pps, kind: ResetKind) -> tuple[Row, str]:
    assert stand.device is not None  # noqa: S101 -- the caller looked
    before, after = (Seconds(max(stand.setting.seconds(s), LEAST_S)) for s in (BEFORE_S, AFTER_S))
    reset = partial(stand.device.reset, kind)
    offer = stand.load(rate, Seconds(before + after))
    outcome, command_s = await under_load(stand.generator, offer, before, reset, stand.generator.sleep)
    lost, offered = failed(outcome.flows), made(outcome.flows)
    row = {
        "kind": kind.value,
        "offered_pps": rate,
        "lost_frames": lost,
        "reset_ns": lost / (rate * len(outcome.flows)) * 1e9,
        "command_ns": command_s * 1e9,
    }
    if short := starved_words(offer, outcome.flows):
        return {**row, "reset_ns": None}, f"no {kind.value} reset is timed by a load that the generator did not make: {short}"
    if offered and lost / offered > after / (before + after) * 0.95:
        return {**row, "reset_ns": None}, f"after the {kind.value} reset the DUT did not forward again within {after:g} s"
    if not lost:
        return {
            **row,
            "reset_ns": None,
        }, f"in the {kind.value} reset no frame was lost: it was shorter than the gap between two, or missed the load"
    return row, ""
