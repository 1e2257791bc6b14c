"""The report that Conductor itself writes with `-f json`, from what dutlab did: for scripts that read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dutlab.spec.workloads.steps import PHASES, Phase

PHASE_DONE = 65535
"""The code of the row with which a host says that its phase is over."""


@dataclass(frozen=True)
class StepRow:
    """A step as that report has it."""

    host: str
    phase: Phase
    started: datetime
    ended: datetime
    code: int
    message: str


@dataclass(frozen=True)
class TrialRows:
    """A trial's steps in the order of their end."""

    started: datetime
    ended: datetime
    rows: Sequence[StepRow]


def conductor_report(hosts: Sequence[str], trials: Sequence[TrialRows]) -> dict[str, Any]:
    """The whole report. Hosts are `worker_0` and so on, in their order, with their name beside it, which the original leaves out."""
    return {
        "metadata": {
            "start_time": _time(min(t.started for t in trials)),
            "end_time": _time(max(t.ended for t in trials)),
            "total_trials": len(trials),
            "total_workers": len(hosts),
        },
        "trials": [
            {
                "trial_number": number,
                "start_time": _time(trial.started),
                "end_time": _time(trial.ended),
                "phases": {phase: _phase(phase, hosts, trial) for phase in PHASES},
            }
            for number, trial in enumerate(trials, 1)
        ],
    }


def _phase(phase: Phase, hosts: Sequence[str], trial: TrialRows) -> Mapping[str, Any]:
    rows = [row for row in trial.rows if row.phase == phase]
    began, ended = min((r.started for r in rows), default=trial.started), max((r.ended for r in rows), default=trial.started)
    workers = {}
    for number, host in enumerate(hosts):
        own = [row for row in rows if row.host == host]
        first, last = (own[0].started, own[-1].ended) if own else (began, began)
        results = [{"timestamp": _time(r.ended), "code": r.code, "message": r.message} for r in own]
        results.append({"timestamp": _time(last), "code": PHASE_DONE, "message": "phase done"})
        workers[f"worker_{number}"] = {"name": host, "start_time": _time(first), "end_time": _time(last), "results": results}
    return {"start_time": _time(began), "end_time": _time(ended), "workers": workers}


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
