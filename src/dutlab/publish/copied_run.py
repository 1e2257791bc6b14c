"""Copies of runs that leave this machine, for a site or an artifact: their plain files, with secrets covered."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from dutlab.errors import InputError
from dutlab.hosts.passwords import all_variables
from dutlab.store.beneath import Beneath, parts_of
from dutlab.store.find import is_text
from dutlab.store.manifest import ADDITIONS, DERIVED, MANIFEST, REDACTED, files_of
from dutlab.store.outgoing import OutgoingRun
from dutlab.store.redaction import in_words
from dutlab.store.run_folder import RunFolder
from dutlab.store.write import as_store_error


def insist_on_text(run: RunFolder) -> None:
    """Raise InputError if the folder's name is not UTF-8, as pages and metadata need."""
    if not is_text(run.name):
        raise InputError(f"{run.path}: the name of the folder is not UTF-8", remedy="rename the folder")


def copy_run(run: RunFolder, goal: Path, *, cards: bool) -> str:
    """Copy a run to the folder `goal`, which appears whole or not at all; with `cards` also the claim cards of its author.

    Links are not followed: their targets are not part of the run. Secrets in its files are covered; the result is a sentence about
    them, or empty.

    Raises StoreError: OutsideFolder for an unsafe name, or a link in place of a file.
    """
    names = list(_to_copy(run, cards=cards))
    for name in names:
        parts_of(name)
    part = goal.with_name(f".{run.name}.{os.getpid()}.part")
    try:
        part.mkdir()
        with OutgoingRun.opened(run, all_variables()) as outgoing, Beneath.opened(part) as copy:
            copy.make_folder("trials")
            for name in names:
                with outgoing.open(name) as data:
                    copy.write_new(name, data)
            if (redactions := outgoing.redacted_json) is not None:
                copy.write_new(REDACTED, io.BytesIO(redactions))
        part.rename(goal)
    except OSError as error:
        raise as_store_error(error, goal, None) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return f"{run.name}: {in_words(outgoing.covered)}" if outgoing.covered else ""


def _to_copy(run: RunFolder, *, cards: bool) -> Iterator[str]:
    """Yield the relative names of the plain files to copy."""
    yield from (name for name, path in files_of(run.path) if path.is_file() and not path.is_symlink())
    yield MANIFEST
    additional = [run.path / ADDITIONS, *([run.path / DERIVED] if cards else [])]
    for folder in (f for f in additional if f.is_dir() and not f.is_symlink()):
        wanted = "claim-*.json" if folder.name == DERIVED else "*"
        yield from (f"{folder.name}/{p.name}" for p in sorted(folder.glob(wanted)) if p.is_file() and not p.is_symlink())
