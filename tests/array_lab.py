"""What tests of arrays in the lab `raid` ask and are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from guests import in_guest

LIMIT_S = 780.0
EXPERIMENT = """
experiment: arrays
testbed: {lab: raid}
factors: {mode: MODES}
workloads:
  - fio: {drives: [together], options: {rw: randwrite, bs: 4k, iodepth: 4}, duration: 1s}
order: as-written
repeats: 1
disturbed: count
"""


def guest(label: str, script: str) -> str:
    """What a script prints inside the guest."""
    return in_guest(label, "server", script)


def signatures(label: str) -> str:
    return guest(label, "for drive in /dev/ubd[a-f]; do wipefs -n -p $drive; done; cat /proc/mdstat | grep active; true").strip()


def io_runs(label: str) -> bool:
    """Whether fio runs in the guest."""
    return guest(label, "pidof fio") != ""


def verified(tmp_path: Path) -> bool:
    """Whether the run's mode holds."""
    return "mode-verified" in journalled(tmp_path / "runs")


def started(runs: Path) -> bool:
    """Whether a trial has begun."""
    return "trial-started" in journalled(runs)


def journalled(runs: Path) -> list[str]:
    """The names of the events in the journals of these runs."""
    return [entry["event"] for entry in entries(runs)]


def entries(runs: Path) -> list[dict[str, Any]]:
    """The journals of these runs, which may be being written."""
    lines = [line for path in runs.glob("*/journal.jsonl") for line in path.read_text().splitlines() if line.endswith("}")]
    return [json.loads(line) for line in lines]
