"""Export in the format of Conductor's reports (`-f json` and `-f text`), for scripts that read them.

As in Conductor's own reports, times are local and have no zone, phases that were not requested are missing, a spawned step has its row at
its place in the file, and each host ends a phase with a row. Source: Conductor's reporter, phase, step and retval of 2025.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dutlab.spec.workloads.steps import PHASES, Phase

PHASE_DONE = 65535
"""Code of the row with which a host ends its phase."""
PHASE_DONE_WORDS = "phases complete"
ERROR = 1
"""Code of a step without a status."""
SPAWNED = "Spawned"


def timed_out(seconds: float) -> str:
    """Return the message of a step that its time-out ended."""
    return f"Command timed out after {seconds:g} seconds"


@dataclass(frozen=True)
class StepRow:
    """Row of a step in the report."""

    host: str
    phase: Phase
    place: int
    """Number of the step in its phase on its host, from 1."""
    started: datetime
    ended: datetime
    """End of the step; for a spawned one its start, since nothing waits for its end."""
    code: int
    message: str


@dataclass(frozen=True)
class TrialRows:
    """Steps of a trial, in any order."""

    started: datetime
    ended: datetime
    rows: Sequence[StepRow]


def conductor_report(hosts: Sequence[str], trials: Sequence[TrialRows], now: datetime, phases: Sequence[Phase] = PHASES) -> dict[str, Any]:
    """Return the whole report. Hosts are `worker_0` and so on, in their order. Their names are added; Conductor leaves them out."""
    return {
        "metadata": {
            "start_time": _time(min((t.started for t in trials), default=now)),
            "end_time": _time(max((t.ended for t in trials), default=now)),
            "total_trials": len(trials),
            "total_workers": len(hosts),
        },
        "trials": [
            {
                "trial_number": number,
                "start_time": _time(trial.started),
                "end_time": _time(trial.ended),
                "phases": dict(_phases([p for p in PHASES if p in phases], hosts, trial)),
            }
            for number, trial in enumerate(trials, 1)
        ],
    }


def conductor_text(report: Mapping[str, Any]) -> str:
    """Return the report as text, in the format of `-f text -o FILE`."""
    about = report["metadata"]
    lines = ["Conductor Test Results", "=====================", ""]
    lines += [f"{name}: {about[key]}" for name, key in _HEAD]
    lines.append("")
    for trial in report["trials"]:
        lines.append(f"Trial {trial['trial_number']}:")
        for phase, of_phase in trial["phases"].items():
            lines.append(f"  Phase: {phase}")
            for worker, entry in of_phase["workers"].items():
                lines += [f"    Worker: {worker}", f"      Results: {len(entry['results'])}"]
                lines += [f"        Code: {row['code']}, Message: {row['message']}" for row in entry["results"]]
    return "\n".join(lines) + "\n"


_HEAD = (
    ("Start Time", "start_time"),
    ("End Time", "end_time"),
    ("Total Trials", "total_trials"),
    ("Total Workers", "total_workers"),
)


def _phases(phases: Sequence[Phase], hosts: Sequence[str], trial: TrialRows) -> Iterator[tuple[Phase, Mapping[str, Any]]]:
    """Yield each phase with its times and workers. A phase begins when the one before it has ended."""
    began = trial.started
    for phase in phases:
        rows = sorted((row for row in trial.rows if row.phase == phase), key=lambda row: row.place)
        ended = max((r.ended for r in rows), default=began)
        workers = {}
        for number, host in enumerate(hosts):
            own = [row for row in rows if row.host == host]
            last = max((r.ended for r in own), default=began)
            results = [{"timestamp": _time(r.ended), "code": r.code, "message": r.message} for r in own]
            results.append({"timestamp": _time(last), "code": PHASE_DONE, "message": PHASE_DONE_WORDS})
            first = min((r.started for r in own), default=began)
            workers[f"worker_{number}"] = {"name": host, "start_time": _time(first), "end_time": _time(last), "results": results}
        yield phase, {"start_time": _time(began), "end_time": _time(ended), "workers": workers}
        began = ended


def _time(moment: datetime) -> str:
    return moment.astimezone().replace(tzinfo=None).isoformat()
