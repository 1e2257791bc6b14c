"""Python interface to the engine: ports, streams, rate changes while sending, totals (docs/reference/python-engine.md)."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from dutlab.ending import cancelled, run_to_end
from dutlab.errors import InputError
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NetnsHost
from dutlab.tools.engine import protocol
from dutlab.tools.engine.agent import REPLY_S, Agent, sound, to_settle
from dutlab.tools.engine.binary import find_engine

Rate = float | Literal["max"] | Mapping[str, Any]
"""Frames per second, "max", or a rate in the form of the engine's protocol: `{"bps_l1": 1e9}`."""
Sizes = int | str | Mapping[str, Any]
"""Bytes with FCS, the name of a mix, or sizes in the form of the protocol."""
Load = Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""Streams, or a whole SendPlan of the protocol."""

_NS = 1_000_000_000
_UNTIL_STOPPED_S = 30 * 86400.0
_LEAD_S = 0.3
"""Time from the request to the first frame, in which all agents receive and load their plans."""


def stream(
    number: int,
    *,
    source: str,
    destination: str,
    destination_mac: str,
    rate: Rate,
    size: Sizes = 64,
    source_port: int = 40000,
    destination_port: int = 5001,
    **more: object,
) -> dict[str, Any]:
    """Return a Stream of the protocol. `more` are its other keys: `frames`, `vary`, `vlans`, `flows`, `transport`."""
    sizes = {"fixed_bytes": size} if isinstance(size, int) else {"mix": size} if isinstance(size, str) else dict(size)
    return {
        "stream": number,
        "destination_mac": destination_mac,
        "source": source,
        "destination": destination,
        "source_port": source_port,
        "destination_port": destination_port,
        "sizes": sizes,
        "rate": _rate(rate),
        **more,
    }


def _rate(rate: Rate) -> dict[str, Any]:
    if isinstance(rate, Mapping):
        return dict(rate)
    return {"max": True} if rate == "max" else {"pps": float(rate)}


@dataclass(frozen=True)
class TrafficPort:
    """An interface that the engine has opened."""

    name: str
    interface: str
    namespace: str | None
    backend: protocol.Backend
    mac: str
    addresses: tuple[str, ...]
    notes: tuple[str, ...]
    """Notes of the engine, such as the reason against a faster back end."""


@dataclass(frozen=True)
class StreamCount:
    """Counts of a stream so far. A count is None where no port of this trial sends, or receives, the stream."""

    sent: int | None
    received: int | None
    duplicated: int | None


@dataclass(frozen=True)
class StreamTotals:
    """Ledger of a stream's frames. The receiver's counts are None where no port of this trial receives the stream."""

    intended: int
    sent: int
    refused: int
    received: int | None
    lost: int | None
    duplicated: int | None
    reordered: int | None
    corrupted: int | None
    latency: protocol.Latency | None
    """Percentiles and histogram in nanoseconds; None when nothing arrived."""
    sender: protocol.SentStream = field(repr=False)
    """The sender's whole report on the stream."""
    receiver: protocol.ReceivedStream | None = field(repr=False)
    """The receiver's whole report on the stream."""


