"""Worker at testbeds: carries out what the scheduler has for them, and finds a scheduler again that went away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from dutlab.runner.campaign_folder import CampaignFolder
from dutlab.runner.fleet.carrier import begin_place, cost_since
from dutlab.runner.fleet.cost import FleetCost, on_this_clock
from dutlab.runner.fleet.security import dask_address, security_for
from dutlab.store.seal import state_folder

_AGAIN_S = 1.0
_AT_WORK = set[asyncio.subprocess.Process]()
"""Processes of this worker; they continue when it is killed, and end in order when it is ended."""


def resource(testbed: str, version: str) -> str:
    """Return the resource that a worker offers and a place asks for. A worker with another version of dutlab offers another."""
    return f"testbed:{testbed}@{version}"


def offered(name: str) -> tuple[str, str] | None:
    """(testbed, version) of such a name."""
    kind, _, rest = name.partition(":")
    testbed, _, version = rest.rpartition("@")
    return (testbed, version) if kind == "testbed" and testbed else None


async def carry_out_here(campaign: str, number: int) -> tuple[int, float, FleetCost | None]:
    """Carry out a place in a worker of Dask: the process of the place does it all. The process stays where the worker loses its scheduler.

    Returns its exit status, the seconds that this took, and what it added to the run.
    """
    handed_s = on_this_clock()
    folder = CampaignFolder(Path(campaign))
    planned = folder.planned_run(number)
    process = await begin_place(folder, planned)
    _AT_WORK.add(process)
    try:
        status = await process.wait()
        cost = cost_since(folder, planned, handed_s)
        return status, on_this_clock() - handed_s, cost
    finally:
        if process.returncode is not None:
            _AT_WORK.discard(process)


async def work(address: str, testbeds: Sequence[str], version: str, note: Callable[[str], None]) -> None:
    """Until it is cancelled, whatever becomes of the scheduler. Raises InputError."""
    import dask  # noqa: PLC0415 -- an extra
    from distributed import Worker  # noqa: PLC0415 -- an extra, and slow to load

    security = security_for(address)
    host = "127.0.0.1" if address.startswith("tcp://") else None
    was_away = False
    scratch = state_folder() / "dutlab" / "worker"  # Dask removes from it what workers left that were killed
    with dask.config.set({"distributed.worker.http.routes": []}):
        try:
            while True:
                try:
                    async with Worker(
                        dask_address(address), protocol="tls", security=security,
                        nthreads=len(testbeds), resources={resource(name, version): 1.0 for name in testbeds}, host=host,
                        name=f"{platform.node()}-{os.getpid()}", dashboard=False, dashboard_address="127.0.0.1:0",
                        local_directory=str(scratch), memory_limit=None, death_timeout=30,
                    ) as worker:  # fmt: skip
                        note(f"{worker.address}: works for {address} on {', '.join(testbeds)}")
                        was_away = False
                        await worker.finished()
                except (OSError, TimeoutError, RuntimeError) as error:
                    if not was_away:
                        note(f"{address}: {error or type(error).__name__}; tried again")
                        was_away = True
                await asyncio.sleep(_AGAIN_S)
        finally:
            for process in _AT_WORK:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGINT)
            for process in list(_AT_WORK):
                await process.wait()
