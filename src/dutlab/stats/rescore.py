"""Scores of the same trials under each definition of a limit: pure functions of (load, duration, loss).

A definition is a search goal of RFC 9971 (MLRsearch): the loss ratio allowed, the length of a full trial, the seconds that a load needs,
and the share of them that may be bad. A load is then a lower bound, an upper bound, or undecided. The relevant upper bound is the lowest
upper bound. The relevant lower bound is the highest lower bound below it, so that one good trial at a higher load never raises the result.
A trial that was stopped early has lost at least the frames counted so far. If that is less than a definition allows, its outcome under this
definition is unknown, and the result holds only if it is the same either way.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutlab.stats.definitions import DEFINITIONS, Definition

LOSS_THRESHOLD = 0.001
"""Loss ratio above which a second of a ramp has failed: 0.1 %, the default of the trex-loadtest tools."""
_ROUNDING_S = 1e-9


@dataclass(frozen=True)
class TrialPoint:
    """One trial as definitions need it. Load: intended frames a second of one link. `loss_ratio`: of all frames of the trial."""

    load_pps: float
    duration_s: float
    """Intended duration, also of a trial that was stopped early."""
    loss_ratio: float
    exact: bool = True
    """False if the loss ratio is only a lower limit, because the trial was stopped early."""


YES, NO = "yes", "no"


def points_of(rows: Iterable[Mapping[str, Any]]) -> tuple[TrialPoint, ...]:
    """Return the trials that count. Rows are as in records: load_pps, duration_s, known_loss_ratio, exact and counts (yes or no).

    Raises KeyError, TypeError, ValueError.
    """
    return tuple(
        TrialPoint(float(r["load_pps"]), float(r["duration_s"]), float(r["known_loss_ratio"]), r["exact"] == YES)
        for r in rows
        if r["counts"] == YES
    )


class LoadVerdict(enum.Enum):
    """Result of the trials at one load."""

    LOWER = "lower bound"
    UPPER = "upper bound"
    UNDECIDED = "undecided"


class BoundGap(enum.StrEnum):
    """Kind of the reason why trials do not show both bounds."""

    NO_TRIALS = "no-trials"
    NO_UPPER_BOUND = "no-upper-bound"
    NO_LOWER_BOUND = "no-lower-bound"
    SHORT_TRIALS = "short-trials"
    """Every trial is shorter than the definition requires."""
    FEW_TRIALS = "few-trials"
    """At every load there are too few trials, or they were stopped too early."""


@dataclass(frozen=True)
class RescoredBounds:
    """Bounds of the trials under one definition; if one is missing, the reason."""

    definition: Definition
    lower_pps: float | None
    upper_pps: float | None
    conditional_pps: float | None
    """Conditional throughput: the lower bound less its loss."""
    why: str = ""
    """Empty if both bounds are known; otherwise the reason why these trials do not show both."""
    gap: BoundGap | None = None
    """Kind of that reason; None if both bounds are known."""


def rescore(trials: Iterable[TrialPoint], definitions: Sequence[Definition] = DEFINITIONS) -> tuple[RescoredBounds, ...]:
    """Return the bounds under each definition, in their order."""
    loads = by_load(trials)
    return tuple(_answer(loads, definition) for definition in definitions)


def answer(trials: Iterable[TrialPoint], definition: Definition) -> RescoredBounds:
    """Return the relevant bounds among the tried loads, and the conditional throughput (RFC 9971)."""
    return _answer(by_load(trials), definition)


def _answer(loads: Mapping[float, Sequence[TrialPoint]], definition: Definition) -> RescoredBounds:
    lower, upper = None, None
    for load, points in loads.items():
        verdict = classify(points, definition)
        if verdict is LoadVerdict.UPPER:
            upper = load
            break
        if verdict is LoadVerdict.LOWER:
            lower = load
    conditional = None if lower is None else lower * (1.0 - conditional_loss(loads[lower], definition))
    gap, why = _gap(loads, definition, lower, upper)
    return RescoredBounds(definition, lower, upper, conditional, why, gap)


def by_load(trials: Iterable[TrialPoint]) -> dict[float, list[TrialPoint]]:
    """Return the trials by load, lowest first; trials of one load keep their order."""
    ordered = sorted(trials, key=lambda t: t.load_pps)
    return {load: list(points) for load, points in itertools.groupby(ordered, key=lambda t: t.load_pps)}


def classify(points: Sequence[TrialPoint], definition: Definition) -> LoadVerdict:
    """Classify one load by its trials. UNDECIDED if the unknown end of a trial that was stopped early could change the result."""
    if not points:
        return LoadVerdict.UNDECIDED
    verdict = _classify(points, [p.loss_ratio for p in points], definition)
    if all(p.exact for p in points):
        return verdict
    at_worst = _classify(points, [p.loss_ratio if p.exact else 1.0 for p in points], definition)
    return verdict if verdict is at_worst else LoadVerdict.UNDECIDED


def _classify(points: Sequence[TrialPoint], loss_ratios: Sequence[float], definition: Definition) -> LoadVerdict:
    """Classify a load with these losses by RFC 9971 (its appendix with the code).

    Optimistic: lower bound if all missing seconds turned out good. Pessimistic: lower bound if all turned out bad. Agreement decides.
    """
    full_low = full_high = short_low = short_high = 0.0
    for p, loss_ratio in zip(points, loss_ratios, strict=True):
        low, full = loss_ratio <= definition.loss_ratio, p.duration_s >= definition.final_s
        full_low += p.duration_s * (low and full)
        full_high += p.duration_s * (not low and full)
        short_low += p.duration_s * (low and not full)
        short_high += p.duration_s * (not low and not full)
    exceed = definition.exceed_ratio
    balancing = short_low * exceed / (1.0 - exceed)
    effective_high = full_high + max(0.0, short_high - balancing)
    whole = max(full_low + effective_high, definition.sum_s)
    quantile = whole * exceed
    optimistic, pessimistic = effective_high <= quantile, whole - full_low <= quantile
    if optimistic != pessimistic:
        return LoadVerdict.UNDECIDED
    return LoadVerdict.LOWER if optimistic else LoadVerdict.UPPER


def conditional_loss(points: Sequence[TrialPoint], definition: Definition) -> float:
    """Return the loss ratio at the quantile 1 - exceed ratio of the seconds of full-length trials (RFC 9971).

    Missing seconds count as lost. A trial stopped early counts as lost, because its further loss is unknown. For a lower bound the result
    never exceeds the definition's loss ratio.
    """
    full = sorted((p.loss_ratio if p.exact else 1.0, p.duration_s) for p in points if p.duration_s >= definition.final_s)
    remaining = max(definition.sum_s, sum(seconds for _, seconds in full)) * (1.0 - definition.exceed_ratio)
    for ratio, seconds in full:
        remaining -= seconds
        if remaining <= _ROUNDING_S:
            return ratio
    return 1.0


def _gap(
    loads: Mapping[float, Sequence[TrialPoint]], definition: Definition, lower: float | None, upper: float | None
) -> tuple[BoundGap | None, str]:
    """Return why a bound is missing, as kind and sentence; None and an empty text if none is."""
    if not loads:
        return BoundGap.NO_TRIALS, "there are no trials"
    if lower is not None:
        if upper is not None:
            return None, ""
        return BoundGap.NO_UPPER_BOUND, "no load that was tried is an upper bound: the limit is higher, or more trials are needed"
    if upper is not None:
        return BoundGap.NO_LOWER_BOUND, "no load below the upper bound is a lower bound: the limit is lower, or more trials are needed"
    longest = max(p.duration_s for points in loads.values() for p in points)
    if longest < definition.final_s:
        return BoundGap.SHORT_TRIALS, f"the longest trial is {longest:g} s, and the definition requires {definition.final_s:g} s"
    return BoundGap.FEW_TRIALS, "at every load there are too few trials, or they were stopped too early for this definition"


@dataclass(frozen=True)
class RampSecond:
    """One second of a ramp: rates sent and received, in frames a second."""

    at_s: float
    offered_pps: float
    received_pps: float
    lost_pps: float | None = None
    """Counted loss; None if it follows from the two rates, whose counters may be read at different instants."""
    refused_pps: float = 0.0
    """Frames that the DUT refused: a device behind a cable would have lost them."""

    @property
    def loss_ratio(self) -> float:
        """Loss ratio of the frames offered to the DUT. More received than sent (counters read at different instants) is not loss."""
        offered = self.offered_pps + self.refused_pps
        lost = max(self.offered_pps - self.received_pps, 0.0) if self.lost_pps is None else self.lost_pps
        return (lost + self.refused_pps) / offered if offered > 0 else 0.0


@dataclass(frozen=True)
class Saturation:
    """Result of a ramp.

    `saturated` is the first second from which the loss stays above the threshold; None if the last second was clean.
    """

    threshold: float
    saturated: RampSecond | None
    last_clean: RampSecond | None
    """Last second before `saturated`, or the last of all; None if the loss was too high from the start."""
    most_received_pps: float
    why: str = ""


def saturation(seconds: Sequence[RampSecond], threshold: float = LOSS_THRESHOLD) -> Saturation:
    """Return the first second from which the loss stays above `threshold` to the end of the ramp.

    Seconds in which nothing was sent do not count. A later second at or below the threshold cancels all failed ones before it, as in the
    graphs of the trex-loadtest tools.
    """
    sent = [s for s in seconds if s.offered_pps > 0]
    if not sent:
        return Saturation(threshold, None, None, 0.0, "nothing was sent")
    failing = len(list(itertools.takewhile(lambda s: s.loss_ratio > threshold, reversed(sent))))
    first = len(sent) - failing
    return Saturation(
        threshold=threshold,
        saturated=sent[first] if failing else None,
        last_clean=sent[first - 1] if first else None,
        most_received_pps=max(s.received_pps for s in sent),
        why="" if failing else "the ramp ended before the loss stayed above the threshold",
    )
