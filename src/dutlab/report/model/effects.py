"""Effects of factors over the cells of a run, with the verdicts of the rule for answers. `dutlab effects` and reports use it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dutlab.analysis.comparison import Comparison
from dutlab.analysis.factors import Analysis, FactorCell, analyse, with_rule_verdicts
from dutlab.errors import InputError
from dutlab.report.model.contests import CompareRequest, contests_of, decided, overall_of
from dutlab.report.model.words import plural
from dutlab.store.cell_figures import CellFigures, CellKey, cells_of, figure_names, key_of
from dutlab.store.record import TrialRecord
from dutlab.subject import subject_of

DIRECTION = "direction"
"""Factor that distinguishes the directions of a link, if both were driven."""
Order = Callable[[str], int]
"""Place of a mode in the experiment file."""


def effects_of(name: str, records: Sequence[TrialRecord], order: Order, figure: str, asked: CompareRequest) -> Analysis:
    """Return the effects of every factor. Modes and levels of one cell have the verdicts of the rule for answers.

    Raises InputError when no trial of the run `name` has the figure, ValueError where cells are too few.
    """
    placed_cells = _placed_cells(cells_with(name, records, order, figure), figure)
    cells = [cell for cell, _, _ in placed_cells]
    analysis = analyse(cells)
    if not asked.side_of(figure):
        return analysis
    where = {id(cell): (key, name) for cell, key, name in placed_cells}
    cells_by_key = cells_of(records)
    for request in (replace(asked, figures=()), replace(asked, figures=(figure,))):  # as `compare` without and with --figure
        contests = [of for of in contests_of([cells_by_key], request) if of.contest.better]
        if any(of.contest.figure == figure for of in contests):
            every = decided(contests, request)
            decisions = [of for of in every if of[0].contest.figure == figure]
            break
    else:
        return analysis
    labels = {
        (key, of.name): (standing, e.label) for of, standing in decisions for key, e in zip(of.keys, of.contest.entrants, strict=True)
    }

    def between(a: FactorCell, b: FactorCell) -> Comparison | None:
        (first, before), (second, after) = (labels.get(where[id(c)], (None, "")) for c in (a, b))
        return first.against(before, after) if first is not None and first is second else None

    modes = sorted(dict.fromkeys(r.cell.mode for r in records), key=order)
    ruled = with_rule_verdicts(analysis, cells, between, overall_of(every, cells_by_key, modes))
    tests = decisions[0][1].tests
    basis = f"effects of modes and levels: as in `dutlab compare` (p: Holm over {plural(tests, 'pair')}); others: {analysis.rests_on}"
    return replace(ruled, rests_on=basis) if any(e.sure.verdict is not None for e in ruled.effects) else ruled


def cells_with(name: str, records: Sequence[TrialRecord], order: Order, figure: str) -> Sequence[CellFigures]:
    """Return the cells that have the figure, by mode. Raises InputError if the run `name` has none."""
    cells = list(cells_of(records).values())
    matches = [c for c in cells if any(figure in c.figures(place) for place in c.names)]
    if not matches:
        raise InputError(f"{name} has no {figure}", remedy=f"it has {', '.join(figure_names(cells)) or 'no figures'}")
    return sorted(matches, key=lambda c: order(c.cell.mode))


def _placed_cells(cells: Sequence[CellFigures], figure: str) -> list[tuple[FactorCell, CellKey, str]]:
    """Return one cell per combination of factors, links, direction, frame size and other params; its repeats are its values.

    Each has the key of the run's cell and the subject of the figure.
    """
    values_by_levels: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
    blocks: dict[tuple[tuple[str, str], ...], list[int]] = defaultdict(list)
    places: dict[tuple[tuple[str, str], ...], tuple[CellKey, str]] = {}
    directed = any(_directions(c, figure) for c in cells)
    for of in cells:
        cell = of.cell
        params = {k: str(v) for k, v in cell.params.items() if v is not None and k != "frame_mix"}
        for name, direction in _directions(of, figure) or [(_whole(of, figure), "forward")]:
            links = subject_of(name).places[0] if directed and len(cell.links) > 1 else cell.link_label
            levels = {**cell.factors, "workload": cell.workload, "links": links, **({DIRECTION: direction} if directed else {}), **params}
            key = tuple(levels.items())
            readings = of.readings(name, figure)
            values_by_levels[key] += [r.value for r in readings]
            blocks[key] += [r.repeat for r in readings]
            places[key] = (key_of(cell), name)
    return [
        (FactorCell(dict(levels), tuple(values), tuple(blocks[levels])), *places[levels]) for levels, values in values_by_levels.items()
    ]


def _directions(of: CellFigures, figure: str) -> list[tuple[str, str]]:
    """Return (name, direction) if both directions of a link were driven; otherwise nothing."""
    return list(_both(of, figure)) if any(subject_of(name).is_back for name in of.names) else []


def _both(of: CellFigures, figure: str) -> Iterator[tuple[str, str]]:
    for name in of.names:
        subject = subject_of(name)
        if not subject.is_sum and figure in of.figures(name):
            yield name, "backward" if subject.is_back else "forward"


def _whole(of: CellFigures, figure: str) -> str:
    return next(name for name in of.names if figure in of.figures(name))
