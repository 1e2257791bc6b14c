"""Figures of a cell: the records that count, and their values, in the order of time.

`report`, `compare`, `check`, `history`, `cost` and `effects` read figures only here, so all of them use the same values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import repeat
from typing import Final, NamedTuple

from dutlab.doubts import DoubtKind
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.setting import Identity
from dutlab.store.record import TrialRecord
from dutlab.subject import Way, joined, subject_of, sums_first
from dutlab.workloads import is_open, plug_of

WAY_WORDS = {Way.FORWARD: "", Way.BACK: ", backward", Way.BOTH: ", both directions"}
"""Words appended to a place, by the direction of its figures' data."""
CellKey = tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...], Identity]


def key_of(cell: Cell) -> CellKey:
    """Return the key of a cell: everything except its repeat."""
    return (cell.workload, cell.mode, cell.links, tuple(sorted(cell.factors.items())), cell.setting.identity)


class KeyMemory:
    """key_of() of many cells, computed once for all that share their settings and levels, as repeats do that were read from one run."""

    def __init__(self) -> None:
        self._known = dict[tuple[str, tuple[str, ...], int, int], tuple[CellKey, Cell]]()
        """Mode, links, and identity of levels and setting → key, and a cell that keeps these alive."""

    def key_of(self, cell: Cell) -> CellKey:
        """Return the key of a cell."""
        parts = (cell.mode, cell.links, id(cell.factors), id(cell.setting))
        if (known := self._known.get(parts)) is None:
            known = self._known[parts] = key_of(cell), cell
        return known[0]


def counts(record: TrialRecord) -> bool:
    """Return whether a record's figures enter medians. Only this function decides it."""
    return record.status == "measured"


def has_bounds(cell: Cell) -> bool:
    """Return whether any figure of the cell's workload can be a bound. If not, its records need no check."""
    return bool(plug_of(cell.workload).open_without)


def is_bound(record: TrialRecord, name: str, figure: str) -> bool:
    """Return whether a record has only a lower bound of a figure. False for imported figures, for which this is unknown."""
    return is_open(record.cell.workload, figure, record.figures.get(name, ())) and not record.doubted(DoubtKind.IMPORTED)


class Column(NamedTuple):
    """One figure of several trials."""

    trials: tuple[int, ...]
    values: tuple[float, ...]


Columns = Mapping[str, Mapping[str, Column]]
"""Place (`a+b`) → figure → column, in the order of the records."""
NO_COLUMN: Final = Column((), ())


def columns_of(records: Sequence[TrialRecord]) -> Columns:
    """Return the figures of the records as columns, made in one pass: a report asks for each figure many times."""
    found = defaultdict[str, dict[str, tuple[list[int], list[float]]]](dict)
    for record in records:
        trial = record.trial
        for place, figures in record.figures.items():
            columns = found[place]
            for figure, value in figures.items():
                if (column := columns.get(figure)) is None:
                    column = columns[figure] = [], []
                column[0].append(trial)
                column[1].append(value)
    every = tuple(r.trial for r in records)  # one tuple for all columns, since most records have all figures
    return {
        place: {name: Column(every if len(trials) == len(every) else tuple(trials), tuple(values)) for name, (trials, values) in of.items()}
        for place, of in found.items()
    }


class CellFigure(NamedTuple):
    """One figure of one trial."""

    value: float
    repeat: int
    """Block of the plan in which it was measured, from 1."""
    started: datetime
    trial: int
    at_least: bool = False
    """True if the value is a lower bound of the figure."""
    disturbed: bool = False
    """True if other work disturbed the trial."""


@dataclass(frozen=True)
class CellFigures:
    """Figures of one cell's records."""

    cell: Cell
    records: tuple[TrialRecord, ...]
    """Records that count, in the order of time."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names that have figures: first all links and directions together (`a+a.back`), then each one (`a`, `a.back`)."""
        return tuple(sums_first(self._columns))

    def figures(self, name: str) -> tuple[str, ...]:
        """Return every figure that any record has under `name`, in the order of the records."""
        return tuple(self._columns.get(name, ()))

    def column(self, name: str, figure: str) -> Column:
        """Return `figure` of `name` in the records that have it, in the order of time."""
        return self._columns.get(name, {}).get(figure, NO_COLUMN)

    def readings(self, name: str, figure: str) -> tuple[CellFigure, ...]:
        """Return `figure` of `name` in each record that has it, in the order of time."""
        values = self.column(name, figure).values
        records = self.records
        if len(values) < len(records):
            records = tuple(r for r in records if figure in r.figures.get(name, ()))
        at_least = (is_bound(r, name, figure) for r in records) if has_bounds(self.cell) else repeat(False)
        disturbed = map(self._disturbed.__contains__, [r.trial for r in records])
        return tuple(
            map(CellFigure, values, [r.cell.repeat for r in records], [r.started for r in records], [r.trial for r in records],
                at_least, disturbed)
        )  # fmt: skip

    @cached_property
    def _columns(self) -> Columns:
        return columns_of(self.records)

    @cached_property
    def _disturbed(self) -> frozenset[int]:
        """Trials that other work disturbed."""
        return frozenset(r.trial for r in self.records if r.doubted(DoubtKind.DISTURBED))


def cells_of(records: Iterable[TrialRecord]) -> dict[CellKey, CellFigures]:
    """Return cells by their key, in the order in which they were first measured. Cells without a record that counts are left out."""
    by_cell: dict[CellKey, list[TrialRecord]] = {}
    keys = KeyMemory()
    for record in sorted(records, key=lambda r: (r.started, r.trial)):
        if counts(record):
            by_cell.setdefault(keys.key_of(record.cell), []).append(record)
    return {key: CellFigures(of[0].cell, tuple(of)) for key, of in by_cell.items()}


def figure_names(cells: Iterable[CellFigures]) -> tuple[str, ...]:
    """Return the names of all figures of the cells, sorted."""
    return tuple(sorted({figure for cell in cells for name in cell.names for figure in cell.figures(name)}))


def name_words(name: str, links: Sequence[str], workload: str) -> str:
    """Return words for a name of a record's figures: `link a`, `link a, backward`, `link a of a+b`, `drive d1`."""
    label, place, subject = joined(links), plug_of(workload).place, subject_of(name)
    if len(subject.places) > 1:
        return f"{place} {name}" if name == label or len(links) == 1 else f"{place}s {name}"
    of = f" of {label}" if len(links) > 1 and subject.way is not Way.BOTH and subject.places[0] in links else ""
    way = WAY_WORDS[subject.way]
    return f"{place} {subject.places[0]}{of}{way}"
