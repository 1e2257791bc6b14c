"""Several things at once on several hosts, none left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def together(doings: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """What each comes to, in their order. When one fails, or all are cancelled, the others are cancelled and waited for."""
    tasks = [asyncio.create_task(doing) for doing in doings]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
