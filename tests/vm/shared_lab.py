"""A lab whose guests boot once for many tests: after each it must be as it was before, or the next one gets another."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import unified_diff

from dutlab.hosts.netns import NAMESPACES
from dutlab.labs import drives
from dutlab.labs.lost_guests import Guests
from dutlab.labs.state import StateFolder
from guests import in_guest, kernels
from processes import eventually

_SETTLES_S = 120.0
"""A boot takes 3 s on an idle machine. A test that changes a lab for good costs this once more."""


def unified(before: list[str], after: list[str]) -> list[str]:
    """The lines that differ."""
    return list(unified_diff(before, after, lineterm="", n=0))


class SharedLab:
    """One that is built when it is lent for the first time."""

    def __init__(
        self, dutlab: Callable[..., subprocess.CompletedProcess[str]], name: str, label: str, guests: Sequence[str], state: str
    ) -> None:
        self._dutlab, self._name, self.label, self._guests, self._script = dutlab, name, label, guests, state
        self._stands = False

    @contextmanager
    def lent(self) -> Iterator[str]:
        """Its label, for one test. A guest whose kernel the test ended is started again; what it changed fails it."""
        if not self._stands:
            done = self._dutlab("lab", "up", self._name, "--label", self.label)
            assert done.returncode == 0, done.stderr
            self._stands = True
        before = self._state()
        try:
            yield self.label
            # A guest may still boot, and a program that was ended may take its time.
            changed = {} if eventually(lambda: not self._changed(before), _SETTLES_S) else self._changed(before)
            assert not changed, f"a test leaves a lab as it was: {changed}"
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Takes it down; nothing is left."""
        if self._stands:
            self._stands = False
            done = self._dutlab("lab", "down", self.label)
            assert done.returncode == 0, done.stderr
            assert not drives.folder_of(self.label).exists() and not StateFolder().ssh_folder(self.label).exists()
            assert not kernels(self.label) and not list(NAMESPACES.glob(f"dutlab-{self.label}-*"))

    def _changed(self, before: dict[str, list[str]]) -> dict[str, list[str]]:
        """What each guest has otherwise than `before`, once those that ended are started again."""
        asyncio.run(self._start_ended())
        return {guest: unified(before[guest], now) for guest, now in self._state().items() if now != before[guest]}

    def _state(self) -> dict[str, list[str]]:
        """The lines of each guest: kernels list some things in no order."""
        return {guest: sorted(in_guest(self.label, guest, self._script).splitlines()) for guest in self._guests}

    async def _start_ended(self) -> None:
        guests = Guests(frozenset(self._guests), StateFolder().ssh_folder(self.label))
        for role in guests.ended():
            await guests.start_again(role)
