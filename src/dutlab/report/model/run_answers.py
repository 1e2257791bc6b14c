"""Comparisons of a run's cells by the rule for answers, for the sections of its report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from dutlab.analysis.answers import ContestResult
from dutlab.analysis.together import Together
from dutlab.report.model.contests import CellsOfRun, CompareRequest, PlacedContest, alone, contests_of, decided, overall_of
from dutlab.report.model.table import Figure
from dutlab.store.cell_figures import CellFigure, CellFigures, cells_of
from dutlab.store.record import TrialRecord

_Where = tuple[str, str, frozenset[int]]
"""Figure, its subject, and its trials."""


class RunAnswers:
    """Contest results of a run, computed on first use and kept."""

    def __init__(self, records: Iterable[TrialRecord]) -> None:
        self._records = {r.trial: r for r in records}
        self._by_trials: dict[tuple[str, ...], Mapping[_Where, tuple[ContestResult, str]]] = {}
        self._of_figures: dict[tuple[str, ...], Sequence[tuple[PlacedContest, ContestResult]]] = {}

    def standing(self, figure: str, named: Sequence[tuple[str, Figure]]) -> tuple[ContestResult, Mapping[str, str]]:
        """Return the contest result of these cells, and label in it → name.

        Modes or levels of one cell have the same result as in `compare`, or `compare --figure` for figures other than the main ones.
        Others, such as generators and drives, are compared only with one another.
        """
        for figures in ((), (figure,)):
            standing_by_cell = self._held(figures)
            standings = [standing_by_cell.get((figure, value.link, frozenset(value.trials))) for _, value in named]
            known = [of for of in standings if of is not None]
            if len(known) == len(named) and len({id(standing) for standing, _ in known}) == 1:
                names = {label: name for (_, label), (name, _) in zip(known, named, strict=True)}
                return known[0][0].among(names), names
        return alone(figure, {name: self._readings(value, figure) for name, value in named}), {name: name for name, _ in named}

    @cached_property
    def overall(self) -> Mapping[tuple[str, str], Together]:
        """Overall comparisons of every two modes over all cells, by main figures; empty with a single cell."""
        modes = list(dict.fromkeys(of.cell.mode for of in self._cells.values()))
        return overall_of(self._standings(()), self._cells, modes)

    @cached_property
    def _cells(self) -> CellsOfRun:
        return cells_of(self._records.values())

    def _standings(self, figures: tuple[str, ...]) -> Sequence[tuple[PlacedContest, ContestResult]]:
        """Return the results by `figures`, or by main figures if empty; figures without a known better direction are left out."""
        if figures not in self._of_figures:
            asked = CompareRequest(figures)
            self._of_figures[figures] = decided([of for of in contests_of([self._cells], asked) if of.contest.better], asked)
        return self._of_figures[figures]

    def _held(self, figures: tuple[str, ...]) -> Mapping[_Where, tuple[ContestResult, str]]:
        if figures not in self._by_trials:
            self._by_trials[figures] = dict(self._where(figures))
        return self._by_trials[figures]

    def _where(self, figures: tuple[str, ...]) -> Iterator[tuple[_Where, tuple[ContestResult, str]]]:
        for of, standing in self._standings(figures):
            figure = of.contest.figure
            for key, e in zip(of.keys, of.contest.entrants, strict=True):
                yield (figure, of.name, frozenset(self._cells[key].column(of.name, figure).trials)), (standing, e.label)

    def _readings(self, value: Figure, figure: str) -> tuple[CellFigure, ...]:
        records = sorted((self._records[t] for t in value.trials if t in self._records), key=lambda r: (r.started, r.trial))
        return CellFigures(records[0].cell, tuple(records)).readings(value.link, figure) if records else ()
