"""Conversation with one `dutlab-engine agent`: JSON lines on its stdin and stdout, as in docs/reference/engine-protocol.md."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from typing import Any, TypeVar

from dutlab.ending import cancelled, run_to_end
from dutlab.errors import DutlabError, HostError, PortRefused, ToolFailed, ToolMissing
from dutlab.hosts.host import Host, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.reason import reason_in
from dutlab.tools.engine.clocks import EXCHANGES, Offset, exchange
from dutlab.tools.engine.protocol import EVENTS, Clock, Fault, Hello, Received, Sent, SentStream
from dutlab.tools.engine.typed import MisfitError, read

TOOL = "dutlab-engine"
PROTOCOL = 3
REPLY_S = 30.0
"""Time limit of a reply that needs no waiting. Opening an XDP port takes some tens of milliseconds; on a busy machine, seconds."""
ENDS_S = 3.0
R = TypeVar("R")
A = TypeVar("A", Sent, Received)


class ReplyUnfit(ToolFailed):
    """An agent's reply does not fit the protocol. `op` is the operation, `misfit` the place and kind of the fault."""

    def __init__(self, op: str, misfit: MisfitError, *, host: str) -> None:
        super().__init__(f"its reply to `{op}` does not fit the protocol: {misfit}", tool=TOOL, host=host)
        self.op, self.misfit = op, misfit


