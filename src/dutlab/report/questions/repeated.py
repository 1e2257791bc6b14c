"""Claims of earlier runs, judged by a run that repeats them: each figure is inside its prediction interval, outside, or cannot tell.

A figure holds for the machine that it was measured on. So on another kind of processor a figure outside its interval says nothing; there
a claim about several modes is judged by the ratios of its figures. All intervals of one question together are wrong in 5 % (Bonferroni).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutlab.analysis.compare import EXACT_LEAST
from dutlab.analysis.design import LEVEL, RunOrder
from dutlab.analysis.history import FEWEST_FOR_NEXT, HistoryPoint, history
from dutlab.measures import is_exact
from dutlab.report.model.contests import OwnWords, cell_label, own_words
from dutlab.report.model.words import unit_for, with_two_digits
from dutlab.report.questions.checked import ALLOWED
from dutlab.report.questions.claims import ClaimCard, ClaimedCell
from dutlab.report.questions.sides import ComparedRun
from dutlab.stats.few import SharedSpread, shared_spread
from dutlab.stats.prediction import FEWEST_RUNS, at_level, common_change, next_of_repeats, next_of_runs, reach_of, widened
from dutlab.stats.summary import Interval, median
from dutlab.store.cell_figures import CellFigure, CellFigures, CellKey, cells_of, name_words

WIDEST = ALLOWED * RunOrder.ONE_AFTER_THE_OTHER.least
"""Largest reach of an interval, as a share of its centre: a median inside a wider one does not show that it was repeated."""

_ALLOWED = {False: RunOrder.ONE_AFTER_THE_OTHER.least, True: RunOrder.INTERLEAVED.least}
"""Change that another set-up may bring, which no earlier run shows: of a figure, and of a ratio (True) of two figures of one run."""

_CERTAIN = {is_ratio: ALLOWED * allowed for is_ratio, allowed in _ALLOWED.items()}
"""Change that proves a difference where the repeats of one run gave the interval: they do not show the spread of runs."""


class RepeatState(enum.StrEnum):
    """Verdict on a figure or a claim."""

    REPEATED = "repeated"
    DIFFERS = "differs"
    CANNOT_TELL = "cannot tell"


class Undecided(enum.Enum):
    """Reason why a figure cannot be judged."""

    FEW = "too few repeats to predict one more run: three are the fewest"
    WIDE = f"the interval reaches further than {WIDEST:.0%}, so almost any result would be inside"
    BOUND = "only a lower bound is known"
    ABSENT = "it has no result here"
    ONE_RUN = "it is outside, but the file has too few runs to show how much runs differ: three are the fewest"
    DISTURBED = "it is outside, but other work disturbed repeats"
    MACHINE = "it is outside, but the processors differ"
    UNKNOWN_MACHINE = "it is outside, but not all processors are known"


class Basis(enum.StrEnum):
    """Source of a prediction interval."""

    COUNT = "counts"
    """Figures without an error."""
    REPEATS = "repeats of a run"
    RUNS = "runs"
    HISTORY = "history of runs"


@dataclass(frozen=True)
class ExpectedRange:
    """Expectation for one more run, of a figure or of the ratio of two figures."""

    label: str
    """Cell; of a ratio, both cells."""
    figure: str
    is_ratio: bool
    then: float
    """Median of the newest earlier run."""
    interval: Interval | None
    basis: Basis
    untold: Undecided | None = None

    def text(self, value: float) -> str:
        """Return a value with its unit."""
        if self.is_ratio:
            return f"× {value:.3f}"
        return with_two_digits(unit_for(self.figure, [value]), value).text(value).strip()


@dataclass(frozen=True)
class JudgedFigure:
    """A prediction, and the result of the repeated run."""

    prediction: ExpectedRange
    here: float | None
    repeats: int
    """Number of repeats here."""
    state: RepeatState
    untold: Undecided | None = None


@dataclass(frozen=True)
class JudgedClaim:
    """Verdict on one claim."""

    card: ClaimCard
    figures: tuple[JudgedFigure, ...]
    by_ratios: bool
    """True if only ratios count, since the processors differ."""

    @property
    def counting(self) -> tuple[JudgedFigure, ...]:
        """Figures that decide."""
        return tuple(f for f in self.figures if f.prediction.is_ratio or not self.by_ratios)

    @property
    def state(self) -> RepeatState:
        """Differs if any figure does; repeated if every one was."""
        states = {f.state for f in self.counting}
        if RepeatState.DIFFERS in states:
            return RepeatState.DIFFERS
        return RepeatState.REPEATED if states == {RepeatState.REPEATED} else RepeatState.CANNOT_TELL


def worst(states: Sequence[RepeatState]) -> RepeatState:
    """Return the verdict on several claims together."""
    order = (RepeatState.DIFFERS, RepeatState.CANNOT_TELL, RepeatState.REPEATED)
    return next((state for state in order if state in states), RepeatState.CANNOT_TELL)


def expected(cards: Sequence[ClaimCard], past: Sequence[ComparedRun]) -> list[tuple[ExpectedRange, ...]]:
    """Return the range of one more run with as many repeats, for each claim. `past` are runs of one experiment, oldest first."""
    runs = _PastRuns(past, cards)
    return [tuple(runs.predicted(s, len(s.values(runs.cells[-1]))) for s in _statements(card)) for card in cards]


def judged(cards: Sequence[ClaimCard], past: Sequence[ComparedRun], new: ComparedRun, *, same_processors: bool | None) -> list[JudgedClaim]:
    """Judge each claim of the runs `past` (of one experiment, the oldest first) by the run `new`.

    `same_processors` is the result of the function of that name.
    """
    runs, cells = _PastRuns(past, cards), cells_of(new.records)
    out = []
    for card in cards:
        statements = _statements(card)
        figures = tuple(_judged(runs, s, cells, same_processors) for s in statements)
        out.append(JudgedClaim(card, figures, same_processors is not True and any(s.base for s in statements)))
    return out


def same_processors(then: Mapping[str, Any], here: Mapping[str, Any]) -> bool | None:
    """Return whether both runs' machines have the same processors, by the facts of hosts; None if a host's are not known."""
    first, second = ({name: _processor(of) for name, of in facts.items() if "~" not in name} for facts in (then, here))
    if not first or first.keys() != second.keys() or None in {*first.values(), *second.values()}:
        return None
    return first == second


def _processor(facts: object) -> tuple[object, object] | None:
    cpu = facts.get("cpu") if isinstance(facts, Mapping) else None
    return (cpu["model"], cpu.get("cores")) if isinstance(cpu, Mapping) and cpu.get("model") else None


@dataclass(frozen=True)
class _Statement:
    """A figure of a claim, or its ratio to that of `base`."""

    cell: ClaimedCell
    base: ClaimedCell | None = None

    def values(self, cells: Mapping[CellKey, CellFigures]) -> list[float]:
        """Return the value of each repeat of a run; a ratio needs both cells in the same repeat."""
        values = {r.repeat: r.value for r in _readings(self.cell, cells)}
        if self.base is None:
            return list(values.values())
        bases = {r.repeat: r.value for r in _readings(self.base, cells)}
        return [value / bases[n] for n, value in values.items() if n in bases and min(value, bases[n]) > 0]

    def readings(self, cells: Mapping[CellKey, CellFigures]) -> list[CellFigure]:
        return [r for cell in (self.cell, self.base) if cell is not None for r in _readings(cell, cells)]

    def label(self, own: OwnWords) -> str:
        """Return the name of the cell, or of both; `own` has words for cells that would have the same name."""
        name = _label(self.cell, own)
        return name if self.base is None else f"{name} ÷ {_label(self.base, own)}"


def _readings(cell: ClaimedCell, cells: Mapping[CellKey, CellFigures]) -> tuple[CellFigure, ...]:
    return cells[cell.key].readings(cell.link, cell.figure) if cell.key in cells else ()


def _label(cell: ClaimedCell, own: OwnWords) -> str:
    words = cell_label(cell.mode, cell.factors, cell.workload, cell.size, name_words(cell.link, cell.links, cell.workload))
    return " · ".join(filter(None, (words, own.get(cell.key, ""))))


def _statements(card: ClaimCard) -> tuple[_Statement, ...]:
    """Return the claim's figures, then the ratio of each to the first one that differs from it in mode or levels only."""
    first: dict[object, ClaimedCell] = {}
    ratios = []
    for cell in card.cells:
        base = first.setdefault((cell.figure, cell.link, cell.workload, cell.links, cell.key[-1]), cell)
        if base is not cell and not is_exact(cell.figure):
            ratios.append(_Statement(cell, base))
    return (*map(_Statement, card.cells), *ratios)


