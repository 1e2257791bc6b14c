"""report.json keeps to contracts/report.schema.json: made-up runs, imported tables, what failed, what was cut."""

import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from dutlab.interop.figure_table import imported
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.report.pages.json_data import report_schema
from dutlab.report.write import write_report
from fake_run import Wanted, build

ROOT = Path(__file__).parents[2]
CONTRACT = json.loads((ROOT / "contracts" / "report.schema.json").read_text())
PUBLISHED = sorted((ROOT / "examples" / "published").glob("*.csv"))


def kept(run: Path) -> dict:
    """The report of a run, which keeps to the contract."""
    (path,) = write_report([run], formats=("json",), out=None)
    found = json.loads(path.read_text())
    jsonschema.Draft202012Validator(CONTRACT).validate(found)
    return found


def test_the_contract_in_the_repository_is_the_models_own():
    assert report_schema() == CONTRACT, "write it anew with `make docs`"


@pytest.mark.parametrize("wanted", [Wanted(seconds=2), Wanted(seconds=2, repeats=1, lab=True), Wanted(seconds=2, repeats=1, cut_after=3)])
def test_a_run_keeps_to_it(tmp_path, wanted):
    found = kept(build(tmp_path, wanted))
    (run,) = found["runs"]
    cells = [cell for s in run["sections"] for t in s["tables"] for row in t["rows"] for cell in row["cells"]]
    assert any(isinstance(cell, dict) and "median" in cell for cell in cells)
    run["sections"][0]["tables"][0]["rows"][0]["cells"][0] = {"median": "fast"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(CONTRACT).validate(found)


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_an_imported_table_keeps_to_it(tmp_path, path):
    trials = imported(path.name, path.read_bytes(), ImportOptions())
    run = write_imported(tmp_path, path.stem, trials, command=("dutlab", "import"), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    assert kept(run)["runs"][0]["sections"]
