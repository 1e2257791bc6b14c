"""Leases: a run holds one on every host of its testbed, so that only one run uses a machine at a time.

A lease is a file on the host, where other controllers see it too. It is created by a link, which is atomic on every system. It names the
holder, its run and the start time. It also has the number of a process on the host that ends with the holder's connection, so another run
can distinguish a measuring holder from a dead one. After a lost connection the lease is taken again before any other command. If another
run has taken the machine over by then, that run keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import platform
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from dutlab.ending import ended_by, run_to_end
from dutlab.errors import HostError, TestbedError
from dutlab.hosts.host import Host, Process, Spawn, renewing_connections
from dutlab.hosts.own_time import own_timeout
from dutlab.printable import printable
from dutlab.systems.posix_lease import LEAF, ROOTS, SHARED

_ENDS_S, _ANSWERS_S, _LOOK_S = 10.0, 30.0, 0.1
_LONGEST = 200


def lease_files(network_namespace: str) -> list[Path]:
    """Return the possible paths of a lease of this machine. `network_namespace` is its number, as in readlink(2) of /proc/self/ns/net."""
    return [Path(folder, f"{LEAF}{network_namespace}") for folder in (ROOTS, SHARED)]


@dataclass(frozen=True)
class Holder:
    """Holder of a lease. `run` is the folder of the run on the holder's controller. `token` identifies the run, also after a move."""

    who: str
    run: str
    since: str
    token: str = ""

    @classmethod
    def this_process(cls, run: Path, now: datetime, token: str = "") -> Self:
        """Return the holder for this process and the run in the folder `run`."""
        who = f"{_user()}@{platform.node()} (process {os.getpid()})"
        return cls(who, str(run.resolve()), now.isoformat(timespec="seconds"), token)

    def is_of_same_run(self, other: Holder) -> bool:
        """Return True if both are processes of one run, even if its folder was moved."""
        return self.token == other.token if self.token and other.token else self.run == other.run

    @classmethod
    def read(cls, text: bytes) -> Self | None:
        """Read a lease file; None if it is invalid. Any user may have written it, so values are cut and terminal controls removed."""
        try:
            document = json.loads(text)
            return cls(**{str(name): printable(str(value)[:_LONGEST]) for name, value in document.items()})
        except (ValueError, TypeError, AttributeError, RecursionError):
            return None


class InUse(TestbedError):
    """Error for a machine that another run uses. `holder` is None when the lease does not name it."""

    def __init__(self, host: str, holder: Holder | None, *, alive: bool) -> None:
        user = f"{holder.who} for {holder.run} since {holder.since}" if holder else "an unknown run"
        if alive:
            what, remedy = f"{host}: in use by {user}", "wait for it, or end it there with Ctrl-C, which restores the DUT"
        else:
            what = f"{host}: left in use by {user}, which has ended"
            remedy = (
                f"`dutlab undo {holder.run if holder else 'RUN'}` there restores and frees it; `dutlab run --take-over` uses it unrestored"
            )
        super().__init__(what, remedy=remedy)
        self.host, self.holder, self.alive = host, holder, alive


