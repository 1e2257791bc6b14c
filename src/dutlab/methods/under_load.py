"""Does something to the DUT in the middle of a load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from dutlab.errors import MeasurementError
from dutlab.methods.ports import Generator, Offer, Outcome
from dutlab.units import Seconds

_T = TypeVar("_T")
Sleep = Callable[[float], Awaitable[None]]


async def under_load(
    generator: Generator, offer: Offer, before: Seconds, act: Callable[[], Awaitable[_T]], sleep: Sleep = asyncio.sleep
) -> tuple[Outcome, _T]:
    """Offers the load and does `act` once so much of it is over; returns what became of the load, and of the act.

    Raises what either raises, after ending the other; MeasurementError when the load was over before it was known to have begun.
    """
    begun = asyncio.Event()
    offering = asyncio.ensure_future(generator.offer(replace(offer, begun=begun.set, once=True)))
    beginning = asyncio.ensure_future(begun.wait())
    try:
        await asyncio.wait({offering, beginning}, return_when=asyncio.FIRST_COMPLETED)
        if not begun.is_set():
            offering.result()
            raise MeasurementError("the load was over before the generator told that it had begun", remedy="make it longer")
        await sleep(before)
        done = await act()
        return await offering, done
    finally:
        for task in (offering, beginning):
            task.cancel()
        await asyncio.gather(offering, beginning, return_exceptions=True)
