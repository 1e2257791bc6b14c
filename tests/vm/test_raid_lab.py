"""The lab `raid`: a guest with a kernel of its own, measured like any host; only the drives that are named are written to."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path

from dutlab.labs import drives
from guests import kernels
from main_job import only_run, records
from processes import LIMIT_S, eventually

JOB = ("options={rw: randwrite, bs: 4k, iodepth: 4}", "duration=2s")


def digest(label: str, drive: str) -> str:
    return hashlib.sha256((drives.folder_of(label) / f"{drive}.img").read_bytes()).hexdigest()


def test_fio_writes_to_the_drives_that_are_named_and_to_no_other(dutlab, raid: str, tmp_path: Path) -> None:
    before = {drive: digest(raid, drive) for drive in ("d1", "d2", "d3", "d4", "d5", "d6")}
    done = dutlab("measure", "fio", "drives=[[server:d1, server:d2]]", *JOB, "--lab", raid)
    assert done.returncode == 0, done.stderr
    (record,) = records(only_run(tmp_path))
    assert record["status"] == "measured", record
    figures = record["figures"]
    assert figures["server:d1+server:d2"]["write_iops"] > 0
    assert record["tool_facts"]["server:d1_path"] == "/dev/ubda"
    assert {drive: digest(raid, drive) == was for drive, was in before.items()} == {
        "d1": False, "d2": False, "d3": True, "d4": True, "d5": True, "d6": True
    }  # fmt: skip
    facts = json.loads((only_run(tmp_path) / "hosts" / "server.json").read_text())
    assert facts["kernel"] != os.uname().release, "the guest has a kernel of its own"


def test_a_guest_that_was_killed_is_said_to_have_ended(dutlab, raid: str) -> None:
    for pid in kernels(raid):
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not kernels(raid), LIMIT_S)
    done = dutlab("measure", "fio", *JOB, "--lab", raid)
    assert (done.returncode, "the kernel of its guest has ended" in done.stderr) == (3, True), done.stderr
    assert f"dutlab lab down {raid}" in done.stderr
