"""The contract of records is generated from the models, and what is written keeps to it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dutlab.store.record import record_schema
from dutlab.store.run_folder import RunFolder
from fake_run import Wanted, build

CONTRACT = Path(__file__).parents[2] / "contracts" / "record.schema.json"


def test_the_contract_in_the_repository_is_the_models_own() -> None:
    assert json.loads(CONTRACT.read_text()) == record_schema(), "write it anew: see contracts/README or record_schema()"


def test_every_record_of_a_run_keeps_to_the_contract(tmp_path: Path) -> None:
    run = RunFolder.open(build(tmp_path, Wanted(repeats=1, seconds=2)))
    check = jsonschema.Draft202012Validator(json.loads(CONTRACT.read_text()))
    records = [json.loads((run.path / f"trials/{n:04d}/record.json").read_text()) for n in sorted(run.finished())]
    assert len(records) == 44
    for record in records:
        check.validate(record)
    with pytest.raises(jsonschema.ValidationError):
        check.validate(records[0] | {"trial": "one"})
