"""Arrays of LVM and btrfs, and of commands of the user's own, in the lab `raid`; and what becomes of a trial when an array breaks under it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from array_lab import EXPERIMENT, LIMIT_S, guest, io_runs, signatures, verified
from capability import need_program
from main_job import only_run, records
from processes import eventually

OWN = Path(__file__).parents[2] / "examples" / "storage" / "own-engine.yaml"


@pytest.fixture
def experiment(tmp_path: Path, guest_of_arrays: None):
    for program in ("lvm", "mkfs.btrfs", "dmsetup"):
        need_program(program)

    def written(*modes: str, duration: str = "2s") -> str:
        text = EXPERIMENT.replace("MODES", f"[{', '.join(modes)}]").replace("2s", duration)
        (path := tmp_path / "experiment.yaml").write_text(text)
        return str(path)

    return written


def test_arrays_of_lvm_and_btrfs_are_measured_in_their_state_and_taken_away(dutlab, experiment, raid: str, tmp_path: Path) -> None:
    modes = ("lvm-raid5-degraded", "lvm-raid6-rebuilding", "btrfs-raid10-degraded", "btrfs-raid1-rebuilt")
    done = dutlab("run", experiment(*modes), "--lab", raid)
    assert done.returncode == 0, done.stderr + done.stdout
    found = {record["cell"]["mode"]: record for record in records(only_run(tmp_path))}
    assert {mode: record["status"] for mode, record in found.items()} == dict.fromkeys(modes, "measured"), found
    facts = {mode: record["tool_facts"] for mode, record in found.items()}
    assert [facts[mode]["server:array_dutlab_level"] for mode in modes] == ["raid5", "raid6", "raid10", "raid1"]
    drive = 128 << 20
    assert [round(int(facts[mode]["server:array_size_bytes"]) / drive) for mode in modes[:2]] == [5, 4], "the array's own capacity"
    assert facts["lvm-raid5-degraded"]["server:array_dutlab_chunk_size"] == "65536"
    assert {mode: "FILE_SYSTEM" in {doubt["kind"] for doubt in found[mode]["doubts"]} for mode in modes} == {
        mode: mode.startswith("btrfs") for mode in modes
    }
    assert signatures(raid) == "" and guest(raid, "ls /dev/mapper; findmnt -t btrfs; true").split() == ["control"]


def test_an_array_of_lvm_that_a_killed_run_left_is_put_back_and_one_of_somebody_else_is_not_touched(
    dutlab, experiment, raid: str, tmp_path: Path, python_env: dict[str, str]
) -> None:
    argv = [sys.executable, "-m", "dutlab", "run", experiment("lvm-raid1-degraded", duration="10min"), "--lab", raid]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(argv, cwd=tmp_path, env=python_env, stdout=said, stderr=said)
        try:
            assert eventually(lambda: verified(tmp_path) or running.poll() is not None, LIMIT_S)
        finally:
            os.kill(running.pid, signal.SIGKILL)
            running.wait()
    assert "LVM2_member" in signatures(raid), (tmp_path / "said").read_text()
    done = dutlab("undo", str(only_run(tmp_path)))
    assert (done.returncode, signatures(raid)) == (0, ""), done.stderr
    shutil.rmtree(tmp_path / "runs")
    guest(raid, "lvm pvcreate -qq --config 'devices{use_devicesfile=0}' /dev/ubdc && mkfs.btrfs -q -L theirs /dev/ubdd")
    before = signatures(raid)
    done = dutlab("run", experiment("lvm-raid5", "btrfs-raid1"), "--lab", raid)
    assert done.returncode == 3, done.stderr
    assert "/dev/ubdc has a signature of LVM2_member" in done.stderr and "/dev/ubdd has a signature of btrfs" in done.stderr, done.stderr
    assert signatures(raid) == before != ""


def test_an_engine_of_the_users_own_is_measured_with_its_parameters_as_factors(dutlab, experiment, raid: str, tmp_path: Path) -> None:
    done = dutlab("run", str(OWN), "--lab", raid)
    assert done.returncode == 0, done.stderr + done.stdout
    found = records(only_run(tmp_path))
    assert [(record["status"], record["cell"]["factors"]["ss"]) for record in found] == [("measured", "16k"), ("measured", "64k")], found
    assert {record["tool_facts"]["server:array_size_bytes"] for record in found} == {str(6 * (128 << 20))}
    assert all(record["figures"]["server:array"]["read_iops"] > 0 for record in found)
    assert guest(raid, "ls /dev/mapper /run/own-ss 2>/dev/null; true").split() == ["/dev/mapper:", "control"]


def test_an_array_that_answers_with_errors_in_mid_trial_has_no_figures_and_is_named(
    dutlab, experiment, raid: str, tmp_path: Path, python_env: dict[str, str]
) -> None:
    (path := tmp_path / "own.yaml").write_text(
        OWN.read_text().replace("[16k, 64k]", "[64k]").replace("    16k:", "    #").replace("2s", "10min")
    )
    argv = [sys.executable, "-m", "dutlab", "run", str(path), "--lab", raid]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(argv, cwd=tmp_path, env=python_env, stdout=said, stderr=said)
        try:
            assert eventually(lambda: io_runs(raid) or running.poll() is not None, LIMIT_S)
            assert running.poll() is None, (tmp_path / "said").read_text()
            guest(raid, 'dmsetup load own --table "0 $(blockdev --getsz /dev/mapper/own) error" && dmsetup resume own')
            running.wait(LIMIT_S)
        finally:
            running.kill()
            running.wait(LIMIT_S)
    told = (tmp_path / "said").read_text()
    (record,) = records(only_run(tmp_path))
    assert (record["status"], record["figures"]) == ("failed", {}), record
    assert "server:array: Input/output error" in told and "Traceback" not in told, told
    assert guest(raid, "ls /dev/mapper").split() == ["control"]


def test_an_array_that_md_refuses_measures_nothing_and_leaves_no_drive_in_it(dutlab, experiment, raid: str, tmp_path: Path) -> None:
    held = "import os, time; os.open('/dev/ubdf', os.O_RDONLY | os.O_EXCL); time.sleep(3600)"
    guest(raid, f'setsid python3 -c "{held}" </dev/null >/dev/null 2>&1 & sleep 3')
    done = dutlab("run", experiment("raid5"), "--lab", raid)
    assert done.returncode != 0 and "array raid5 cannot be made: mdadm refuses: " in done.stderr, done.stderr
    assert "/dev/ubdf" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert [record for record in records(only_run(tmp_path)) if record["status"] == "measured"] == []
    assert signatures(raid) == ""
