"""Method `reconf`: constant load while the DUT's mode is changed; lost frames ÷ offered rate is the time out of service.

Each change has one load, so that the ledger alone shows its loss; one more load without a change is first. The mode changes from that of
the cell into another and back, or, for `reload`, into the same mode again. Each mode is verified once, after the load. If the change is a
failure of the device, there is no change back under load. A probe then shows whether frames pass, and the cell's mode is applied and
verified again.

Figures of a link; WAY is into, back, reload or failure:

    intended_pps, resolution_ns                 the offered rate, and the gap between two of its frames
    WAY/outage_ns                            the median over the changes; absent if that change lost no frame: shorter than the gap
    WAY/outage_max_ns                        the longest; absent if no change lost a frame
    WAY/lossless_ratio                       share of the changes without loss
    WAY/command_ns                           median duration of the command
    WAY/silence_s                            the longest time without a frame at the receiver, if whole readings have none
    failure/open_ratio                          share of the failures after which frames passed (it fails open), though it was not mended

The first three of a direction are absent if one of its changes has no time: the DUT did not come back, or the change was outside the load.
The record's table `changes` has each change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import fmean, median_low
from typing import TypeVar

from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import cancelled
from dutlab.errors import InputError, MeasurementError
from dutlab.methods.dut_ports import DutChange, DutControl
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import doubts_of, failed_frames, made_frames, starved
from dutlab.methods.ports import Bench, Generator, Measured, Offer, Outcome, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.reconf import FAILURE, RELOAD, ReconfSetting
from dutlab.subject import of_part
from dutlab.units import Seconds

_T = TypeVar("_T")
Sleep = Callable[[float], Awaitable[None]]


async def under_load(
    generator: Generator, offer: Offer, before: Seconds, act: Callable[[], Awaitable[_T]], sleep: Sleep = asyncio.sleep
) -> tuple[Outcome, _T]:
    """Offer the load, and run `act` after `before` seconds of it. Return the outcome of the load and the result of `act`.

    Raises the errors of both, after ending the other; MeasurementError if the load ended before the generator reported its start.
    """
    begun = asyncio.Event()
    offering = asyncio.ensure_future(generator.offer(replace(offer, begun=begun.set, once=True)))
    beginning = asyncio.ensure_future(begun.wait())
    try:
        await asyncio.wait({offering, beginning}, return_when=asyncio.FIRST_COMPLETED)
        if not begun.is_set():
            offering.result()
            raise MeasurementError("the load was over before the generator reported that it had begun", remedy="make it longer")
        await sleep(before)
        done = await act()
        return await offering, done
    finally:
        await cancelled(offering, beginning)


NOT_BACK = 0.95
"""Share of all frames after a change whose loss shows that the DUT did not come back within the load."""


@dataclass(frozen=True)
class Turn:
    """One change of mode; `direction` is into, back, reload or failure."""

    direction: str
    from_mode: str
    to_mode: str


@dataclass(frozen=True)
class _Changes:
    """The load of each change, and the changes to make under it."""

    setting: ReconfSetting
    offer: Offer
    turns: tuple[Turn, ...]


async def measure(bench: Bench, cell: Cell, *, sleep: Sleep = asyncio.sleep) -> Measured:
    """Run one trial. Raises InputError, HostError, ToolFailed; MeasurementError if a mode is not in force, or nothing was sent."""
    if bench.device is None:
        raise InputError("this DUT's mode cannot be changed inside a trial", remedy="leave the workload reconf out")
    setting = cell.setting_as(ReconfSetting)
    offer = Offer(
        links=cell.links,
        mix=setting.frame_size,
        rate=setting.rate_pps,
        duration=Seconds(setting.before_s + setting.after_s),
        warmup=setting.warmup_s,
        drain=setting.drain_s,
    )
    asked = _Changes(setting, offer, _turns(cell.mode, setting))
    quiet = _sent(await bench.generator.offer(asked.offer))
    rows, outcomes = list[Row](), [quiet]
    for number in range(1, setting.changes + 1):
        for turn in asked.turns:
            into = partial(bench.device.change_mode, turn.to_mode)
            outcome, change = await under_load(bench.generator, asked.offer, setting.before_s, into, sleep)
            outcomes.append(_sent(outcome))
            passing = await bench.device.passing_links() if turn.direction == FAILURE else None
            rows += [{"change": float(number), **_row(turn, asked, flow, outcome, change, passing)} for flow in outcome.flows]
            if turn.direction == FAILURE:
                await bench.device.change_mode(turn.from_mode)
                await _insist(bench.device, turn.from_mode)
            elif number == 1:
                await _insist(bench.device, turn.to_mode)
    doubts = [d for o in outcomes for d in (*o.doubts, *(d for flow in o.flows for d in doubts_of(asked.offer, flow)))]
    notes = [f"change {row['change']:g}, {row['direction']}: {row['why']}" for row in rows if row["why"]]
    return Measured(
        figures={link: _figures(asked, [row for row in rows if row["link"] == link]) for link in cell.links},
        flows=outcomes[-1].flows,
        doubts=(*_lossy(quiet), *{(doubt.kind, doubt.about): doubt for doubt in doubts}.values()),
        raw=outcomes[-1].raw,
        facts=outcomes[-1].facts,
        notes=tuple(dict.fromkeys(notes)),
        tables={"changes": rows},
    )


def _turns(mode: str, setting: ReconfSetting) -> tuple[Turn, ...]:
    to = setting.to
    if setting.failure:
        return (Turn(FAILURE, mode, to),)
    return (Turn("reload", mode, mode),) if to in {RELOAD, mode} else (Turn("into", mode, to), Turn("back", to, mode))


def _sent(outcome: Outcome) -> Outcome:
    if idle := [flow.link for flow in outcome.flows if not made_frames(flow)]:
        raise MeasurementError(f"the generator sent nothing on link {' and '.join(idle)}", raw=dict(outcome.raw))
    return outcome


async def _insist(device: DutControl, mode: str) -> None:
    if faults := await device.faults_of_mode(mode):
        raise MeasurementError(f"after the change mode {mode} is not in force: {'; '.join(faults)}")


def _lossy(quiet: Outcome) -> list[Doubt]:
    """Return doubts for losses at this rate without a change: they cannot be separated from the cost of a change."""
    return [
        Doubt(DoubtKind.LOSS_WITHOUT_CHANGE, f"{failed_frames(flow)} of {made_frames(flow)} frames", flow.link)
        for flow in quiet.flows
        if failed_frames(flow)
    ]


def _row(  # noqa: PLR0917 -- all facts of one change
    turn: Turn, asked: _Changes, flow: Flow, outcome: Outcome, change: DutChange, passing: Collection[str] | None
) -> dict[str, float | str | None]:
    lost, frames = failed_frames(flow), made_frames(flow)
    why = _missed(flow, outcome, change)
    if not why and (short := starved(asked.offer, flow)):
        why = f"the generator did not make the load: {short}"
    outage: float | None = lost / (frames / flow.sent_seconds) * 1e9 if lost > 0 and not why else None
    left_s = _left_s(asked, flow, outcome, change)
    if lost > NOT_BACK * frames * left_s / flow.sent_seconds:
        why, outage = f"the DUT did not forward again within {asked.setting.after_s:g} s", None
    if passing is not None and flow.link not in passing:
        why, outage = "no frame passes after it: the device fails closed", None
    return {
        "direction": turn.direction,
        "from": turn.from_mode,
        "to": turn.to_mode,
        "link": flow.link,
        "made_frames": float(frames),
        "lost_frames": float(lost),
        "outage_ns": outage,
        "command_ns": change.took_s * 1e9,
        "silence_s": _silence(outcome, flow.link),
        "passes": None if passing is None else float(flow.link in passing),
        "why": why,
    }


def _missed(flow: Flow, outcome: Outcome, change: DutChange) -> str:
    """Return why the change was outside the load, by the clocks of generator and controller; empty if it was inside, or if not known."""
    if outcome.began_s is None:
        return ""
    into, end = change.began_s - outcome.began_s, change.began_s + change.took_s - outcome.began_s - flow.sent_seconds
    if into < 0 or end > 0:
        where = f"{-into:.1f} s before its first frame" if into < 0 else f"{end:.1f} s after its last"
        return f"the change missed the load, {where}: raise `before` or `after`, or see whether the clocks of the hosts agree"
    return ""


def _left_s(asked: _Changes, flow: Flow, outcome: Outcome, change: DutChange) -> float:
    """Return how long the load continued after the start of the change: a command reaches the DUT with a delay."""
    if outcome.began_s is None:
        return asked.setting.after_s
    return min(asked.setting.after_s, outcome.began_s + flow.sent_seconds - change.began_s)


def _silence(outcome: Outcome, link: str) -> float | None:
    """Return the longest time of whole readings without a frame, in seconds; None if every reading has frames."""
    rates = sorted((r.at_s, r.value) for r in outcome.readings if r.link == link and r.name == "received_pps")
    longest = since = 0.0
    for (before_s, _), (at_s, rate) in pairwise(rates):
        since = since + at_s - before_s if not rate else 0.0
        longest = max(longest, since)
    return longest or None


def _figures(asked: _Changes, rows: Sequence[Row]) -> dict[str, float]:
    rate = float(asked.offer.rate or 0.0)
    figures = {"intended_pps": rate, "resolution_ns": 1e9 / rate}
    for turn in asked.turns:
        of, turn_figures = [row for row in rows if row["direction"] == turn.direction], dict[str, float]()
        turn_figures["command_ns"] = median_low(float(row["command_ns"] or 0.0) for row in of)
        if silences := [float(s) for row in of if (s := row["silence_s"]) is not None]:
            turn_figures["silence_s"] = max(silences)
        if turn.direction == FAILURE:
            turn_figures["open_ratio"] = fmean(float(row["passes"] or 0.0) for row in of)
        if not any(row["why"] for row in of):
            outages = [float(row["outage_ns"] or 0.0) for row in of]
            turn_figures["lossless_ratio"] = outages.count(0.0) / len(outages)
            turn_figures |= {name: ns for name, ns in (("outage_ns", median_low(outages)), ("outage_max_ns", max(outages))) if ns > 0}
        figures |= of_part(turn.direction, turn_figures)
    return figures
