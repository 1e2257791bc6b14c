"""Arrays of commands of the user's own in the lab `raid`, and what becomes of a trial when an array breaks under it."""

from __future__ import annotations

from pathlib import Path

import pytest

from array_lab import EXPERIMENT, guest, signatures
from capability import need_program
from main_job import only_run, records

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


def test_an_engine_of_the_users_own_is_measured_with_its_parameters_as_factors(dutlab, experiment, raid: str, tmp_path: Path) -> None:
    done = dutlab("run", str(OWN), "--lab", raid)
    assert done.returncode == 0, done.stderr + done.stdout
    found = records(only_run(tmp_path))
    assert [(record["status"], record["cell"]["factors"]["ss"]) for record in found] == [("measured", "16k"), ("measured", "64k")], found
    assert {record["tool_facts"]["server:array_size_bytes"] for record in found} == {str(6 * (128 << 20))}
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
