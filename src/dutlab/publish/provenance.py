"""Provenance of an artifact: author, runs, programs, and the digest of each of its files.

An in-toto statement (Statement v1) with a SLSA provenance (v1): the runs are the build, their experiments its parameters. It is signed as
it is, by an ssh key; there is no DSSE envelope around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dutlab import outside
from dutlab.bounds import MANIFEST, RAW
from dutlab.errors import InputError
from dutlab.publish.signature import SUFFIX
from dutlab.store.read import read_json
from dutlab.store.write import as_json

PROVENANCE = "provenance.json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:dutlab:measurement:1"
_MOST_NAMED = 5


class _Digest(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _Subject(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    digest: _Digest


class _Statement(BaseModel):
    """Part of the statement that a check needs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: str = Field(alias="_type", pattern=f"^{STATEMENT}$")
    predicate_type: str = Field(alias="predicateType", pattern=f"^{PREDICATE}$")
    subject: tuple[_Subject, ...]


def statement(
    folder: Path,
    names: Iterable[str],
    runs: Sequence[Mapping[str, Any]],
    dependencies: Sequence[Mapping[str, Any]],
    times: tuple[datetime, datetime],
) -> bytes:
    """Return the statement on the files `names` below `folder`. `times` are the start of the first trial and the end of the last one."""
    return as_json(
        {
            "_type": STATEMENT,
            "subject": [{"name": name, "digest": {"sha256": digest_of(folder / name)}} for name in sorted(names)],
            "predicateType": PREDICATE,
            "predicate": {
                "buildDefinition": {
                    "buildType": BUILD_TYPE,
                    "externalParameters": {"runs": list(runs)},
                    "internalParameters": {},
                    "resolvedDependencies": list(dependencies),
                },
                "runDetails": {
                    "builder": {"id": "urn:dutlab"},
                    "metadata": {
                        "invocationId": ",".join(str(run["name"]) for run in runs),
                        "startedOn": times[0].isoformat(),
                        "finishedOn": times[1].isoformat(),
                    },
                },
            },
        }
    )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises UnfitFile, OSError."""
    with outside.opened(path, most=RAW) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # a BufferedReader


def insist_on_digests(folder: Path, names: Sequence[str]) -> None:
    """Check that the files `names` below `folder` are those of the statement there. Raises InputError with the faults, StoreError."""
    if PROVENANCE not in names:
        raise InputError(f"{folder.name}: has no {PROVENANCE}, so it is not an artifact of dutlab", remedy="name a file that it made")
    try:
        statement = _Statement.model_validate(read_json(folder / PROVENANCE, MANIFEST))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{PROVENANCE}: is not a statement of provenance: {where}: {first['msg']}", remedy="ask who made it") from None
    stated = {subject.name: subject.digest.sha256 for subject in statement.subject}
    there = set(names) - {PROVENANCE, PROVENANCE + SUFFIX}
    kinds = {
        "missing": sorted(stated.keys() - there),
        "not stated": sorted(there - stated.keys()),
        "changed": sorted(name for name in there & stated.keys() if digest_of(folder / name) != stated[name]),
    }
    if faults := [f"{kind}: {_some(of)}" for kind, of in kinds.items() if of]:
        raise InputError(f"its files are not those of {PROVENANCE}: {'; '.join(faults)}", remedy="ask its author for another copy")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
