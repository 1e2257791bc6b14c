"""Finds runs in a folder of runs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from dutlab.errors import InputError, StoreError
from dutlab.store.manifest import JOURNAL

_MOST = 2**63 - 1
"""What SQLite holds (sqlite.org/datatype3.html); some file systems number beyond it."""


def run_names(runs: Path) -> list[str]:
    """Folders in `runs` that may be runs, by name, which sorts by time. Raises InputError when `runs` cannot be read.

    A name that is not UTF-8 is not a name that a run was given, and neither an index nor a report can hold it: it is left out.
    """
    return sorted(run_folders(runs))


def run_folders(runs: Path) -> dict[str, int]:
    """The same names, in no order, each with the number of its folder (st_ino), which a directory tells without a look at each run."""
    try:
        with os.scandir(runs) as entries:
            return {e.name: e.inode() & _MOST for e in entries if not e.name.startswith(".") and _is_folder(e) and is_text(e.name)}
    except OSError as error:
        raise InputError(f"{runs}: cannot be read: {error.strerror}", remedy="name the folder that run folders lie in") from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """A link in a circle, or one to where nobody may look, is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_text(name: str) -> bool:
    """Whether a name of a file is UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_running(run: Path) -> bool:
    """Whether a process is carrying the run out now: it holds a lock on the journal as long as it lives (dutlab.runner.journal).

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

    Raises InputError when there is none, StoreError.
    """
    from dutlab.store.run_folder import RunFolder  # noqa: PLC0415 -- a quarter of a second that only this needs

    if (where / "plan.json").is_file():
        return [where]
    wanted = RunFolder.open(run)
    experiment = wanted.plan.get("experiment")
    found: list[Path] = []
    for path in (where / name for name in reversed(run_names(where)) if name < wanted.name):
        try:
            if RunFolder.open(path).plan.get("experiment") == experiment:
                found.append(path)
        except (InputError, StoreError):
            continue  # half-written, or of a newer version: no baseline
        if len(found) == most:
            break
    if not found:
        raise InputError(f"{where}: holds no run of {experiment} older than {wanted.name}", remedy="name a run as the baseline")
    return found[::-1]
