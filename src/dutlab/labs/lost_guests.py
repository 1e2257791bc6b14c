"""Guests of a lab whose kernel has ended, or that answer no more: which these are, what each said last, and how one is started again."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dutlab import outside
from dutlab.errors import DutlabError, LabError
from dutlab.hosts.local import LocalHost
from dutlab.labs import guest, guest_power
from dutlab.labs.state import LabState, StateFolder
from dutlab.spec.lab_files import description

_CONSOLE_BYTES = 16384
ENDED = "the kernel of its guest has ended"


class LabGone(LabError):
    """The lab does not exist any more, or not whole, and cannot be used: what a run changed in it is gone or goes with it."""


@dataclass(frozen=True)
class LastWords:
    """Last lines of a guest's console before it was lost."""

    why: str
    """Why its kernel ended, where it says so."""
    console: bytes
    """The end of it."""


@dataclass(frozen=True)
class Guests:
    """The hosts of one lab with their own kernel."""

    roles: frozenset[str]
    folder: Path
    """The lab's own."""

    def ended(self) -> list[str]:
        """Return those whose kernel has ended although it was not switched off. A look at one file of /proc for each."""
        return [role for role in sorted(self.roles) if not guest_power.is_off(self.folder, role) and self._has_ended(role)]

    def listens(self, role: str) -> bool:
        """Return whether it should answer: it is neither off nor still booting."""
        return not guest_power.is_off(self.folder, role) and (self.folder / f"{role}.pid").exists()

    def last_words(self, role: str) -> LastWords:
        """Read before it is started again: its next kernel begins a new console."""
        return LastWords(guest.end_of(self.folder, role), outside.tail(guest.console(self.folder, role), _CONSOLE_BYTES))

    async def start_again(self, role: str) -> None:
        """Kills its kernel if that still runs, and boots it until it listens. Raises LabError, HostError."""
        switch = str(guest_power.script(self.folder, role))
        await LocalHost("lab").run([switch, "off"])
        await LocalHost("lab").run([switch, "on"])
        await guest.reached(self.folder, role)

    def _has_ended(self, role: str) -> bool:
        pid = guest_power.kernel(self.folder, role)
        return pid is not None and not guest_power.runs(pid)


def ended_in(state: LabState) -> list[str]:
    """The guests of a lab that was built to its end whose kernel has ended: none that was switched off."""
    return Guests(frozenset(description(state.lab).settings.guests), StateFolder().ssh_folder(state.label)).ended()


@contextlib.asynccontextmanager
async def naming_ended_guests(label: str, remedy: str) -> AsyncIterator[None]:
    """Raises LabGone, with what its kernel said last, in place of what went wrong inside after a guest of the lab had ended."""
    try:
        yield
    except DutlabError as error:
        folder = StateFolder()
        if (state := folder.read(label)) is not None and (ended := ended_in(state)):
            raise LabGone(said_of(ended, folder.ssh_folder(label)), remedy=remedy) from error
        raise


def said_of(ended: Sequence[str], folder: Path) -> str:
    """In words, of guests that have ended; `folder` is the lab's own."""
    return "; ".join(f"{role}: {ENDED}: {guest.end_of(folder, role)}" for role in ended)
