"""Functions that take more or fewer instructions per frame in a newer run, for cells with a profile in both runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dutlab.report.questions.sides import without_kernels
from dutlab.stats.functions import FUNCTIONS, FunctionChange, FunctionCost, changes, of_rows
from dutlab.store.cell_figures import CellKey, counts, key_of
from dutlab.store.read import reading
from dutlab.store.run_folder import RunFolder


def function_changes(older: Path, newer: Path) -> Mapping[CellKey, tuple[FunctionChange, ...]]:
    """Return the changes by cell, for any kernel; the largest first. Raises StoreError, InputError."""
    first, second = _costs(older), _costs(newer)
    return {key: changes(of, second[key]) for key, of in first.items() if key in second}


def _costs(path: Path) -> dict[CellKey, list[FunctionCost]]:
    with reading(path):
        return {
            key_of(without_kernels(record).cell): of_rows(record.tables[FUNCTIONS])
            for record in RunFolder.open(path).readable_records([])
            if counts(record) and FUNCTIONS in record.tables
        }
