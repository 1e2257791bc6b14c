"""Other work on the machine in mid-run, made for real: many busy loops, and an engine that somebody suspends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capability import have_engine, need
from forked import Forked
from processes import eventually, signalled
from run_records import record_in

pytestmark = pytest.mark.timing

EXPERIMENT = """
experiment: busy
testbed: {{lab: three-node}}
factors: {{mode: [router]}}
workloads:
  - sweep: {{frame_sizes: [64], rates: [1kpps], duration: {seconds}s, links: [[a]]}}
repeats: 1
repeat_disturbed: 1
"""
JUDGED = {"DUTLAB_DISTURBED": ""}


def attempts(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Name of its folder → record."""
    return {p.parent.name: record_in(p) for p in sorted(tmp_path.glob("runs/*/trials/*/record.json"))}


def engines_of(pid: int) -> list[int]:
    """The engines that a process started, and that its children did."""
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == "dutlab-engine" and pid in ancestors(int(comm.parent.name)):
                found.append(int(comm.parent.name))
        except OSError:
            continue
    return found


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def measuring(tmp_path: Path) -> bool:
    journals = list(tmp_path.glob("runs/*/journal.jsonl"))
    return any('"trial-started"' in p.read_text() for p in journals)


def has_read(tmp_path: Path) -> bool:
    """Frames are under way: the engine has told how many."""
    return any('"who":"dutlab-engine"' in p.read_text() for p in tmp_path.glob("runs/*/events.jsonl"))


def kept_whole(tmp_path: Path) -> dict[str, Any]:
    """The attempt that was set aside, after checks of both."""
    found = attempts(tmp_path)
    assert set(found) == {"0001", "0001.disturbed-1"}, found.keys()
    first, last = found["0001.disturbed-1"], found["0001"]
    assert (first["status"], first["attempt"], last["attempt"]) == ("disturbed", 1, 2)
    assert "DISTURBED" in {d["kind"] for d in first["doubts"]}
    assert last["status"] in ("measured", "disturbed")
    (manifest,) = tmp_path.glob("runs/*/MANIFEST.sha256")
    assert "trials/0001.disturbed-1/record.json" in manifest.read_text()
    return first


def test_a_trial_under_a_fork_bombs_worth_of_load_is_set_aside_and_done_again(
    start: Callable[..., Forked], experiment: Callable[[str], str], tmp_path: Path
) -> None:
    """For as long as the trial; whether the second attempt is quiet is up to the rest of the machine."""
    need("engine", have_engine())
    need("stress-ng", shutil.which("stress-ng") is not None)
    run = start("run", experiment(EXPERIMENT.format(seconds=2)), env=JUDGED)
    assert eventually(lambda: measuring(tmp_path))
    loops = str(8 * (os.cpu_count() or 1))
    with subprocess.Popen(["stress-ng", "--quiet", "--seed", "13", "--cpu", loops]) as load:
        assert eventually(lambda: attempts(tmp_path) != {})
        load.terminate()
    status = run.wait()
    first = kept_whole(tmp_path)
    assert first["interference"]["this-machine"]["taken_s"] > 0
    assert status == (0 if attempts(tmp_path)["0001"]["status"] == "measured" else 1)


def test_a_trial_whose_engine_was_suspended_is_set_aside_and_done_again(
    start: Callable[..., Forked], experiment: Callable[[str], str], tmp_path: Path
) -> None:
    need("engine", have_engine())
    run = start("run", experiment(EXPERIMENT.format(seconds=5)), env=JUDGED)
    assert eventually(lambda: has_read(tmp_path) and len(engines_of(run.pid)) == 2)
    engines = engines_of(run.pid)
    for pid in engines:
        assert signalled(pid, signal.SIGSTOP)
    try:
        subprocess.run(["sleep", "1"], check=True)
    finally:
        for pid in engines:
            signalled(pid, signal.SIGCONT)
    run.wait()
    first = kept_whole(tmp_path)
    assert first["interference"]["this-machine"]["stopped_s"] > 0
