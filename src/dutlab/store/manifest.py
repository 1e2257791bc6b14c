"""MANIFEST.sha256: the files of a finished run with their hashes, in the format that `sha256sum -c` reads.

Left out are: `report/`, which is made from the other files; `additions/`, which people add later; the journal and its seal, which later
commands change; temporary files of killed writers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from dutlab import bounds, outside
from dutlab.errors import StoreError
from dutlab.store.read import CHANGED, read_json

MANIFEST = "MANIFEST.sha256"
DERIVED = "report"
ADDITIONS = "additions"
JOURNAL = "journal.jsonl"
JOURNAL_SEAL = "journal.seal"
"""File with the length of the journal (seal.py)."""
REDACTED = "redacted.json"
"""File in a copy of a run. It lists the files that differ from the manifest because secrets in them are covered (redaction.py)."""
UNHASHED = (MANIFEST, JOURNAL, JOURNAL_SEAL, REDACTED)
PAUSE = "pause-asked"
"""File that pauses a run: while it is in the run's folder, no further trial begins."""
_TEMPORARY = re.compile(r"\..+\.\d+\.part")
_LINE = re.compile(r"(?P<hash>[0-9a-f]{64})  (?P<path>[^\x00-\x1f\\]+)")


@dataclass(frozen=True)
class ManifestDifference:
    """Differences of a run folder from its manifest, as relative paths."""

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    extra: tuple[str, ...]
    redacted: tuple[str, ...] = ()
    """Files whose change is listed in REDACTED. They prove nothing, because anyone can write REDACTED."""

    @property
    def none(self) -> bool:
        """True if the folder equals its manifest."""
        return not self.redacted and self.none_but_redacted

    @property
    def none_but_redacted(self) -> bool:
        """True if only files with covered secrets differ."""
        return not (self.missing or self.changed or self.extra)

    def __str__(self) -> str:
        kinds = (("missing", self.missing), ("changed", self.changed), ("extra", self.extra), ("redacted", self.redacted))
        return "; ".join(f"{kind}: {path}" for kind, paths in kinds for path in paths) or "no difference"


def manifest_of(run: Path) -> bytes:
    """Return the manifest of the folder as it is now."""
    return b"".join(f"{_hash(path)}  {name}\n".encode(errors="surrogateescape") for name, path in files_of(run))


def compare(run: Path) -> ManifestDifference:
    """Compare the folder with its manifest. Raises StoreError if the manifest is missing or cannot be read."""
    path = run / MANIFEST
    try:
        text = outside.read(path, bounds.MANIFEST).decode(errors="surrogateescape")
    except FileNotFoundError:
        raise StoreError(f"{path}: is missing", remedy="the run has not finished: `dutlab resume` finishes it") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error
    hashes = hashes_of(text, path)
    there = dict(files_of(run))
    other = {n: digest for n in hashes.keys() & there.keys() if (digest := _hash(there[n])) != hashes[n]}
    redacted = {n for n, of in redacted_files(run).items() if n in other and other[n] == of["sha256"]}
    return ManifestDifference(
        missing=tuple(sorted(hashes.keys() - there.keys())),
        changed=tuple(sorted(other.keys() - redacted)),
        extra=tuple(sorted(there.keys() - hashes.keys())),
        redacted=tuple(sorted(redacted)),
    )


def redacted_files(run: Path) -> dict[str, dict[str, Any]]:
    """Return the content of REDACTED: file → its `sha256` and the secrets `taken`; empty without REDACTED. Raises StoreError."""
    if not os.path.lexists(run / REDACTED):
        return {}
    document = read_json(run / REDACTED)
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, dict) or not all(
        isinstance(f, dict) and isinstance(f.get("taken"), dict) and "sha256" in f for f in files.values()
    ):
        raise StoreError(f"{run / REDACTED}: is not a list of redacted files", remedy=CHANGED)
    return files


def hashes_of(text: str, path: Path) -> dict[str, str]:
    """Return relative path → SHA-256 from the text of the manifest at `path`. Raises StoreError."""
    hashes: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (m := _LINE.fullmatch(line)):
            raise StoreError(f"{path}:{number}: is not a manifest line", remedy="the file was changed; restore it from a copy")
        hashes[m["path"]] = m["hash"]
    return hashes


def files_of(run: Path) -> Iterator[tuple[str, Path]]:
    """Yield (relative path, path) of every file of the run, sorted. Symbolic links count as files and are not followed."""
    files: list[tuple[str, Path]] = []
    for folder, folders, names in os.walk(run):
        here = Path(folder)
        links = [n for n in folders if (here / n).is_symlink()]
        if here == run:
            folders[:] = [name for name in folders if name not in (DERIVED, ADDITIONS)]
        paths = (here / n for n in [*names, *links] if (here != run or n not in UNHASHED) and not is_temporary(n))
        files += [(path.relative_to(run).as_posix(), path) for path in paths]
    return iter(sorted(files))


def is_temporary(name: str) -> bool:
    """Return whether a name is that of an unfinished file (store/write.py), which is later renamed or removed."""
    return _TEMPORARY.fullmatch(name) is not None


def _hash(path: Path) -> str:
    import hashlib  # noqa: PLC0415 -- loads OpenSSL; the names of files above need none of it

    if path.is_symlink():  # hashed as a link: a link in place of a file is a change, even to an equal file
        return hashlib.sha256(b"link:" + os.fsencode(path.readlink())).hexdigest()
    try:
        with outside.opened(path, most=bounds.RAW) as f:
            return hashlib.file_digest(cast("BufferedReader", f), "sha256").hexdigest()
    except outside.UnfitFile as error:  # a pipe or a device has no content to compare
        if error.kind is outside.Unfit.TOO_LARGE:
            raise
        return hashlib.sha256(b"no plain file").hexdigest()
