"""Examples of reviews: each folder makes its published tables again, digit by digit, and its experiments can be planned."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.main import dutlab

REVIEWS = Path(__file__).parents[2] / "examples" / "reviews"
PUBLISHED = REVIEWS.parent / "published"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reviews")
    environment = {**os.environ, "DUTLAB": f"{sys.executable} -m dutlab"}
    done = subprocess.run(["sh", str(REVIEWS / "make"), str(out)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def numbers(path: Path) -> list[float]:
    """All numbers of a table, in its order."""
    out = []
    for cell in (cell for row in csv.reader(path.read_text().splitlines()) for cell in row):
        try:
            out.append(float(cell))
        except ValueError:
            continue
    return out


def test_the_box_has_its_tables_its_specification_and_its_testbed(made: Path) -> None:
    box = made / "pfsense-box"
    for name, column in (("iperf3", "goodput_gbps"), ("ipsec", "goodput_mbps")):
        published = [float(row[column]) for row in csv.DictReader((PUBLISHED / f"e302-9d-{name}.csv").read_text().splitlines())]
        assert sorted(numbers(box / name / "review-iperf3-goodput.csv")) == sorted(published)
    assert "Supermicro" in (box / "iperf3" / "review-specification-dut.csv").read_text()
    assert "ixl2" in (box / "testbed" / "testbed.svg").read_text()


def test_the_server_has_its_tables_its_times_and_its_plan(made: Path) -> None:
    server = made / "storage-server"
    head, *rows = csv.reader((PUBLISHED / "era-raid-comparison.csv").read_text().splitlines())
    published = [[float(row[n]) for row in rows] for n, name in enumerate(head) if name not in {"mode", "workload"}]
    assert numbers(server / "raid-comparison" / "storage-arrays.csv") == [value for of in published for value in of]
    assert "5.85 ×" in (server / "times.txt").read_text()
    assert len((server / "plan.txt").read_text().splitlines()) <= 32
    whole = "".join(path.read_text() for path in server.rglob("storage.md"))
    assert "RFC 2544" not in whole
    assert "real frames" not in whole


EXPERIMENTS = sorted(path for path in REVIEWS.glob("*/*.yaml") if "\nexperiment:" in path.read_text())


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_experiment_can_be_planned(path: Path) -> None:
    done = CliRunner().invoke(dutlab, ["plan", str(path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
