"""Additions that people make to a measured run: notes, photographs, thermal images, the terms of a loan.

They are in a folder next to the measured files: one `NNNN.json` for each addition, and its file. MANIFEST.sha256 leaves the folder out,
because a claim names the hash of the manifest. Each addition has the hash of its file instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dutlab import outside
from dutlab.bounds import ADDITION, PART
from dutlab.errors import InputError
from dutlab.outside import AtLink, UnfitFile
from dutlab.store.manifest import ADDITIONS
from dutlab.store.replace import file_name, folder_in
from dutlab.store.write import write_once

LONGEST_NOTE = 20_000


class Addition(BaseModel):
    """One addition to a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    added: datetime
    by: Annotated[str, Field(max_length=200)] = ""
    """Author; empty where no person was named."""
    text: Annotated[str, Field(max_length=LONGEST_NOTE)]
    """Text of the note, or caption of the file."""
    file: Annotated[str, Field(pattern=r"^[^/\x00]{1,255}$")] | None = None
    """Name of the file in the folder of additions."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    size_bytes: Annotated[int, Field(ge=0)] | None = None
    host: Annotated[str, Field(max_length=200)] | None = None
    """Host that `facts` are about; None without facts."""
    facts: Annotated[dict[str, str], Field(max_length=1000)] | None = None
    """Settings that a person read from the host, such as those of its BIOS: name → value."""


def add(
    run: Path, text: str, *, now: datetime, by: str = "", file: Path | None = None, host: str = "", facts: Mapping[str, str] | None = None
) -> Path:
    """Write an addition to the run, copy its file, and return the path of the JSON file. Raises InputError, StoreError."""
    if not text.strip() or len(text) > LONGEST_NOTE:
        raise InputError(f"a note or caption has from 1 to {LONGEST_NOTE} characters", remedy="describe the addition")
    folder = folder_in(run, ADDITIONS)
    number = 1 + max((int(path.stem) for path in folder.glob("[0-9][0-9][0-9][0-9].json")), default=0)
    addition = Addition(added=now, by=by, text=text.strip(), host=host or None, facts=dict(facts) if facts else None)
    if file is not None:
        content = _content(file)
        addition = addition.model_copy(
            update={
                "file": f"{number:04}-{file_name(file.name)}",
                "sha256": hashlib.sha256(content).hexdigest(),
                "size_bytes": len(content),
            }
        )
        write_once(folder / str(addition.file), content)
    path = folder / f"{number:04}.json"
    write_once(path, addition.model_dump_json(indent=1, exclude_none=True).encode())
    return path


def additions_of(run: Path, faults: list[str]) -> Iterator[Addition]:
    """Yield the additions to a run in order. An unreadable or changed file is added to `faults`."""
    for path in sorted((run / ADDITIONS).glob("[0-9][0-9][0-9][0-9].json")):
        try:
            addition = Addition.model_validate_json(outside.read(path, PART))
            if (
                addition.file is not None
                and hashlib.sha256(outside.read(path.parent / addition.file, ADDITION)).hexdigest() != addition.sha256
            ):
                faults.append(f"{ADDITIONS}/{addition.file} is not the file that was added: its hash differs")
                continue
        except (OSError, ValidationError, ValueError) as error:
            faults.append(f"{ADDITIONS}/{path.name} cannot be read: {str(error).splitlines()[0]}")
            continue
        yield addition


def attached_facts(run: Path, faults: list[str]) -> dict[str, dict[str, str]]:
    """Return host → name → value of all added facts; of two values of one name the newer counts."""
    facts: dict[str, dict[str, str]] = {}
    for addition in additions_of(run, faults):
        if addition.facts:
            facts.setdefault(addition.host or "", {}).update(addition.facts)
    return facts


def _content(file: Path) -> bytes:
    try:
        return outside.read(file, ADDITION, AtLink.FOLLOWED)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnfitFile as error:
        raise InputError(error.what, remedy=f"attach a plain file of at most {ADDITION.most_bytes >> 20} MiB") from error
