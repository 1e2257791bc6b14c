"""Whoever looks on while the runner works: hears events, and answers questions. The command line does both; tests keep them."""

from __future__ import annotations

from typing import Protocol

from dutlab.events import Event


class Progress(Protocol):
    """Somebody who looks on."""

    def hear(self, event: Event) -> None:
        """What just happened. Returns at once."""

    async def ask(self, question: str) -> str:
        """Waits for a person's answer. Never called for an unattended run. Raises InputError when there is nobody."""
