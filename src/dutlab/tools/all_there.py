"""Programs that a run needs, looked for on every host before anything is said of those that are not there."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TypeVar

from dutlab.errors import ToolMissing, ToolsMissing

T = TypeVar("T")


async def all_there(looks: Iterable[Awaitable[T]]) -> list[T]:
    """What each look found. Raises ToolMissing for the one that found nothing, ToolsMissing for several."""
    found, missing = list[T](), list[ToolMissing]()
    for look in looks:
        try:
            found.append(await look)
        except ToolMissing as e:
            missing.append(e)
        except ToolsMissing as e:
            missing += e.missing
    if len(missing) > 1:
        raise ToolsMissing(missing)
    if missing:
        raise missing[0]
    return found
