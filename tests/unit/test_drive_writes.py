"""What a plan says that each drive will be written: the most that its rating allows, and the share of its endurance."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.main import dutlab
from dutlab.errors import SpecRefused
from dutlab.plan.drive_writes import Written, drive_writes
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import read_experiment
from dutlab.spec.loader import testbed_of as bed_of

TBW = "write_iops: 75000, write_bytes_per_s: 2.0e+9, endurance_tbw: 1400"


def written(
    folder: Path, workload: str, rated: str = TBW, *, mode: str = "as-found", drives: int = 1, more: str = ""
) -> dict[str, Written]:
    named = ", ".join(f"d{n}: {{by-id: nvme-ACME_{n}, destroy: yes, purge: yes{more}, rated: {{{rated}}}}}" for n in range(1, drives + 1))
    (folder / "t.yaml").write_text(f"testbed: disks\nhosts: {{server: {{local: true, drives: {{{named}}}}}}}\n")
    text = f"experiment: e\ntestbed: t.yaml\nfactors: {{mode: [{mode}]}}\nworkloads:\n  - {workload}\nrepeats: 2\nseed: 1\n"
    (folder / "e.yaml").write_text(text)
    given = read_experiment(folder / "e.yaml")
    testbed = bed_of(given)
    return drive_writes(make_plan(given.experiment, testbed), testbed)


def fio(**options: object) -> str:
    return f"fio: {{ramp: 5s, duration: 60s, options: {{{', '.join(f'{key}: {value}' for key, value in options.items())}}}}}"


def test_random_writes_are_bounded_by_requests_and_larger_ones_by_bytes(tmp_path: Path) -> None:
    assert written(tmp_path, fio(rw="randwrite", bs="4k"))["server:d1"].bytes == 2 * 65 * 75_000 * 4096
    assert written(tmp_path, fio(rw="randrw", bs="1M"))["server:d1"].bytes == 2 * 65 * 2e9
    assert written(tmp_path, fio(rw="write", bs="4k"))["server:d1"].bytes == 2 * 65 * 2e9, "merged, they are larger than 4k"
    assert written(tmp_path, fio(rw="randwrite", bs="4k", bssplit="4k/50:64k/50"))["server:d1"].bytes == 2 * 65 * 2e9


def test_reads_write_nothing(tmp_path: Path) -> None:
    assert written(tmp_path, fio(rw="[randread, read]", bs="4k")) == {}
    done = CliRunner().invoke(dutlab, ["plan", str(tmp_path / "e.yaml")])
    assert done.exit_code == 0, done.output
    assert "nothing is written" in done.output


def test_a_sweep_of_depths_and_pts_count_what_writes(tmp_path: Path) -> None:
    workload = "storage-limit: {block_sizes: 4k, reads_percent: [100, 0], deepest: 16, ramp: 1s, duration: 9s}"
    assert written(tmp_path, workload)["server:d1"].bytes == 2 * (5 + 4) * 10 * 75_000 * 4096
    # Pts counts its passes and as many rounds as there may be.
    workload = "pts: {tests: iops, block_sizes: [4k], reads_percent: [100, 0], passes: 2, most_rounds: 10, duration: 60s}"
    found = written(tmp_path, workload, f"{TBW}, capacity_bytes: 3.2e+12")["server:d1"]
    assert found.bytes == 2 * (2 * 3.2e12 + 10 * 60 * 75_000 * 4096)
    part = written(tmp_path, workload, TBW, more=", size: 1G")["server:d1"]
    assert part.bytes == 2 * (2 * 2**30 + 10 * 60 * 75_000 * 4096)
    assert written(tmp_path, workload)["server:d1"].missing == ("capacity_bytes",)


def test_an_array_adds_its_synchronisation_and_its_rebuild(tmp_path: Path) -> None:
    rated = f"{TBW}, capacity_bytes: 1.0e+12"
    for mode, passes in (("raid0", 0), ("raid5", 1), ("raid5-degraded", 1), ("raid5-rebuilding", 2)):
        found = written(tmp_path, fio(rw="randwrite", bs="4k"), rated, mode=mode, drives=3)
        assert {w.bytes for w in found.values()} == {2 * (65 * 2e9 + passes * 1e12)}, mode
        assert len(found) == 3
    assert written(tmp_path, fio(rw="randread"), rated, mode="raid5", drives=3)["server:d1"].bytes == 2 * 1e12


def test_the_share_of_the_endurance_is_told(tmp_path: Path) -> None:
    found = written(tmp_path, "fio: {duration: 1h, options: {rw: write, bs: 1M}}")["server:d1"]
    assert all(words in found.words for words in ("14.4 TB", "1.03 %", "1400 TB"))
    by_day = "write_bytes_per_s: 2.0e+9, endurance_dwpd: 1, capacity_bytes: 1.92e+12, warranty_years: 5"
    assert written(tmp_path, "fio: {duration: 1h, options: {rw: write}}", by_day)["server:d1"].endurance_bytes == 1.92e12 * 365 * 5
    short = written(tmp_path, fio(rw="write"))["server:d1"]
    assert all(words in short.words for words in ("260 GB", "0.02 %"))


def test_what_the_testbed_does_not_say_is_not_known(tmp_path: Path) -> None:
    found = written(tmp_path, fio(rw="randwrite"), "read_iops: 610200", drives=6)
    (words,) = {w.words for w in found.values()}
    assert "write_iops or write_bytes_per_s" in words
    done = CliRunner().invoke(dutlab, ["plan", str(tmp_path / "e.yaml")])
    assert done.exit_code == 0, done.output
    assert f"from server:d1 to server:d6, each: {words}" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("rated", "words"),
    [
        ("endurance_tbw: 1400, endurance_dwpd: 1, capacity_bytes: 1.0e+12, warranty_years: 5", "endurance"),
        ("endurance_dwpd: 1", "capacity_bytes and warranty_years"),
        ("endurance_tbw: 0", "greater than 0"),
    ],
)
def test_an_endurance_that_is_not_whole_is_refused(tmp_path: Path, rated: str, words: str) -> None:
    with pytest.raises(SpecRefused) as refused:
        written(tmp_path, fio(rw="randread"), rated)
    assert words in "\n".join(str(fault) for fault in refused.value.faults) + str(refused.value)
