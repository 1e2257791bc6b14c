"""Contests made of records: cells of a run that differ only in mode and factor levels, compared by one rule.

The headline, `compare` of one run, `compare --order`, `effects` and the site make their contests here, so p is adjusted for the same pairs
in all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations

from dutlab.analysis.answers import Contest, ContestResult, Entrant, decide
from dutlab.analysis.comparison import Comparison, Margin, Pair
from dutlab.analysis.design import in_turn
from dutlab.analysis.together import Together, overall
from dutlab.errors import DirectionUnknown, InputError
from dutlab.measures import Better, side_of
from dutlab.plan.cell import Cell
from dutlab.report.model.words import alike_names, better_of, setting_words
from dutlab.store.cell_figures import CellFigure, CellFigures, CellKey, key_of, name_words
from dutlab.subject import sums_first
from dutlab.workloads import main_figures


@dataclass(frozen=True)
class CompareRequest:
    """Options of a comparison."""

    figures: Sequence[str] = ()
    """Figures to compare by, in place of the main figure of each cell."""
    margin: float | Margin | None = None
    """Margin of an equivalence test: one for all cells, or a function of the pair; None: no test."""
    least: float | None = None
    """Least relative change that counts; None: the default of the design."""
    better: Mapping[str, Better] = field(default_factory=dict)
    """Figure → better direction, for figures without a declared one; the empty name applies to every figure."""

    def side_of(self, figure: str) -> Better:
        """Return the better direction of a figure; empty if unknown. Raises InputError if `better` contradicts the declared one."""
        try:
            return side_of(figure, self.better)
        except ValueError as error:
            raise InputError(str(error), remedy="leave it out of --better") from None


OwnWords = Mapping[CellKey, str]
"""Cell → words that distinguish it from similar ones."""
CellsOfRun = Mapping[CellKey, CellFigures]
Place = tuple[object, ...]
"""A cell's identity without its mode and levels."""


@dataclass(frozen=True)
class PlacedContest:
    """A contest, and the cells that its values are from."""

    contest: Contest
    place: Place
    name: str
    """Subject of the figure: the links together, or one of them."""
    keys: tuple[CellKey, ...]
    """Cell of each entrant."""


def contests_of(runs: Sequence[CellsOfRun], asked: CompareRequest, *, base: str = "") -> list[PlacedContest]:
    """Return a contest for each place at which several modes, or levels of factors, were measured in any of `runs`.

    The cell of mode `base` comes first in each pair. Raises InputError if `asked.better` contradicts a declared direction.
    """
    cells = list({key: of_cell for of_run in runs for key, of_cell in of_run.items()}.values())
    own = own_words(c.cell for c in cells)
    alike: dict[Place, list[CellFigures]] = defaultdict(list)
    for c in sorted(cells, key=lambda c: c.cell.mode != base):
        alike[place_of(c.cell)].append(c)
    stretches = _stretches(list(alike.values())) if len(runs) == 1 else frozenset()
    contests = []
    for place, same in alike.items():
        varied = varied_factors(same)
        for name, figure in compared_by(same, asked.figures):
            entrants = [_entrant(runs, c, varied, name, figure) for c in same]
            if sum(any(e.runs) for e in entrants) > 1:
                label = contest_label(same[0].cell, name, own[key_of(same[0].cell)])
                whole = name in {c.names[0] for c in same}
                contest = Contest(label, figure, tuple(entrants), asked.side_of(figure), whole, stretches)
                contests.append(PlacedContest(contest, place, name, tuple(key_of(c.cell) for c in same)))
    return contests


def decided(contests: Sequence[PlacedContest], asked: CompareRequest) -> list[tuple[PlacedContest, ContestResult]]:
    """Return each contest with its result. Raises DirectionUnknown, and ValueError for an invalid margin or least change."""
    insist_on_directions(of.contest for of in contests)
    return list(zip(contests, decide([of.contest for of in contests], least=asked.least, margin=asked.margin), strict=True))


def between_modes(
    entries: Sequence[tuple[PlacedContest, ContestResult]], cells: CellsOfRun, first: str, second: str
) -> tuple[Comparison, ...]:
    """Compare each cell of mode `second` with the cell of mode `first` that has the same levels."""
    out = []
    for entry, standing in entries:
        of = {(cells[key].cell.mode, e.levels): e.label for key, e in zip(entry.keys, entry.contest.entrants, strict=True)}
        for (mode, levels), label in of.items():
            other = of.get((second, levels))
            if mode == first and other is not None and (c := standing.against(label, other)) is not None:
                out.append(c)
    return tuple(out)


def overall_of(
    entries: Sequence[tuple[PlacedContest, ContestResult]], cells: CellsOfRun, modes: Sequence[str]
) -> dict[tuple[str, str], Together]:
    """Return the overall comparison of every two modes over all cells: (first, second) → second against first, in both orders."""
    statements = overall({(a, b): between_modes(entries, cells, a, b) for a, b in combinations(modes, 2)})
    return statements | {(b, a): of.turned for (a, b), of in statements.items()}


