"""Attempts at a trial: `trials/0007` counts; earlier attempts are kept whole next to it, as `trials/0007.disturbed-1`.

An attempt is written like any trial and then judged. One that does not count is renamed, never rewritten. After a crash in between,
the trial has no folder and is done again.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dutlab.errors import StoreError
from dutlab.store.names import trial_folder
from dutlab.store.write import rename_folder

_ATTEMPT = re.compile(r"(?P<trial>\d{4,})\.(?P<reason>[a-z-]+)-(?P<number>\d+)")


class AttemptReason(enum.Enum):
    """Reason for which an attempt does not count."""

    DISTURBED = "disturbed"
    """Other work took too much CPU time (physics.disturbed)."""
    TOOL_ENDED = "tool-ended"
    """The tool or the engine was killed."""
    MODE_LOST = "mode-lost"
    """The mode was no longer in force at the end of the trial."""
    UNPROVEN = "unproven"
    """The run was cut, or a host was lost, before the mode was verified again after the trial."""
    HOST_LOST = "host-lost"
    """A host ended or hung during the trial, and was started again."""


@dataclass(frozen=True)
class Attempt:
    """An attempt that was set aside."""

    trial: int
    number: int
    """Number of the attempt, from 1, counted over all reasons."""
    reason: AttemptReason
    folder: Path


def attempts_in(run: Path) -> Iterator[Attempt]:
    """Yield the attempts of a run that were set aside, in the order of trials and attempts."""
    attempts = []
    for folder in (run / "trials").iterdir():
        m = _ATTEMPT.fullmatch(folder.name)
        if m and m["reason"] in {reason.value for reason in AttemptReason} and (folder / "record.json").exists():
            attempts.append(Attempt(int(m["trial"]), int(m["number"]), AttemptReason(m["reason"]), folder))
    return iter(sorted(attempts, key=lambda a: (a.trial, a.number)))


def set_aside(run: Path, trial: int, reason: AttemptReason) -> Attempt:
    """Rename the folder of a finished trial, so that the trial can be done again. Raises StoreError."""
    folder = trial_folder(run, trial)
    if not (folder / "record.json").exists():
        raise StoreError(f"{folder}: has no record, so there is no attempt to set aside", remedy="discard_incomplete() is for cut trials")
    number = 1 + sum(a.trial == trial for a in attempts_in(run))
    aside = folder.with_name(f"{folder.name}.{reason.value}-{number}")
    rename_folder(folder, aside)
    return Attempt(trial, number, reason, aside)
