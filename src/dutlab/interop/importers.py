"""Which files of other tools can be imported, and the module that reads each kind."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dutlab.errors import DutlabError, InputError
from dutlab.interop.imported_run import Bed, Imported, ImportOptions, imported_cell
from dutlab.methods.ports import Measured
from dutlab.store.replace import file_name

Importer = Callable[[str, bytes, ImportOptions], list[Imported]]
"""(name of the file, its bytes, what the user said) → its trials. Raises InputError."""


@dataclass(frozen=True)
class Kind:
    """A kind of file. `read` is its Importer, as module:function; `workload` is what its trials are called; `bed` is of all its modes."""

    read: str
    workload: str
    bed: Bed = "unknown"

    @property
    def importer(self) -> Importer:
        """The function that `read` names; its module is imported now."""
        module, _, function = self.read.partition(":")
        found: Importer = getattr(importlib.import_module(module), function)
        return found


KINDS: Mapping[str, Kind] = {
    "conductor": Kind("dutlab.interop.conductor_run:imported", "steps"),
    "figures": Kind("dutlab.interop.figure_table:imported", "figures", bed="one"),
    "fio": Kind("dutlab.interop.fio_run:imported", "fio"),
    "flent": Kind("dutlab.interop.flent_run:imported", "flent"),
    "iperf3": Kind("dutlab.interop.iperf3_run:imported", "iperf3"),
    "ipgen": Kind("dutlab.interop.generator_runs:ipgen", "sweep"),
    "loadtest": Kind("dutlab.interop.loadtest_run:imported", "loadtest"),
    "netperf": Kind("dutlab.interop.netperf_run:imported", "netperf"),
    "pkt-gen": Kind("dutlab.interop.generator_runs:pktgen", "sweep"),
    "trex-ndr": Kind("dutlab.interop.ndr_run:imported", "sweep"),
}


def read_files(kind: str, paths: Sequence[Path], options: ImportOptions) -> tuple[list[Imported], list[str]]:
    """The trials of all files, and what is wrong with files that hold no result: each of those is kept too, as a failed trial.

    A file is kept with the first of its trials, under its name as far as a run folder takes it. Raises InputError when none holds a result,
    KeyError for an unknown kind, OSError.
    """
    read, trials, faults = KINDS[kind].importer, list[Imported](), list[str]()
    for path in paths:
        name = os.fsencode(path).decode(errors="replace")  # a name may be any bytes, a record holds text
        try:
            found = _read(read, name, path.read_bytes(), options)
        except InputError as error:
            faults.append(str(error))
            cell = imported_cell(Path(name).stem, workload=KINDS[kind].workload, tool=kind, params={"frame_size": "not told"})
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
