"""Finds runs in a folder of runs."""

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
"""Largest integer of SQLite (sqlite.org/datatype3.html); some file systems number beyond it."""
_MINUTE = len("2026-11-21T0801Z")
"""So much of a name is the time."""


def run_names(runs: Path) -> list[str]:
    """Folders in `runs` that may be runs, by name, which sorts by time. Raises InputError when `runs` cannot be read.

    A name that is not UTF-8 is not a name that a run was given, and neither an index nor a report can hold it: it is left out.
    """
    return sorted(run_folders(runs))


def run_folders(runs: Path) -> dict[str, int]:
    """Return the names of run folders, unordered, with their inode numbers (st_ino), which the directory lists without a look at runs."""
    try:
        with os.scandir(runs) as entries:
            return {e.name: e.inode() & _MOST for e in entries if not e.name.startswith(".") and _is_folder(e) and is_text(e.name)}
    except OSError as error:
        raise InputError(f"{runs}: cannot be read: {error.strerror}", remedy="name the folder that holds the run folders") from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder. A circular link is none, nor is one to a place that this user may not read."""
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
    """Return whether a process is carrying the run out now: it holds a lock on the journal as long as it lives (dutlab.runner.journal).

    The question is a shared lock for an instant, which the writer of a journal waits out.
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
    """`where` itself if it is a run, else the newest `most` runs in it that are older than `run` and of the same experiment, oldest first.

    A name says the minute; of runs of one minute the record says which was started first.

    Raises InputError when there is none, StoreError.
    """
    from dutlab.store.run_folder import RunFolder  # noqa: PLC0415 -- a quarter of a second that only this needs

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
            continue  # half-written, or of a newer version: no baseline
        if len(paths) == most:
            break
    if not paths:
        raise InputError(f"{where}: holds no run of {experiment} older than {wanted.name}", remedy="name a run as the baseline")
    return paths[::-1]


def _newest_first(where: Path, names: Iterable[str], before: RunFolder) -> list[Path]:
    """Runs of one minute that were started before another; only where there are several is any of them read."""
    paths = [where / name for name in names]
    if paths[0].name[:_MINUTE] != before.name[:_MINUTE]:
        return paths if len(paths) == 1 else sorted(paths, key=_started, reverse=True)
    last = _started(before.path)
    return [path for started, path in sorted(((_started(path), path) for path in paths), reverse=True) if started < last]


def _started(run: Path) -> tuple[str, str]:
    """When the first trial of a run was started, and its name; a run that cannot be read has its name alone."""
    from dutlab.store.run_folder import RunFolder  # noqa: PLC0415 -- as above

    try:
        records = list(RunFolder.open(run).readable_records([]))
    except (InputError, StoreError):
        records = []
    return min((r.started.astimezone(UTC).isoformat() for r in records), default=""), run.name
