"""Import of netperf's text and omni output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import (
    LINK,
    AssumedUnit,
    Imported,
    ImportOptions,
    Omission,
    distinguished,
    imported_cell,
    left_out_of,
    repair_doubts,
)
from dutlab.methods.ports import Measured
from dutlab.tools.netperf_text import NetperfTest, bare_tests_of, tests_of


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read the file `name`: one trial per test. The device is named after the file, without its ending. Raises InputError."""
    text = data.decode("utf-8", "replace").replace("\r", "")
    tests = tests_of(text) or bare_tests_of(text)
    whole, cut = [test for test in tests if test.figures], [test.name for test in tests if not test.figures]
    if not whole:
        raise InputError(
            f"{name}: no test of netperf in it reached its end",
            remedy="keep netperf's whole output: with `-v 0` it is a single number without a name",
        )
    left_out = left_out_of("tests", Omission.UNFINISHED, cut)
    repairs = [f"of {len(tests)} tests {len(cut)} did not reach their end: {', '.join(cut)}"] if cut else []
    trials = [_trial(name, test) for test in whole]
    first = replace(
        trials[0], measured=replace(trials[0].measured, doubts=(*repair_doubts(repairs), *trials[0].measured.doubts)), left_out=left_out
    )
    return distinguished([first, *trials[1:]])


def _trial(name: str, test: NetperfTest) -> Imported:
    cell = imported_cell(PurePath(name).stem, workload="netperf", tool="netperf", params={"test": test.name, **test.asked})
    notes = []
    if test.confidence_percent is not None:
        notes.append(f"{test.name}: netperf's repeats did not reach the confidence that was asked for: ±{test.confidence_percent:g} %")
    if test.alike:
        notes.append(f"it has no headline (-P 0): {', '.join(test.alike)} print the same; keep the headline, or the command before it")
    doubts = [Doubt(DoubtKind.NEGATIVE_LOSS, f"{-test.lost:.0f} more messages arrived than were sent", LINK)] if test.lost < 0 else []
    tables = {"seconds": list(test.seconds)} if test.seconds else {}
    size = test.asked.get("message_bytes")
    return Imported(
        cell,
        Measured(figures={LINK: test.figures}, doubts=tuple(doubts), notes=notes, tables=tables),
        apart={"server": test.host} if test.host else {},
        datagram_bytes=float(size) if test.name.startswith("UDP") and size else None,
        assumed=(AssumedUnit("goodput_bps", test.assumed, "the file names none; it is netperf's own"),) if test.assumed else (),
    )
