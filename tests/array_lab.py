"""What tests of arrays in the lab `raid` ask and are told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from dutlab.labs.state import StateFolder

LIMIT_S = 780.0
EXPERIMENT = """
experiment: arrays
testbed: {lab: raid}
factors: {mode: MODES}
workloads:
  - fio: {drives: [together], options: {rw: randwrite, bs: 4k, iodepth: 4}, duration: 2s}
order: as-written
repeats: 1
disturbed: count
"""


def guest(label: str, script: str) -> str:
    """What a script prints inside the guest."""
    config = StateFolder().ssh_folder(label) / "config"
    done = subprocess.run(["ssh", "-F", str(config), "server", script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def signatures(label: str) -> str:
    return guest(label, "for drive in /dev/ubd[a-f]; do wipefs -n -p $drive; done; cat /proc/mdstat | grep active; true").strip()


def io_runs(label: str) -> bool:
    """Whether fio runs in the guest."""
    config = StateFolder().ssh_folder(label) / "config"
    argv = ["ssh", "-F", str(config), "server", "pidof fio"]
    return subprocess.run(argv, capture_output=True, timeout=LIMIT_S, check=False).returncode == 0


def panic(label: str) -> None:
    """The kernel of the guest ends, by its own means."""
    guest(label, "setsid sh -c 'sleep 1; echo c >/proc/sysrq-trigger' </dev/null >/dev/null 2>&1 &")


def verified(tmp_path: Path) -> bool:
    """Whether the run's mode holds."""
    return "mode-verified" in journalled(tmp_path / "runs")


def started(runs: Path) -> bool:
    """Whether a trial has begun."""
    return "trial-started" in journalled(runs)


def journalled(runs: Path) -> list[str]:
    """The events of the journals of these runs."""
    lines = [line for path in runs.glob("*/journal.jsonl") for line in path.read_text().splitlines() if line.endswith("}")]
    return [json.loads(line)["event"] for line in lines]
