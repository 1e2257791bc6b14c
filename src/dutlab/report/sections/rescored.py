"""Scores of a run's trials under every definition of a limit, from its records alone.

A search is rescored alone. Trials of a sweep and their repeats are points of one curve, so they are rescored together. A ramp
has only a saturation point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.methods.ledger import RATE_TOLERANCE, failed_frames, made_frames
from dutlab.methods.ports import Row
from dutlab.report.model.groups import Group
from dutlab.report.sections.loadtest import ramp_of
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.setting import LoadSetting
from dutlab.stats.rescore import LOSS_THRESHOLD, RampSecond, RescoredBounds, Saturation, TrialPoint, points_of, rescore, saturation
from dutlab.store.record import TrialRecord
from dutlab.workload_plug import Rescoring
from dutlab.workloads import plug_of

WHOLE_S = 1.0
"""Length of a row of a ramp's table, which ends with its second. A second that began in the warm-up does not count."""


@dataclass(frozen=True)
class Rescored:
    """Scores of trials of one cell, or of one frame size at every rate of a sweep. Rates are of each link."""

    label: str
    workload: str
    links: str
    size: str
    trials: tuple[int, ...]
    """Trials of the run that the scores are from."""
    points: int
    """Number of scored trials."""
    answers: tuple[RescoredBounds, ...]


def rescored(groups: Sequence[Group]) -> list[Rescored]:
    """Return the scores of every search and every sweep in `groups`."""
    scores = [_of([r], g, points_of(r.tables["trials"])) for g in groups if _kind(g) is Rescoring.ALONE for r in g.measured if r.tables]
    curves: dict[tuple[str, str, str], list[Group]] = {}
    for g in groups:
        if _kind(g) is Rescoring.TOGETHER and g.measured:
            curves.setdefault((g.label, g.cell.link_label, g.cell.setting.size), []).append(g)
    for same in curves.values():
        records = [r for g in same for r in g.measured]
        scores.append(_of(records, same[0], [point for r in records if (point := _point(r)) is not None]))
    return scores


def _kind(of: Group) -> Rescoring:
    return plug_of(of.cell.workload).rescored


def _of(records: Sequence[TrialRecord], of: Group, points: Sequence[TrialPoint]) -> Rescored:
    return Rescored(
        label=of.label,
        workload=of.cell.workload,
        links=of.cell.link_label,
        size=of.cell.setting.size,
        trials=tuple(r.trial for r in records),
        points=len(points),
        answers=rescore(points),
    )


def _point(record: TrialRecord) -> TrialPoint | None:
    """Return a sweep's trial at the intended rate, or at full speed at the reached one. None for a record without flows."""
    setting = record.cell.setting if isinstance(record.cell.setting, ImportedSetting) else record.cell.setting_as(LoadSetting)
    duration, asked = setting.duration_s or 0.0, setting.rate_pps
    if not record.flows or duration <= 0 or not all(f.sent_seconds > 0 for f in record.flows):
        return None
    frames = sum(map(made_frames, record.flows))
    reached = min(made_frames(f) / f.sent_seconds for f in record.flows)
    load = reached if asked is None else asked
    exact = reached >= load * (1 - RATE_TOLERANCE)
    wanted = frames if exact else max(frames, round(load * duration) * len(record.flows))
    return TrialPoint(load, duration, max(sum(map(failed_frames, record.flows)), 0) / wanted if wanted else 0.0, exact)


@dataclass(frozen=True)
class SaturatedRamp:
    """Point at which the ramp of one trial saturated the DUT."""

    label: str
    direction: str
    size: str
    trial: int
    saturation: Saturation


def ramps(groups: Sequence[Group]) -> list[SaturatedRamp]:
    """Return the saturation point of every ramp that has one."""
    return [ramp for g in groups for r in g.measured if "seconds" in r.tables for ramp in _ramps(g.label, r)]


def _ramps(label: str, record: TrialRecord) -> list[SaturatedRamp]:
    ramp, rows = ramp_of(record.cell), record.tables["seconds"]
    begins = (ramp.warmup_s or 0.0) + WHOLE_S / 2
    threshold = (ramp.threshold_percent or 100 * LOSS_THRESHOLD) / 100
    saturated_ramps = []
    for direction in dict.fromkeys(str(row["direction"]) for row in rows):
        of_ramp = [row for row in rows if row["direction"] == direction and float(row["at_s"] or 0) >= begins]
        saturated_ramps.append(
            SaturatedRamp(label, direction, record.cell.setting.size, record.trial, saturation(list(map(_second, of_ramp)), threshold))
        )
    return saturated_ramps


def _second(row: Row) -> RampSecond:
    lost = row.get("lost_pps")
    return RampSecond(
        at_s=float(row["at_s"] or 0),
        offered_pps=float(row["offered_pps"] or 0),
        received_pps=float(row["received_pps"] or 0),
        lost_pps=None if lost is None else float(lost),
        refused_pps=float(row.get("backpressure_pps") or 0),
    )
