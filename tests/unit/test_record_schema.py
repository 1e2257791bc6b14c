"""The contract of records is generated from the models, and what is written keeps to it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dutlab import labs
from dutlab.dut import family
from dutlab.spec.known import FAMILY_MODES, LABS
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


# ---- What the spec lists by name is what the rooms behind it build


def test_the_modes_of_every_family_that_has_some_are_those_that_it_brings():
    with_modes = {name: list(modes) for name, modes in FAMILY_MODES.items() if modes}
    assert with_modes == {name: list(family(name).modes_among({})) for name in with_modes}


def test_every_lab_that_a_file_may_name_can_be_described_and_has_these_links():
    for name, known in LABS.items():
        testbed = labs.description(name).testbed
        assert len(labs.description(name).settings.guests) == known.guests
        assert {link.name: link.hosts for link in testbed.links.values()} == known.links
        assert {link.name for link in testbed.links.values() if link.segment} == known.segments
        assert {link.is_transparent for link in testbed.links.values()} <= {known.is_transparent}
        assert {name for name, link in testbed.links.items() if link.path and link.source_address.version == 6} == known.ipv6
        assert len({link.sink for link in testbed.links.values()}) == (1 if known.one_sink else len(testbed.links))
        assert {host: tuple(spec.drives) for host, spec in testbed.hosts.items() if spec.drives} == known.drives
        assert testbed.dut is None or testbed.dut_family == known.family
        assert {(link.mtu, link.speed) for link in testbed.links.values()} <= {(1500, None)}  # what the checks of frame sizes go by
