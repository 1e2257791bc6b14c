"""Time limits that count only time in which this process ran.

When a stopped process continues (after SIGSTOP, a suspended machine, a debugger), all its limits have passed, even for answers that have
arrived. So a limit is counted in short steps, and a step counts for LONGEST_STEP_S at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

STEP_S = 0.5
LONGEST_STEP_S = 2.0
"""Largest time that one step counts for. In a longer step the process did not run, or its machine is too busy for the limit to be valid."""


@asynccontextmanager
async def own_timeout(limit_s: float | None) -> AsyncIterator[None]:
    """Limit a block as asyncio.timeout(), but to `limit_s` seconds in which this process ran. Raises TimeoutError."""
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
    """Countdown of a limit, which ends the block at zero."""

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