class Agent:
    """One running agent, made by `start()`. After a failure it answers nothing more and must be closed."""

    hello: Hello
    """Greeting of the agent."""

    def __init__(self, host: Host, process: Process) -> None:
        self.host = host
        self._process = process
        self._ids = itertools.count(1)
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._failure: DutlabError | None = None
        self._lines: list[bytes] = []
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, host: Host, binary: str) -> Agent:
        """Start the agent and get its greeting. Raises ToolMissing if it uses another protocol, ToolFailed, HostError."""
        agent = cls(host, await host.spawn([binary, "agent"]))
        try:
            agent.hello = agent._fitting("hello", Hello, _checked_hello(await agent._answer("hello"), host.name, binary))
        except BaseException:
            await run_to_end(agent.close())
            raise
        return agent

    @property
    def alive(self) -> bool:
        """True if the agent still takes requests."""
        return self._failure is None

    async def ask(self, op: str, kind: type[R], *, timeout_s: float = REPLY_S, **arguments: object) -> R:
        """Send one request and return its reply, a record of class `kind`.

        Raises PortRefused if the guard refuses a port, HostError if a port is missing or was lost, ReplyUnfit if the reply is not a
        `kind`, ToolFailed for every other refusal, for silence, for an agent that has ended and for output that is not a reply.
        """
        return self._fitting(op, kind, await self._answer(op, timeout_s, **arguments))

    def _fitting(self, op: str, kind: type[R], reply: object) -> R:
        try:
            return read(kind, reply)
        except MisfitError as e:
            self._failure = ReplyUnfit(op, e, host=self.host.name)
            raise self._failure from e

    async def _answer(self, op: str, timeout_s: float = REPLY_S, **arguments: object) -> dict[str, Any]:
        if self._failure is not None:
            raise self._failure
        number = next(self._ids)
        line = json.dumps({"id": number, "op": op, **arguments}, separators=(",", ":")).encode() + b"\n"
        reply = self._open[number] = asyncio.get_running_loop().create_future()
        self._lines.append(line)
        try:
            await self._send(line)
            async with own_timeout(timeout_s):
                answer = await reply
        except TimeoutError:
            self._failure = self._failed(f"did not answer `{op}` within {timeout_s:g} s")
            raise self._failure from None
        finally:
            self._open.pop(number, None)
            if reply.done() and not reply.cancelled():
                reply.exception()  # if the request could not be sent, nothing awaits it, and asyncio would print it
        if (err := answer.get("err")) is not None:
            raise _fault(self._fitting(op, Fault, err), host=self.host.name)
        ok = answer.get("ok")
        if not isinstance(ok, dict):
            self._failure = self._failed(f"answered `{op}` with neither `ok` nor `err`")
            raise self._failure
        return ok

    async def offset(self) -> Offset:
        """Return how far the agent's CLOCK_MONOTONIC is ahead of this process's. Raises ToolFailed, HostError."""
        offsets = []
        for _ in range(EXCHANGES):
            asked_ns = time.monotonic_ns()
            reply = await self.ask("clock", Clock)
            heard_ns = time.monotonic_ns()
            received_ns, replied_ns = reply.received_monotonic_ns, reply.replied_monotonic_ns
            offsets.append(exchange(asked_ns=asked_ns, received_ns=received_ns, replied_ns=replied_ns, heard_ns=heard_ns))
        return min(offsets, key=lambda offset: offset.error_ns)

    async def _send(self, line: bytes) -> None:
        try:
            await self._process.write(line)
        except HostError:
            await asyncio.wait({self._listening}, timeout=ENDS_S)  # _listen() finds out why it ended
            raise self._failure or self._failed("takes no more requests") from None

    def take_lines(self) -> bytes:
        """Return every line sent and received since the last call, unchanged: the trial's raw output."""
        lines, self._lines = self._lines, []
        return b"".join(lines)

    async def close(self) -> None:
        """End the agent: when its stdin ends, it stops all senders and releases its ports. Harmless if it has ended."""
        self._failure = self._failure or self._failed("was closed")
        with contextlib.suppress(HostError):
            await self._process.close_stdin()
        await asyncio.wait({self._listening}, timeout=ENDS_S)
        await cancelled(self._listening)
        await self._process.end()

    async def _listen(self) -> None:
        """Pass every reply to the request that waits for it, until the output ends or is invalid."""
        why: DutlabError
        try:
            while line := await self._process.readline():
                self._lines.append(line)
                self._hear(line)
            done = await self._process.end()
            reason = reason_in(done.errors)
            why = self._failed(f"ended with status {done.status} while it was needed{': ' + reason if reason else ''}")
        except _NoReplyError as e:
            why = self._failed(f"printed something that is not a reply: {str(e)[:120]!r}")
        except MisfitError as e:
            why = ReplyUnfit("event", e, host=self.host.name)
        except HostError as e:
            why = e
        self._failure = self._failure or why
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(self._failure)

    def _hear(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            raise _NoReplyError(line.decode("utf-8", "replace").rstrip()) from None
        event = EVENTS.get(str(message.get("event"))) if isinstance(message, dict) else None
        if event is not None:
            read(event, message)  # the raw output keeps it
            return
        if not isinstance(message, dict) or "id" not in message:
            raise _NoReplyError(line.decode("utf-8", "replace").rstrip())
        number = message["id"]
        waiting = self._open.get(number) if isinstance(number, int) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def _failed(self, what: str) -> ToolFailed:
        return ToolFailed(what, tool=TOOL, host=self.host.name)


class _NoReplyError(Exception):
    """A line that is not part of the protocol."""


def _checked_hello(hello: dict[str, Any], host: str, binary: str) -> dict[str, Any]:
    """Return the greeting if it is of our protocol. Raises ToolMissing for another protocol."""
    if (speaks := hello.get("protocol")) == PROTOCOL:
        return hello
    why = f"{binary} uses protocol {speaks}, this dutlab uses {PROTOCOL}"
    raise ToolMissing(why, tool=TOOL, host=host, remedy="install dutlab and its engine from one release")


def to_settle(sent: SentStream) -> dict[str, int]:
    """Return the protocol's StreamSent for a receiver: refused frames may use up numbers, and several CPUs may send."""
    arguments = {"stream": sent.stream, "frames": sent.sent, "unordered": sent.unordered}
    return arguments if sent.numbered is None else arguments | {"numbered": sent.numbered}


def sound(reply: A, host: str) -> A:
    """Return an agent's reply about a port. Raises ToolFailed, HostError if the port failed."""
    if reply.err is not None:
        raise _fault(reply.err, host=host)
    return reply


def _fault(err: Fault, *, host: str) -> DutlabError:
    """Return the exception for an agent's `err`."""
    remedy = err.remedy or ""
    match err.kind:
        case "guard_refused":
            return PortRefused(f"{host}: {err.message}", remedy=remedy)
        case "no_such_interface" | "port_lost":
            return HostError(err.message, host=host, remedy=remedy)
        case _:
            return ToolFailed(err.message, tool=TOOL, host=host, remedy=remedy)
