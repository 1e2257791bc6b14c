"""Guests of a lab whose kernel has ended or that do not answer: which they are, their last console lines, and how to restart them."""

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
    """The lab does not exist any more, or not completely. Changes that a run made in it are lost."""


@dataclass(frozen=True)
class LastWords:
    """Last lines of a guest's console before it was lost."""

    why: str
    """Reason for the end of its kernel, if the console has it."""
    console: bytes
    """End of the console."""


@dataclass(frozen=True)
class Guests:
    """Hosts of one lab with their own kernel."""

    roles: frozenset[str]
    folder: Path
    """Folder of the lab."""

    def ended(self) -> list[str]:
        """Return the guests whose kernel has ended without being switched off. Reads one file of /proc per guest."""
        return [role for role in sorted(self.roles) if not guest_power.is_off(self.folder, role) and self._has_ended(role)]

    def listens(self, role: str) -> bool:
        """Return whether the guest should answer: it is neither off nor still booting."""
        return not guest_power.is_off(self.folder, role) and (self.folder / f"{role}.pid").exists()

    def last_words(self, role: str) -> LastWords:
        """Return the last lines of the console. Call it before a restart: the next kernel overwrites the console."""
        return LastWords(guest.end_of(self.folder, role), outside.tail(guest.console(self.folder, role), _CONSOLE_BYTES))

    async def start_again(self, role: str) -> None:
        """Kill the guest's kernel if it still runs, and boot it until it listens. Raises LabError, HostError."""
        switch = str(guest_power.script(self.folder, role))
        await LocalHost("lab").run([switch, "off"])
        await LocalHost("lab").run([switch, "on"])
        await guest.reached(self.folder, role)

    def _has_ended(self, role: str) -> bool:
        pid = guest_power.kernel(self.folder, role)
        return pid is not None and not guest_power.runs(pid)


def ended_in(state: LabState) -> list[str]:
    """Return the guests of a completely built lab whose kernel has ended without being switched off."""
    return Guests(frozenset(description(state.lab).settings.guests), StateFolder().ssh_folder(state.label)).ended()


@contextlib.asynccontextmanager
async def naming_ended_guests(label: str, remedy: str) -> AsyncIterator[None]:
    """Replace an error inside the context by LabGone with the last console lines, if a guest of the lab has ended."""
    try:
        yield
    except DutlabError as error:
        folder = StateFolder()
        if (state := folder.read(label)) is not None and (ended := ended_in(state)):
            raise LabGone(ended_guests_text(ended, folder.ssh_folder(label)), remedy=remedy) from error
        raise


def ended_guests_text(ended: Sequence[str], folder: Path) -> str:
    """Return a text about ended guests; `folder` is the lab's folder."""
    return "; ".join(f"{role}: {ENDED}: {guest.end_of(folder, role)}" for role in ended)
