"""Arrays in the lab `raid` that cannot be made, and drives that end in a trial."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from array_lab import EXPERIMENT, LIMIT_S, guest, io_runs, signatures, started
from dutlab import labs
from dutlab.dut.arrays import ArrayMode
from dutlab.dut.mdraid import ENGINES
from dutlab.ending import closing
from dutlab.errors import HostError
from dutlab.runner.undo import carry_out
from dutlab.spec.known import FAMILY_MODES, MDRAID
from dutlab.systems.modes import MD
from main_job import only_run, records
from processes import eventually
from vm.conftest import Dutlab

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
for tries in $(seq 600); do
  for disk in /sys/block/sd*; do
    [ ! -b "/dev/${disk##*/}" ] || { ln -sfn "/dev/${disk##*/}" /dev/disk/by-id/d1; break 2; }
  done
  sleep 0.1
done
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


@pytest.fixture
def experiment(tmp_path: Path):
    def written(mode: str) -> str:
        (path := tmp_path / "experiment.yaml").write_text(EXPERIMENT.replace("MODES", f"[{mode}]"))
        return str(path)

    return written


def test_an_array_that_md_refuses_measures_nothing_and_leaves_no_drive_in_it(dutlab: Dutlab, experiment, raid: str, tmp_path: Path) -> None:
    held = "import os, time; os.open('/dev/ubdf', os.O_RDONLY | os.O_EXCL); open('/run/held', 'x'); time.sleep(3600)"
    guest(raid, f'setsid python3 -c "{held}" </dev/null >/dev/null 2>&1 & until [ -e /run/held ]; do sleep 0.1; done; rm /run/held')
    done = dutlab("run", experiment("raid5"), "--lab", raid)
    assert done.returncode in (1, 3) and "mdadm refuses" in done.stderr and "/dev/ubdf" in done.stderr, done.stderr
    assert [record for record in records(only_run(tmp_path)) if record["status"] == "measured"] == []
    assert signatures(raid) == ""
    guest(raid, "kill $(pidof python3); while pidof python3; do sleep 0.1; done")


async def test_a_synchronisation_that_stands_still_is_ended(raid: str) -> None:
    """A drive of the array answers no more, and says nothing. The limit is a short one here."""
    engine = ENGINES[MD]
    declared = FAMILY_MODES[MDRAID]["raid1"]
    mode = ArrayMode(declared, declared.array, replace(engine, apply=engine.apply.replace("still_s=120 ", "still_s=5 ")))
    assert mode.engine.apply != engine.apply
    lab = await labs.attach(raid)
    host = lab.hosts()["server"]
    async with closing(host):
        await host.run(["sh", "-c", ANSWERS_UNTIL_SUSPENDED])
        suspending = asyncio.ensure_future(host.run(["sh", "-c", SUSPENDS_WHEN_IT_SYNCHRONISES], timeout_s=LIMIT_S))
        with pytest.raises(HostError, match=r"array raid1 cannot be made: array md[0-9]+ made no progress for 5 s: resync [0-9]+/[0-9]+"):
            await mode.apply(host, lab.testbed)
        await suspending
        await host.run(["dmsetup", "resume", "--noudevsync", "silent"])
        await carry_out(await mode.undo(host, lab.testbed), {"server": host})
        await host.run(["sh", "-c", ANSWERS_AGAIN])


def test_a_drive_that_vanishes_or_answers_with_errors_in_a_trial_gives_no_figures_and_is_named(
    dutlab: Dutlab, raid: str, tmp_path: Path
) -> None:
    (tmp_path / "experiment.yaml").write_text(ON_ONE_DRIVE)
    others = "for drive in /dev/ubd[b-f]; do sha256sum $drive; done"
    before = guest(raid, others)

    def carried_out_while(runs: Path, script: str) -> list[dict[str, Any]]:
        assert "ready" in guest(raid, SCSI + "echo ready")
        with dutlab.begin("run", "experiment.yaml", "--lab", raid, "--runs", str(runs)) as running:
            assert eventually(lambda: (started(runs) and io_runs(raid)) or running.poll() is not None, LIMIT_S)
            guest(raid, script)
            ended = running.wait(LIMIT_S)
            said = running.said.read_text()
        assert ended == 1 and "Traceback" not in said, said
        (run,) = runs.iterdir()
        found = records(run)
        assert [record["status"] for record in found] == ["failed", "failed"], "it goes on, and finds the same"
        assert found[0]["why"].startswith("server: fio: server:d1: ") and found[0]["why"] in said, said
        return found

    try:
        found = carried_out_while(tmp_path / "errors", "echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts")
        assert all("io_u error on file /dev/sd" in record["why"] for record in found), found
        # The first trial fails in whatever fio did as the drive went, with an error of the kernel that depends on the moment.
        _, second = carried_out_while(tmp_path / "vanishes", "for disk in /sys/block/sd*; do echo 1 >$disk/device/delete; done")
        assert "d1: /dev/disk/by-id/d1 does not exist" in second["why"], second["why"]
        assert guest(raid, others) == before, "nothing but what is named is written to"
    finally:
        guest(raid, "modprobe -r -d /run/modules scsi_debug; ln -sfn /dev/ubda /dev/disk/by-id/d1")
