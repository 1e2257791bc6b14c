"""The folder of a run as tests begin it, and its records as they read them: plain JSON, with figures by place and name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutlab.plan.cell import Cell
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.subject import Figures, Subject, Way

NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)


def new_run(runs: Path, cells: Iterable[Cell] = (), *, experiment: str = "x", **given: Any) -> RunFolder:
    """A run of these cells before its first trial; `given` is what else RunFolder.create() takes."""
    of = list(cells)
    modes = list(dict.fromkeys(cell.mode for cell in of))
    resolved = {"experiment": {"name": experiment, "factors": {"mode": modes}}, "testbed": {"name": "sim"}, "command": ["dutlab", "run"]}
    plan = {"seed": 1, "trials": [{"number": n, "cell": cell.model_dump(mode="json"), "group": 1} for n, cell in enumerate(of, 1)]}
    usual = {"experiment_yaml": b"", "testbed_yaml": None, "resolved": resolved, "plan": plan, "now": NOW}
    return RunFolder.create(runs, experiment=experiment, **(usual | given))


def trial_record(trial: int, cell: Cell, figures: Mapping[str, Any] | None = None, *, at: datetime = NOW, **more: Any) -> TrialRecord:
    """A trial that was measured at that instant, unless `more` says otherwise."""
    usual = {"status": "measured", "started": at, "ended": at, "figures": figures or {}}
    return TrialRecord(trial=trial, cell=cell, **(usual | more))


def record_in(path: Path) -> dict[str, Any]:
    """What a record.json holds, its lists of figures as place → figure → value, with the commands out of details.json beside it."""
    record: dict[str, Any] = json.loads(path.read_text())
    details = path.with_name("details.json")
    commands = json.loads(details.read_text())["commands"] if details.exists() else []
    return record | {"commands": commands} | {name: _by_place(record[name]) for name in ("figures", "ceilings")}


def records_below(folder: Path) -> list[dict[str, Any]]:
    """What the records of all runs in `folder/runs` hold, attempts that were set aside included."""
    return [record_in(path) for path in sorted(folder.glob("runs/*/trials/*/record.json"))]


def _by_place(entries: list[dict[str, Any]]) -> Figures:
    return Figures.of((_subject(**entry["subject"]), entry["values"]) for entry in entries)


def _subject(places: list[str], way: str = "forward", part: str = "") -> Subject:
    return Subject(tuple(places), Way(way), part)
