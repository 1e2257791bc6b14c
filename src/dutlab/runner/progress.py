"""Observers of a run, who receive its events and answer its questions; and the result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dutlab.events import Event


class Progress(Protocol):
    """Observer of a run."""

    def hear(self, event: Event) -> None:
        """Receive an event. Returns at once."""

    async def ask(self, question: str) -> str:
        """Wait for a person's answer. Never called for an unattended run. Raises InputError when there is no person."""


@dataclass(frozen=True)
class RunResult:
    """Result of a run, in numbers of trials."""

    folder: Path
    measured: int
    failed: int
    refused: int
    disturbed: int = 0
    """Trials without an undisturbed attempt."""
    left: int = 0
    """Trials for a resume: the time was over, or their programs were killed."""

    @property
    def exit_status(self) -> int:
        """Exit status: 0 if every trial has its result, else 1."""
        return self.exit_status_of(answered=False)

    def exit_status_of(self, *, answered: bool) -> int:
        """Return the exit status; disturbed trials do not matter if the run has an answer without them (`RunReport.answered`)."""
        return 0 if self.failed + self.refused + self.left == 0 and (answered or not self.disturbed) else 1
