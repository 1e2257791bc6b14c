"""Worker for testbeds: carries out planned runs that the scheduler sends, and reconnects to a lost scheduler."""

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
"""Processes of this worker. They continue if it is killed, and end properly if it is ended."""


def resource(testbed: str, version: str) -> str:
    """Return the name of the Dask resource for a testbed. It contains the version of dutlab, which must match."""
    return f"testbed:{testbed}@{version}"


def offered(name: str) -> tuple[str, str] | None:
    """Return (testbed, version) of a resource's name; None for another name."""
    kind, _, rest = name.partition(":")
    testbed, _, version = rest.rpartition("@")
    return (testbed, version) if kind == "testbed" and testbed else None


async def carry_out_here(campaign: str, number: int) -> tuple[int, float, FleetCost | None]:
    """Carry out a planned run in a Dask worker, by a process that continues if the worker loses its scheduler.

    Return the exit status of the process, the seconds that it took, and the cost added to the run.
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
    """Work for the scheduler at `address` until cancelled; reconnect if it is lost. Raises InputError."""
    import dask  # noqa: PLC0415 -- an extra
    from distributed import Worker  # noqa: PLC0415 -- an extra, and slow to load

    security = security_for(address)
    host = "127.0.0.1" if address.startswith("tcp://") else None
    was_away = False
    scratch = state_folder() / "dutlab" / "worker"  # Dask removes files of killed workers from it
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
