"""One process's work on one planned run of a campaign: take the lease on its testbed, start or resume the run, give the lease back.

The lease is renewed while the run's process lives. If renewal fails, the run is ended properly after half of the lease's time and killed
before its end, by a monotonic clock. If this process dies, the kernel kills the run too (setpriv --pdeathsig). The next
process for the place undoes the run's changes, and its fence ends a run that was only suspended.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import shutil
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from dutlab.errors import DutlabError, InputError, TestbedError
from dutlab.labs.state import locked
from dutlab.runner.campaign_folder import CampaignFolder
from dutlab.runner.fence import Fence, facts_of, newest_token
from dutlab.runner.fleet.cost import RunClock, on_this_clock
from dutlab.runner.fleet.leases import BedLease, LeaseStore
from dutlab.spec.fleet import Fleet
from dutlab.spec.planned_run import PlannedRun
from dutlab.store.fleet_database import FLEET_DATABASE, FleetDatabaseAway
from dutlab.store.write import opened_to_append

T = TypeVar("T")
_LOOK_S = 0.2
_RENEWALS = 6
"""Number of renewals within the time of a lease."""
_END_AT, _KILL_AT = 0.5, 0.9
"""Shares of a lease's time without a renewal, after which the run is ended and killed."""


@dataclass(frozen=True)
class PlaceWork:
    """Work of one process for one planned run."""

    folder: CampaignFolder
    planned: PlannedRun
    fleet: Fleet
    store: LeaseStore
    version: str
    """Version of dutlab of this process."""
    clock: Callable[[], datetime] = lambda: datetime.now().astimezone()
    _waits: list[float] = field(default_factory=list, init=False)
    """Waits for other users, in seconds."""

    async def carry_out(self) -> int:
        """Carry out the planned run, and return the exit status of its process.

        Raises InputError, StoreError, TestbedError; such an error also counts as a try.
        """
        began = self.clock()
        try:
            return await self._carried_out()
        except DutlabError as error:
            self.folder.tried(self.planned, began, self.clock(), error.exit_status, "place")
            raise

    async def _carried_out(self) -> int:
        self.folder.insist_on_its_files(self.version)
        await self._insist_on_one_store()
        async with self._alone() as lock:
            if lock is None:
                return self._status_now()
            async with self._leased() as lease:
                if lease is None:
                    return self._status_now()
                if self.folder.settle(self.planned) is not None:  # the run had finished before its process was killed
                    return 0
                fence = Fence(self.folder.fences(self.planned), lease.token)
                self._insist_on_reach()
                fence.put_up({"machine": this_machine(), "host": platform.node(), "since": self.clock().isoformat(timespec="seconds")})
                status = await self._run(lock, lease, fence)
                is_settled = not fence.is_stale() and self.folder.settle(self.planned) is not None
            if is_settled:  # the testbed is already free for others
                await self._keep_run()
            return status

    def _status_now(self) -> int:
        """Return the exit status for a planned run on which another process worked."""
        return 0 if self.folder.done(self.planned) is not None else 128 + signal.SIGINT

    def _is_over(self) -> bool:
        return self.folder.is_end_requested() or self.folder.done(self.planned) is not None

    async def _asked(self, question: Callable[[], T]) -> T:
        """Return the store's answer; ask again while it restarts. Raises FleetDatabaseAway after the time of a lease."""
        until = on_this_clock() + self.fleet.lease
        while True:
            try:
                return await asyncio.to_thread(question)
            except FleetDatabaseAway:
                if on_this_clock() > until:
                    raise
            await asyncio.sleep(_LOOK_S)

    async def _insist_on_one_store(self) -> None:
        if self.fleet.is_of_many and self.store.database.is_for_one_machine:
            raise InputError(
                "workers of several machines need leases in one PostgreSQL", remedy=f"set {FLEET_DATABASE}=postgresql://USER@HOST/DATABASE"
            )
        store = await self._asked(self.store.identity)
        if (first := self.folder.first_store(store)) != store:
            raise InputError(
                f"{self.folder.path}: other workers have their leases in another store ({first}, and here {store})",
                remedy=f"set {FLEET_DATABASE} to the same everywhere",
            )

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[int | None]:
        """Hold the place's lock, which the run's process also gets, during the context; None if nothing is left to do."""
        lock = os.open(self.folder.lock_of(self.planned), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        try:
            began = on_this_clock()
            while not locked(lock):
                if self._is_over():
                    yield None
                    return
                await asyncio.sleep(_LOOK_S)
            self._waits.append(on_this_clock() - began)
            yield None if self._is_over() else lock
        finally:
            os.close(lock)

    @asynccontextmanager
    async def _leased(self) -> AsyncIterator[BedLease | None]:
        """Wait until the testbed is free, and hold its lease during the context; None if nothing is left to do by then."""
        holder = f"{platform.node()} (process {os.getpid()}, {uuid.uuid4()})"
        refused_s: float | None = None
        while (lease := await self._asked(lambda: self.store.take(self.planned.testbed, holder, self.fleet.lease))) is None:
            refused_s = refused_s or on_this_clock()
            await asyncio.sleep(_LOOK_S)
            if self._is_over():
                yield None
                return
        self._waits.append(0.0 if refused_s is None else on_this_clock() - refused_s)
        try:
            yield None if self._is_over() else lease
        finally:
            await asyncio.shield(asyncio.ensure_future(self._give_back(lease)))

    async def _give_back(self, lease: BedLease) -> None:
        """Give the lease back. If the database cannot be reached, the lease expires."""
        with contextlib.suppress(FleetDatabaseAway):
            await self._asked(lambda: self.store.give_back(lease))

    def _insist_on_reach(self) -> None:
        """Raise TestbedError if a run was cut on another machine and its changes there cannot be undone from here."""
        last = newest_token(self.folder.fences(self.planned))
        cut = self.folder.cut_run(self.planned)
        if last is None or cut is None:
            return
        from dutlab.runner import recovery  # noqa: PLC0415 -- takes half a second, and only a cut run needs it
        from dutlab.store.run_folder import RunFolder  # noqa: PLC0415 -- as above

        facts = facts_of(self.folder.fences(self.planned), last)
        if facts["machine"] == this_machine():
            return
        testbed = recovery.testbed_in(RunFolder.open(cut))
        if testbed.lab is not None or any(host.local for host in testbed.hosts.values()):
            raise TestbedError(
                f"{cut.name}: was cut on {facts['host']}, and part of {self.planned.testbed} is that machine",
                remedy=f"start `dutlab campaign worker --testbed {self.planned.testbed}` there again: it continues the run",
            )

    async def _keep_run(self) -> None:
        """Store the finished run. A failure is written to the output of the place, and tried again later."""
        from dutlab.runner.fleet.keeping import RunKeeping  # noqa: PLC0415 -- takes a quarter of a second, which would delay the run

        if (why := await asyncio.to_thread(RunKeeping(self.folder, self.store.database).keep, self.planned)) is not None:
            with opened_to_append(self.folder.said_by(self.planned)) as log:
                log.write(f"{why}\n".encode())

    async def _run(self, lock: int, lease: BedLease, fence: Fence) -> int:
        own = self.folder.own_runs(self.planned)
        cut = self.folder.cut_run(self.planned)
        # A user who can write to the campaign's folder can also change its experiments, so its runs are as trusted as these.
        argv = ["resume", str(cut), "--trust"] if cut else ["run", *self.planned.arguments, "--runs", str(own), "--unattended"]
        tie = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        began, began_s = self.clock(), on_this_clock()
        with opened_to_append(self.folder.said_by(self.planned)) as log:
            process = await asyncio.create_subprocess_exec(
                *tie, sys.executable, "-m", "dutlab", *argv, "--yes",
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=(lock,),
                env={**os.environ, **fence.environment},
            )  # fmt: skip
            keeping = asyncio.ensure_future(self._keep(lease, process))
            try:
                status = await ended_in_order(process)
                ended_s = on_this_clock()
            finally:
                keeping.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await keeping
        self.folder.tried(self.planned, began, self.clock(), status, argv[0], clock=RunClock(began_s, ended_s, sum(self._waits)))
        return status

    async def _keep(self, lease: BedLease, process: asyncio.subprocess.Process) -> None:
        """Renew the lease. End the run if the lease is lost or an end is asked for, even while the database does not answer."""
        is_ending, renewal = False, _Renewal(self.store, lease, self.fleet.lease)
        try:
            while True:
                if self.folder.is_end_requested() and not is_ending:
                    is_ending = True
                    _tell(process, signal.SIGINT)
                if renewal.is_lost() or renewal.without_s > self.fleet.lease * _KILL_AT:
                    _tell(process, signal.SIGKILL)
                    return
                if renewal.without_s > self.fleet.lease * _END_AT and not is_ending:
                    is_ending = True
                    _tell(process, signal.SIGINT)
                await asyncio.sleep(_LOOK_S)
        finally:
            renewal.end()


@dataclass
class _Renewal:
    """Repeated renewal of a lease, without waiting for the database."""

    store: LeaseStore
    lease: BedLease
    for_s: float
    _good_since: float = field(default_factory=on_this_clock, init=False)
    _asked: float = field(default=0.0, init=False)
    _answer: asyncio.Future[bool] | None = field(default=None, init=False)

    @property
    def without_s(self) -> float:
        """Seconds since the request of the last granted renewal."""
        return on_this_clock() - self._good_since

    def is_lost(self) -> bool:
        """Return whether the lease has ended by the last answer; request the next renewal when it is due. Raises the store's errors."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            if isinstance(answer.exception(), FleetDatabaseAway):
                self._asked = 0.0
            elif not answer.result():
                return True
            else:
                self._good_since = self._asked
        if self._answer is None and on_this_clock() >= self._asked + self.for_s / _RENEWALS:
            self._asked = on_this_clock()
            self._answer = asyncio.ensure_future(asyncio.to_thread(self.store.renew, self.lease, self.for_s))
        return False

    def end(self) -> None:
        """Drop the pending answer."""
        if self._answer is not None:
            self._answer.cancel()


async def ended_in_order(process: asyncio.subprocess.Process) -> int:
    """Wait for a process, and return its exit status. If this task is cancelled, interrupt the process and wait for its end."""
    try:
        return await process.wait()
    except asyncio.CancelledError:
        _tell(process, signal.SIGINT)
        await asyncio.shield(process.wait())
        raise


def this_machine() -> str:
    """Return a unique identity of this machine that survives boots: a hash of machine-id(5), which itself must not be published."""
    try:
        identity = Path("/etc/machine-id").read_bytes().strip()
    except OSError:
        identity = b""
    return hashlib.sha256(b"dutlab " + (identity or platform.node().encode())).hexdigest()[:16]


def _tell(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
