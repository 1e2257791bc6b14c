"""Metadata of an artifact for archives and citations: RO-Crate 1.1 as JSON-LD, and CITATION.cff (Citation File Format 1.2.0)."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dutlab.errors import InputError
from dutlab.store.write import as_json

METADATA = "ro-crate-metadata.json"
CITATION = "CITATION.cff"
LICENCE = "LICENSE"
_AUTHOR = re.compile(r"(?P<name>[^<>]*[^<>\s])\s*(?:<(?P<orcid>https://orcid\.org/\d{4}-\d{4}-\d{4}-\d{3}[\dX])>)?")
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,60}")
_KINDS = {
    ".yaml": "application/yaml",
    ".cff": "application/yaml",
    ".md": "text/markdown",
    ".json": "application/json",
    ".whl": "application/zip",
}


@dataclass(frozen=True)
class Author:
    """Author of an artifact."""

    name: str
    orcid: str = ""
    """Address of the author's ORCID; empty without one."""

    @classmethod
    def parsed(cls, text: str) -> Author:
        """Parse `Given Family <https://orcid.org/…>`. Raises InputError."""
        if (match := _AUTHOR.fullmatch(" ".join(text.split()))) is None:
            raise InputError(
                f"--author {text!r}: not an author", remedy="write a name, as in 'Ada Byron <https://orcid.org/0000-0002-1825-0097>'"
            )
        return cls(match["name"], match["orcid"] or "")


@dataclass(frozen=True)
class RunEntry:
    """A run, as metadata describe it."""

    name: str
    title: str
    folder: str
    started: datetime
    ended: datetime
    parts: tuple[str, ...]
    """Files of the run that are described one by one, relative to the crate."""
    described: str


@dataclass(frozen=True)
class Crate:
    """Content of the metadata."""

    title: str
    described: str
    authors: tuple[Author, ...]
    licence: str
    """SPDX identifier; empty if the author states none."""
    published: datetime
    release: Mapping[str, str]
    """Version and commit of dutlab."""
    runs: tuple[RunEntry, ...]
    files: tuple[str, ...]
    """Files outside of the runs."""


def insist_on_licence(licence: str) -> None:
    """Raise InputError if the text cannot be an SPDX identifier."""
    if licence and not _SPDX.fullmatch(licence):
        raise InputError(f"--licence {licence!r}: not an SPDX identifier", remedy="write one of https://spdx.org/licenses, as CC-BY-4.0")