def place_of(cell: Cell) -> Place:
    """Return a cell's identity without its mode, levels and repeat."""
    return (cell.workload, cell.links, cell.setting.identity)


def entrant_label(cell: Cell, varied: Iterable[str]) -> str:
    """Return a label such as `nat · mtu 9000`: the mode and the levels of the factors in `varied`."""
    return " · ".join([cell.mode, *_levels(cell, varied)])


def varied_factors(cells: Sequence[CellFigures]) -> set[str]:
    """Return the factors, without the mode, in whose levels the cells differ."""
    return {name for c in cells for name in c.cell.factors if len({of.cell.factors.get(name) for of in cells}) > 1} - {"mode"}


def _levels(cell: Cell, varied: Iterable[str]) -> tuple[str, ...]:
    names = set(varied)
    return tuple(f"{name} {level}" for name, level in cell.factors.items() if name in names)


def _entrant(runs: Sequence[CellsOfRun], c: CellFigures, varied: set[str], name: str, figure: str) -> Entrant:
    key = key_of(c.cell)
    readings = [of[key].readings(name, figure) if key in of else () for of in runs]
    return _with_readings(entrant_label(c.cell, varied), readings, _levels(c.cell, c.cell.factors.keys() - {"mode"}))


def _with_readings(label: str, readings: Sequence[Sequence[CellFigure]], levels: tuple[str, ...] = ()) -> Entrant:
    return Entrant(
        label,
        tuple(tuple(r.value for r in of) for of in readings),
        tuple(tuple(r.repeat for r in of) for of in readings),
        levels,
        any(r.at_least for of in readings for r in of),
        sum(r.disturbed for of in readings for r in of),
    )


def alone(figure: str, named: Mapping[str, Sequence[CellFigure]]) -> ContestResult:
    """Return the contest result of things that are not modes or levels of one cell, such as drives; `named` is name → readings."""
    moments = {name: [r.started for r in of] for name, of in named.items()}
    stretches = frozenset((a, b) for a, b in combinations(moments, 2) if not in_turn([(moments[a], moments[b])]))
    entrants = tuple(_with_readings(name, [of]) for name, of in named.items())
    (standing,) = decide([Contest("", figure, entrants, better_of(figure) or "higher", stretches=stretches)])
    return standing


def _stretches(alike: Sequence[Sequence[CellFigures]]) -> frozenset[tuple[str, str]]:
    """Return pairs of labels whose trials did not take turns in time, over all cells that both have."""
    moments: dict[tuple[str, str], list[tuple[list[datetime], list[datetime]]]] = defaultdict(list)
    for same in alike:
        varied = varied_factors(same)
        for a, b in combinations(same, 2):
            at = [r.started for r in a.records], [r.started for r in b.records]
            moments[entrant_label(a.cell, varied), entrant_label(b.cell, varied)].append(at)
    return frozenset(pair for pair, times in moments.items() if not in_turn(times))


def contest_label(cell: Cell, name: str, own: str) -> str:
    """Return a label such as `sweep 64 · link a`, with words that distinguish the cell from similar ones."""
    size = cell.setting.size
    words = cell_label("", {}, cell.workload, size, name_words(name, cell.links, cell.workload))
    return " · ".join(filter(None, (words, own)))


def compared_by(cells: Sequence[CellFigures], figures: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, figure) of everything that the cells are compared by: sums first, then each direction."""
    names = sums_first(name for c in cells for name in c.names)
    out = []
    for name in names:
        have = list(dict.fromkeys(figure for c in cells for figure in c.figures(name)))
        out += [(name, figure) for figure in (figures or main_figures(cells[0].cell.workload, have)) if figure in have]
    return out


def insist_on_directions(judged: Iterable[Pair | Contest]) -> None:
    """Raise DirectionUnknown if a figure has no declared better direction."""
    if unknown := dict.fromkeys(of.figure for of in judged if not of.better):
        raise DirectionUnknown(tuple(unknown))


_ENDS = ("client", "server")


def own_words(cells: Iterable[Cell]) -> OwnWords:
    """Return words that distinguish cells of the same workload, frame size and links, such as hosts, streams or depth; without the mode."""
    alike = defaultdict[object, list[Cell]](list)
    for cell in cells:
        alike[cell.workload, cell.links, cell.setting.size].append(cell)
    words_by_key = {}
    for same in alike.values():
        same_names = alike_names(cell.setting for cell in same)
        for cell in same:
            hosts = " to ".join(host for end, host in zip(_ENDS, cell.setting.ends, strict=False) if end not in same_names)
            words = setting_words(cell.setting, without={*same_names, *(_ENDS if cell.setting.ends else ())})
            words_by_key[key_of(cell)] = ", ".join(filter(None, (hosts, words)))
    return words_by_key


def cell_label(mode: str, factors: Mapping[str, str], workload: str, frame_size: str, link: str) -> str:
    """Return a label such as `nat · sweep 64 · link a`; `link` is in the words of `name_words`."""
    varied = [f"{name} {level}" for name, level in factors.items() if name != "mode"]
    return " · ".join([*([mode] if mode else []), *varied, f"{workload}{f' {frame_size}' if frame_size else ''}", link])