class _PastRuns:
    """Earlier runs of one experiment, with the common spread of the newest run's cells."""

    def __init__(self, runs: Sequence[ComparedRun], cards: Sequence[ClaimCard]) -> None:
        self._runs = runs
        self.cells = [cells_of(run.records) for run in runs]
        self._own = own_words(of.cell for of in self.cells[-1].values())
        statements = [s for card in cards for s in _statements(card)]
        self._outside = LEVEL / max(len(statements), 1)
        ratios, figures = ([s for s in statements if (s.base is not None) == is_ratio] for is_ratio in (True, False))
        self._shared = {True: self._spread(ratios), False: self._spread(figures)}
        """Common spread of repeats in the newest run, of ratios and of figures."""
        usable = self._usable(ratios)
        self._of_runs = shared_spread(usable) if usable else None
        """Common spread of the ratios of runs. What changes all cells of a run cancels in them, so cells show one another's spread."""
        self._common = common_change(self._usable(figures))

    def predicted(self, statement: _Statement, count: int) -> ExpectedRange:
        """Return the expectation for a run with `count` repeats."""
        is_ratio, figure = statement.base is not None, statement.cell.figure
        by_run = [values for cells in self.cells if (values := statement.values(cells))]
        newest = statement.values(self.cells[-1])
        then = median(newest) if newest else float("nan")
        interval, basis = self._interval(statement, by_run, newest, max(count, 1))
        untold = None
        if any(r.at_least for r in statement.readings(self.cells[-1])):
            untold = Undecided.BOUND
        elif interval is None:
            untold = Undecided.FEW
        elif _is_wide(interval, then):
            untold = Undecided.WIDE
        return ExpectedRange(statement.label(self._own), figure, is_ratio, then, interval, basis, untold)

    def _interval(
        self, statement: _Statement, by_run: Sequence[Sequence[float]], newest: Sequence[float], count: int
    ) -> tuple[Interval | None, Basis]:
        is_ratio = statement.base is not None
        if is_exact(statement.cell.figure):
            return (widened(Interval(median(newest), median(newest), 1.0), EXACT_LEAST) if newest else None), Basis.COUNT
        basis = Basis.REPEATS
        shared, common = (self._of_runs, None) if is_ratio else (None, self._common)
        prediction = next_of_runs(self._medians(statement), self._outside, shared, common, LEVEL)
        if prediction is not None:
            basis = Basis.RUNS
        if len(by_run) >= FEWEST_FOR_NEXT:
            points = [HistoryPoint(str(n), tuple(values)) for n, values in enumerate(by_run)]
            if (following := history(points).next_run) is not None:
                prediction, basis = at_level(following, (following.low + following.high) / 2, self._outside), Basis.HISTORY
        if prediction is None:
            prediction = next_of_repeats(newest, count, self._outside, self._shared[is_ratio])
        return (None if prediction is None else widened(prediction, _ALLOWED[is_ratio])), basis

    def _usable(self, statements: Sequence[_Statement]) -> list[list[float]]:
        """Return the medians of all runs, of statements that have one above 0 in each."""
        by_run = [self._medians(s) for s in statements if not is_exact(s.cell.figure)]
        return [medians for medians in by_run if len(medians) == len(self.cells) >= FEWEST_RUNS and min(medians) > 0]

    def _medians(self, statement: _Statement) -> list[float]:
        """Return the median of each run that has values."""
        return [median(values) for cells in self.cells if (values := statement.values(cells))]

    def _spread(self, statements: Sequence[_Statement]) -> SharedSpread | None:
        cells = [values for s in statements if not is_exact(s.cell.figure) and len(values := s.values(self.cells[-1])) > 1]
        positive = [values for values in cells if min(values) > 0]
        return shared_spread(positive) if positive else None


