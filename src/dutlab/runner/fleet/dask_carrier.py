"""Carrier by workers of a Dask scheduler. The state of a campaign is read from its folder, never from Dask.

So a dead scheduler or worker costs only time: the planned run is submitted again, and its process finds what was finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from dutlab.errors import TestbedError
from dutlab.runner.campaign_folder import CampaignFolder, CampaignState
from dutlab.runner.fleet.security import dask_address, insist_on_dask, security_for
from dutlab.runner.fleet.worker import carry_out_here, offered, resource
from dutlab.spec.planned_run import PlannedRun
from dutlab.store.write import opened_to_append

if TYPE_CHECKING:
    from distributed import Client, Future

_LOOK_S = 0.1
_WORKERS_S = 2.0
"""Time between two checks of the workers' offers."""
_CONNECTS_S = 5.0


@dataclass
class DaskCarrier:
    """Carrier by workers. `patience_s` is the longest silence of a scheduler, or of workers for a testbed, before it counts as absent."""

    folder: CampaignFolder
    version: str
    note: Callable[[str], None]
    patience_s: float
    _client: Client | None = None
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _said: set[str] = field(default_factory=set)

    @classmethod
    @asynccontextmanager
    async def opened(cls, folder: CampaignFolder, version: str, note: Callable[[str], None]) -> AsyncIterator[DaskCarrier]:
        """Open a carrier during the context. Raises InputError."""
        insist_on_dask()
        carrier = cls(folder, version, note, float(folder.fleet.lease))
        security_for(folder.fleet.scheduler)
        try:
            yield carrier
        finally:
            await carrier._disconnect()

    async def carry(self, planned: PlannedRun) -> int:
        try:
            while (status := await self._asked(planned)) is None:  # noqa: ASYNC110 - the scheduler went away
                await asyncio.sleep(_LOOK_S)
        except asyncio.CancelledError:
            self.folder.request_end()
            while self.folder.standing(planned).state is CampaignState.RUNNING:  # noqa: ASYNC110 - a process elsewhere
                await asyncio.sleep(_LOOK_S)
            raise
        return status

    async def _asked(self, planned: PlannedRun) -> int | None:
        """Submit a planned run to a worker, and return its exit status; None if the scheduler was lost."""
        if (client := await self._connected()) is None:
            return self._away(planned, f"{self.folder.fleet.scheduler}: no scheduler answers; start `dutlab campaign scheduler` there")
        if not await self._offered_in_time(client, planned.testbed):
            return self._away(planned, self._nobody(planned)) if client.status == "running" else None
        asked = time.monotonic()
        future = client.submit(
            carry_out_here, str(self.folder.path.absolute()), planned.number,
            key=f"{self.folder.path.name}-{planned.number}-{uuid.uuid4()}",
            resources={resource(planned.testbed, self.version): 1.0}, pure=False, retries=0,
        )  # fmt: skip
        try:
            return await self._status_of(future, client, planned, asked)
        finally:
            future.release()

    async def _status_of(self, future: Future, client: Client, planned: PlannedRun, asked: float) -> int | None:
        looked = asked
        while future.status == "pending" and client.status == "running":
            if time.monotonic() - looked > _WORKERS_S:
                if not await self._offered_in_time(client, planned.testbed):
                    return self._away(planned, self._nobody(planned)) if client.status == "running" else None
                looked = time.monotonic()
            await asyncio.sleep(_LOOK_S)
        if future.status == "finished":
            status, took_s, cost = await future.result()
            if cost is not None:
                self.folder.note_cost(planned, replace(cost, carried_s=time.monotonic() - asked - took_s))
            return int(status)
        if future.status == "error":
            self.note(f"{planned.number}: {await future.exception()}")
            return 1
        await self._disconnect(client)
        return None

    def _nobody(self, planned: PlannedRun) -> str:
        return f"no worker with dutlab {self.version} serves testbed {planned.testbed}"

    def _away(self, planned: PlannedRun, why: str) -> int:
        """Record a failed try with its reason, with the exit status for a testbed that cannot be reached; return that status."""
        now = datetime.now().astimezone()
        self.folder.lock_of(planned)
        with opened_to_append(self.folder.said_by(planned)) as log:
            log.write(f"{why}\n".encode())
        self.folder.tried(planned, now, now, TestbedError.exit_status, "worker")
        return TestbedError.exit_status

    async def _offered_in_time(self, client: Client, testbed: str) -> bool:
        until = time.monotonic() + self.patience_s
        while not await self._is_offered(client, testbed):
            if time.monotonic() > until or client.status != "running":
                return False
            await asyncio.sleep(_WORKERS_S / 4)
        return True

    async def _is_offered(self, client: Client, testbed: str) -> bool:
        try:
            identity = await client.scheduler.identity()
        except (OSError, TimeoutError):
            await self._disconnect(client)
            return False
        is_there = False
        for address, worker in identity["workers"].items():
            for offer in filter(None, map(offered, worker["resources"])):
                is_there |= offer == (testbed, self.version)
                if offer[0] == testbed and offer[1] != self.version:
                    self._say_once(
                        f"worker {worker.get('name', address)} refused for {testbed}: it has dutlab {offer[1]}, and this is {self.version}"
                    )
        return is_there

    async def _connected(self) -> Client | None:
        """Return a connected client; None if no scheduler answers within `patience_s`."""
        from distributed import Client  # noqa: PLC0415 -- an extra, and slow to load

        address = self.folder.fleet.scheduler
        async with self._connecting:
            until = time.monotonic() + self.patience_s
            while self._client is None or self._client.status != "running":
                await self._disconnect()
                try:
                    self._client = await Client(
                        dask_address(address), asynchronous=True, security=security_for(address), timeout=_CONNECTS_S, set_as_default=False
                    )
                except (OSError, TimeoutError):
                    if time.monotonic() > until:
                        return None
                    self._say_once(f"{address}: no scheduler answers; tried again")
                    await asyncio.sleep(_WORKERS_S)
            return self._client

    async def _disconnect(self, client: Client | None = None) -> None:
        if (mine := self._client) is None or (client is not None and client is not mine):
            return
        self._client = None
        with contextlib.suppress(OSError, TimeoutError):
            await mine.close(timeout=_CONNECTS_S)

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self.note(line)
