"""Whoever looks on while the runner works, hears events and answers questions; and what is left to say once a run has ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dutlab.events import Event


class Progress(Protocol):
    """Somebody who looks on."""

    def hear(self, event: Event) -> None:
        """Receive an event. Returns at once."""

    async def ask(self, question: str) -> str:
        """Wait for a person's answer. Never called for an unattended run. Raises InputError when there is no person."""


@dataclass(frozen=True)
class RunResult:
    """End of a run."""

    folder: Path
    measured: int
    failed: int
    refused: int
    disturbed: int = 0
    """Trials without an undisturbed attempt."""
    left: int = 0
    """Trials that a resume does: the time was over, or programs were killed in them."""

    @property
    def exit_status(self) -> int:
        """0 when every trial has its result, 1 otherwise."""
        return self.exit_status_of(answered=False)

    def exit_status_of(self, *, answered: bool) -> int:
        """Return the exit status; disturbed trials are no fault where the run has an answer without them (`RunReport.answered`)."""
        return 0 if self.failed + self.refused + self.left == 0 and (answered or not self.disturbed) else 1
