"""A kill in the middle of a trial with a guest in QEMU: of the controller and of the guest. Guests in user-mode Linux lose either alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from array_lab import started
from dutlab.store.run_folder import RunFolder
from guests import kernels, kill
from main_job import only_run
from processes import LIMIT_S, eventually
from vm.conftest import Dutlab

EXPERIMENT = """
experiment: killed
testbed: {lab: qemu-router}
factors: {mode: [nat]}
repeats: 2
disturbed: count
workloads:
  - sweep: {frame_sizes: [64], rates: [200pps], duration: 3s, links: [[a]]}
watch: []
"""


@pytest.mark.timing
def test_when_both_are_killed_each_trial_is_measured_once_and_the_guest_is_as_it_was(
    dutlab: Dutlab, qemu_router: str, tmp_path: Path
) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    with dutlab.begin("run", "e.yaml", "--lab", qemu_router) as running:
        assert eventually(lambda: started(tmp_path / "runs") or running.poll() is not None, LIMIT_S) and running.poll() is None
        os.kill(running.pid, signal.SIGKILL)
        kill(qemu_router)
        running.wait(LIMIT_S)
    run = only_run(tmp_path)
    resumed = dutlab("resume", str(run))
    assert resumed.returncode == 0, resumed.stderr
    folder = RunFolder.open(run)
    assert {r.trial: r.status for r in folder.records()} == {1: "measured", 2: "measured"}
    assert folder.is_closed and folder.verify_manifest().none
    assert all(flow.lost_frames == 0 for r in folder.records() for flow in r.flows)
    assert len(kernels(qemu_router)) == 1