class _Lease:
    """Lease of one host: taken by take(), again by renew() over a new connection, and given back by give_back()."""

    def __init__(self, host: Host, holder: Holder, *, take_over: bool) -> None:
        self.host, self._holder, self._take_over = host, holder, take_over
        self._words = json.dumps(asdict(holder)).encode()
        self._process: Process | None = None

    async def take(self) -> bool:
        """Take the lease. Return False if the holder already has the machine, under another role. Raises InUse, HostError."""
        self._process = await self._taken(self.host.spawn, take_over=self._take_over)
        return self._process is not None

    async def renew(self, spawn: Spawn) -> None:
        """Take the lease again over a new connection, by `spawn`, before any other command runs on it. Raises InUse, HostError."""
        deadline = time.monotonic() + _ENDS_S
        while (process := await self._taken(spawn, take_over=False)) is None:  # the previous one was killed, and has not ended yet
            if time.monotonic() > deadline:
                raise HostError("its previous lease does not end", host=self.host.name, remedy="end `sh -c … dutlab-lease` there")
            await asyncio.sleep(_LOOK_S)
        self._process = process

    async def give_back(self) -> bool:
        """Give the lease back. Return False if it still exists, since the host cannot be reached."""
        try:
            if self._process is not None and not await _end(self._process):
                # Its process was killed, so the file still exists. A new connection takes the lease again (renew), or it is taken here.
                self._process = await self._taken(self.host.spawn, take_over=False) or self._process
                return await _end(self._process)
        except InUse:
            return True  # another run has taken it over
        except HostError:
            return False
        return True

    async def _taken(self, spawn: Spawn, *, take_over: bool) -> Process | None:
        process, state, content = await self._try(spawn, "")
        other = Holder.read(content)
        if state == "left" and (take_over or (other is not None and other.is_of_same_run(self._holder))):
            await process.end()
            process, state, content = await self._try(spawn, "over")
            other = Holder.read(content)
        if state == "ours":
            return process
        done = await process.end()
        if state == "held" and content.strip() == self._words:
            return None
        if state in {"held", "left"}:
            raise InUse(self.host.name, other, alive=state == "held")
        if state == "odd":
            what = f"cannot take the lease: {printable(content.decode(errors='replace').strip())[:_LONGEST]} is not a file"
            raise HostError(what, host=self.host.name, remedy="it is not dutlab's; inspect it, then remove it")
        remedy = f"check that {SHARED} can be written"
        raise HostError(f"cannot take the lease: {printable(done.complaint)}", host=self.host.name, remedy=remedy)

    async def _try(self, spawn: Spawn, over: str) -> tuple[Process, str, bytes]:
        starting = asyncio.ensure_future(spawn(self.host.system.shell.lease(self._words.decode(), over)))
        try:
            process = await asyncio.shield(starting)  # a cancelled start would kill the process, which may have made its file by then
            return process, *await self._answer(process)
        except asyncio.CancelledError:
            await run_to_end(_end_after_start(starting))
            raise

    async def _answer(self, process: Process) -> tuple[str, bytes]:
        try:
            async with own_timeout(_ANSWERS_S):
                return (await process.readline()).decode(errors="replace").strip(), await process.readline()
        except TimeoutError:
            await process.end()
            what = f"cannot take the lease: no answer within {_ANSWERS_S:g} s"
            raise HostError(what, host=self.host.name, remedy=f"look at {SHARED}/{LEAF}*") from None


async def _end_after_start(starting: asyncio.Future[Process]) -> None:
    with contextlib.suppress(HostError, TimeoutError):
        async with own_timeout(_ENDS_S):
            process = await starting
        await _end(process)


async def _end(process: Process) -> bool:
    """End a lease's process. Return True if it ended with status 0, and so removed its file."""
    try:
        await process.close_stdin()
        return (await process.wait(_ENDS_S)).status == 0
    except HostError:
        return False


@asynccontextmanager
async def leased(hosts: Mapping[str, Host], holder: Holder, *, take_over: bool = False) -> AsyncIterator[list[str]]:
    """Hold a lease on every host. The lease of a dead holder is taken if it was for the same run, or with `take_over`.

    Yields a list. After the context it has the hosts whose leases could not be given back. Raises InUse, HostError.
    """
    leases: list[_Lease] = []
    left: list[str] = []

    async def given_back() -> None:
        left.extend([lease.host.name for lease in reversed(leases) if not await lease.give_back()])

    async with contextlib.AsyncExitStack() as renewing:
        await renewing.enter_async_context(ended_by(given_back))
        for name in sorted(hosts):  # always in the same order, so that one of two runs that start together gets all hosts
            lease = _Lease(hosts[name], holder, take_over=take_over)
            if await lease.take():
                leases.append(lease)
                renewing.enter_context(renewing_connections(hosts[name], lease.renew))
        yield left


def _user() -> str:
    """Return the name of this process's user, or the number if the user has no name (in a container)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
