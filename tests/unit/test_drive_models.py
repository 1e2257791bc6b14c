"""Ratings of drives by model, from a CSV file: in testbeds, in plans, and for `dutlab limits`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.limits import limits
from dutlab.cli.main import dutlab
from dutlab.errors import SpecRefused
from dutlab.plan.drive_writes import Written, drive_writes
from dutlab.plan.trials import make_plan
from dutlab.spec.drive_models import read_models, with_models
from dutlab.spec.loader import given_testbed, load_testbed, read_experiment
from dutlab.spec.loader import testbed_of as bed_of

TABLE = """model,read_iops,write_iops,read_bytes_per_s,write_bytes_per_s,capacity_bytes,endurance_tbw
ACME X1,610200,75000,2.8e9,2.4e9,,
ACME X1 3.84TB,700000,80000,3e9,2.5e9,3.84e12,7000
"""
BED = """testbed: server
drive-models: models.csv  # of the shop
hosts:
  server:
    ssh: root@192.0.2.20
    drives:
      d1: {by-id: nvme-ACME_X1_3.84TB_S3RIAL0001}
      d2: {serial: S3RIAL0002, model: ACME X1}
      d3: {serial: S3RIAL0003, model: ACME X1, rated: {write_iops: 90000}}
      d4: {serial: S3RIAL0004}
"""


def in_folder(folder: Path, bed: str = BED, table: str = TABLE) -> Path:
    (folder / "models.csv").write_text(table)
    (folder / "testbed.yaml").write_text(bed)
    return folder / "testbed.yaml"


def test_a_drive_takes_the_row_of_its_model_or_of_its_name(tmp_path: Path) -> None:
    drives = load_testbed(in_folder(tmp_path)).hosts["server"].drives
    rated = {name: (d.rated.read_iops, d.rated.write_iops, d.rated.endurance_bytes) if d.rated else None for name, d in drives.items()}
    assert rated == {
        "d1": (700000, 80000, 7000e12),  # the longest model that its name has
        "d2": (610200, 75000, None),
        "d3": (610200, 90000, None),  # its own rating comes first
        "d4": None,
    }


def test_the_table_goes_with_the_text_of_the_testbed(tmp_path: Path) -> None:
    file = in_folder(tmp_path)
    whole = with_models(file.read_bytes(), file)
    elsewhere = tmp_path / "elsewhere" / "testbed.yaml"
    assert given_testbed(whole, elsewhere) == load_testbed(file)
    assert with_models(whole, elsewhere) == whole


@pytest.mark.parametrize(
    ("table", "where", "what"),
    [
        ("name,read_iops\nx,1\n", 1, "no column `model`"),
        ("model,read_iop\nx,1\n", 1, "unknown column read_iop"),
        ("model,read_iops\nx,many\n", 2, "'many'"),
        ("model,read_iops\nx,-1\n", 2, "read_iops"),
        ("model,read_iops\nx,nan\n", 2, "read_iops"),
        ("model,read_iops\nx,1\n\nx,2\n", 4, "x is a duplicate"),
        ("model,read_iops\n,1\n", 2, "no model"),
        ("model,read_iops\nx,1,2\n", 2, "3 cells under 2 columns"),
        ("model,endurance_dwpd\nx,1\n", 2, "capacity_bytes"),
        ("", 1, "no column `model`"),
        (f"model\n{'x' * 200_000}\n", 1, "not a table"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(table: str, where: int, what: str) -> None:
    with pytest.raises(SpecRefused) as refused:
        read_models(table, "models.csv")
    (found,) = refused.value.faults
    assert (found.file, found.line) == ("models.csv", where)
    assert what in found.what


@pytest.mark.parametrize(
    ("bed", "what"),
    [
        (BED.replace("model: ACME X1}", "model: ACME X2}"), "did you mean ACME X1?"),
        (BED.replace("models.csv", "others.csv"), "cannot be read"),
        (BED.replace("drive-models: models.csv", "generator: engine"), "drive-models: FILE.csv"),
        (BED.replace("models.csv", "[a]"), "a CSV file"),
    ],
)
def test_a_testbed_that_names_no_row_is_refused(tmp_path: Path, bed: str, what: str) -> None:
    with pytest.raises(SpecRefused) as refused:
        load_testbed(in_folder(tmp_path, bed))
    assert what in "\n".join(f.what for f in refused.value.faults)


def test_limits_take_a_row_and_what_is_said_beside_it(tmp_path: Path) -> None:
    in_folder(tmp_path)
    words = ["--drives", "32", "--models", str(tmp_path / "models.csv"), "--model", "ACME X1", "--json"]
    done = CliRunner().invoke(limits, ["ladder", *words])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["rungs"][0]["iops"] == 32 * 610200
    done = CliRunner().invoke(limits, ["raid", "10", *words, "--write-iops", "100k"])
    assert done.exit_code == 0, done.output
    assert next(c["value"] for c in json.loads(done.output)["ceilings"] if c["name"] == "random_write_iops") == 1.6e6


def test_limits_without_such_a_row_name_those_there_are(tmp_path: Path) -> None:
    in_folder(tmp_path)
    done = CliRunner().invoke(limits, ["raid", "5", "--drives", "4", "--models", str(tmp_path / "models.csv"), "--model", "Y"])
    assert done.exit_code != 0
    assert "has no model Y" in done.output + str(done.exception)
    done = CliRunner().invoke(limits, ["raid", "5", "--drives", "4", "--model", "Y"])
    assert "both --models and --model" in done.output + str(done.exception)


# ---- What a plan says that each drive will be written: the most that its rating allows, and the share of its endurance


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


def test_a_job_with_a_rate_of_its_own_writes_no_more_than_that(tmp_path: Path) -> None:
    assert written(tmp_path, fio(rw="randwrite", bs="4k", rate_iops=100))["server:d1"].bytes == 2 * 65 * 100 * 4096
    assert written(tmp_path, fio(rw="write", bs="64k", rate="1m"))["server:d1"].bytes == 2 * 65 * (1 << 20)
    assert written(tmp_path, fio(rw="randwrite", bs="4k", rate_iops=100_000))["server:d1"].bytes == 2 * 65 * 75_000 * 4096
    workload = "storage-latency: {rates: [100], reads_percent: [100, 0], ramp: 0s, duration: 50s}"
    assert written(tmp_path, workload)["server:d1"].bytes == pytest.approx(2 * 100 * 104 * 4096)


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
    assert f"server:d1 to server:d6, each: {words}" in " ".join(done.output.split())


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
