"""Clean-up that nothing cuts short: who is cancelled meanwhile (Ctrl-C, the end of a budget) learns of it once everything is put back.

A task is cancelled when a signal comes or its time is over, and that may be while it ends already: by itself, by an error, or since it was
cancelled before. Every `finally` that awaits something goes through one of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Work = Coroutine[Any, Any, T]


async def to_its_end(work: Work[T]) -> T:
    """Return the result of `work`. A cancellation meanwhile is raised after it, unless `work` raises an error itself."""
    task, cancelled = await _whole(work)
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


@asynccontextmanager
async def ended_by(work: Callable[[], Work[object]]) -> AsyncIterator[None]:
    """`work` follows the context, however that ends. An error that it ended with is the cause of a CancelledError that came meanwhile."""
    try:
        yield
    except BaseException as error:
        task, cancelled = await _whole(work())
        task.result()
        if cancelled is None or isinstance(error, asyncio.CancelledError):
            raise
        raise cancelled from error
    else:
        await to_its_end(work())


class Closable(Protocol):
    """A host, an engine, a generator."""

    async def close(self) -> None:
        """Ends what it has begun."""


@asynccontextmanager
async def closing(*things: Closable) -> AsyncIterator[None]:
    """Closes each after the context, in this order; one that cannot be closed keeps no other open."""
    async with ended_by(lambda: _close(things)):
        yield


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel them and wait until each has ended; drop their results."""
    for task in tasks:
        task.cancel()
    await to_its_end(_over(tasks))


async def _whole(work: Work[T]) -> tuple[asyncio.Task[T], asyncio.CancelledError | None]:
    """The task that has carried `work` out, and the last wish to end that came meanwhile."""
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
