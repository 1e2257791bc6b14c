"""Ratings of drives by model, from a CSV file: in testbeds, in plans, and for `dutlab limits`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.limits import limits
from dutlab.errors import SpecRefused
from dutlab.spec.drive_models import read_models, with_models
from dutlab.spec.loader import given_testbed, load_testbed

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
        ("model,read_iops\nx,1\n\nx,2\n", 4, "x is there twice"),
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
