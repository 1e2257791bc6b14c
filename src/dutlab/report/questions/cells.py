"""Cells of a run, or of a table made by hand, for the analysis of factors and of costs."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from functools import partial
from itertools import product
from pathlib import Path

from dutlab import outside
from dutlab.analysis.factors import Analysis, FactorCell
from dutlab.bounds import TABLE
from dutlab.errors import InputError
from dutlab.report.model.contests import CompareRequest, entrant_label, varied_factors
from dutlab.report.model.effects import cells_with, effects_of
from dutlab.report.model.packets import GOODPUT, mtu_of, mtus_of, segments_per_s
from dutlab.report.model.words import alike_names, setting_words
from dutlab.report.questions.sides import ComparedRun, mode_order
from dutlab.stats.summary import median
from dutlab.store.cell_figures import cells_of, figure_names, name_words
from dutlab.workloads import main_figures

RATE = "received_pps"
MOST = "max_received_pps"
COUNTED = ("exact_instructions_per_frame", "instructions_per_frame")


def effects_of_run(run: ComparedRun, figure: str, asked: CompareRequest) -> Analysis:
    """Return the effects of every factor; see effects_of(). Raises InputError when no trial has the figure, ValueError for few cells."""
    return effects_of(run.name, run.records, partial(mode_order, run), figure, asked)


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
    """Return (size, link and direction) → mode and varied levels → packets a second of each repeat; for a ramp, in its best second.

    For goodput, packets are full TCP segments if the MTU is known, and the size is as in `MTU 1500`. Raises InputError without any rate.
    """
    rates_by_place: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    names = figure_names(list(cells_of(run.records).values()))
    rate = next((name for name in (RATE, MOST, GOODPUT) if name in names), None)
    mtus = mtus_of(run.facts.get("testbed"))
    if rate is None or (rate == GOODPUT and not any(mtu_of(r.cell, mtus) for r in run.records)):
        what = "no rate of packets" if rate is None else "goodput, but no MTU of its packets"
        remedy = "measure one: dutlab measure sweep, or loadtest; or write the MTU of the links, or a column mtu"
        raise InputError(f"{run.name} has {what}, so no cost per packet", remedy=remedy)
    cells = cells_with(run.name, run.records, partial(mode_order, run), rate)
    varied = varied_factors(cells) - {"mtu"}
    shared = alike_names(c.cell.setting for c in cells)
    for entry in cells:
        mtu = mtu_of(entry.cell, mtus) if rate == GOODPUT else None
        if rate == GOODPUT and mtu is None:
            continue
        label = entrant_label(entry.cell, varied if rate == GOODPUT else varied_factors(cells))
        words = setting_words(entry.cell.setting, without={*shared, "mtu"}) if rate == GOODPUT else ""
        for name in entry.names:
            if readings := entry.readings(name, rate):
                place = (
                    entry.cell.setting.size or (f"MTU {mtu}" if mtu else ""),
                    name_words(name, entry.cell.links, entry.cell.workload),
                )
                values = [r.value if mtu is None else segments_per_s(r.value, mtu) for r in readings]
                rates_by_place[place][" · ".join(filter(None, (label, words)))] += values
    return rates_by_place


def instructions_by_mode(run: ComparedRun) -> dict[tuple[str, str], float]:
    """Return (mode and varied levels, frame size) → median instructions per frame of the first cell, in a guest or on the processor."""
    instructions = dict[tuple[str, str], float]()
    cells = list(cells_of(run.records).values())
    varied = varied_factors(cells)
    for entry in cells:
        for name, figure in product(entry.names, COUNTED):
            if entry.cell.setting.size and (readings := entry.readings(name, figure)):
                instructions.setdefault((entrant_label(entry.cell, varied), entry.cell.setting.size), median([r.value for r in readings]))
    return instructions
