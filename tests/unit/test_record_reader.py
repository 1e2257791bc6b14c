"""Records that are read a part at a time are those that are read whole, whatever form their file has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dutlab.store.record import FROM_FILE, TrialRecord
from dutlab.store.record_reader import FIGURES_ONLY, OtherForm, RecordReader
from dutlab.store.run_folder import RunFolder


@pytest.fixture(scope="module")
def files(built: Callable[..., Path]) -> list[bytes]:
    return [path.read_bytes() for path in sorted(built(seconds=2, cores=1).glob("trials/*/record.json"))]


def test_a_record_in_parts_is_the_record_and_repeats_share_what_they_have_in_common(files: list[bytes]) -> None:
    whole = [TrialRecord.model_validate_json(data, context=FROM_FILE) for data in files]
    reader, lean = RecordReader(), RecordReader(FIGURES_ONLY)
    read = [reader.read(data) for data in files]
    assert read == whole and [r.model_fields_set for r in read] == [r.model_fields_set for r in whole]
    assert [lean.read(data) for data in files] == [r.model_copy(update=lean.left_out) for r in whole]
    assert len({id(r.tool_facts) for r in read}) == len({str(r.tool_facts) for r in read}) < len(read)
    assert len({id(d) for r in read for d in r.doubts}) == len({d for r in read for d in r.doubts})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'\n "status": ', b'\n "trial": 7,\n "status": '),  # a part that comes twice
        (b'\n "raw": [', b'\n "rows": ['),
        (b'\n "trial": ', b'\n  "trial": '),
        (b'"why": "', b'"why": "x\n "status": "measured'),  # a line break inside of a text
        (b'"watched": {', b'"watched": {"a": {\n "why": "x",'),  # inside of a part that is left out
        (b'"repeat": ', b'"repeat": 0'),
        (b'"repeat": ', b'"repeat": "x'),
        (b"\n}\n", b"\n}\n{}"),
        (b'"schema_version": 4', b'"schema_version": 3'),
        (b'"status": "', b'"status": "un'),
    ],
)
@pytest.mark.parametrize("without", [(), FIGURES_ONLY])
def test_what_is_not_as_we_write_it_is_not_read_in_parts(files: list[bytes], old: bytes, new: bytes, without: frozenset[str]) -> None:
    assert old in files[0]
    with pytest.raises(ValueError):
        RecordReader(without).read(files[0].replace(old, new, 1))


def test_a_record_of_another_form_is_read_all_the_same(built: Callable[..., Path], files: list[bytes], tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    (folder := tmp_path / "trials" / "0001").mkdir(parents=True)
    (tmp_path / "resolved.json").write_text("{}")
    (folder / "record.json").write_text(json.dumps(json.loads(files[0])))
    with pytest.raises(OtherForm):
        RecordReader().read((folder / "record.json").read_bytes())
    faults: list[str] = []
    (found,) = run.readable_records(faults, without=FIGURES_ONLY)
    assert not faults and found == RecordReader(FIGURES_ONLY).read(files[0]) and built