def _is_wide(interval: Interval, centre: float) -> bool:
    reach = 0.0 if interval.low == interval.high else reach_of(interval, centre)
    return reach is None or reach > WIDEST


def _judged(runs: _PastRuns, statement: _Statement, cells: Mapping[CellKey, CellFigures], same: bool | None) -> JudgedFigure:  # noqa: FBT001 -- the result of same_processors()
    values, readings = statement.values(cells), statement.readings(cells)
    prediction = runs.predicted(statement, len(values))
    here = median(values) if values else None
    state, untold = RepeatState.CANNOT_TELL, prediction.untold
    if here is None:
        untold = Undecided.ABSENT
    elif any(r.at_least for r in readings):
        untold = Undecided.BOUND
    elif prediction.interval is not None and untold in {None, Undecided.WIDE}:
        is_inside = prediction.interval.low <= here <= prediction.interval.high
        if not is_inside:
            untold = next(_excuses(statement, prediction, here, readings, same), None)
        state = _STATES[is_inside, untold is None]
    return JudgedFigure(prediction, here, len(values), state, untold)


_STATES = {
    (True, True): RepeatState.REPEATED,
    (True, False): RepeatState.CANNOT_TELL,
    (False, True): RepeatState.DIFFERS,
    (False, False): RepeatState.CANNOT_TELL,
}
"""Whether a median is inside, and whether a verdict is possible → the verdict."""


def _excuses(
    statement: _Statement,
    prediction: ExpectedRange,
    here: float,
    readings: Sequence[CellFigure],
    same: bool | None,  # noqa: FBT001 -- as above
) -> Iterator[Undecided]:
    """Yield reasons why a median outside its interval proves no difference."""
    if prediction.basis is Basis.REPEATS:
        change = reach_of(Interval(here, here, 1.0), prediction.then)
        if change is not None and change <= _CERTAIN[prediction.is_ratio]:
            yield Undecided.ONE_RUN
    if any(r.disturbed for r in readings):
        yield Undecided.DISTURBED
    if statement.base is None and not is_exact(statement.cell.figure) and same is not True:
        yield Undecided.MACHINE if same is False else Undecided.UNKNOWN_MACHINE
