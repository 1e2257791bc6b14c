"""What the runner tells whoever watches. The command line shows it; tests keep it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dutlab.dut.mode import Check
from dutlab.plan.trials import Plan, Trial
from dutlab.store.record import TrialRecord


class Progress(Protocol):
    """Told of each step once it is done."""

    def began(self, folder: Path, plan: Plan, done: int) -> None:
        """The run's folder exists; `done` trials are already there (resume)."""

    def mode(self, name: str, checks: Sequence[Check]) -> None:
        """A mode was applied and verified; a check that did not pass means that its trials are refused."""

    def trial(self, trial: Trial, record: TrialRecord) -> None:
        """A trial's record is on the disk."""

    def note(self, text: str) -> None:
        """Something that the user should know."""

    async def ask(self, question: str) -> str:
        """Waits for a person's answer. Never called for an unattended run. Raises InputError when there is nobody."""
