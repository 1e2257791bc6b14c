"""Limits of `dutlab serve`: connections in total and per address, and time for a request to arrive.

A browser sends the head of a request at once. So a connection without a complete head is closed after a time limit. The oldest of them
is closed earlier if a new connection needs its place. So a client that opens a thousand connections blocks only its own.
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
"""Backlog of the socket. asyncio calls accept(2) this many times in a row, even after one fails for lack of descriptors."""
_SAME_FAULT_S = 60.0


class ConnectionSet:
    """Set of all connections of a server."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._of = Counter[str]()
        self._unfinished: dict[BoundedProtocol, str] = {}
        """Connections without a complete head → address, oldest first."""

    def admit(self, address: str) -> bool:
        """Return whether a new connection of `address` may stay. Another one without a complete head may be closed for it."""
        if self._of.total() >= self.most and not self._give_up(next(iter(self._unfinished), None)):
            return False
        if self._of[address] >= CONNECTIONS_OF_ADDRESS and not self._give_up(self._oldest(address)):
            return False
        self._of[address] += 1
        return True

    def awaits_head(self, connection: BoundedProtocol, address: str) -> None:
        """Record that the connection waits for a head."""
        self._unfinished[connection] = address

    def has_head(self, connection: BoundedProtocol) -> None:
        """Record that the head of the connection is complete."""
        self._unfinished.pop(connection, None)

    def left(self, connection: BoundedProtocol, address: str) -> None:
        """Stop counting an admitted connection that is closed."""
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
    """Connection that is closed if a head or a body does not arrive in time."""

    crowd: ConnectionSet

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 - those of uvicorn
        super().__init__(*args, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._address, self._is_admitted = "", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or close it at once if there are too many."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._address = self.client[0] if self.client else ""
        self._is_admitted = self.crowd.admit(self._address)
        if self._is_admitted:
            self._await_head()
        else:
            self.give_up()

    def data_received(self, data: bytes) -> None:
        """Read data as uvicorn does, and set the time limit of the next expected part."""
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
        """Stop counting the connection."""
        self._leave()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Close the connection, also during a request, and stop counting it."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        self._stop_timer()
        if self._is_admitted:
            self._is_admitted = False
            self.crowd.left(self, self._address)

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(REQUEST_HEAD_S, self.give_up)
        self.crowd.awaits_head(self, self._address)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class BoundedServer(uvicorn.Server):
    """Server that logs a repeated fault of its event loop only once a minute: a thousand a second would fill the disk."""

    async def startup(self, sockets: Any = None) -> None:  # noqa: ANN401 - as uvicorn
        """Start as uvicorn does, with that limit on the log."""
        loop, time_by_kind = asyncio.get_running_loop(), dict[str, float]()

        def tell(of: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            kind = str(context.get("message", ""))[:200]
            if of.time() - time_by_kind.get(kind, -_SAME_FAULT_S) >= _SAME_FAULT_S:
                time_by_kind[kind] = of.time()
                of.default_exception_handler(context)

        loop.set_exception_handler(tell)
        await super().startup(sockets)


def capacity() -> int:
    """Raise the limit of descriptors as far as this user may, and return the number of possible connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + DESCRIPTORS_KEPT
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(CONNECTIONS, soft - DESCRIPTORS_KEPT))


def protocol_for(crowd: ConnectionSet) -> type[BoundedProtocol]:
    """Return the protocol class of a server with this crowd."""
    return cast("type[BoundedProtocol]", type("ServedConnection", (BoundedProtocol,), {"crowd": crowd}))
