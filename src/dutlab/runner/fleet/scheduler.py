"""Scheduler of a fleet: Dask's scheduler, with TLS even on loopback."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from dutlab.runner.fleet.security import dask_address, security_for


async def schedule(address: str, dashboard_port: int | None, note: Callable[[str], None]) -> None:
    """Listen at `address` until cancelled. The dashboard is only for browsers on this machine. Raises InputError, OSError."""
    import dask  # noqa: PLC0415 -- an extra
    from distributed import Scheduler  # noqa: PLC0415 -- an extra, and slow to load

    security, parts = security_for(address), urlsplit(dask_address(address))
    routes = dask.config.get("distributed.scheduler.http.routes") if dashboard_port is not None else []
    with dask.config.set({"distributed.scheduler.http.routes": routes}):
        async with Scheduler(
            host=parts.hostname, port=parts.port, protocol=parts.scheme, security=security, dashboard=dashboard_port is not None,
            dashboard_address=f"127.0.0.1:{dashboard_port or 0}",
        ) as scheduler:  # fmt: skip
            note(f"{scheduler.address}: ready for workers")
            if dashboard_port is not None:
                note(f"http://127.0.0.1:{scheduler.http_server.port}/status: dashboard")
            await scheduler.finished()
