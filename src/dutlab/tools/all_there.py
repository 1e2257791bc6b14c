"""Programs that a run needs, looked for on every host before anything is said of those that are not there."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from dutlab.errors import ToolMissing, ToolsMissing
from dutlab.hosts.programs import insist

T = TypeVar("T")


async def all_there(looks: Iterable[Awaitable[T]], missing: Sequence[ToolMissing] = ()) -> list[T]:
    """What each look found.

    Raises ToolMissing for one that found nothing, ToolsMissing for several; `missing` are those that are known before.
    """
    found, missing = list[T](), list(missing)
    for look in looks:
        try:
            found.append(await look)
        except ToolMissing as e:
            missing.append(e)
        except ToolsMissing as e:
            missing += e.missing
    insist(missing)
    return found
