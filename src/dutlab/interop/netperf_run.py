"""What netperf prints, for people or as omni output, as trials of ours."""

from __future__ import annotations

from pathlib import PurePath

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, imported_cell, mended, told_apart
from dutlab.methods.ports import Measured
from dutlab.tools.netperf_text import NetperfTest, tests_of


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A file called `name`, a trial a test: its name without ending stands for the device. Raises InputError."""
    del options
    tests = tests_of(data.decode("utf-8", "replace").replace("\r", ""))
    whole, cut = [test for test in tests if test.figures], [test.name for test in tests if not test.figures]
    if not whole:
        raise InputError(
            f"{name}: no test of netperf in it reached its end", remedy="keep what netperf prints, its headline included (without -P 0)"
        )
    repairs = [f"of {len(tests)} tests {len(cut)} did not reach their end: {', '.join(cut)}"] if cut else []
    return told_apart([_trial(name, test, repairs if n == 0 else []) for n, test in enumerate(whole)])


def _trial(name: str, test: NetperfTest, repairs: list[str]) -> Imported:
    cell = imported_cell(PurePath(name).stem, workload="netperf", tool="netperf", params={"test": test.name, **test.asked})
    notes = []
    if test.confidence_percent is not None:
        notes.append(f"{test.name}: netperf's repeats did not reach the confidence that was asked for: ±{test.confidence_percent:g} %")
    if test.assumed:
        notes.append(f"{test.name}: the file names no unit; {test.assumed} is netperf's own")
    doubts = list(mended(repairs))
    if test.lost < 0:
        doubts.append(Doubt(DoubtKind.NEGATIVE_LOSS, f"{-test.lost:.0f} messages more came than were sent", LINK))
    tables = {"seconds": list(test.seconds)} if test.seconds else {}
    measured = Measured(figures={LINK: test.figures}, doubts=tuple(doubts), notes=notes, tables=tables)
    return Imported(cell, measured, apart={"server": test.host} if test.host else {})
