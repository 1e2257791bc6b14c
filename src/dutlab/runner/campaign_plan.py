"""Plan of a campaign on disk: its head in one file, its planned runs in another.

    plan.json        fleet and hours of the campaign, its number of runs, and the hash of each input file
    planned.jsonl    one line of JSON for each planned run, with its arguments. Spaces make all lines as long as the longest one

Lines of equal length let the process of a planned run read its line without the others. plan.json is written last: if it exists,
both files are complete. Neither is written again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dutlab import outside
from dutlab.bounds import CAMPAIGN, INPUT
from dutlab.errors import InputError, StoreError
from dutlab.spec.fleet import Fleet
from dutlab.spec.planned_run import PlannedRun
from dutlab.store.replace import replace_file
from dutlab.store.write import as_json, sync_all, write_once

if TYPE_CHECKING:
    from dutlab.spec.campaign import PlannedCampaign

SCHEMA_VERSION = 2
_HEAD, _PLANNED = "plan.json", "planned.jsonl"
_REMEDY = "restore the file from a copy, or begin another campaign; finished runs stay in runs"


class PlanHead(BaseModel):
    """Content of plan.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int
    campaign: str
    dutlab_version: str
    """Version of dutlab that started the campaign."""
    hours: str | None
    at_once: int | None
    fleet: Fleet
    tries: Annotated[int, Field(ge=1)]
    again_after_s: Annotated[float, Field(gt=0)]
    files: dict[str, str | None]
    """Input file of its runs → hash; None if it cannot be read."""
    planned: Annotated[int, Field(ge=1)]
    """Number of runs."""
    planned_line_bytes: Annotated[int, Field(ge=2)]
    """Length of a line of planned.jsonl, with its newline."""


def write_plan(folder: Path, planned: PlannedCampaign, dutlab_version: str) -> None:
    """Write both files; only one process may do so at a time. Raises InputError if there is a plan, StoreError."""
    insist_on_none(folder)
    campaign, lines = planned.campaign, [json.dumps(asdict(run)) for run in planned.runs]
    width = max(map(len, lines))
    head = PlanHead(
        schema_version=SCHEMA_VERSION,
        campaign=campaign.name,
        dutlab_version=dutlab_version,
        hours=None if campaign.hours is None else str(campaign.hours),
        at_once=campaign.at_once,
        fleet=campaign.fleet,
        tries=campaign.tries,
        again_after_s=float(campaign.again_after),
        files={str(file): _hash(file) for file in planned.files},
        planned=len(lines),
        planned_line_bytes=width + 1,
    )
    replace_file(folder / _PLANNED, "".join(f"{line:<{width}}\n" for line in lines).encode())
    sync_all([folder / _PLANNED, folder])
    write_once(folder / _HEAD, as_json(head.model_dump(mode="json")))


def insist_on_none(folder: Path) -> None:
    """Raise InputError if the folder has a plan."""
    if (folder / _HEAD).exists():
        raise InputError(f"{folder}: there is a campaign already", remedy=f"`dutlab campaign resume {folder}` continues it")


def read_head(folder: Path) -> PlanHead:
    """Read plan.json. Raises InputError if there is none, StoreError."""
    path = folder / _HEAD
    try:
        head = json.loads(outside.read(path, CAMPAIGN))
    except FileNotFoundError:
        raise InputError(f"{folder}: not a campaign", remedy="name the folder that holds plan.json and planned.jsonl") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read: {error}", remedy=_REMEDY) from error
    if not isinstance(head, dict) or head.get("schema_version") != SCHEMA_VERSION:
        raise InputError(f"{path}: not a campaign's plan of this version of dutlab", remedy="name a campaign that this version began")
    try:
        return PlanHead.model_validate(head)
    except ValidationError as error:
        what = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise StoreError(f"{path}: the file is damaged: {what}", remedy=_REMEDY) from error


def planned_runs(folder: Path) -> list[PlannedRun]:
    """Return all planned runs, in order. Raises InputError, StoreError."""
    head, path = read_head(folder), folder / _PLANNED
    try:
        lines = outside.read(path, CAMPAIGN).splitlines()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}", remedy=_REMEDY) from error
    if len(lines) != head.planned:
        raise StoreError(f"{path}: has {len(lines)} lines, and the campaign {head.planned} runs", remedy=_REMEDY)
    return [_parsed(path, number, line) for number, line in enumerate(lines, start=1)]


def planned_run(folder: Path, number: int) -> PlannedRun:
    """Return one planned run. Raises InputError, StoreError."""
    head, path = read_head(folder), folder / _PLANNED
    if not 1 <= number <= head.planned:
        raise InputError(f"{folder}: has no planned run {number}", remedy=f"they are 1 to {head.planned}")
    try:
        with outside.opened(path) as file:
            file.seek((number - 1) * head.planned_line_bytes)
            return _parsed(path, number, file.read(head.planned_line_bytes))
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}", remedy=_REMEDY) from error


def insist_on_files(folder: Path, dutlab_version: str) -> None:
    """Raise InputError if input files or dutlab changed: the remaining runs would differ from the finished ones."""
    head = read_head(folder)
    if head.dutlab_version != dutlab_version:
        raise InputError(
            f"{folder}: was begun with dutlab {head.dutlab_version}, and this is {dutlab_version}",
            remedy="continue with that version, or begin another campaign",
        )
    if changed := [file for file, was in head.files.items() if _hash(Path(file)) != was]:
        raise InputError(
            f"{folder}: changed since the campaign began: {', '.join(changed)}", remedy="put them back, or begin another campaign"
        )


def _parsed(path: Path, number: int, line: bytes) -> PlannedRun:
    try:
        entry = json.loads(line)
        run = PlannedRun(**{**entry, "arguments": tuple(entry["arguments"])})
    except (ValueError, TypeError, KeyError):
        run = None
    if run is None or run.number != number:
        raise StoreError(f"{path}:{number}: not planned run {number}; the file is damaged", remedy=_REMEDY)
    return run


def _hash(file: Path) -> str | None:
    try:
        return hashlib.sha256(outside.read(file, INPUT, outside.AtLink.FOLLOWED)).hexdigest()
    except OSError:
        return None
