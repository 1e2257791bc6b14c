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
    """Limit as asyncio.timeout(), for `limit_s` seconds in which this process ran. Raises TimeoutError."""
    if limit_s is None:
        yield
        return
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        steps = _Steps(loop, limit, max(0.0, limit_s))
        try:
            yield
        finally:
            steps.timer.cancel()


class _Steps:
    """Counts what is left of a limit, and ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: asyncio.Timeout, left_s: float) -> None:
        self._loop, self._limit, self._left_s, self._counted_to = loop, limit, left_s, loop.time()
        self.timer = self._next()

    def _next(self) -> asyncio.TimerHandle:
        return self._loop.call_later(min(self._left_s, STEP_S), self._step)

    def _step(self) -> None:
        now = self._loop.time()
        self._left_s -= min(now - self._counted_to, LONGEST_STEP_S)
        self._counted_to = now
        if self._left_s <= 0:
            self._limit.reschedule(now)
        else:
            self.timer = self._next()
