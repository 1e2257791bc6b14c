"""Arrays of LVM, btrfs and commands of the user's own in the lab `raid`; arrays that cannot be made, and drives that end in a trial."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from array_lab import EXPERIMENT, LIMIT_S, guest, io_runs, signatures, started
from capability import need_program
from dutlab import labs
from dutlab.dut.arrays import ArrayMode
from dutlab.dut.mdraid import ENGINES
from dutlab.ending import closing
from dutlab.errors import HostError
from dutlab.runner.undo import carry_out
from dutlab.spec.arrays import MD
from main_job import only_run, records
from processes import eventually

DRIVE_BYTES = 128 << 20
"""Of each of the lab's."""
ON_ONE_DRIVE = """
experiment: bad-drive
testbed: {lab: raid}
factors: {mode: [as-found]}
workloads:
  - fio: {drives: [[server:d1]], options: {rw: [randread, randrw], bs: 4k, iodepth: 4}, duration: 1min}
order: as-written
repeats: 1
disturbed: count
"""
SCSI = """
modprobe -r -d /run/modules scsi_debug 2>/dev/null
modprobe -d /run/modules scsi_debug dev_size_mb=16 ndelay=100000 || exit
for tries in $(seq 60); do
  for disk in /sys/block/sd*; do
    [ ! -b "/dev/${disk##*/}" ] || { ln -sfn "/dev/${disk##*/}" /dev/disk/by-id/d1; exit; }
  done
  sleep 0.5
done
exit 1
"""
"""The drive d1 is one that can vanish, and that has a bad spot once it is told so (scsi_debug's opts: 2)."""
ANSWERS_UNTIL_SUSPENDED = """
echo 1000 >/proc/sys/dev/raid/speed_limit_max
echo "0 $(blockdev --getsz /dev/ubdf) linear /dev/ubdf 0" | dmsetup create silent --noudevsync
ln -sfn "/dev/$(dmsetup info -c --noheadings -o blkdevname silent)" /dev/disk/by-id/d6
"""
SUSPENDS_WHEN_IT_SYNCHRONISES = "until grep -q 'resync *=' /proc/mdstat; do sleep 0.1; done; dmsetup suspend --nolockfs --noudevsync silent"
ANSWERS_AGAIN = """
dmsetup remove --noudevsync --retry silent
ln -sfn /dev/ubdf /dev/disk/by-id/d6
echo 200000 >/proc/sys/dev/raid/speed_limit_max
"""
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


def test_every_engine_is_measured_in_its_states_and_its_drives_are_free_again(dutlab, experiment, raid: str, tmp_path: Path) -> None:
    modes = ("lvm-raid10-rebuilding", "lvm-raid5-degraded", "btrfs-raid1-rebuilt")
    done = dutlab("run", experiment(*modes), "--lab", raid)
    assert done.returncode == 0, done.stderr + done.stdout
    found = {record["cell"]["mode"]: record for record in records(only_run(tmp_path))}
    assert {mode: record["status"] for mode, record in found.items()} == dict.fromkeys(modes, "measured"), found
    useful = {mode: int(record["tool_facts"]["server:array_size_bytes"]) / DRIVE_BYTES for mode, record in found.items()}
    assert {mode: round(drives) for mode, drives in useful.items() if "lvm" in mode} == {
        "lvm-raid10-rebuilding": 3,
        "lvm-raid5-degraded": 5,
    }
    marked = {mode for mode, record in found.items() if "FILE_SYSTEM" in {doubt["kind"] for doubt in record["doubts"]}}
    assert marked == {"btrfs-raid1-rebuilt"}, "btrfs is a file system, and is said to be"
    assert all(record["figures"]["server:array"]["write_iops"] > 0 for record in found.values())
    assert signatures(raid) == "" and guest(raid, "ls /dev/mapper").split() == ["control"]
    insist_on_an_engine_of_the_users_own(dutlab, raid, tmp_path / "own")


def insist_on_an_engine_of_the_users_own(dutlab, raid: str, runs: Path) -> None:
    """Its parameters are factors. In the same lab, which no test need boot once more."""
    done = dutlab("run", str(OWN), "--lab", raid, "--runs", str(runs))
    assert done.returncode == 0, done.stderr + done.stdout
    (run,) = runs.iterdir()
    found = records(run)
    assert [(record["status"], record["cell"]["factors"]["ss"]) for record in found] == [("measured", "16k"), ("measured", "64k")], found
    assert {record["tool_facts"]["server:array_size_bytes"] for record in found} == {str(6 * DRIVE_BYTES)}
    assert all(record["figures"]["server:array"]["read_iops"] > 0 for record in found)
    assert guest(raid, "ls /dev/mapper /run/own-ss 2>/dev/null; true").split() == ["/dev/mapper:", "control"]


