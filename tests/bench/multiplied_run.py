"""A measured run made large: its trials again and again, as further repeats of its cells, with other times, figures and histograms.

    PYTHONPATH=src .venv/bin/python tests/bench/multiplied_run.py RUN FOLDER [TRIALS] [SEED]

The new run is written as the runner writes one, by RunFolder, and closed. Every trial differs from the one that it was made of: numbers
with a fraction by up to 2 %, counts of frames and of histograms with them, so that a trial's ledger balances as it did. Raw outputs and
samples are copies of the measured ones; what the record says of samples varies.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dutlab.store.details import TrialDetails
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.store.write import Sync

SPREAD = 0.02


def multiplied(run: Path, into: Path, trials: int, seed: int = 4711) -> Path:
    """A run of `trials` trials or a few more in `into`, made of all that `run` has."""
    old, dice = RunFolder.open(run), random.Random(seed)
    plan = old.plan
    planned = {int(entry["number"]): entry for entry in plan["trials"]}
    records = {n: json.loads((run / f"trials/{n:04d}/record.json").read_bytes()) for n in sorted(old.finished())}
    raw = {n: {name.removeprefix("raw/"): (run / f"trials/{n:04d}" / name).read_bytes() for name in r["raw"]} for n, r in records.items()}
    copies = -(-trials // len(planned))
    repeats = max(entry["cell"]["repeat"] for entry in planned.values())
    began = min(datetime.fromisoformat(r["started"]) for r in records.values())
    lasted = max(datetime.fromisoformat(r["ended"]) for r in records.values()) - began + timedelta(seconds=5)
    entries = [_entry(planned[n], n + k * len(planned), k * repeats) for k in range(copies) for n in sorted(planned)]
    resolved = old.resolved
    resolved["experiment"]["repeats"] = copies * repeats
    made = RunFolder.create(
        into,
        experiment=str(plan["experiment"]),
        experiment_yaml=(run / "experiment.yaml").read_bytes(),
        testbed_yaml=None,
        resolved=resolved,
        plan={**plan, "seed": seed, "estimate_s": plan["estimate_s"] * copies, "trials": entries},
        now=began,
        sync=Sync.AT_END,
    )
    for name, facts in old.hosts().items():
        made.write_host(name, facts)
    if old.calibration:
        made.write_calibration(old.calibration)
    made.write_findings(old.findings())
    for k in range(copies):
        for n, record in records.items():
            number = n + k * len(planned)
            details = varied_details(old.details(n), k * lasted, dice)
            made.write_trial(varied(record, number, k * repeats, k * lasted, dice), raw[n], details=details)
            if (samples := run / f"trials/{n:04d}/samples.parquet").is_file():
                shutil.copyfile(samples, made.path / f"trials/{number:04d}/samples.parquet")
    made.write_manifest()
    return made.path


def _entry(entry: Mapping[str, Any], number: int, more_repeats: int) -> dict[str, Any]:
    cell = entry["cell"]
    return {**entry, "number": number, "group": number, "cell": {**cell, "repeat": cell["repeat"] + more_repeats}}


def varied(record: Mapping[str, Any], number: int, more_repeats: int, later: timedelta, dice: random.Random) -> TrialRecord:
    """Another trial of the same cell."""
    by = dice.uniform(1 - SPREAD, 1 + SPREAD)
    cell = record["cell"]
    new = {
        **record,
        "trial": number,
        "cell": {**cell, "repeat": cell["repeat"] + more_repeats},
        "figures": [{**of, "values": _scaled(of["values"], by, dice)} for of in record["figures"]],
        "flows": [_flow(flow, by, dice) for flow in record["flows"]],
        "counters": {host: {name: float(round(value * by)) for name, value in of.items()} for host, of in record["counters"].items()},
        "tables": {name: [_scaled(row, by, None) for row in rows] for name, rows in record["tables"].items()},
        "watched": {
            sensor: {host: {unit: _scaled(of, by, dice) for unit, of in units.items()} for host, units in hosts.items()}
            for sensor, hosts in record["watched"].items()
        },
        "started": _moved(record["started"], later),
        "ended": _moved(record["ended"], later),
    }
    return TrialRecord.model_validate_json(json.dumps(new))


def varied_details(details: TrialDetails, later: timedelta, dice: random.Random) -> TrialDetails:
    """Later commands that took another time, and times a little longer or shorter."""
    by = dice.uniform(1 - SPREAD, 1 + SPREAD)
    commands = [
        c.model_copy(update={"started": c.started + later, "seconds": round(c.seconds * dice.uniform(0.8, 1.2), 6)})
        for c in details.commands
    ]
    histograms = [
        h.model_copy(
            update={
                name: tuple((int(end * by), n + dice.randint(0, 3)) for end, n in getattr(h, name)) for name in ("latency_ns", "gaps_ns")
            }
        )
        for h in details.histograms
    ]
    return TrialDetails(commands=commands, histograms=histograms)


def _moved(text: str, later: timedelta) -> str:
    return (datetime.fromisoformat(text) + later).isoformat()


def _scaled(values: Mapping[str, Any], by: float, dice: random.Random | None) -> dict[str, Any]:
    """Numbers with a fraction alone: a count stays one, and what is at most 1 may be a share."""
    return {k: v * by * (dice.uniform(0.999, 1.001) if dice else 1.0) if isinstance(v, float) and v > 1 else v for k, v in values.items()}


def _flow(flow: Mapping[str, Any], by: float, dice: random.Random) -> dict[str, Any]:
    """Some frames more or fewer arrived, and all of them sooner or later."""
    fewer = dice.randint(0, flow["received_frames"] // 100) if flow["received_frames"] else 0
    new = {**flow, "received_frames": flow["received_frames"] - fewer, "lost_frames": flow["lost_frames"] + fewer}
    for name in ("latency", "gaps"):
        if flow.get(name):
            new[name] = {k: int(v * by) if type(v) is int else v for k, v in flow[name].items()}
    return new


def sizes(run: Path) -> Iterator[str]:
    """How large its records are, in words."""
    found = sorted(path.stat().st_size for path in run.glob("trials/*/record.json"))
    yield f"{len(found)} records of {found[0] / 1e3:.0f} to {found[-1] / 1e3:.0f} kB, median {found[len(found) // 2] / 1e3:.0f} kB"


if __name__ == "__main__":
    source, folder, *more = sys.argv[1:]
    made_run = multiplied(Path(source), Path(folder), *map(int, more or [20_000]))
    print(made_run, *sizes(made_run), sep="\n")
