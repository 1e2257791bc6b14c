"""The one place that writes a run of what other tools measured: each of their files kept as it was, its trials marked as imported."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from dutlab import outside
from dutlab.bounds import IMPORT
from dutlab.choices import Bed
from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.setting import ImportedSetting
from dutlab.store.record import DoubtRecord, TrialRecord, above_line_doubts, found_of
from dutlab.store.run_folder import RunFolder
from dutlab.store.write import Sync
from dutlab.subject import Figures
from dutlab.units import BpsL1

LINK = "a"
"""What the one way of a file that names none is called here."""


@dataclass(frozen=True)
class ImportOptions:
    """What a file may leave open and a user can say."""

    line_rate: BpsL1 | None = None


@dataclass(frozen=True)
class Imported:
    """One measurement, as a trial of ours would have told it. `raw` is name → what is kept of it beside `measured.raw`.

    A path is read when it is kept: ten thousand files fit no memory.
    """

    cell: Cell
    measured: Measured
    raw: Mapping[str, bytes | Path] = field(default_factory=dict)
    started: datetime | None = None
    """None where the file does not say; then it is the time of the import."""
    ended: datetime | None = None
    why: str = ""
    """Why it has no result; empty when it has one."""
    ceilings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """As in a record; what the user's line rate allows."""
    apart: Mapping[str, str] = field(default_factory=dict)
    """What is in the cell only where trials of one device differ in it (`told_apart`): hosts, and what a host chose by itself."""


def imported_cell(device: str, *, workload: str, tool: str, link: str = LINK, params: Mapping[str, str | float | int | None]) -> Cell:
    """The cell of a trial on one link; `device` stands for the mode."""
    return Cell(
        mode=device, factors={"mode": device}, tool=tool, links=(link,), setting=ImportedSetting(of=workload, said=dict(params)), repeat=1
    )


def told_apart(trials: Sequence[Imported]) -> list[Imported]:
    """The same trials: those of a device that were asked the same, but differ in `apart`, have that in their cells, and are no repeats.

    Where all of a device agree it stays out: devices are compared also where each was reached at another address.
    """
    groups: dict[str, list[Mapping[str, str]]] = {}
    bare = [_with_said(trial.cell, without=trial.apart) for trial in trials]
    for trial, cell in zip(trials, bare, strict=True):
        groups.setdefault(_asked(cell), []).append(trial.apart)
    out = []
    for trial, cell in zip(trials, bare, strict=True):
        others = groups[_asked(cell)]
        differ = {name: value for name, value in trial.apart.items() if len({of[name] for of in others if name in of}) > 1}
        out.append(replace(trial, cell=_with_said(cell, differ)) if differ else trial)
    return out


def _with_said(cell: Cell, more: Mapping[str, str] = MappingProxyType({}), *, without: Iterable[str] = ()) -> Cell:
    if not isinstance(cell.setting, ImportedSetting):
        return cell
    said = {name: value for name, value in cell.setting.said.items() if name not in without} | dict(more)
    return cell.model_copy(update={"setting": cell.setting.model_copy(update={"said": said})})


def _asked(cell: Cell) -> str:
    return cell.model_copy(update={"repeat": 1}).model_dump_json()


def mended(repairs: Sequence[str], about: str = LINK) -> tuple[Doubt, ...]:
    """The doubt that a file was incomplete; none where nothing had to be mended."""
    return (Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(repairs), about),) if repairs else ()


def moment(seconds: float | None) -> datetime | None:
    """A moment that a file tells in seconds since the epoch; None for none, and for one that no clock has shown."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def moment_in(text: object) -> datetime | None:
    """The same of a moment in the words of ISO 8601; one without a zone is taken for UTC."""
    try:
        found = datetime.fromisoformat(str(text))
        return moment((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None


"""Whether all that was imported stood in one testbed, or nobody knows: then no mode tells anything of what limited another."""


def write_imported(
    runs: Path, name: str, trials: Sequence[Imported], *, command: Sequence[str], now: datetime, bed: Bed = "one"
) -> RunFolder:
    """A finished run under `runs`, called `name`. Raises StoreError, OSError."""
    trials = told_apart(trials)
    cells = _repeats([trial.cell for trial in trials])
    run = RunFolder.create(
        runs,
        experiment=name,
        experiment_yaml=b"# Imported: there is no experiment file. The files that were read lie under trials/*/raw.\n",
        testbed_yaml=None,
        resolved={
            "experiment": {
                "name": name,
                "imported": True,
                "bed": bed,
                "order": "as-written",
                "factors": {"mode": list(dict.fromkeys(cell.mode for cell in cells))},
            },
            "testbed": {"name": "unknown (imported)"},
            "command": list(command),
        },
        plan={
            "imported": True,
            "trials": [{"number": n, "cell": cell.model_dump(mode="json"), "group": n} for n, cell in enumerate(cells, 1)],
        },
        now=now,
        sync=Sync.AT_END,
    )
    try:
        for number, (cell, trial) in enumerate(zip(cells, trials, strict=True), 1):
            kept = {name: data if isinstance(data, bytes) else outside.read_given(data, IMPORT) for name, data in trial.raw.items()}
            run.write_trial(_record(number, cell, trial, now), {**trial.measured.raw, **kept})
        run.write_manifest()
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)  # a part of an import is none; the files that it was made from are still there
        raise
    return run


def _repeats(cells: Sequence[Cell]) -> list[Cell]:
    """Files that say the same of the same device are repeats of one another."""
    seen: Counter[str] = Counter()
    out = []
    for cell in cells:
        same = _asked(cell)
        seen[same] += 1
        out.append(cell.model_copy(update={"repeat": seen[same]}))
    return out


def _record(number: int, cell: Cell, trial: Imported, now: datetime) -> TrialRecord:
    measured = trial.measured
    return TrialRecord(
        trial=number,
        status="failed" if trial.why else "measured",
        why=trial.why,
        cell=cell,
        started=trial.started or now,
        ended=trial.ended or trial.started or now,
        ceilings=Figures({link: dict(of) for link, of in trial.ceilings.items()}),
        doubts=[DoubtRecord.of(d) for d in (Doubt(DoubtKind.IMPORTED), *measured.doubts, *above_line_doubts(measured, trial.ceilings))],
        **found_of(measured),
    )
