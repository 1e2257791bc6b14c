"""Finds runs in a folder of runs."""

from __future__ import annotations

from pathlib import Path

from dutlab.errors import InputError, StoreError
from dutlab.store.run_folder import RunFolder


def run_folders(runs: Path) -> list[Path]:
    """Folders in `runs` that hold a plan, by name, which sorts by time. Raises StoreError when `runs` cannot be read."""
    try:
        return sorted(p for p in runs.iterdir() if not p.name.startswith(".") and (p / "plan.json").is_file())
    except OSError as error:
        raise StoreError(f"{runs}: cannot be read: {error.strerror}", remedy="name the folder that run folders lie in") from error


def newest_like(where: Path, run: Path) -> Path:
    """`where` itself if it is a run, else the newest run in it that is older than `run` and of the same experiment.

    Raises InputError when there is none, StoreError.
    """
    if (where / "plan.json").is_file():
        return where
    wanted = RunFolder.open(run)
    experiment = wanted.plan.get("experiment")
    for path in reversed([p for p in run_folders(where) if p.name < wanted.name]):
        try:
            if RunFolder.open(path).plan.get("experiment") == experiment:
                return path
        except StoreError:
            continue  # half-written, or of a newer version: no baseline
    raise InputError(f"{where}: holds no run of {experiment} older than {wanted.name}", remedy="name a run as the baseline")
