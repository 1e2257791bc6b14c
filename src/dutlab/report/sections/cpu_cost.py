"""Modes by processor time per frame: what is left to say where other work disturbed rates.

A rate falls with every slice of time that other work takes; the processor time that the forwarding threads use for a frame hardly does.
So all attempts count here, disturbed ones too. The rule for answers (dutlab.analysis.answers) decides, of the figures by processor time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import fmean

from dutlab.analysis.verdict import Verdict
from dutlab.doubts import DoubtKind
from dutlab.report.model.contests import CellsOfRun, CompareRequest, Place, between_modes, contests_of, decided, overall_of, place_of
from dutlab.report.model.run_report import CpuCost, ModeCost
from dutlab.stats.summary import median
from dutlab.store.cell_figures import cells_of, counts
from dutlab.store.judged import DISTURBED
from dutlab.store.record import TrialRecord

FORWARDING = ("forwarded_frames_per_cpu_s", "forwarded_bits_per_cpu_s")
ALL_THREADS = ("received_frames_per_cpu_s", "goodput_bits_per_cpu_s")
_NS = 1e9


def cpu_cost(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord], of_run: Iterable[str]) -> CpuCost | None:
    """The modes, of those of the run, by what a frame costs; None where fewer than two modes can be compared."""
    attempts = [*(r for r in set_aside if r.status == DISTURBED), *(r for r in records if r.status in {"measured", DISTURBED})]
    for figures in (FORWARDING, ALL_THREADS):
        having = [r if counts(r) else r.model_copy(update={"status": "measured"}) for r in attempts if _has(r, figures)]
        shared = _shared(having)
        compared = [r for r in having if place_of(r.cell) in shared]
        if modes := _modes(cells_of(compared), figures):
            unplaced = tuple(sorted({*of_run} - {of.mode for of in modes}))
            return CpuCost(modes, len(shared), len(compared), sum(map(was_disturbed, compared)), figures is FORWARDING, unplaced)
    return None


def was_disturbed(record: TrialRecord) -> bool:
    """Whether it carries that doubt, whatever its status."""
    return any(d.kind == DoubtKind.DISTURBED.name for d in record.doubts)


def _modes(cells: CellsOfRun, figures: Sequence[str]) -> tuple[ModeCost, ...]:
    asked = CompareRequest(figures)
    found = decided(contests_of([cells], asked), asked)
    modes = list(dict.fromkeys(of.cell.mode for of in cells.values()))
    overall = overall_of(found, cells, modes)
    dear: dict[tuple[str, str], tuple[float, bool]] = {}
    for first in modes:
        for second in modes:
            if (of := overall.get((first, second))) is not None:
                dear[first, second] = 1 / of.ratio, of.verdict is Verdict.WORSE
            elif first != second and (alone := [c for c in between_modes(found, cells, first, second) if c.ratio is not None]):
                ratios = [1 / c.ratio.ratio for c in alone if c.ratio is not None]
                dear[first, second] = exp(fmean(map(log, ratios))), all(c.verdict is Verdict.WORSE for c in alone)
    known = [m for m in modes if all((m, other) in dear or (other, m) in dear for other in modes if other != m)]
    if len(known) < max(2, len(modes)):  # one is compared with nothing
        return ()

    def times(first: str, second: str) -> float:
        return 1.0 if first == second else dear[first, second][0] if (first, second) in dear else 1 / dear[second, first][0]

    best = min(known, key=lambda m: fmean(log(times(known[0], m) / times(known[0], other)) for other in known))
    order = sorted(known, key=lambda m: times(best, m))
    return tuple(_mode_cost(cells, m, times(best, m), proven=dear.get((best, m), (1.0, False))[1]) for m in order)


def _per_frame(cells: CellsOfRun, mode: str, figures: Sequence[str]) -> float | None:
    """The geometric mean over the mode's cells of the median of the first of `figures` that a cell has."""
    values: list[float] = []
    for of in cells.values():
        readings = next(filter(None, (of.readings(of.cell.link_label, figure) for figure in figures)), ())
        if of.cell.mode == mode and readings:
            values.append(median([r.value for r in readings]))
    return exp(fmean(map(log, values))) if values and min(values) > 0 else None


def _mode_cost(cells: CellsOfRun, mode: str, times: float, *, proven: bool) -> ModeCost:
    per_s = _per_frame(cells, mode, (FORWARDING[0], ALL_THREADS[0]))
    return ModeCost(mode, times, proven, _NS / per_s if per_s else None, _per_frame(cells, mode, ("instructions_per_frame",)))


def _has(record: TrialRecord, figures: Iterable[str]) -> bool:
    held = record.figures.get(record.cell.link_label, {})
    return any(held.get(name, 0.0) > 0 for name in figures)


def _shared(records: Sequence[TrialRecord]) -> set[Place]:
    """Settings that every mode was measured with."""
    of: dict[str, set[Place]] = defaultdict(set)
    for record in records:
        of[record.cell.mode].add(place_of(record.cell))
    return set.intersection(*of.values()) if of else set()
