"""What netperf prints for people, as trials of ours."""

from __future__ import annotations

from pathlib import PurePath

from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, imported_cell
from dutlab.methods.ports import Measured
from dutlab.tools.netperf_text import NetperfTest, tests_of


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A file called `name`, a trial a test: its name without ending stands for the device. Raises InputError."""
    del options
    tests = tests_of(data.decode("utf-8", "replace").replace("\r", ""))
    if not tests:
        raise InputError(
            f"{name}: no test of netperf in it reached its end", remedy="keep what netperf prints, its headline included (without -P 0)"
        )
    return [_trial(name, test) for test in tests]


def _trial(name: str, test: NetperfTest) -> Imported:
    params: dict[str, str | float | int | None] = {"test": test.name, **test.sizes, "duration_s": round(test.duration_s)}
    cell = imported_cell(PurePath(name).stem, workload="netperf", tool="netperf", params=params)
    return Imported(cell, Measured(figures={LINK: test.figures}))
