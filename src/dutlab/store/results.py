"""Results of a run: the main figures of each cell over its repeats, and the best and worst of those that can be compared.

The indexes of folders and fleets keep them, so that a list of runs has results without reading a record.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dutlab.measures import direction_of, is_speed
from dutlab.stats.summary import median
from dutlab.subject import apart
from dutlab.workloads import main_figures

if TYPE_CHECKING:  # a list of runs loads neither settings nor records
    from dutlab.plan.cell import Cell
    from dutlab.store.record import TrialRecord

_SIZES = {"frame_size", "frame_mix"}


@dataclass(frozen=True)
class CellResult:
    """One main figure of one cell."""

    place: str
    """Name of all cells that differ from this one only in mode and levels: 12 hexadecimal digits, the same in every run."""
    mode: str
    factors: Mapping[str, str]
    """Factor → level, without the mode."""
    workload: str
    links: str
    """Links that were driven: `a+b`."""
    link: str
    """Subject of the figure: the links and directions together."""
    frame_size: str
    setting: str
    """Settings in which the run's cells of the workload differ, besides the frame size: `rw randread, depth 32`."""
    figure: str
    median: float
    low: float
    high: float
    """Least and greatest value of the repeats."""
    repeats: int
    at_least: bool
    """True if a repeat has only a lower bound."""
    disturbed: bool
    """True if other work disturbed a repeat."""

    def label(self, varied: Iterable[str] = ()) -> str:
        """Return the mode, with the levels of the factors in `varied`: `nat · mtu 9000`."""
        return " · ".join([self.mode, *(f"{name} {self.factors[name]}" for name in varied if name in self.factors)])


@dataclass(frozen=True)
class BestAndWorst:
    """Best and worst cell at one place by one figure. With a single cell, both are the same."""

    best: CellResult
    worst: CellResult
    cells: int
    varied: tuple[str, ...]
    """Factors whose levels differ among the cells."""
    places: int = 1
    """Number of places that the cells are from: 1 where they differ in mode and levels only."""

    @property
    def is_alone(self) -> bool:
        """True if there is nothing to compare."""
        return self.cells == 1


def place_name(cell: Cell) -> str:
    """Return CellResult.place of a cell."""
    import hashlib  # noqa: PLC0415 -- loads OpenSSL; results that are kept need none of it

    words = json.dumps([cell.workload, list(cell.links), [[name, str(value)] for name, value in cell.setting.identity]])
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def results_of(records: Iterable[TrialRecord]) -> tuple[CellResult, ...]:
    """Return the results of a run's records, in the order in which cells were first measured."""
    from dutlab.store.cell_figures import cells_of  # noqa: PLC0415 -- loads settings and records, which a list of runs does not need

    cells = cells_of(records).values()
    values_of: dict[tuple[str, str], set[object]] = defaultdict(set)
    for of in cells:
        for setting, value in of.cell.setting.identity:
            values_of[of.cell.workload, setting].add(value)
    out = []
    for of in cells:
        varied = [f"{k} {v}" for k, v in of.cell.setting.identity if len(values_of[of.cell.workload, k]) > 1 and k not in _SIZES]
        name = of.names[0] if of.names else ""
        for figure in main_figures(of.cell.workload, of.figures(name)) if name else ():
            readings = of.readings(name, figure)
            values = [r.value for r in readings]
            out.append(
                CellResult(
                    place_name(of.cell), of.cell.mode, {k: v for k, v in of.cell.factors.items() if k != "mode"}, of.cell.workload,
                    of.cell.link_label, name, of.cell.setting.size, ", ".join(varied), figure, median(values), min(values), max(values),
                    len(values), any(r.at_least for r in readings), any(r.disturbed for r in readings),
                )
            )  # fmt: skip
    return tuple(out)


def best_and_worst(results: Iterable[CellResult]) -> tuple[BestAndWorst, ...]:
    """Return the best and worst cell of each workload, at the place where most cells were measured.

    If there are several such places, the one with the most links counts, then the one with the shortest frames, then the one with the best
    result. If every place has one cell, as for pairs of hosts, all places count together. A figure without a better direction is left out.
    If a workload has a speed among its figures, the others are left out too.
    """
    by_place: dict[tuple[str, str], list[CellResult]] = defaultdict(list)
    for result in results:
        if direction_of(result.figure):
            by_place[result.place, result.figure].append(result)
    by_workload: dict[str, list[list[CellResult]]] = defaultdict(list)
    for cells in by_place.values():
        by_workload[cells[0].workload].append(cells)
    chosen = [min(of, key=_order) if max(map(len, of)) > 1 else _alone(of) for of in by_workload.values()]
    return tuple(_ends(cells) for cells in sorted(chosen, key=_order))


def _order(cells: list[CellResult]) -> tuple[bool, int, int, int, float, str]:
    first, values = cells[0], [c.median for c in cells]
    size = int(first.frame_size) if first.frame_size.isascii() and first.frame_size.isdigit() else 1 << 20
    best = min(values) if direction_of(first.figure) == "lower" else -max(values)
    return (not is_speed(first.figure), -len(cells), -len(apart(first.link)), size, best, first.place)


def _ends(cells: list[CellResult]) -> BestAndWorst:
    less = direction_of(cells[0].figure) == "lower"
    ordered = sorted(cells, key=lambda c: c.median if less else -c.median)
    names = list(dict.fromkeys(name for c in cells for name in c.factors))
    varied = tuple(name for name in names if len({c.factors.get(name) for c in cells}) > 1)
    return BestAndWorst(ordered[0], ordered[-1], len(cells), varied, len({c.place for c in cells}))


def _alone(places: list[list[CellResult]]) -> list[CellResult]:
    """Return the cells of all places that have the figure of the first of them."""
    figure = min(places, key=_order)[0].figure
    return [cell for cells in places for cell in cells if cell.figure == figure]
