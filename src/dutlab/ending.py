"""Clean-up that a cancellation (Ctrl-C, the end of a budget) cannot interrupt: CancelledError is raised once everything is restored.

A signal or a time limit may cancel a task that is already ending: because it is done, failed, or was cancelled before. Every `finally`
that awaits something uses one of these functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Work = Coroutine[Any, Any, T]


async def run_to_end(work: Work[T]) -> T:
    """Return the result of `work`. A cancellation during `work` is raised after its end, unless `work` raises an error itself."""
    task, cancelled = await _whole(work)
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


@asynccontextmanager
async def ended_by(work: Callable[[], Work[object]]) -> AsyncIterator[None]:
    """Run `work` after the context, also after an error, which is then the cause of a CancelledError that arrives meanwhile."""
    try:
        yield
    except BaseException as error:
        task, cancelled = await _whole(work())
        task.result()
        if cancelled is None or isinstance(error, asyncio.CancelledError):
            raise
        raise cancelled from error
    else:
        await run_to_end(work())


class Closable(Protocol):
    """A resource with a `close` method: a host, an engine, a generator."""

    async def close(self) -> None:
        """Stop everything that it has started."""


@asynccontextmanager
async def closing(*things: Closable) -> AsyncIterator[None]:
    """Close each of `things` after the context, in this order. If one cannot be closed, the others still are."""
    async with ended_by(lambda: _close(things)):
        yield


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel `tasks` and wait until each has ended; drop their results."""
    for task in tasks:
        task.cancel()
    await run_to_end(_over(tasks))


async def _whole(work: Work[T]) -> tuple[asyncio.Task[T], asyncio.CancelledError | None]:
    """Run `work` to its end. Return its task and the last cancellation that arrived meanwhile."""
    task, came = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            came = error
    return task, came


async def _close(things: Sequence[Closable]) -> None:
    async with AsyncExitStack() as stack:
        for thing in reversed(things):
            stack.push_async_callback(thing.close)


async def _over(tasks: Sequence[asyncio.Future[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
