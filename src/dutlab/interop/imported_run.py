"""The one place that writes a run of what other tools measured: each of their files a trial, kept as it was, marked as imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.store.record import DoubtRecord, FlowRecord, TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.units import BpsL1


@dataclass(frozen=True)
class ImportOptions:
    """What a file may leave open and a user can say."""

    line_rate: BpsL1 | None = None


@dataclass(frozen=True)
class Imported:
    """One file's measurement, as a trial of ours would have told it. `raw` is name → the file, untouched."""

    cell: Cell
    measured: Measured
    raw: Mapping[str, bytes]
    started: datetime | None = None
    """None where the file does not say; the time of the import stands there then."""
    ended: datetime | None = None
    ceilings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """As in a record; what the user's line rate allows."""


def write_imported(runs: Path, name: str, trials: Sequence[Imported], *, command: Sequence[str], now: datetime) -> RunFolder:
    """A finished run under `runs`, called `name`. Raises StoreError."""
    cells = _repeats([trial.cell for trial in trials])
    modes = list(dict.fromkeys(cell.mode for cell in cells))
    run = RunFolder.create(
        runs,
        experiment=name,
        experiment_yaml=b"# Imported: there is no experiment file. The files that were read lie under trials/*/raw.\n",
        testbed_yaml=None,
        resolved={
            "experiment": {"name": name, "imported": True, "order": "as-written", "factors": {"mode": modes}},
            "testbed": {"name": "not told by the imported files"},
            "command": list(command),
        },
        plan={
            "imported": True,
            "trials": [{"number": n, "cell": cell.model_dump(mode="json"), "group": n} for n, cell in enumerate(cells, 1)],
        },
        now=now,
    )
    for number, (cell, trial) in enumerate(zip(cells, trials, strict=True), 1):
        run.write_trial(_record(number, cell, trial, now), trial.raw)
    run.write_manifest()
    return run


def _repeats(cells: Sequence[Cell]) -> list[Cell]:
    """Files that say the same of the same device are repeats of one another."""
    seen: list[Cell] = []
    out = []
    for cell in cells:
        first = cell.model_copy(update={"repeat": 1})
        seen.append(first)
        out.append(first.model_copy(update={"repeat": seen.count(first)}))
    return out


def _record(number: int, cell: Cell, trial: Imported, now: datetime) -> TrialRecord:
    measured = trial.measured
    return TrialRecord(
        trial=number,
        status="measured",
        cell=cell,
        started=trial.started or now,
        ended=trial.ended or trial.started or now,
        figures={link: dict(of) for link, of in measured.figures.items()},
        ceilings={link: dict(of) for link, of in trial.ceilings.items()},
        flows=[FlowRecord.of(f) for f in measured.flows],
        doubts=[DoubtRecord.of(d) for d in (Doubt(DoubtKind.IMPORTED), *measured.doubts)],
        tool_facts=dict(measured.facts),
        notes=list(measured.notes),
        tables={name: [dict(row) for row in table] for name, table in measured.tables.items()},
    )
