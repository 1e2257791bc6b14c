"""Drives and arrays in the lab `raid`: made, failed and rebuilt by each engine, verified, and put back also after a kill or a lost guest."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from array_lab import EXPERIMENT, LIMIT_S, guest, io_runs, journalled, signatures, verified
from dutlab.labs import drives
from dutlab.runner import guest_watch
from guests import kernels, kill, panic
from main_job import only_run, recomputed, records
from processes import eventually
from run_records import record_in
from vm.conftest import Dutlab

EXAMPLES = Path(__file__).parents[2] / "examples" / "storage"
DRIVE_BYTES = 128 << 20
"""Of each of the lab's."""
FILM = "  - array-failure: {options: {rw: randrw, bs: 4k, iodepth: 4}, ramp: 0s, phase: 3s, rebuild_bytes_per_s: 12000000}\n"


@pytest.fixture
def experiment(tmp_path: Path):
    def written(*modes: str, duration: str = "1s") -> str:
        text = EXPERIMENT.replace("MODES", f"[{', '.join(modes)}]").replace("duration: 1s", f"duration: {duration}")
        (path := tmp_path / "experiment.yaml").write_text(text)
        return str(path)

    return written


@pytest.mark.parametrize(
    "data_drives",
    [
        {"raid5": 5, "raid10": 3, "raid50-rebuilding": 4, "raid1-rebuilt": 1},
        {"lvm-raid10-rebuilding": 3, "lvm-raid5-degraded": 5, "btrfs-raid1-rebuilt": None},
    ],
    ids=["md", "lvm-and-btrfs"],
)
def test_each_state_of_an_array_is_measured_as_that_and_its_drives_are_free_again(
    dutlab: Dutlab, experiment, raid: str, tmp_path: Path, data_drives: dict[str, int | None]
) -> None:
    done = dutlab("run", experiment("as-found", *data_drives), "--lab", raid)
    assert done.returncode == 0, done.stderr + done.stdout
    found = {record["cell"]["mode"]: record for record in records(only_run(tmp_path))}
    assert {mode: record["status"] for mode, record in found.items()} == dict.fromkeys(("as-found", *data_drives), "measured"), found
    facts = {mode: record["tool_facts"] for mode, record in found.items()}
    assert int(facts["as-found"]["server:d1_size_bytes"]) == DRIVE_BYTES
    useful = {mode: round(int(facts[mode]["server:array_size_bytes"]) / DRIVE_BYTES) for mode in data_drives}
    assert useful == {mode: drives or useful[mode] for mode, drives in data_drives.items()}, "useful capacity is that of the array itself"
    assert facts.get("raid5", {}).get("server:array_dutlab_chunk_size", "65536") == "65536"
    assert facts.get("raid50-rebuilding", {}).get("server:array_dutlab-2_level", "raid5") == "raid5"
    assert all(record["figures"]["server:array"]["iops.write"] > 0 for mode, record in found.items() if mode != "as-found")
    marked = {mode for mode, record in found.items() if "FILE_SYSTEM" in {doubt["kind"] for doubt in record["doubts"]}}
    assert marked == {mode for mode in data_drives if "btrfs" in mode}, "btrfs is a file system, and is said to be"
    assert json.loads((only_run(tmp_path) / "hosts" / "server.json").read_text())["kernel"] != os.uname().release


