"""Find runs in a folder of runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from datetime import UTC
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from dutlab.errors import InputError, StoreError
from dutlab.store.manifest import JOURNAL

if TYPE_CHECKING:
    from dutlab.store.run_folder import RunFolder

_MOST = 2**63 - 1
"""Largest integer of SQLite (sqlite.org/datatype3.html); some file systems have larger inode numbers."""
_MINUTE = len("2026-11-21T0801Z")
"""Number of leading characters of a run's name that are its time."""


def run_names(runs: Path) -> list[str]:
    """Return the names of folders in `runs` that may be runs, sorted by name and so by time. Raises InputError if `runs` cannot be read.

    Names that are not UTF-8 are left out: dutlab never gives such a name, and an index or a report cannot store it.
    """
    return sorted(run_folders(runs))


def run_folders(runs: Path) -> dict[str, int]:
    """Return run folder name → inode number (st_ino), unordered. The directory has both, so no run is opened."""
    try:
        with os.scandir(runs) as entries:
            return {e.name: e.inode() & _MOST for e in entries if not e.name.startswith(".") and _is_folder(e) and is_text(e.name)}
    except OSError as error:
        raise InputError(f"{runs}: cannot be read: {error.strerror}", remedy="name the folder that holds the run folders") from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether the entry is a folder; false for a circular link, and for a link that this user may not follow."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_text(name: str) -> bool:
    """Return whether a file's name is UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_running(run: Path) -> bool:
    """Return whether a process is carrying out the run now: it holds a lock on the journal until it ends (dutlab.runner.journal).

    The check takes a shared lock for an instant; a writer of the journal waits for it.
    """
    try:
        descriptor = os.open(run / JOURNAL, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(descriptor)
    return False


def older_like(where: Path, run: Path, most: int) -> list[Path]:
    """Return `[where]` if it is a run, else the newest `most` runs in it that are older than `run`, oldest first.

    Only runs of the same experiment are returned. A name has the minute of the start; within a minute, records give the order.

    Raises InputError if there is none, StoreError.
    """
    from dutlab.store.run_folder import RunFolder  # noqa: PLC0415 -- takes a quarter of a second, and only this needs it

    if (where / "plan.json").is_file():
        return [where]
    wanted = RunFolder.open(run)
    experiment = wanted.plan.get("experiment")
    paths: list[Path] = []
    names = [name for name in run_names(where) if name[:_MINUTE] <= wanted.name[:_MINUTE] and name != wanted.name]
    for path in (path for _, same in groupby(reversed(names), lambda name: name[:_MINUTE]) for path in _newest_first(where, same, wanted)):
        try:
            if RunFolder.open(path).plan.get("experiment") == experiment:
                paths.append(path)
        except (InputError, StoreError):
            continue  # half-written or of a newer version: not usable as a baseline
        if len(paths) == most:
            break
    if not paths:
        raise InputError(f"{where}: holds no run of {experiment} older than {wanted.name}", remedy="name a run as the baseline")
    return paths[::-1]


def _newest_first(where: Path, names: Iterable[str], before: RunFolder) -> list[Path]:
    """Return the runs of one minute that started before `before`, newest first. Runs are read only if the order needs it."""
    paths = [where / name for name in names]
    if paths[0].name[:_MINUTE] != before.name[:_MINUTE]:
        return paths if len(paths) == 1 else sorted(paths, key=_started, reverse=True)
    last = _started(before.path)
    return [path for started, path in sorted(((_started(path), path) for path in paths), reverse=True) if started < last]


def _started(run: Path) -> tuple[str, str]:
    """Return the start of a run's first trial, and the run's name. The start is empty if the run cannot be read."""
    from dutlab.store.run_folder import RunFolder  # noqa: PLC0415 -- as above

    try:
        records = list(RunFolder.open(run).readable_records([]))
    except (InputError, StoreError):
        records = []
    return min((r.started.astimezone(UTC).isoformat() for r in records), default=""), run.name
