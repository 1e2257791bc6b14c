"""Watch for lost guests of a lab during trials. A lost guest is reported with the end of its console, and started again.

A guest is lost if its kernel has ended, if it does not answer for SILENT_S after its connection was lost, or if a lost connection made a
trial fail. Other machines are not started again: a person must look at them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dutlab.ending import cancelled
from dutlab.errors import CommandFailed, DutlabError, HostError
from dutlab.hosts.host import Host, connections_of, is_lost
from dutlab.hosts.own_time import own_timeout
from dutlab.labs.lost_guests import ENDED, Guests
from dutlab.runner.host_power import wait_for_answer
from dutlab.runner.journal import Journal

T = TypeVar("T")
MOST_LOST = 3
"""Number of guest losses in one cell after which the run ends. By then the cell is the likely cause."""
SILENT_S = 20.0
"""Silence after which a guest is lost, counted from 15 s of missed keep-alives. Even an overloaded kernel answers sooner."""
LOOK_S = 1.0
_ANSWERS_S, _BACK_S = 15.0, 300.0


@dataclass(frozen=True)
class Loss:
    """The loss of one guest."""

    host: str
    why: str
    console: bytes
    """End of its console output."""

    @property
    def words(self) -> str:
        """The loss in words, as in `dut was lost: the kernel of its guest has ended: Kernel panic - …`."""
        return f"{self.host} was lost: {self.why}"


class GuestLost(HostError):
    """Loss of guests that were started again. Their mode is gone, and the trial has no result."""

    def __init__(self, losses: tuple[Loss, ...]) -> None:
        super().__init__("; ".join(loss.why for loss in losses), host=", ".join(loss.host for loss in losses))
        self.losses = losses


@dataclass
class GuestWatch:
    """Watch of the guests of one stage. Without guests it does nothing."""

    hosts: Mapping[str, Host]
    journal: Journal
    guests: Guests | None = None
    brought: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """Host → function that restores dutlab's files and settings on it after a restart."""
    _connections: dict[str, int] = field(default_factory=dict)
    """Number of connections to each guest at the start of the trial."""

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the trial `work`. If a guest is lost, cancel `work`, start the guest again, and raise GuestLost."""
        if not self._roles:
            return await work
        self._connections = {role: connections_of(self.hosts[role]) for role in self._roles}
        doing, looking = asyncio.ensure_future(work), asyncio.ensure_future(self._first_lost())
        try:
            await asyncio.wait([doing, looking], return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            lost = looking.result()
            doing.cancel()  # ends its load now; the rest of its clean-up needs hosts that answer
            raise await self._again(lost)
        finally:
            await cancelled(doing, looking)

    async def behind(self, error: DutlabError) -> GuestLost | None:
        """Return the guest losses behind `error`, after starting the guests again; None without a loss. Raises LabError, HostError."""
        if isinstance(error, GuestLost):
            return error
        lost = self._ended() or [loss for role in self._roles if (loss := await self._broken(role, error)) is not None]
        return await self._again(lost) if lost else None

    @property
    def _roles(self) -> Iterable[str]:
        return () if self.guests is None else sorted(self.guests.roles)

    async def _first_lost(self) -> list[Loss]:
        silent_since = dict[str, float]()
        while not (lost := self._ended()):
            await asyncio.sleep(LOOK_S)
            for role in self._roles:
                since = silent_since.setdefault(role, time.monotonic())
                if not self._is_silent(role) or await self._answers(role):
                    del silent_since[role]
                elif time.monotonic() - since >= SILENT_S:
                    return [self._loss(role, "it does not answer")]
        return lost

    def _ended(self) -> list[Loss]:
        return [] if self.guests is None else [self._loss(role, "") for role in self.guests.ended()]

    def _is_silent(self, role: str) -> bool:
        return self.guests is not None and self.guests.listens(role) and is_lost(self.hosts[role])

    async def _answers(self, role: str) -> bool:
        """Return whether the guest runs a command. A hung guest may still accept connections."""
        try:
            async with own_timeout(_ANSWERS_S):
                await self.hosts[role].run(["true"])
        except (HostError, TimeoutError):
            return False
        return True

    async def _broken(self, role: str, error: DutlabError) -> Loss | None:
        if self.guests is None or not self.guests.listens(role):
            return None
        if not await self._answers(role):
            return self._loss(role, "it does not answer")
        is_new_connection = connections_of(self.hosts[role]) != self._connections.get(role, connections_of(self.hosts[role]))
        is_its_own = isinstance(error, HostError) and not isinstance(error, CommandFailed) and error.host == role
        return self._loss(role, error.what.removeprefix(f"{role}: ")) if is_new_connection and is_its_own else None

    def _loss(self, role: str, why: str) -> Loss:
        assert self.guests is not None  # noqa: S101 - only guests are lost
        last = self.guests.last_words(role)
        return Loss(role, why or f"{ENDED}: {last.why}", last.console)

    async def _again(self, losses: Iterable[Loss]) -> GuestLost:
        """Start each lost guest again. Raises LabError, HostError if one does not come back."""
        for loss in (lost := tuple(losses)):
            assert self.guests is not None  # noqa: S101 - as above
            self.journal.write("host-lost", host=loss.host, why=loss.why)
            await self.guests.start_again(loss.host)
            await wait_for_answer(self.hosts[loss.host], _BACK_S)
            if (bring := self.brought.get(loss.host)) is not None:
                await bring()
            self.journal.write("host-revived", host=loss.host, was_on=False, why=loss.why)
        return GuestLost(lost)
