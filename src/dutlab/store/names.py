"""Checks of names that become paths. Names from outside (an experiment's name, a tool's file name) are checked here first."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from dutlab.errors import StoreError

# No leading dot or dash, no separator, no space, no `~` (which marks our own second copies), no special character of shells or globs.
_COMPONENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
_DEEPEST = 4
_TRIAL = re.compile(r"[0-9]{4,9}")


class UnsafeName(StoreError):
    """Error for a name that must not become part of a path."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} cannot be a file name in a run folder",
            remedy="use letters, digits, `.`, `_`, `+` and `-`, at most 100, beginning with a letter, digit or `_`",
        )
        self.name = name


def checked_component(name: str) -> str:
    """Return `name` if it can be one part of a path. Raises UnsafeName."""
    if not _COMPONENT.fullmatch(name):
        raise UnsafeName(name)
    return name


def checked_relative(name: str) -> PurePosixPath:
    """Return `name` as a relative path of at most four safe parts. Raises UnsafeName."""
    parts = name.split("/")
    if len(parts) > _DEEPEST or not all(_COMPONENT.fullmatch(p) for p in parts):
        raise UnsafeName(name)
    return PurePosixPath(*parts)


def run_name(experiment: str, now: datetime, token: str | None = None) -> str:
    """Return a run's name, as `2026-11-21T0801Z-firewall-modes-3f2a`. It sorts by time; the token distinguishes runs of one minute.

    `now` must have a time zone. `experiment` may be any text; characters that cannot be in a file name become `-`. Raises ValueError
    without a zone, UnsafeName for a `token` that cannot be in a file name.
    """
    if now.tzinfo is None:
        raise ValueError("a run's time needs its zone")
    slug = re.sub(r"[^A-Za-z0-9_.+]+", "-", experiment).strip("-.+")[:60].rstrip("-.+") or "run"
    return checked_component(f"{now.astimezone(UTC):%Y-%m-%dT%H%MZ}-{slug}-{token or secrets.token_hex(2)}")


def trial_folder(run: Path, trial: int) -> Path:
    """Return the folder of a trial, as `trials/0007`. Raises ValueError below 1, the first trial."""
    if trial < 1:
        raise ValueError(f"trials count from 1, not {trial}")
    return run / "trials" / f"{trial:04d}"


def trial_of(name: str) -> int | None:
    """Return the trial number in a folder's name; None for folders of cut trials and for other names, such as 0000 and 00001."""
    trial = int(name) if _TRIAL.fullmatch(name) else 0
    return trial if trial and name == f"{trial:04d}" else None