def test_an_array_that_md_refuses_measures_nothing_and_leaves_no_drive_in_it(dutlab, experiment, raid: str, tmp_path: Path) -> None:
    held = "import os, time; os.open('/dev/ubdf', os.O_RDONLY | os.O_EXCL); time.sleep(3600)"
    guest(raid, f'setsid python3 -c "{held}" </dev/null >/dev/null 2>&1 & sleep 3')
    done = dutlab("run", experiment("raid5"), "--lab", raid)
    assert done.returncode != 0 and "array raid5 cannot be made: mdadm refuses: " in done.stderr, done.stderr
    assert "/dev/ubdf" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert [record for record in records(only_run(tmp_path)) if record["status"] == "measured"] == []
    assert signatures(raid) == ""
    guest(raid, "kill $(pidof python3)")
    asyncio.run(insist_on_an_end_of_a_synchronisation_that_stands_still(raid))
    assert signatures(raid) == ""


async def insist_on_an_end_of_a_synchronisation_that_stands_still(raid: str) -> None:
    """A drive of the array answers no more, and says nothing. The limit is a short one here."""
    engine = ENGINES[MD]
    mode = ArrayMode("raid1", replace(engine, apply=engine.apply.replace("still_s=120 ", "still_s=5 ")))
    assert mode.engine.apply != engine.apply
    lab = await labs.attach(raid)
    host = lab.hosts()["server"]
    async with closing(host):
        await host.run(["sh", "-c", ANSWERS_UNTIL_SUSPENDED])
        suspending = asyncio.ensure_future(host.run(["sh", "-c", SUSPENDS_WHEN_IT_SYNCHRONISES], timeout_s=LIMIT_S))
        with pytest.raises(HostError, match=r"array raid1 cannot be made: array md[0-9]+ has stood still for 5 s: resync [0-9]+/[0-9]+"):
            await mode.apply(host, lab.testbed)
        await suspending
        await host.run(["dmsetup", "resume", "--noudevsync", "silent"])
        await carry_out(await mode.undo(host, lab.testbed), {"server": host})
        await host.run(["sh", "-c", ANSWERS_AGAIN])


def test_a_drive_that_vanishes_or_answers_with_errors_in_a_trial_gives_no_figures_and_is_named(
    dutlab, raid: str, tmp_path: Path, python_env
) -> None:
    (tmp_path / "experiment.yaml").write_text(ON_ONE_DRIVE)
    others = "for drive in /dev/ubd[b-f]; do sha256sum $drive; done"
    before = guest(raid, others)

    def carried_out_while(runs: Path, script: str) -> list[dict[str, Any]]:
        guest(raid, SCSI)
        argv = [sys.executable, "-m", "dutlab", "run", "experiment.yaml", "--lab", raid, "--runs", str(runs)]
        with subprocess.Popen(argv, cwd=tmp_path, env=python_env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
            try:
                assert eventually(lambda: (started(runs) and io_runs(raid)) or running.poll() is not None, LIMIT_S)
                guest(raid, script)
                said, _ = running.communicate(timeout=LIMIT_S)
            finally:
                running.kill()
        assert running.returncode == 1 and "Traceback" not in said, said
        (run,) = runs.iterdir()
        found = records(run)
        assert [record["status"] for record in found] == ["failed", "failed"], "it goes on, and finds the same"
        assert found[0]["why"].startswith("server: fio: server:d1: ") and found[0]["why"] in said, said
        return found

    found = carried_out_while(tmp_path / "errors", "echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts")
    assert all("io_u error on file /dev/sd" in record["why"] for record in found), found
    first, second = carried_out_while(tmp_path / "vanishes", "for disk in /sys/block/sd*; do echo 1 >$disk/device/delete; done")
    assert "Input/output error" in first["why"] or "gone at the end of the trial" in first["why"], first["why"]
    assert "d1: /dev/disk/by-id/d1 is not there" in second["why"], second["why"]
    assert guest(raid, others) == before, "nothing but what is named is written to"
