"""Connections of `dutlab serve`: how many there may be, of one address too, and how long a request may take to arrive.

A browser sends the head of a request at once. So a connection whose head is not whole is closed after a while, and the oldest of them
earlier, where another needs its place: whoever opens a thousand of them hinders only these.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dutlab.bounds import (
    CONNECTIONS,
    CONNECTIONS_OF_ADDRESS,
    DESCRIPTORS_KEPT,
    REQUEST_BODY_S,
    REQUEST_HEAD_S,
)

BACKLOG = 128
"""asyncio tries so many accept(2) at a time, also after one that failed for want of descriptors."""
_SAME_FAULT_S = 60.0


class Crowd:
    """All connections of a server."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._of = Counter[str]()
        self._unfinished: dict[BoundedProtocol, str] = {}
        """Those whose request has no whole head, the oldest first."""

    def admit(self, address: str) -> bool:
        """Return whether it may stay; another with an unfinished head may have to go for it."""
        if self._of.total() >= self.most and not self._give_up(next(iter(self._unfinished), None)):
            return False
        if self._of[address] >= CONNECTIONS_OF_ADDRESS and not self._give_up(self._oldest(address)):
            return False
        self._of[address] += 1
        return True

    def awaits_head(self, connection: BoundedProtocol, address: str) -> None:
        """A head is awaited from now on."""
        self._unfinished[connection] = address

    def has_head(self, connection: BoundedProtocol) -> None:
        """Its head is whole."""
        self._unfinished.pop(connection, None)

    def left(self, connection: BoundedProtocol, address: str) -> None:
        """It was admitted, and is closed."""
        self.has_head(connection)
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]

    def _oldest(self, address: str) -> BoundedProtocol | None:
        return next((connection for connection, of in self._unfinished.items() if of == address), None)

    def _give_up(self, connection: BoundedProtocol | None) -> bool:
        if connection is None:
            return False
        connection.give_up()
        return True


class BoundedProtocol(H11Protocol):
    """A connection that is closed where a head or a body does not come in time."""

    crowd: Crowd

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - those of uvicorn
        super().__init__(*args, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._address, self._is_admitted = "", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Closes it at once where there are too many."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._address = self.client[0] if self.client else ""
        self._is_admitted = self.crowd.admit(self._address)
        if self._is_admitted:
            self._await_head()
        else:
            self.give_up()

    def data_received(self, data: bytes) -> None:
        """Read data, as uvicorn does; the next expected part gets its time limit."""
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self.crowd.has_head(self)
            self._stop_timer()
            if self.cycle.more_body:
                self._timer = self.loop.call_later(REQUEST_BODY_S, self.give_up)
        elif self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is no longer counted."""
        self._stop_timer()
        if self._is_admitted:
            self._is_admitted = False
            self.crowd.left(self, self._address)
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Closes it, whatever is under way. It is not counted from now on."""
        self._stop_timer()
        if self._is_admitted:
            self._is_admitted = False
            self.crowd.left(self, self._address)
        self.transport.abort()

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(REQUEST_HEAD_S, self.give_up)
        self.crowd.awaits_head(self, self._address)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BoundedServer(uvicorn.Server):
    """A server whose event loop says a fault that repeats once a minute: a thousand a second filled the disk."""

    async def startup(self, sockets: Any = None) -> None:  # noqa: ANN401 - as uvicorn
        """Start, as uvicorn does."""
        loop, time_by_kind = asyncio.get_running_loop(), dict[str, float]()

        def tell(of: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            kind = str(context.get("message", ""))[:200]
            if of.time() - time_by_kind.get(kind, -_SAME_FAULT_S) >= _SAME_FAULT_S:
                time_by_kind[kind] = of.time()
                of.default_exception_handler(context)

        loop.set_exception_handler(tell)
        await super().startup(sockets)


def capacity() -> int:
    """Return the number of possible connections, after raising the limit of descriptors as far as this user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + DESCRIPTORS_KEPT
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(CONNECTIONS, soft - DESCRIPTORS_KEPT))


def protocol_for(crowd: Crowd) -> type[BoundedProtocol]:
    """The protocol of a server with this crowd."""
    return cast("type[BoundedProtocol]", type("ServedConnection", (BoundedProtocol,), {"crowd": crowd}))