def metadata(crate: Crate, folder: Path) -> bytes:
    """Return the content of METADATA for the crate whose files are in `folder`."""
    people = [_person(n, author) for n, author in enumerate(crate.authors, 1)]
    dutlab = {"@id": "#dutlab", "@type": "SoftwareApplication", "name": "dutlab", "softwareVersion": _release(crate.release),
              "version": _release(crate.release)}  # fmt: skip
    licence = _licence(crate.licence)
    files = [name for name in crate.files if name != METADATA]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": crate.title,
        "description": crate.described,
        "datePublished": crate.published.date().isoformat(),
        "license": {"@id": licence["@id"]},
        "author": _single([{"@id": person["@id"]} for person in people]),
        "hasPart": [*_ids(files), *_ids(run.folder for run in crate.runs)],
        "mentions": _single(_ids(f"#measurement-{n}" for n, _ in enumerate(crate.runs, 1))),
    }
    descriptor = {"@id": METADATA, "@type": "CreativeWork", "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"}, "about": {"@id": "./"}}
    graph = [descriptor, root, *people, dutlab, *([] if licence["@id"] == LICENCE else [licence])]
    graph += [_file(name, folder) for name in files]
    for n, run in enumerate(crate.runs, 1):
        graph += _of_run(n, run, folder, people)
    return as_json({"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph})


def _of_run(number: int, run: RunEntry, folder: Path, people: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    inputs = [name for name in run.parts if name.endswith(".yaml")]
    action = {
        "@id": f"#measurement-{number}",
        "@type": "CreateAction",
        "name": f"measurement {run.name}",
        "instrument": {"@id": "#dutlab"},
        "agent": {"@id": people[0]["@id"]},
        "startTime": run.started.isoformat(),
        "endTime": run.ended.isoformat(),
        "object": _single(_ids(inputs)),
        "result": {"@id": _id(run.folder)},
    }
    of_run = {"@id": _id(run.folder), "@type": "Dataset", "name": run.title, "description": run.described, "hasPart": _ids(run.parts)}
    return [of_run, action, *(_file(name, folder) for name in run.parts)]


def _ids(names: Iterable[str]) -> list[dict[str, str]]:
    return [{"@id": _id(name)} for name in names]


def _single(values: list[dict[str, str]]) -> Any:  # noqa: ANN401 - one value or several
    """Return a list, or its only value without the list, as RO-Crate recommends."""
    return values[0] if len(values) == 1 else values


def _id(name: str) -> str:
    """Return the name of a file or folder as a relative address."""
    return quote(name, safe="/#")


def _person(number: int, author: Author) -> dict[str, Any]:
    return {"@id": author.orcid or f"#author-{number}", "@type": "Person", "name": author.name}


def _licence(spdx: str) -> dict[str, Any]:
    if not spdx:
        return {"@id": LICENCE}
    return {
        "@id": f"https://spdx.org/licenses/{spdx}",
        "@type": "CreativeWork",
        "name": spdx,
        "description": f"The licence {spdx}, by its SPDX identifier.",
    }


def _file(name: str, folder: Path) -> dict[str, Any]:
    kind = _KINDS.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "text/plain"
    types = ["File", "CreativeWork"] if name == LICENCE else "File"
    return {"@id": _id(name), "@type": types, "name": name, "description": _described(name), "encodingFormat": kind,
            "contentSize": str((folder / name).stat().st_size)}  # fmt: skip


_WORDS = {
    "ARTIFACT.md": "What is claimed, what it needs, and how to repeat it.",
    "Containerfile": "Container in which the runs can be repeated.",
    CITATION: "How to cite this artifact.",
    LICENCE: "Licence of the measurements.",
    "SHA256SUMS": "Digests of the files, for sha256sum -c.",
    "experiment.yaml": "The experiment, as its author wrote it.",
    "testbed.yaml": "The testbed, as its author wrote it.",
    "plan.json": "Trials in their order, with the seed.",
    "resolved.json": "Experiment and testbed with all defaults, the command and the version of dutlab.",
    "MANIFEST.sha256": "Digests of the measured files.",
}


def _described(name: str) -> str:
    if (words := _WORDS.get(Path(name).name)) is not None:
        return words
    if name.startswith("claims/"):
        return "A claim with its figures, its conditions and the digest of the raw data."
    return "Package of the program that measured." if name.startswith("packages/") else "File of the artifact."


def citation(crate: Crate) -> bytes:
    """Return the content of CITATION. Each value is written as JSON, which is YAML too."""
    lines = ["cff-version: 1.2.0", "type: dataset", f"title: {_text(crate.title)}", f"abstract: {_text(crate.described)}",
             'message: "If you use these measurements, please cite them as below."', "authors:"]  # fmt: skip
    for author in crate.authors:
        given, _, family = author.name.rpartition(" ")
        names = {"given-names": given, "family-names": family} if given else {"name": family}
        pairs = [*names.items(), *([("orcid", author.orcid)] if author.orcid and given else [])]
        lines += [f"  {'-' if n == 0 else ' '} {key}: {_text(value)}" for n, (key, value) in enumerate(pairs)]
    lines += [f"date-released: {crate.published.date().isoformat()}"]
    if crate.licence:
        lines.append(f"license: {_text(crate.licence)}")
    return "\n".join([*lines, ""]).encode()


def licence_text(licence: str) -> bytes:
    """Return the content of LICENCE."""
    stated = (
        f"The measurements and texts in this artifact are under {licence}.\nIts text: https://spdx.org/licenses/{licence}\n"
        if licence
        else "The author of this artifact states no licence for the measurements and texts in it. Ask the author before you use them.\n"
    )
    return (
        f"{stated}\ndutlab itself, also a package of it in packages/, is under Apache-2.0: https://spdx.org/licenses/Apache-2.0\n".encode()
    )


def _release(release: Mapping[str, str]) -> str:
    return " ".join(filter(None, (release.get("version", "unknown"), release.get("commit", ""))))


def _text(value: str) -> str:
    return json.dumps(" ".join(value.split()), ensure_ascii=False)
