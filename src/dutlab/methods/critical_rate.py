"""Critical rate of a soak: the rate at which the expected loss is the target share of frames, with its interval.

Trials follow one another, each a little longer than the previous one, at rates that the estimate so far chooses. The first two use half the
highest rate and the highest rate. The others use in turn the upper end of the interval, its middle and its lower end (stats.critical_rate).
Losses above the critical rate show most about it, and trials without loss bound it from below.

Figures of each link, under the label of all links that are loaded at once:

    critical_pps, critical_low_pps, critical_high_pps    the median and the 95 % credible interval
    stretch/critical_pps, erf/critical_pps               the median by each curve alone
    target_loss_ratio, trials

The record's table `critical` has each trial and the estimate after it. The interval of the figures may be wider than that after the last
trial, because it is computed from all trials together. A doubt reports losses that cluster in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MeasurementError
from dutlab.methods.ledger import doubts_of, failed_frames, made_frames
from dutlab.methods.ports import Bench, Measured, Offer, Outcome, Row
from dutlab.plan.cell import Cell
from dutlab.stats.critical_rate import BURST_FRAMES, Critical, CriticalRate, LoadTrial
from dutlab.subject import part_figure
from dutlab.units import Pps, Seconds

FIRST_S, LONGER_S = 5.1, 0.1
"""First length of a trial and its increase, in seconds: those of FD.io CSIT's soak tests."""
FULL_SOAK_S = 1800.0
"""Duration of a full soak. A shorter soak has proportionally shorter trials, down to SHORTEST_S."""
SHORTEST_S = 1.0
HALF = 0.5
LEAST_TRIALS = 3


def lengths(duration: Seconds) -> Iterator[Seconds]:
    """Yield the length of each trial. Together they fill `duration` with whole trials, at least three."""
    scale, number, left = min(1.0, duration / FULL_SOAK_S), 0, float(duration)
    while True:
        each = max(SHORTEST_S, (FIRST_S + LONGER_S * number) * scale)
        if each > left and number >= LEAST_TRIALS:
            return
        yield Seconds(each)
        number, left = number + 1, left - each


async def measure(bench: Bench, cell: Cell, highest: Offer, target: float) -> Measured:
    """Run trials up to the rate of `highest` for its duration. Raises ToolFailed, HostError; MeasurementError if nothing was sent."""
    most, rows, doubts = float(highest.rate or 0.0), list[Row](), list[Doubt]()
    estimate, outcome, bounds = CriticalRate(highest_pps=most, target=target), None, None
    for number, seconds in enumerate(lengths(highest.duration)):
        rate = _next_rate(number, most, bounds)
        offer = replace(highest, rate=Pps(rate), duration=seconds)
        outcome = await bench.generator.offer(offer)
        doubts += [*outcome.doubts, *(d for flow in outcome.flows for d in doubts_of(offer, flow))]
        trial = _trial(outcome)
        bounds = await asyncio.to_thread(estimate.add, trial)
        rows.append({"intended_pps": rate, **_row(number, trial, bounds)})
    assert outcome is not None and bounds is not None  # noqa: S101, PT018 - there are at least three lengths
    concluded = await asyncio.to_thread(estimate.conclude)
    bounds = concluded.critical
    if concluded.clustered:
        doubts.append(Doubt(DoubtKind.LOSSES_CLUSTER))
    notes = ["the critical rate may be above the highest rate that was tried: raise `rate`"] if bounds.high_pps >= most else []
    if concluded.allowed_frames < BURST_FRAMES:
        notes.append(
            f"the target allows {concluded.allowed_frames:.0f} lost frames in all trials together: one burst of {BURST_FRAMES:.0f} frames, "
            "as a full ring has, would decide the critical rate; soak for longer, or raise the target"
        )
    return Measured(
        figures={cell.link_label: _figures(bounds, target, len(rows))},
        flows=outcome.flows,
        doubts=tuple({doubt.kind: doubt for doubt in doubts}.values()),
        raw=outcome.raw,
        facts=outcome.facts,
        notes=notes,
        tables={"critical": rows},
    )


def _next_rate(number: int, most: float, estimate: Critical | None) -> float:
    if estimate is None:
        return most * HALF
    if number == 1:
        return most
    by_turns = (estimate.high_pps, estimate.pps, estimate.low_pps)
    return min(most, by_turns[number % len(by_turns)])


def _trial(outcome: Outcome) -> LoadTrial:
    """Return all links together as one trial, with the mean load and loss of a link."""
    flows = outcome.flows
    if not flows or any(flow.sent_seconds <= 0 or not made_frames(flow) for flow in flows):
        raise MeasurementError("the generator sent nothing", raw=dict(outcome.raw))
    seconds = sum(flow.sent_seconds for flow in flows)
    lost = max(0, sum(failed_frames(flow) for flow in flows))
    return LoadTrial(sum(made_frames(flow) for flow in flows) / seconds, seconds, float(lost))


def _row(number: int, trial: LoadTrial, estimate: Critical) -> Row:
    return {
        "trial": float(number + 1),
        "load_pps": trial.load_pps,
        "offered_s": trial.seconds,
        "lost_frames": trial.lost_frames,
        "loss_ratio": trial.lost_frames / (trial.load_pps * trial.seconds),
        "critical_pps": estimate.pps,
        "low_pps": estimate.low_pps,
        "high_pps": estimate.high_pps,
    }


def _figures(estimate: Critical, target: float, trials: int) -> dict[str, float]:
    figures = {"critical_pps": estimate.pps, "critical_low_pps": estimate.low_pps, "critical_high_pps": estimate.high_pps}
    figures |= {part_figure(name, "critical_pps"): value for name, value in estimate.by_curve.items()}
    return figures | {"target_loss_ratio": target, "trials": float(trials)}
