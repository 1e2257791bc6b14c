"""Cells of a run, or of a table made by hand, for the analysis of factors and of costs."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from dutlab.analysis.factors import Cell
from dutlab.errors import InputError
from dutlab.report.compared import ComparedRun, mode_order
from dutlab.store.record import TrialRecord


def cells_of_run(run: ComparedRun, figure: str) -> tuple[Cell, ...]:
    """One cell a combination of factors, links, frame size and whatever else differs; repeats are its values.

    Raises InputError when no trial has the figure.
    """
    found: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
    for record in _with(run, figure):
        cell = record.cell
        params = {k: str(v) for k, v in cell.params.items() if v is not None and k != "frame_mix"}
        levels = {**cell.factors, "workload": cell.workload, "links": cell.link_label, **params}
        found[tuple(levels.items())].append(record.figures[cell.link_label][figure])
    return tuple(Cell(dict(levels), tuple(values)) for levels, values in found.items())


def cells_of_table(path: Path, response: str) -> tuple[Cell, ...]:
    """Rows of a CSV file: the column `response` holds the value, every other one is a factor; rows of the same levels are repeats.

    Raises InputError naming the line.
    """
    try:
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")))
        columns = rows.fieldnames or []
        if response not in columns:
            raise InputError(
                f"{path}: has no column {response!r}", remedy=f"name one of {', '.join(columns)}" if columns else "it is empty"
            )
        found: dict[tuple[tuple[str, str], ...], list[float]] = defaultdict(list)
        for line, row in enumerate(rows, 2):
            if None in row or None in row.values():
                raise InputError(f"{path}:{line}: has another number of columns than the first line")
            try:
                value = float(row[response])
            except ValueError:
                raise InputError(f"{path}:{line}: {row[response]!r} in column {response} is no number") from None
            found[tuple((k, v) for k, v in row.items() if k != response)].append(value)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return tuple(Cell(dict(levels), tuple(values)) for levels, values in found.items())


def rates_by_mode(run: ComparedRun) -> dict[tuple[str, str], dict[str, list[float]]]:
    """(frame size, links) → mode → packets a second of each repeat. Raises InputError when none were measured."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in _with(run, "received_pps"):
        cell = record.cell
        rate = record.figures[cell.link_label]["received_pps"]
        if rate > 0:
            found[str(cell.params.get("frame_size", "")), cell.link_label][cell.mode].append(rate)
    return found


def _with(run: ComparedRun, figure: str) -> Sequence[TrialRecord]:
    found = [r for r in run.records if r.status == "measured" and figure in r.figures.get(r.cell.link_label, ())]
    if not found:
        names = sorted({name for r in run.records for name in r.figures.get(r.cell.link_label, ())})
        raise InputError(f"{run.name} has no {figure}", remedy=f"it has {', '.join(names) or 'no figures'}")
    return sorted(found, key=lambda r: mode_order(run, r.cell.mode))
