"""Arrays as modes in the lab `raid`: made, failed and rebuilt by mdadm, verified in sysfs, and put back also after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from array_lab import EXPERIMENT, LIMIT_S, guest, io_runs, journalled, panic, signatures, verified
from guests import kernels
from main_job import only_run, recomputed, records
from processes import eventually

FILM = "  - array-failure: {options: {rw: randrw, bs: 4k, iodepth: 4}, ramp: 0s, phase: 4s, rebuild_bytes_per_s: 12000000}\n"


@pytest.fixture
def experiment(tmp_path: Path):
    def written(*modes: str) -> str:
        (path := tmp_path / "experiment.yaml").write_text(EXPERIMENT.replace("MODES", f"[{', '.join(modes)}]"))
        return str(path)

    return written


def test_each_state_of_an_array_is_measured_as_that_and_its_drives_are_free_again(dutlab, experiment, raid: str, tmp_path: Path) -> None:
    modes = ("as-found", "raid5", "raid5-degraded", "raid50-rebuilding", "raid1-rebuilt")
    done = dutlab("run", experiment(*modes), "--lab", raid)
    assert done.returncode == 0, done.stderr + done.stdout
    found = {record["cell"]["mode"]: record for record in records(only_run(tmp_path))}
    assert {mode: record["status"] for mode, record in found.items()} == dict.fromkeys(modes, "measured"), found
    facts = {mode: record["tool_facts"] for mode, record in found.items()}
    sizes = {mode: int(of["server:array_size_bytes"]) for mode, of in facts.items() if mode != "as-found"}
    drive = int(facts["as-found"]["server:d1_size_bytes"])
    data_drives = {"raid5": 5, "raid5-degraded": 5, "raid50-rebuilding": 4, "raid1-rebuilt": 1}
    assert {mode: round(size / drive) for mode, size in sizes.items()} == data_drives, "useful capacity is that of the array itself"
    assert facts["raid5"]["server:array_dutlab_chunk_size"] == "65536"
    assert facts["raid50-rebuilding"]["server:array_dutlab-2_level"] == "raid5"
    assert all(record["figures"]["server:array"]["write_iops"] > 0 for mode, record in found.items() if mode != "as-found")
    assert signatures(raid) == ""


def test_an_array_of_somebody_else_is_named_and_not_touched(dutlab, experiment, raid: str, tmp_path: Path) -> None:
    guest(raid, "mdadm --create /dev/md/theirs --run --homehost=any --level=1 --raid-devices=2 /dev/ubda /dev/ubdb 2>&1")
    before = guest(raid, "mdadm --examine --export /dev/ubda | grep -E 'UUID|NAME'")
    done = dutlab("run", experiment("raid5"), "--lab", raid)
    assert (done.returncode, "/dev/ubda has a signature of linux_raid_member" in done.stderr) == (3, True), done.stderr
    assert guest(raid, "mdadm --examine --export /dev/ubda | grep -E 'UUID|NAME'") == before
    assert "theirs" in before and not list((tmp_path / "runs").glob("*/trials/*/record.json"))


def test_an_array_that_a_killed_run_left_degraded_is_put_back(dutlab, experiment, raid: str, tmp_path: Path, python_env) -> None:
    argv = [sys.executable, "-m", "dutlab", "run", experiment("raid5-degraded"), "--lab", raid]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(argv, cwd=tmp_path, env=python_env, stdout=said, stderr=said)
        try:
            assert eventually(lambda: verified(tmp_path) or running.poll() is not None, LIMIT_S)
            assert verified(tmp_path), (tmp_path / "said").read_text()
        finally:
            os.kill(running.pid, signal.SIGKILL)
            running.wait()
    assert "active raid5" in signatures(raid)
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert signatures(raid) == ""
    insist_on_a_film_of(dutlab, raid, tmp_path)


def insist_on_a_film_of(dutlab, raid: str, tmp_path: Path) -> None:
    """A drive fails under load in the same lab, which no test need boot once more."""
    text = EXPERIMENT.replace("MODES", "[raid5]").partition("  - fio")[0] + FILM + "repeats: 1\ndisturbed: count\n"
    (path := tmp_path / "film.yaml").write_text(text)
    done = dutlab("run", str(path), "--lab", raid, "--runs", str(tmp_path / "films"))
    assert done.returncode == 0, done.stderr + done.stdout
    (run,) = (tmp_path / "films").iterdir()
    (record,) = records(run)
    assert record["status"] == "measured", record
    (machine,) = record["interference"].values()
    assert machine["threads"]["linux.uml"]["run_s"] > 0, "the guest's CPU time is known, so that of other work is"
    assert [row["phase"] for row in record["tables"]["phases"]] == ["healthy", "degraded", "rebuilding", "rebuilt"]
    ((name, figures),) = record["figures"].items()
    assert recomputed(run, record)[name] == pytest.approx(figures), "by its raw files alone"
    assert all(figures[f"{phase}_iops"] > 0 for phase in ("healthy", "degraded", "rebuilding", "rebuilt")), figures
    assert figures["rebuild_s"] > 0 and any(row["rebuild_bytes_per_s"] for row in record["tables"]["film"]), record["tables"]["film"]
    claimed = dutlab("claims", str(run))
    (card,) = claimed.stdout.splitlines()
    held = dutlab("verify-claim", card)
    assert held.returncode == 0, held.stdout + held.stderr
    assert signatures(raid) == ""


def test_a_guest_that_panics_and_then_hangs_is_started_again_each_time_and_the_run_goes_on(
    dutlab, experiment, raid: str, tmp_path: Path, python_env
) -> None:
    (tmp_path / "experiment.yaml").write_text(Path(experiment("raid1")).read_text().replace("duration: 2s", "duration: 15s"))
    argv = [sys.executable, "-m", "dutlab", "run", "experiment.yaml", "--lab", raid]
    with (tmp_path / "said").open("w") as said:
        running = subprocess.Popen(argv, cwd=tmp_path, env=python_env, stdout=said, stderr=said)

        def measures(after: int) -> bool:
            """Whether a trial goes on once so many guests were lost."""
            events = journalled(tmp_path / "runs")
            return running.poll() is not None or (events[-1:] == ["trial-started"] and events.count("host-lost") == after and io_runs(raid))

        try:
            assert eventually(lambda: measures(0), LIMIT_S) and running.poll() is None, (tmp_path / "said").read_text()
            panic(raid)
            assert eventually(lambda: measures(1), LIMIT_S) and running.poll() is None, (tmp_path / "said").read_text()
            for pid in kernels(raid):
                os.kill(pid, signal.SIGSTOP)
            assert running.wait(LIMIT_S) == 0, (tmp_path / "said").read_text()
        finally:
            running.kill()
            running.wait(LIMIT_S)
    run = only_run(tmp_path)
    (record,) = records(run)
    assert (record["status"], record["attempt"]) == ("measured", 3), record
    assert all(check["passed"] for check in record["checks"]), "its mode was applied and verified again"
    void = [json.loads(path.read_text()) for path in sorted(run.glob("trials/*.host-lost-*/record.json"))]
    assert [(r["status"], r["figures"]) for r in void] == [("failed", {})] * 2
    panicked, hung = (r["why"] for r in void)
    assert "server was lost: the kernel of its guest has ended: Kernel panic - not syncing: sysrq triggered crash" in panicked
    assert "server was lost: it answers nothing" in hung
    assert "sysrq triggered crash" in (run / "trials" / "0001.host-lost-1" / "raw" / "console-server.txt").read_text()
    assert "A host was lost in 1 trial" in (run / "report" / "report.html").read_text()
    assert signatures(raid) == ""


def test_the_storage_demo_says_theory_first_and_measures_every_state(dutlab, guest_of_arrays, tmp_path: Path) -> None:
    done = dutlab("demo", "storage")
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr.index("RAID 5, a drive lost") < done.stderr.index("trials, about"), done.stderr
    found = records(only_run(tmp_path))
    assert {record["cell"]["mode"] for record in found if record["status"] == "measured"} == {
        "as-found", "raid10", "raid5", "raid5-degraded", "raid5-rebuilding"
    }, done.stderr  # fmt: skip
