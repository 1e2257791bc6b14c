"""Reads files of other tools, of every kind that can be imported (dutlab/choices.py)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dutlab import outside
from dutlab.bounds import IMPORT
from dutlab.choices import IMPORTS
from dutlab.errors import DutlabError, InputError
from dutlab.interop.imported_run import Imported, ImportOptions, imported_cell
from dutlab.methods.ports import Measured
from dutlab.store.replace import file_name

Importer = Callable[[str, bytes, ImportOptions], list[Imported]]
"""(name of the file, its bytes, what the user said) → its trials. Raises InputError."""


def read_files(kind: str, paths: Sequence[Path], options: ImportOptions) -> tuple[list[Imported], list[str]]:
    """The trials of all files, and what is wrong with files that hold no result: each of those is kept too, as a failed trial.

    A file is kept with the first of its trials, under its name as far as a run folder takes it. Raises InputError when none holds a result,
    KeyError for an unknown kind, OSError.
    """
    read: Importer = IMPORTS[kind].importer
    trials, faults = list[Imported](), list[str]()
    for path in paths:
        name = os.fsencode(path).decode(errors="replace")  # a name may be any bytes, a record holds text
        data = outside.read_given(path, IMPORT)
        try:
            found = _read(read, name, data, options)
        except InputError as error:
            faults.append(str(error))
            cell = imported_cell(Path(name).stem, workload=IMPORTS[kind].workload, tool=kind, params={"frame_size": "not told"})
            found = [Imported(cell, Measured({}), why=error.what)]
        trials += [replace(found[0], raw={**found[0].raw, file_name(path.name): path}), *found[1:]]
    if len(faults) == len(paths):
        raise InputError("; ".join(faults))
    return trials, faults


def _read(read: Importer, name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """An exception that is none of ours is a fault of the file: no importer foresees all that a file may hold. Raises InputError."""
    try:
        return read(name, data, options)
    except (DutlabError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{name}: cannot be read: {type(error).__name__}: {str(error)[:200]}") from error