class TrafficEngine:
    """Agents of the engine: one in dutlab's own network namespace, and one in each other namespace with an open port.

    An async context manager. At its end all senders stop and all ports are released.
    """

    def __init__(self, *, binary: Path | None = None) -> None:
        """Use the engine `binary` [default: the one that dutlab finds]. Raises ToolMissing when there is none."""
        self._binary = str(binary or find_engine())
        self._agents: dict[str | None, Agent] = {}
        self._hosts: list[LocalHost] = []
        self._running: list[RunningTraffic] = []
        self._names = itertools.count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await run_to_end(self.close())

    async def close(self) -> None:
        """Stop everything that this engine started. Safe to call again."""
        running, self._running = self._running, []
        await cancelled(*(one.sending for one in running))
        agents, self._agents = self._agents, {}
        await asyncio.gather(*(agent.close() for agent in agents.values()))
        hosts, self._hosts = self._hosts, []
        await asyncio.gather(*(host.close() for host in hosts))

    async def open_port(
        self,
        interface: str,
        *,
        namespace: str | None = None,
        backend: protocol.Backend = "auto",
        cpus: Sequence[int] = (),
        allow: Sequence[str] = (),
        isolated: bool = False,
    ) -> TrafficPort:
        """Open an interface, in `namespace` or in dutlab's own network namespace.

        `allow` names the networks of the testbed [default: private and test networks]. `isolated` asserts that no other machine uses the
        link. Raises PortRefused when the guard refuses the port (RFC 6815), HostError, ToolFailed.
        """
        agent = await self._agent(namespace)
        name = f"{interface}#{next(self._names)}"
        guard = {"isolated": isolated} | ({"allow": list(allow)} if allow else {})
        opened = await agent.ask("open", protocol.Opened, port=name, iface=interface, backend=backend, cpu=list(cpus), guard=guard)
        return TrafficPort(name, interface, namespace, opened.backend, opened.mac, opened.addresses, opened.notes)

    async def _agent(self, namespace: str | None) -> Agent:
        if namespace not in self._agents:
            host = LocalHost("here") if namespace is None else NetnsHost(namespace, namespace)
            self._hosts.append(host)
            self._agents[namespace] = await Agent.start(host, self._binary)
        return self._agents[namespace]

    async def close_port(self, port: TrafficPort) -> None:
        """Release a port. Raises HostError, ToolFailed."""
        await self._of(port).ask("close", protocol.Done, port=port.name)

    def _of(self, port: TrafficPort) -> Agent:
        agent = self._agents.get(port.namespace)
        if agent is None:
            raise InputError(f"{port.interface} belongs to an engine that was closed", remedy="open it again")
        return agent

    async def start(
        self,
        send: Mapping[TrafficPort, Load],
        *,
        receive: Mapping[TrafficPort, Sequence[int]] | None = None,
        duration_s: float | None = None,
    ) -> RunningTraffic:
        """Begin to send, all senders at one instant. Each port of `receive` counts the streams with the numbers given for it.

        Without `duration_s`, a stream without `frames` is sent until it is stopped. Raises ToolFailed, HostError, PortRefused.
        """
        receive = receive or {}
        if not send:
            raise InputError("no port sends anything", remedy="give `send` a port and its streams")
        trial = 1 + secrets.randbelow(2**16 - 1)
        plans = {port: _plan(load, trial, duration_s) for port, load in send.items()}
        absorbed = sorted({s["destination_port"] for plan in plans.values() for s in plan.get("streams", ()) if "destination_port" in s})
        for port in dict.fromkeys([*send, *receive]):
            half: dict[str, Any] = {}
            if port in receive:
                half["receive"] = {"streams": list(receive[port]), "trial": trial, "absorb_udp_ports": absorbed}
            if port in plans:
                half["send"] = plans[port]
            await self._of(port).ask("arm", protocol.Armed, port=port.name, **half)
        for agent, names in self._by_agent(receive):
            await agent.ask("start", protocol.Started, ports=names, half="receive")
        senders = self._by_agent(send)
        now_ns = (await senders[0][0].ask("clock", protocol.Clock)).replied_monotonic_ns
        for agent, names in senders:
            await agent.ask("start", protocol.Started, ports=names, half="send", at_monotonic_ns=now_ns + round(_LEAD_S * _NS))
        running = RunningTraffic(
            {port: self._of(port) for port in dict.fromkeys([*send, *receive])}, tuple(send), {p: tuple(of) for p, of in receive.items()}
        )
        self._running.append(running)
        return running

    def _by_agent(self, ports: Mapping[TrafficPort, object]) -> list[tuple[Agent, list[str]]]:
        """Return each agent with the names of its ports among `ports`."""
        namespaces = dict.fromkeys(port.namespace for port in ports)
        return [(self._agents[of], [p.name for p in ports if p.namespace == of]) for of in namespaces]


def _plan(load: Load, trial: int, duration_s: float | None) -> dict[str, Any]:
    plan: dict[str, Any] = dict(load) if isinstance(load, Mapping) else {"streams": [dict(s) for s in load]}
    endless = any("frames" not in s for key in ("streams", "raw_streams") for s in plan.get(key, ()))
    if duration_s is not None or ("duration_ns" not in plan and endless):
        plan["duration_ns"] = round((_UNTIL_STOPPED_S if duration_s is None else duration_s) * _NS)
    return {"trial": trial} | plan


