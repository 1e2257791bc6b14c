"""Index rows of one run, made from its files, for each table of index.py."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dutlab.doubts import DoubtKind
from dutlab.errors import InputError, StoreError
from dutlab.store.cell_figures import counts
from dutlab.store.needed import count_needed
from dutlab.store.record import TrialRecord
from dutlab.store.record_files import NewerRun
from dutlab.store.record_reader import FIGURES_ONLY
from dutlab.store.results import results_of
from dutlab.store.run_folder import RunFolder
from dutlab.store.run_readers import FINISHED, Rows

_GRADES = ("severe", "warning", "note")


def rows_of(path: Path, seen: str, folder: int) -> Rows:
    """Return the rows of a run for each table. A foreign record may cause any exception."""
    records, faults, newer = list[TrialRecord](), list[str](), False
    resolved: dict[str, Any] = {}
    plan: dict[str, Any] = {}
    try:
        run = RunFolder(path)
        resolved, plan = run.resolved, run.plan
        records.extend(run.readable_records(faults, without=FIGURES_ONLY))
    except NewerRun as error:
        newer = True
        faults.append(str(error))
    except (InputError, StoreError, OSError) as error:
        faults.append(str(error))
    status = "newer" if newer else "damaged" if faults else "finished" if seen.startswith(FINISHED) else "cut"
    modes = json.dumps(list(dict.fromkeys(r.cell.mode for r in records)))
    return {
        "runs": [(path.name, seen, folder, *_about(resolved, plan, records), status, modes, _worst(records), "; ".join(faults)[:2000])],
        "trials": [_trial(path, r) for r in records],
        "figures": [
            (path.name, r.trial, link, name, value) for r in records for link, fs in r.figures.items() for name, value in fs.items()
        ],
        "doubts": [(path.name, r.trial, d.kind, d.grade, d.about, d.text, d.detail, d.remedy) for r in records for d in r.doubts],
        "results": [
            (
                path.name,
                n,
                c.place,
                c.mode,
                json.dumps(dict(c.factors)),
                c.workload,
                c.links,
                c.link,
                c.frame_size,
                c.setting,
                c.figure,
                c.median,
                c.low,
                c.high,
                c.repeats,
                int(c.at_least),
                int(c.disturbed),
            )
            for n, c in enumerate(results_of(records))
        ],
    }


def _about(resolved: Mapping[str, Any], plan: Mapping[str, Any], records: list[TrialRecord]) -> tuple[str | int, ...]:
    experiment, testbed = (value if isinstance(value := resolved.get(key), Mapping) else {} for key in ("experiment", "testbed"))
    counts = [sum(r.status == status for r in records) for status in ("measured", "failed", "refused", "disturbed")]
    lab = any(r.doubted(DoubtKind.EMBEDDED_LAB) for r in records)
    return (
        str(experiment.get("name") or plan.get("experiment") or ""), str(testbed.get("name") or ""), int(lab or bool(testbed.get("lab"))),
        min((r.started.isoformat() for r in records), default=""), max((r.ended.isoformat() for r in records), default=""),
        count_needed(plan, records), *counts,
    )  # fmt: skip


def _trial(path: Path, r: TrialRecord) -> tuple[str | float | int, ...]:
    has_samples = os.path.exists(f"{path}/trials/{r.trial:04d}/samples.parquet")  # noqa: PTH110
    return (
        path.name, r.trial, r.cell.mode, json.dumps(r.cell.factors), r.cell.workload, r.cell.tool, r.cell.link_label,
        r.cell.setting.size, r.cell.repeat, r.attempt, r.status, r.why, r.started.isoformat(),
        (r.ended - r.started).total_seconds(), json.dumps(sorted({d.kind for d in r.doubts})), int(has_samples), int(counts(r)),
    )  # fmt: skip


def _worst(records: list[TrialRecord]) -> str:
    grades = {d.grade for r in records for d in r.doubts}
    return next((g for g in _GRADES if g in grades), "")
