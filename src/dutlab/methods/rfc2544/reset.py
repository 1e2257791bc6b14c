"""Reset (RFC 2544 section 26.6, RFC 6201): constant load while the DUT is reset; lost frames ÷ offered rate is the time out of service.

Each kind is repeated, and the result is the mean of the repeats; if one repeat has no time, there is none. If the DUT's power may be
switched, a power cut is one more kind; the time without power is not part of the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from dutlab.methods.dut_ports import PowerControl, PowerCut, ResetKind
from dutlab.methods.ports import Row
from dutlab.methods.reconf import under_load
from dutlab.methods.rfc2544.context import Rfc2544Result, SuiteContext, failed, made, starved_words
from dutlab.subject import part_figure
from dutlab.units import Pps, Seconds

BEFORE_S = 15.0  # RFC 6201 section 4: forwarding without loss for at least 15 s
AFTER_S = 45.0
"""Seconds of load after the reset: long enough for a software router to come back. A note reports a DUT that does not."""
LEAST_S = 4.0
"""Least duration in seconds, for any scale: the reset must happen during the load, and a generator takes time to begin."""
OFF_S = 15.0  # RFC 6201 section 4: the power is off for at least 15 s
POWER = "power"


@dataclass(frozen=True)
class _Reset:
    """A kind of reset."""

    kind: str
    act: Callable[[], Awaitable[tuple[float, float, float]]]
    """Returns seconds: of the command, of that without power, and how much shorter the time without power may have been."""
    after: Seconds
    """Duration of the load from the reset's beginning."""


async def measure(stand: SuiteContext, throughput: Pps) -> Rfc2544Result:
    """Return one row a repeat of each kind of reset that the DUT supports; a note if there is none. Raises ToolFailed, HostError."""
    after = Seconds(max(stand.setting.seconds(AFTER_S), LEAST_S))
    device = stand.device
    kinds = [] if device is None else [_Reset(k.value, partial(_by_command, stand, k), after) for k in device.resets]
    rows, figures, notes = list[Row](), dict[str, float](), list[str]()
    if stand.power is not None:
        off = stand.setting.seconds(OFF_S)
        first = await stand.power.cut(off, loaded=False)
        notes.append(_words(first))
        kinds.append(_Reset(POWER, partial(_by_power, stand.power, off), Seconds(first.off_s + 2 * first.back_s + after)))
    if not kinds:
        return Rfc2544Result([], {}, ["reset is left out: this DUT cannot be reset by command"])
    for reset in kinds:
        took = list[float]()
        for repeat in range(1, stand.setting.reset_repeats + 1):
            row, note = await _one(stand, throughput, reset)
            rows.append({"repeat": repeat, **row})
            notes += [note] if note and note not in notes else []
            took += [value] if isinstance(value := row["reset_ns"], float) else []
        if len(took) == stand.setting.reset_repeats:
            figures[part_figure(reset.kind, "reset_ns")] = fmean(took)
    return Rfc2544Result(rows, figures, notes)


async def _by_command(stand: SuiteContext, kind: ResetKind) -> tuple[float, float, float]:
    assert stand.device is not None  # noqa: S101 -- the caller has checked it
    return await stand.device.reset(kind), 0.0, 0.0


async def _by_power(power: PowerControl, off: Seconds) -> tuple[float, float, float]:
    cut = await power.cut(off, loaded=True)
    return cut.off_s + cut.back_s, cut.off_s, cut.off_command_s


def _words(first: PowerCut) -> str:
    mode = f", {first.mode_s:.1f} s of that for its mode, which is set again" if first.mode_s >= 0.05 else ""  # noqa: PLR2004 -- rounding
    return f"the power was cut once before, without load: the DUT was back {first.back_s:.1f} s after power returned{mode}"


async def _one(stand: SuiteContext, rate: Pps, reset: _Reset) -> tuple[Row, str]:
    before, after, kind = Seconds(max(stand.setting.seconds(BEFORE_S), LEAST_S)), reset.after, reset.kind
    offer = stand.load(rate, Seconds(before + after))
    outcome, (command_s, off_s, unsure_s) = await under_load(stand.generator, offer, before, reset.act, stand.generator.sleep)
    lost, offered = failed(outcome.flows), made(outcome.flows)
    reset_s = lost / (rate * len(outcome.flows)) - off_s
    row: Row = {
        "kind": kind,
        "offered_pps": rate,
        "lost_frames": lost,
        "reset_ns": reset_s * 1e9,
        "command_ns": command_s * 1e9,
        "without_power_ns": off_s * 1e9,
    }
    if short := starved_words(offer, outcome.flows):
        return {**row, "reset_ns": None}, f"no {kind} reset is timed by a load that the generator did not make: {short}"
    if offered and lost / offered > after / (before + after) * 0.95:
        return {**row, "reset_ns": None}, f"after the {kind} reset the DUT did not forward again within {after:g} s"
    if not lost:
        return {
            **row,
            "reset_ns": None,
        }, f"in the {kind} reset no frame was lost: it was shorter than the gap between two, or missed the load"
    if -unsure_s <= reset_s <= 0:
        return {
            **row,
            "reset_ns": 0.0,
        }, f"after the {kind} reset the DUT forwarded at once: the command to switch off took {unsure_s:.3g} s"
    if reset_s <= 0:
        return {**row, "reset_ns": None}, f"in the {kind} reset fewer frames were lost than were due without power: is it the DUT's outlet?"
    return row, ""