class RunningTraffic:
    """Streams that are being sent. Made by `TrafficEngine.start`."""

    def __init__(
        self, agents: Mapping[TrafficPort, Agent], senders: Sequence[TrafficPort], receivers: Mapping[TrafficPort, Sequence[int]]
    ) -> None:
        self._agents, self._senders, self._receivers = agents, senders, receivers
        self.sending: asyncio.Future[list[protocol.Sent]] = asyncio.gather(
            *(agents[port].ask("wait", protocol.Sent, port=port.name, timeout_s=_UNTIL_STOPPED_S + REPLY_S) for port in senders)
        )
        """Done when all senders have ended."""

    async def change_rate(self, stream: int, rate: Rate) -> None:
        """Change the rate of a stream; the change loses or duplicates no frame. Raises InputError, ToolFailed, HostError."""
        port = await self._sender_of(stream)
        await self._agents[port].ask("rate", protocol.Done, port=port.name, stream=stream, rate=_rate(rate))

    async def _sender_of(self, stream: int) -> TrafficPort:
        known: set[int] = set()
        for port in self._senders:
            status = await self._agents[port].ask("status", protocol.Status, port=port.name)
            numbers = {s.stream for s in status.sending.streams} if status.sending else set()
            if stream in numbers:
                return port
            known |= numbers
        raise InputError(f"no port sends stream {stream} (sent: {', '.join(map(str, sorted(known))) or 'none yet'})")

    async def counts(self) -> dict[int, StreamCount]:
        """Return the counts of each stream so far; frames may be in flight. Raises ToolFailed, HostError."""
        sent, received, duplicated = dict[int, int](), dict[int, int](), dict[int, int]()
        for port, agent in self._agents.items():
            status = await agent.ask("status", protocol.Status, port=port.name)
            if status.sending:
                sent |= {s.stream: s.sent for s in status.sending.streams}
            if status.receiving:
                received |= {s.stream: s.received for s in status.receiving.streams}
                duplicated |= {s.stream: s.duplicated for s in status.receiving.streams}
        return {n: StreamCount(sent.get(n), received.get(n), duplicated.get(n)) for n in sorted({*sent, *received})}

    async def stop(self) -> None:
        """Stop sending, and wait until it has stopped. Raises ToolFailed, HostError."""
        for port in self._senders:
            await self._agents[port].ask("stop", protocol.Done, ports=[port.name])
        await self.wait()

    async def wait(self) -> None:
        """Wait until all frames have been sent. Raises ToolFailed, HostError."""
        await asyncio.shield(self.sending)

    async def totals(self, *, drain_s: float = 0.5) -> dict[int, StreamTotals]:
        """Wait until all frames have been sent and `drain_s` seconds more; return the ledger of each stream, by its number.

        Call it once: it ends the trial. Raises ToolFailed when a port failed, HostError.
        """
        accounts = [sound(of, _host(port)) for port, of in zip(self._senders, await asyncio.shield(self.sending), strict=True)]
        sent = {s.stream: s for of in accounts for s in of.streams}
        settled = await asyncio.gather(*(self._settle(port, sent, drain_s) for port in self._receivers))
        received = {s.stream: s for of in settled for s in of.streams}
        return {n: _totals(of, received.get(n)) for n, of in sent.items()}

    async def _settle(self, port: TrafficPort, sent: Mapping[int, protocol.SentStream], drain_s: float) -> protocol.Received:
        streams, timeout_s = [to_settle(sent[n]) for n in self._receivers[port] if n in sent], drain_s + REPLY_S
        reply = await self._agents[port].ask(
            "settle", protocol.Received, port=port.name, sent=streams, drain_ns=round(drain_s * _NS), timeout_s=timeout_s
        )
        return sound(reply, _host(port))


def _totals(sent: protocol.SentStream, of: protocol.ReceivedStream | None) -> StreamTotals:
    return StreamTotals(
        intended=sent.intended,
        sent=sent.sent,
        refused=sent.refused,
        received=of.received if of else None,
        lost=of.lost if of else None,
        duplicated=of.duplicated if of else None,
        reordered=of.reordered if of else None,
        corrupted=of.corrupted if of else None,
        latency=of.latency if of else None,
        sender=sent,
        receiver=of,
    )


def _host(port: TrafficPort) -> str:
    return port.namespace or "here"


__all__ = ["RunningTraffic", "StreamCount", "StreamTotals", "TrafficEngine", "TrafficPort", "stream"]
