"""The write cache of a drive that has one, scsi_debug's in the guest of the lab `raid`: set for a trial, and restored, also after a kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from array_lab import guest, io_runs, started
from main_job import only_run, records
from processes import LIMIT_S, eventually
from vm.conftest import Dutlab

EXPERIMENT = """
experiment: cache
testbed: {lab: raid}
factors: {mode: [as-found]}
workloads:
  - pts: {drives: [[server:d6]], tests: iops, passes: 0, write_cache: off, jobs: 1, block_sizes: 4k, reads_percent: 0, most_rounds: 5, duration: LASTS}
repeats: 1
disturbed: count
"""
MADE = """
readlink /dev/disk/by-id/d6
modprobe -d /run/modules scsi_debug dev_size_mb=16 >&2
for tries in $(seq 100); do [ ! -b /dev/sda ] || break; sleep 0.2; done
ln -sfn /dev/sda /dev/disk/by-id/d6
"""
CACHE = "cat /sys/block/sda/device/scsi_disk/*/cache_type"


@pytest.fixture
def cached(raid: str) -> Iterator[str]:
    """Label of the lab `raid` with a drive of scsi_debug as d6, whose write cache is on."""
    usual = guest(raid, MADE).strip()
    assert guest(raid, CACHE).strip() == "write back"
    yield raid
    guest(
        raid,
        f"ln -sfn {usual} /dev/disk/by-id/d6; for tries in $(seq 50); do modprobe -r -d /run/modules scsi_debug && break; sleep 0.2; done",
    )


def test_a_write_cache_is_off_for_the_trial_and_on_again_after_it(dutlab: Dutlab, cached: str, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("LASTS", "300ms"))
    done = dutlab("run", "e.yaml", "--lab", cached)
    assert done.returncode == 0, done.stderr + done.stdout
    (record,) = records(only_run(tmp_path))
    (verdict,) = record["tables"]["verdict"]
    assert (verdict["write_cache"], record["tool_facts"]["server:d6_write_cache"]) == ("off", "off")
    assert guest(cached, CACHE).strip() == "write back"


def test_a_write_cache_that_a_killed_run_left_off_is_on_after_undo(dutlab: Dutlab, cached: str, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("LASTS", "1min"))
    with dutlab.begin("run", "e.yaml", "--lab", cached) as running:
        # The check of fio's version before the first trial is a fio too.
        assert eventually(lambda: (started(tmp_path / "runs") and io_runs(cached)) or running.poll() is not None, LIMIT_S)
        assert running.poll() is None, running.said.read_text()
        os.kill(running.pid, signal.SIGKILL)
        running.wait(LIMIT_S)
    assert guest(cached, CACHE).strip() == "write through", "nothing restored it yet"
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert guest(cached, CACHE).strip() == "write back"
    assert eventually(lambda: not io_runs(cached), LIMIT_S)