def test_an_engine_of_the_users_own_is_measured_at_each_level_of_its_factor(dutlab: Dutlab, raid: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text((EXAMPLES / "own-engine.yaml").read_text().replace("duration: 2s", "duration: 1s"))
    done = dutlab("run", "own.yaml", "--lab", raid)
    assert done.returncode == 0, done.stderr + done.stdout
    found = records(only_run(tmp_path))
    assert [(record["status"], record["cell"]["factors"]["ss"]) for record in found] == [("measured", "16k"), ("measured", "64k")], found
    assert {record["tool_facts"]["server:array_size_bytes"] for record in found} == {str(6 * DRIVE_BYTES)}
    assert all(record["figures"]["server:array"]["iops.read"] > 0 for record in found)


def test_fio_writes_to_the_drives_that_are_named_and_to_no_other(dutlab: Dutlab, raid: str, tmp_path: Path) -> None:
    files = {drive: drives.folder_of(raid) / f"{drive}.img" for drive in ("d1", "d2", "d3", "d4", "d5", "d6")}

    def digests() -> dict[str, str]:
        return {drive: hashlib.sha256(path.read_bytes()).hexdigest() for drive, path in files.items()}

    before = digests()
    job = ("options={rw: randwrite, bs: 4k, iodepth: 4}", "duration=1s")
    done = dutlab("measure", "fio", "drives=[[server:d1, server:d2]]", *job, "--lab", raid)
    assert done.returncode == 0, done.stderr
    (record,) = records(only_run(tmp_path))
    assert record["status"] == "measured", record
    assert record["figures"]["server:d1+server:d2"]["iops.write"] > 0
    assert record["tool_facts"]["server:d1_path"] == "/dev/ubda"
    assert {drive for drive, was in digests().items() if before[drive] != was} == {"d1", "d2"}


def test_an_array_of_somebody_else_is_named_and_not_touched(dutlab: Dutlab, experiment, raid: str, tmp_path: Path) -> None:
    guest(raid, "mdadm --create /dev/md/theirs --run --homehost=any --level=1 --raid-devices=2 --size=8M /dev/ubda /dev/ubdb 2>&1")
    asked = "mdadm --examine --export /dev/ubda | grep -E 'UUID|NAME'"
    before = guest(raid, asked)
    done = dutlab("run", experiment("raid5"), "--lab", raid)
    assert (done.returncode, "/dev/ubda" in done.stderr, "linux_raid_member" in done.stderr) == (3, True, True), done.stderr
    assert guest(raid, asked) == before
    assert "theirs" in before and not list((tmp_path / "runs").glob("*/trials/*/record.json"))
    guest(raid, "mdadm --stop /dev/md/theirs; for drive in /dev/ubd[ab]; do mdadm --zero-superblock $drive; done")


def test_an_array_that_a_killed_run_left_degraded_is_put_back(dutlab: Dutlab, experiment, raid: str, tmp_path: Path) -> None:
    with dutlab.begin("run", experiment("raid5-degraded", duration="1min"), "--lab", raid) as running:
        assert eventually(lambda: verified(tmp_path) or running.poll() is not None, LIMIT_S)
        assert verified(tmp_path), running.said.read_text()
        os.kill(running.pid, signal.SIGKILL)
        running.wait(LIMIT_S)
    assert "active raid5" in signatures(raid)
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert signatures(raid) == ""


def test_a_drive_fails_under_load_and_the_film_of_it_holds_by_its_raw_files(dutlab: Dutlab, raid: str, tmp_path: Path) -> None:
    text = EXPERIMENT.replace("MODES", "[raid5]").partition("  - fio")[0] + FILM + "repeats: 1\ndisturbed: count\n"
    (tmp_path / "film.yaml").write_text(text)
    done = dutlab("run", "film.yaml", "--lab", raid)
    assert done.returncode == 0, done.stderr + done.stdout
    (record,) = records(run := only_run(tmp_path))
    assert record["status"] == "measured", record
    (machine,) = record["interference"].values()
    assert machine["threads"]["linux.uml"]["run_s"] > 0, "the guest's CPU time is known, so that of other work is"
    phases = ("healthy", "degraded", "rebuilding", "rebuilt")
    assert tuple(row["phase"] for row in record["tables"]["phases"]) == phases
    ((name, figures),) = record["figures"].items()
    assert recomputed(run, record)[name] == pytest.approx(figures), "by its raw files alone"
    assert all(figures[f"{phase}/iops"] > 0 for phase in phases), figures
    assert figures["rebuild_s"] > 0 and any(row["rebuild_bytes_per_s"] for row in record["tables"]["film"]), record["tables"]["film"]
    (card,) = dutlab("claims", str(run)).stdout.splitlines()
    held = dutlab("verify-claim", card)
    assert held.returncode == 0, held.stdout + held.stderr


def test_a_guest_that_panics_and_then_hangs_is_started_again_each_time_and_the_run_goes_on(
    dutlab: Dutlab, experiment, raid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_watch, "SILENT_S", 1.0)

    with dutlab.begin("run", experiment("raid1", duration="10s"), "--lab", raid) as running:

        def measures(after: int) -> bool:
            """Whether a trial goes on once so many guests were lost."""
            events = journalled(tmp_path / "runs")
            return running.poll() is not None or (events[-1:] == ["trial-started"] and events.count("host-lost") == after and io_runs(raid))

        assert eventually(lambda: measures(0), LIMIT_S) and running.poll() is None, running.said.read_text()
        panic(raid, "server")
        assert eventually(lambda: measures(1), LIMIT_S) and running.poll() is None, running.said.read_text()
        for pid in kernels(raid):
            os.kill(pid, signal.SIGSTOP)
        assert running.wait(LIMIT_S) == 0, running.said.read_text()
    (record,) = records(run := only_run(tmp_path))
    assert (record["status"], record["attempt"]) == ("measured", 3), record
    assert all(check["passed"] for check in record["checks"]), "its mode was applied and verified again"
    void = [record_in(path) for path in sorted(run.glob("trials/*.host-lost-*/record.json"))]
    assert [(r["status"], r["figures"]) for r in void] == [("failed", {})] * 2
    lost = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    panicked, hung = [event["why"] for event in lost if event["event"] == "host-lost"]
    assert "sysrq triggered crash" in panicked and "does not answer" in hung
    assert "sysrq triggered crash" in (run / "trials" / "0001.host-lost-1" / "raw" / "console-server.txt").read_text()
    assert (run / "report" / "report.html").exists()


def test_a_guest_that_was_killed_is_said_to_have_ended(dutlab: Dutlab, raid: str) -> None:
    kill(raid)
    done = dutlab("measure", "fio", "options={rw: randwrite, bs: 4k, iodepth: 4}", "duration=1s", "--lab", raid)
    assert (done.returncode, "the kernel of its guest has ended" in done.stderr) == (3, True), done.stderr
    assert f"dutlab lab down {raid}" in done.stderr
