"""Files of a record: read and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dutlab import outside
from dutlab.bounds import DETAILS, PART, RECORD, FileBound
from dutlab.errors import StoreError
from dutlab.store.details import TrialDetails
from dutlab.store.read import CHANGED, read_json, reading
from dutlab.store.record import FROM_FILE, SCHEMA_VERSION, TrialRecord
from dutlab.store.record_reader import RecordReader
from dutlab.subject import Figures


class NewerRun(StoreError):
    """Error: a newer dutlab wrote a file of the run."""

    def __init__(self, path: Path, found: object) -> None:
        what = f"{path}: has schema_version {found!r}, and this dutlab reads up to {SCHEMA_VERSION}"
        super().__init__(what, remedy="read it with the dutlab that wrote it, or a newer one")
        self.path, self.found = path, found


class OlderRun(StoreError):
    """Error: an older dutlab wrote a file of the run, in another form."""

    def __init__(self, path: Path, found: int) -> None:
        what = f"{path}: has schema_version {found}, and this dutlab reads {SCHEMA_VERSION} only"
        super().__init__(what, remedy="read it with the dutlab that wrote it or measure again")
        self.path, self.found = path, found


def read_record(folder: Path | str, trial: int, reader: RecordReader | None = None) -> TrialRecord:
    """Return the record in a trial's folder. Raises NewerRun, StoreError."""
    path = f"{folder}/record.json"
    with reading(path):
        try:
            record = _record_in(outside.read(path, RECORD), reader or RecordReader())
        except (ValidationError, OSError):
            record = _record_of(Path(path))  # raises a precise error: a newer version, or the fault
    if record.trial != trial:
        raise StoreError(f"{path}: is the record of trial {record.trial}", remedy=CHANGED)
    return record


def _record_in(data: bytes, reader: RecordReader) -> TrialRecord:
    """Return the record in `data`. Raises ValidationError."""
    try:
        return reader.read(data)
    except ValueError:
        return TrialRecord.model_validate_json(data, context=FROM_FILE).model_copy(update=reader.left_out)


def details_in(folder: Path) -> TrialDetails:
    """Return the details in the folder of a trial or an attempt; empty if there are none. Raises StoreError."""
    path = folder / "details.json"
    with reading(path):
        try:
            return TrialDetails.model_validate_json(outside.read(path, DETAILS))
        except FileNotFoundError:
            return TrialDetails()


def bounded_files(
    record: TrialRecord, raw: Mapping[str, bytes], details: TrialDetails | None
) -> tuple[TrialRecord, dict[str, bytes], dict[str, bytes]]:
    """Return the record, the raw outputs by name, and the other files, all within the limits of readers."""
    outputs, other_files = dict(raw), dict[str, bytes]()
    if details:
        data = details.model_dump_json().encode() + b"\n"
        if len(data) <= DETAILS.most_bytes:
            other_files["details.json"] = data
        else:
            outputs["too-large-details.json"] = data
    if len(data := record_json(record)) > RECORD.most_bytes:
        why = f"its record has {len(data)} bytes, and readers take {RECORD.most_bytes}: all of it is in raw/too-large-record.json"
        outputs["too-large-record.json"] = data
        record = TrialRecord(
            trial=record.trial, status="failed", why=why, attempt=record.attempt, cell=record.cell, started=record.started,
            ended=record.ended, figures=Figures(),
        )  # fmt: skip
    return record.model_copy(update={"raw": sorted(f"raw/{name}" for name in outputs)}), outputs, other_files


def record_json(record: TrialRecord) -> bytes:
    """Return a record as JSON, as its file has it."""
    return record.model_dump_json(indent=1).encode() + b"\n"


def _record_of(path: Path) -> TrialRecord:
    document = read_object(path, RECORD)
    try:
        return TrialRecord.model_validate(document, context=FROM_FILE)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path}: {where}: {first['msg']} ({error.error_count()} faults)", remedy=CHANGED) from error


def read_object(path: Path, bound: FileBound = PART) -> dict[str, Any]:
    """Return a JSON object. Another schema_version than ours is refused first. Raises NewerRun, OlderRun, StoreError."""
    document = read_json(path, bound)
    if not isinstance(document, dict):
        raise StoreError(f"{path}: not a JSON object", remedy=CHANGED)
    version = document.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise NewerRun(path, version)
    if version < SCHEMA_VERSION:
        raise OlderRun(path, version)
    return document
