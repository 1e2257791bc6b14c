"""Statement on all cells at once.

Cells of one block share its time, and cells of one run share its set-up, so they are not independent. Each block (with several runs a side:
each run) therefore counts once, by the geometric mean of its cells, each relative to that cell's own level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean

from dutlab.analysis.comparison import Comparison
from dutlab.analysis.design import LEVEL, RunOrder
from dutlab.analysis.pair_tests import beyond
from dutlab.analysis.verdict import Verdict, side_words
from dutlab.measures import is_speed
from dutlab.stats import few
from dutlab.stats.rank import holm
from dutlab.stats.ratio import ratio_of
from dutlab.stats.rounds import changed
from dutlab.stats.runs import levels_of
from dutlab.stats.summary import Interval


@dataclass(frozen=True)
class Together:
    """Verdict over all cells."""

    verdict: Verdict
    words: str
    ratio: float
    """Ratio of the blocks' medians (with few blocks, or several runs a side: of their geometric means); above 1 is better."""
    p: float
    cells: int
    blocks: tuple[int, int]
    """Number of blocks (or runs) on either side."""
    interval: Interval | None = None
    """95 % interval of the ratio; None where blocks are too few for one."""
    speed: bool = True
    """True if its words are faster and slower, not better and worse."""

    @property
    def turned(self) -> Together:
        """Verdict on the first side against the second."""
        verdict, words = self.verdict, self.words
        if verdict in {Verdict.BETTER, Verdict.WORSE}:
            verdict, words = side_words(better=verdict is Verdict.WORSE, speed=self.speed)
        inside = self.interval
        interval = None if inside is None else Interval(1 / inside.high, 1 / inside.low, inside.confidence)
        return replace(self, verdict=verdict, words=words, ratio=1 / self.ratio, blocks=self.blocks[::-1], interval=interval)


def together(comparisons: Sequence[Comparison], tests: int = 1) -> Together | None:
    """Return the verdict of one test over all cells that have a ratio, as one of `tests` tests; None for fewer than two cells.

    Several figures of one cell come from the same trials, so only the first counts. For the same reason only the sum of directions counts.
    Ratios of cells where lower is better are inverted. Cells with a bound do not count.
    """
    cells = list(
        {c.pair.label: c for c in reversed(comparisons) if c.ratio is not None and c.pair.whole and not any(c.pair.at_least)}.values()
    )
    if len(cells) < 2:  # noqa: PLR2004 - one cell is its own comparison
        return None
    sides = _scores(cells)
    if not all(sides):
        return None
    first, second = ([exp(v) for v in of.values()] for of in sides)
    least = max(c.least for c in cells)
    found_ratio = ratio_of(first, second)
    ratio, p, interval = found_ratio.ratio, None, found_ratio.interval
    if cells[0].pair.design is RunOrder.RUNS:
        levels = levels_of(first, second, list(sides[0]), list(sides[1]))
        ratio, p, interval = (ratio, None, interval) if levels is None else (levels.ratio, levels.p(least), levels.interval)
    if cells[0].pair.design is RunOrder.ROUNDS:
        p = changed([{n: (exp(sides[0][n]), exp(sides[1][n])) for n in sides[0] if n in sides[1]}], least)[0]
    if cells[0].pair.design is RunOrder.IN_TURN and few.takes_over(len(first), len(second), tests, LEVEL):
        levels = few.shared_spread((first, second)).levels(first, second)
        ratio, p, interval = levels.ratio, levels.p(least), levels.interval
    p = beyond(first, second, least) if p is None else p
    size = (len(first), len(second))
    inside = interval is not None and interval.low <= 1 <= interval.high
    speed = all(is_speed(c.pair.figure) for c in cells)
    verdict, words = side_words(better=ratio > 1, speed=speed)
    if p > LEVEL or inside:
        verdict, words = Verdict.NO_DIFFERENCE, Verdict.NO_DIFFERENCE.value
    return Together(verdict, words, ratio, p, len(cells), size, interval, speed)


def overall(pairs: Mapping[tuple[str, str], Sequence[Comparison]]) -> dict[tuple[str, str], Together]:
    """Return the verdict over all cells for each two modes of a run. p is adjusted (Holm) over all pairs of modes with such a verdict."""
    statement_by_modes = {modes: of for modes, comparisons in pairs.items() if (of := together(comparisons, len(pairs))) is not None}
    return {
        modes: _adjusted(of, p)
        for (modes, of), p in zip(statement_by_modes.items(), holm([of.p for of in statement_by_modes.values()]), strict=True)
    }


def _adjusted(of: Together, p: float) -> Together:
    if p <= LEVEL:
        return replace(of, p=p)
    return replace(of, verdict=Verdict.NO_DIFFERENCE, words=Verdict.NO_DIFFERENCE.value, p=p)


def _scores(cells: Sequence[Comparison]) -> tuple[dict[int, float], dict[int, float]]:
    """Return for each side: block → mean over cells of the logarithm relative to the cell's level, positive for better."""
    logs: tuple[dict[int, list[float]], dict[int, list[float]]] = ({}, {})
    for c in cells:
        sign = -1 if c.pair.better == "lower" else 1
        centre = (fmean(map(log, c.pair.first)) + fmean(map(log, c.pair.second))) / 2
        for of, values, at in ((logs[0], c.pair.first, c.pair.first_at), (logs[1], c.pair.second, c.pair.second_at)):
            for value, block in zip(values, at, strict=True):
                of.setdefault(block, []).append(sign * (log(value) - centre))
    first, second = ({block: fmean(values) for block, values in sorted(of.items())} for of in logs)
    return first, second
