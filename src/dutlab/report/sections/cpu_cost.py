"""Modes by processor time per frame: a result that remains when other work disturbs rates or slows the processor.

A rate falls with every slice of time that other work takes; the forwarding threads' processor time per frame hardly changes.
If the processor itself was slower in some trials, this is corrected (dutlab.sensors.processor_speed). So all attempts count here,
even disturbed ones. The rule for answers (dutlab.analysis.answers) decides by processor time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import fmean

from dutlab.analysis.verdict import Verdict
from dutlab.doubts import DoubtKind
from dutlab.report.model.contests import CellsOfRun, CompareRequest, Place, between_modes, contests_of, decided, overall_of, place_of
from dutlab.report.model.cpu import CpuCost, ModeCost
from dutlab.stats.summary import median
from dutlab.store.cell_figures import cells_of, counts
from dutlab.store.judged import DISTURBED, lost_link
from dutlab.store.record import TrialRecord

AT_EQUAL_SPEED = ("forwarded_frames_per_work", "forwarded_bits_per_work")
FORWARDING = ("forwarded_frames_per_cpu_s", "forwarded_bits_per_cpu_s")
ALL_THREADS = ("received_frames_per_cpu_s", "goodput_bits_per_cpu_s")
_NS = 1e9
MOST_SLOWER = 0.10
"""Difference in processor speed between trials, as a share, above which it is reported."""


def cpu_cost(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord], of_run: Iterable[str]) -> CpuCost | None:
    """Return the modes of a run by cost of a frame; None if fewer than two modes can be compared."""
    void = [r for r in set_aside if r.status == DISTURBED]
    attempts = [r for r in (*void, *records) if r.status in {"measured", DISTURBED} and not lost_link(r)]
    for figures in (AT_EQUAL_SPEED, FORWARDING, ALL_THREADS):
        having = [r if counts(r) else r.model_copy(update={"status": "measured"}) for r in attempts if _has(r, figures)]
        shared = _shared(having)
        compared = [r for r in having if place_of(r.cell) in shared]
        time_s = median(_fixed_work_s(compared)) if figures is AT_EQUAL_SPEED and compared else 1.0
        if modes := _modes(cells_of(compared), figures, time_s):
            unplaced = tuple(sorted({*of_run} - {of.mode for of in modes}))
            return CpuCost(
                modes,
                cells=len(shared),
                attempts=len(compared),
                disturbed=sum(r.doubted(DoubtKind.DISTURBED) for r in compared),
                forwarding=figures is not ALL_THREADS,
                at_equal_speed=figures is AT_EQUAL_SPEED,
                unplaced=unplaced,
            )
    return None


def speed_sentence(records: Sequence[TrialRecord]) -> str:
    """Return a sentence on the forwarding processor's speed in measured trials; empty if it hardly differed or is unknown."""
    took_s = _fixed_work_s([r for r in records if r.status == "measured"])
    if not took_s or (more := max(took_s) / min(took_s) - 1) <= MOST_SLOWER:
        return ""
    return (
        f"The processor that forwards worked up to {more:.0%} slower in some trials than in others. Its clock, other work on its core or"
        " neighbours on its host do that. Rates differ by it too; processor time per frame at equal speed does not."
    )


def _fixed_work_s(records: Iterable[TrialRecord]) -> list[float]:
    read = [of.forwarding for r in records for of in r.interference.values() if of.forwarding is not None]
    return [of.fixed_work_s for of in read if of.fixed_work_s is not None]


def _modes(cells: CellsOfRun, figures: Sequence[str], time_s: float) -> tuple[ModeCost, ...]:
    """Return the costs of modes that can be compared; `time_s` is the processor time to which the frame counts refer."""
    asked = CompareRequest(figures)
    answer = decided(contests_of([cells], asked), asked)
    modes = list(dict.fromkeys(of.cell.mode for of in cells.values()))
    overall = overall_of(answer, cells, modes)
    dear: dict[tuple[str, str], tuple[float, bool]] = {}
    for first in modes:
        for second in modes:
            if (of := overall.get((first, second))) is not None:
                dear[first, second] = 1 / of.ratio, of.verdict is Verdict.WORSE
            elif first != second and (alone := [c for c in between_modes(answer, cells, first, second) if c.ratio is not None]):
                ratios = [1 / c.ratio.ratio for c in alone if c.ratio is not None]
                dear[first, second] = exp(fmean(map(log, ratios))), all(c.verdict is Verdict.WORSE for c in alone)
    known = [m for m in modes if all((m, other) in dear or (other, m) in dear for other in modes if other != m)]
    if len(known) < max(2, len(modes)):  # a mode has no comparison
        return ()

    def times(first: str, second: str) -> float:
        return 1.0 if first == second else dear[first, second][0] if (first, second) in dear else 1 / dear[second, first][0]

    best = min(known, key=lambda m: fmean(log(times(known[0], m) / times(known[0], other)) for other in known))
    order = sorted(known, key=lambda m: times(best, m))

    def cost(mode: str) -> ModeCost:
        frames, proven = _per_frame(cells, mode, figures[0]), dear.get((best, mode), (1.0, False))[1]
        ns, instructions = _NS * time_s / frames if frames else None, _per_frame(cells, mode, "instructions_per_frame")
        return ModeCost(mode, times(best, mode), proven, ns, instructions)

    return tuple(map(cost, order))


def _per_frame(cells: CellsOfRun, mode: str, figure: str) -> float | None:
    """Return the geometric mean over the mode's cells of the figure's median."""
    of_mode = [of.column(of.cell.link_label, figure).values for of in cells.values() if of.cell.mode == mode]
    values = [median(of_cell) for of_cell in of_mode if of_cell]
    return exp(fmean(map(log, values))) if values and min(values) > 0 else None


def _has(record: TrialRecord, figures: Iterable[str]) -> bool:
    values = record.figures.get(record.cell.link_label, {})
    return any(values.get(name, 0.0) > 0 for name in figures)


def _shared(records: Sequence[TrialRecord]) -> set[Place]:
    """Return the settings that every mode was measured with."""
    of: dict[str, set[Place]] = defaultdict(set)
    for record in records:
        of[record.cell.mode].add(place_of(record.cell))
    return set.intersection(*of.values()) if of else set()
