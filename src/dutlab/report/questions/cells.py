"""Cells of a run, or of a table made by hand, for the analysis of factors and of costs."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from dutlab import outside
from dutlab.analysis.comparison import Comparison
from dutlab.analysis.factors import Analysis, FactorCell, analyse, by_the_rule
from dutlab.bounds import TABLE
from dutlab.errors import InputError
from dutlab.report.model.contests import CompareRequest, contests_of, decided, entrant_label, overall_of, varied_factors
from dutlab.report.model.words import plural
from dutlab.report.questions.sides import ComparedRun, mode_order
from dutlab.stats.summary import median
from dutlab.store.cell_figures import CellFigures, CellKey, cells_of, figure_names, key_of, name_words
from dutlab.subject import subject_of
from dutlab.workloads import main_figures

RATE = "received_pps"
MOST = "max_received_pps"
COUNTED = ("exact_instructions_per_frame", "instructions_per_frame")

DIRECTION = "direction"
"""Factor that distinguishes the directions of a link, if both were driven."""


def effects_of_run(run: ComparedRun, figure: str, asked: CompareRequest) -> Analysis:
    """Return the effects of every factor. Modes and levels of one cell have the verdicts of the rule for answers.

    Raises InputError when no trial has the figure, ValueError where cells are too few.
    """
    placed_cells = _placed_cells(run, figure)
    cells = [cell for cell, _, _ in placed_cells]
    analysis = analyse(cells)
    if not asked.side_of(figure):
        return analysis
    where = {id(cell): (key, name) for cell, key, name in placed_cells}
    cells_by_key = cells_of(run.records)
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

    ruled = by_the_rule(analysis, cells, between, overall_of(every, cells_by_key, run.modes))
    tests = decisions[0][1].tests
    basis = f"effects of modes and levels: as in `dutlab compare` (p: Holm over {plural(tests, 'pair')}); others: {analysis.rests_on}"
    return replace(ruled, rests_on=basis) if any(e.sure.verdict is not None for e in ruled.effects) else ruled


def _placed_cells(run: ComparedRun, figure: str) -> list[tuple[FactorCell, CellKey, str]]:
    """Return one cell per combination of factors, links, direction, frame size and other params; its repeats are its values.

    Each has the key of the run's cell and the subject of the figure. Raises InputError if no trial has the figure.
    """
    values_by_levels: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
    blocks: dict[tuple[tuple[str, str], ...], list[int]] = defaultdict(list)
    places: dict[tuple[tuple[str, str], ...], tuple[CellKey, str]] = {}
    cells = _with(run, figure)
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


def judged_by(run: ComparedRun) -> str:
    """Return the received rate if the run has it, else the main figure of its first workload."""
    cells = list(cells_of(run.records).values())
    names = (name for c in cells for name in main_figures(c.cell.workload, figure_names([c])))
    return RATE if RATE in figure_names(cells) else next(names, RATE)


def cells_of_table(path: Path, response: str | None) -> tuple[FactorCell, ...]:
    """Read cells from a CSV file: column `response` is the value, all others are factors; rows of the same levels are repeats.

    Raises InputError naming the line.
    """
    try:
        rows = csv.DictReader(io.StringIO(outside.read_given(path, TABLE).decode("utf-8-sig")))
        columns = rows.fieldnames or []
        if response not in columns:
            message = "which column holds the values? Name it with --figure" if response is None else f"has no column {response!r}"
            raise InputError(f"{path}: {message}", remedy=f"name one of {', '.join(columns)}" if columns else "it is empty")
        values_by_levels: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
        for line, row in enumerate(rows, 2):
            if None in row or None in row.values():
                raise InputError(f"{path}:{line}: has another number of columns than the first line")
            try:
                value = float(row[response])
            except ValueError:
                raise InputError(f"{path}:{line}: {row[response]!r} in column {response} is not a number") from None
            values_by_levels[tuple((k, v) for k, v in row.items() if k != response)].append(value)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return tuple(FactorCell(dict(levels), tuple(values)) for levels, values in values_by_levels.items())


def rates_by_mode(run: ComparedRun) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return (frame size, link and direction) → mode and varied levels → packets a second of each repeat; of a ramp, of its best second.

    Raises InputError when none were measured.
    """
    rates_by_place: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    had = figure_names(list(cells_of(run.records).values()))
    rate = next((name for name in (RATE, MOST) if name in had), None)
    if rate is None:
        raise InputError(
            f"{run.name} has no rate of packets, so no cost per packet", remedy="measure one: dutlab measure sweep, or loadtest"
        )
    cells = _with(run, rate)
    varied = varied_factors(cells)
    for of in cells:
        for name in of.names:
            if readings := of.readings(name, rate):
                place = of.cell.setting.size, name_words(name, of.cell.links, of.cell.workload)
                rates_by_place[place][entrant_label(of.cell, varied)] += [r.value for r in readings]
    return rates_by_place


def instructions_by_mode(run: ComparedRun) -> dict[tuple[str, str], float]:
    """Return (mode and varied levels, frame size) → median instructions per frame of the first cell, in a guest or on the processor."""
    instructions = dict[tuple[str, str], float]()
    cells = list(cells_of(run.records).values())
    varied = varied_factors(cells)
    for of in cells:
        for name, figure in product(of.names, COUNTED):
            if of.cell.setting.size and (readings := of.readings(name, figure)):
                instructions.setdefault((entrant_label(of.cell, varied), of.cell.setting.size), median([r.value for r in readings]))
    return instructions


def _with(run: ComparedRun, figure: str) -> Sequence[CellFigures]:
    cells = list(cells_of(run.records).values())
    matches = [c for c in cells if any(figure in c.figures(name) for name in c.names)]
    if not matches:
        raise InputError(f"{run.name} has no {figure}", remedy=f"it has {', '.join(figure_names(cells)) or 'no figures'}")
    return sorted(matches, key=lambda c: mode_order(run, c.cell.mode))


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
