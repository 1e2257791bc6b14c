"""Time limits that count the time in which this process ran.

A process that was stopped (SIGSTOP, a suspended machine, a debugger) finds all its limits over when it goes on, although what it waited for
has long answered. So a limit is counted in steps, and a step that took longer than it can take counts as one that did not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

STEP_S = 0.5
LONGEST_STEP_S = 2.0
"""More of one step is not counted: the process did not run, or its machine is so busy that a limit says nothing."""


@asynccontextmanager
async def own_timeout(limit_s: float | None) -> AsyncIterator[None]:
    """As asyncio.timeout(), for `limit_s` seconds in which this process ran. Raises TimeoutError."""
    if limit_s is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left_s, counted_to = max(0.0, limit_s), loop.time()
    async with asyncio.timeout(None) as limit:

        def step() -> None:
            nonlocal left_s, counted_to, timer
            now = loop.time()
            left_s -= min(now - counted_to, LONGEST_STEP_S)
            counted_to = now
            if left_s <= 0:
                limit.reschedule(now)
            else:
                timer = loop.call_later(min(left_s, STEP_S), step)

        timer = loop.call_later(min(left_s, STEP_S), step)
        try:
            yield
        finally:
            timer.cancel()
