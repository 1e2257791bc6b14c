"""One part of a trial (warm-up, measurement, probe) on open ports: arm, start, watch, drain, read the counters."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import cancelled
from dutlab.methods.flow import Flow
from dutlab.methods.ports import NO_TIME, LearnedTuples, OfferedChain, flow_of_stream
from dutlab.spec.links import Port
from dutlab.tools.engine.agent import REPLY_S, Agent, sound, to_settle
from dutlab.tools.engine.clocks import Clocks, Offset
from dutlab.tools.engine.load import DESTINATION_PORT, NS, Direction, EngineLoad
from dutlab.tools.engine.loss_watch import ArrivedSoFar, LossWatch
from dutlab.tools.engine.protocol import Armed, Clock, Done, Received, Sent, Started, Status
from dutlab.tools.engine.report import arrived_so_far, doubts_of, flow_of, links_lost, of_stream, sent_so_far
from dutlab.tools.engine.watch import DirectionWatch
from dutlab.tools.path_counters import PathCount, lost_by_place

LOOK_S = 0.2
"""Interval of status requests in a trial that may be stopped. In other trials it is a second, and this is the time of the first one."""
LOOK_SLOWLY_S = 1.0
COMES_S = 0.02
"""Interval of requests to a receiver of which the last frames are expected."""
TOGETHER_S = 0.3
"""Lead of the start if several hosts send: time to ask all of them, and for them to load their plans."""

ROUGH = 0.1
"""Share of the median latency above which the error of the clocks is a doubt."""


@dataclass(frozen=True)
class FlowAccount:
    """Account of the frames of one direction, by both agents."""

    direction: Direction
    flow: Flow
    doubts: tuple[Doubt, ...]
    stopped_s: float | None
    """Time of sending, if it was stopped."""
    first_ns: int | None
    """Time of the first sent frame, by the sender's clock; None if none was sent."""
    links_lost: tuple[str, ...] = ()
    """Sentences about ports that lost their link during the trial."""
    learned: LearnedTuples | None = None
    """Tuples that the receiving port learned from frames; None if that was not requested."""

    def with_places(self, before: PathCount, after: PathCount) -> FlowAccount:
        """Return the account with the places where frames were lost between two readings of the path's counters."""
        places = lost_by_place(
            before=before, after=after, sent=self.flow.sent_frames, received=self.flow.received_frames, reverse=self.direction.is_back
        )
        return replace(self, flow=replace(self.flow, places=places))

    def with_clocks(self, apart: Offset) -> FlowAccount:
        """Return the account with the error of its latencies: that of the offset between its two clocks, plus a card's."""
        latency = self.flow.latency
        if latency is None:
            return self
        error_ns = apart.error_ns + (self.flow.latency_error_ns or 0)
        heard = replace(self, flow=replace(self.flow, latency_error_ns=error_ns))
        if error_ns <= latency.p50_ns * ROUGH:
            return heard
        detail = f"p50 {latency.p50_ns} ns, clocks known to within {error_ns} ns"
        return replace(heard, doubts=(*self.doubts, Doubt(DoubtKind.LATENCY_ROUGH, detail, self.flow.link)))


@dataclass(frozen=True)
class _StatusReply:
    """A reply to `status`, requested at `since_s` and received at `until_s` of the controller's clock."""

    status: Status
    since_s: float
    until_s: float


@dataclass(frozen=True)
class Part:
    """A part of a trial: `load` on `directions`, each with its stream number in `streams`. `agents` is by host."""

    agents: Mapping[str, Agent]
    directions: Sequence[Direction]
    streams: Mapping[str, int]
    load: EngineLoad
    clocks: Clocks
    """Clocks of all hosts that send or receive."""
    broadcasts: Mapping[str, int] = field(default_factory=dict)
    """Direction → stream of its broadcast frames, which are not counted."""
    chains: Sequence[OfferedChain] = ()
    """Chains of the streams on each link."""
    ends_when_all_came: bool = False
    """True if nothing after the last frame matters: a port is read as soon as every frame has arrived there."""
    trial: int = field(default_factory=lambda: 1 + secrets.randbelow(2**16 - 1))
    """Number in its probes: frames with another number are stale, for any clock of their sender."""

    async def carry_out(
        self, *, watches: Sequence[DirectionWatch] = (), stop_after_lost: int | None = None, begun: Callable[[], None] | None = None
    ) -> list[FlowAccount]:
        """Carry out the part and return the account of each direction. `watches`, one per direction, get the counts; `begun` as in Offer.

        Raises ToolFailed, HostError.
        """
        await self._arm()
        await self._start()
        patience = self.load.longest_s + TOGETHER_S + REPLY_S
        sending = _by_port((w.sends_on, w) for w in self.directions)
        waits = asyncio.gather(*(self.agents[port.host].ask("wait", Sent, port=str(port), timeout_s=patience) for port in sending))
        replies = await (self._watched(waits, watches, stop_after_lost, begun) if watches else waits)
        sent = {port: sound(of, port.host) for port, of in zip(sending, replies, strict=True)}
        receiving = _by_port((w.receives_on, w) for w in self.directions)
        settled = await asyncio.gather(*(self._settle(port, of, sent) for port, of in receiving.items()))
        accounts = {account.direction.name: account for of_port in settled for account in of_port}
        return [accounts[direction.name] for direction in self.directions]

    async def _arm(self) -> None:
        plans: dict[Port, dict[str, Any]] = {}
        for direction in self.directions:
            stream = self.streams[direction.name]
            empty = {"streams": [], "trial": self.trial, "absorb_udp_ports": [DESTINATION_PORT]}
            receive = plans.setdefault(direction.receives_on, {}).setdefault("receive", empty)
            receive["streams"].append(stream)
            if self.load.offer.learns:
                receive["learn"] = stream
            if not self.clocks.are_one(direction.sender, direction.receiver):
                ahead = self.clocks.ahead(direction.sender, direction.receiver)
                receive.setdefault("sender_clocks", []).append({"stream": stream, "clock": {"ahead_ns": ahead.ns}})
            sent = {"trial": self.trial} | self.load.send_plan(direction, stream, self.broadcasts.get(direction.name))
            plan = plans.setdefault(direction.sends_on, {})
            plan["send"] = sent | {"streams": [*plan.get("send", {}).get("streams", ()), *sent["streams"]]}
        for link, port in dict.fromkeys((direction.link, direction.sends_on) for direction in self.directions if self.chains):
            plans[port]["send"].setdefault("chains", []).extend(self._chain(link, chain) for chain in self.chains)
        for port, plan in plans.items():
            await self.agents[port.host].ask("arm", Armed, port=str(port), **plan)

    def _chain(self, link: str, chain: OfferedChain) -> dict[str, Any]:
        steps = [{"stream": self.streams[flow_of_stream(link, name)], "gap_ns": round(gap * NS)} for name, gap in chain.steps]
        return {"steps": steps, "rounds": chain.rounds}

    async def _start(self) -> None:
        """Start all receivers before the first sender. If several hosts send, they begin at one instant."""
        receivers = _by_host(w.receives_on for w in self.directions)
        await asyncio.gather(*(self.agents[host].ask("start", Started, ports=ports, half="receive") for host, ports in receivers.items()))
        senders = _by_host(w.sends_on for w in self.directions)
        first = next(iter(senders))
        if len(senders) == 1:
            await self.agents[first].ask("start", Started, ports=senders[first], half="send")
            return
        at_ns = (await self.agents[first].ask("clock", Clock)).replied_monotonic_ns + round(TOGETHER_S * NS)
        await asyncio.gather(
            *(
                self.agents[host].ask("start", Started, ports=ports, half="send", at_monotonic_ns=at_ns + self.clocks.ahead(host, first).ns)
                for host, ports in senders.items()
            )
        )

    async def _watched(
        self,
        waits: asyncio.Future[list[Sent]],
        watches: Sequence[DirectionWatch],
        allowed: int | None,
        begun: Callable[[], None] | None,
    ) -> list[Sent]:
        """Return the replies of `waits`. Sending is stopped once more than `allowed` frames are certainly lost or refused by the DUT."""

        async def watch() -> None:
            waiting = begun
            await asyncio.sleep(LOOK_S)
            while True:
                await self._look(watches)
                if allowed is not None and sum(w.losses.lost + w.losses.backpressure for w in watches) > allowed:
                    break
                if waiting is not None and all(w.sending for w in watches):
                    waiting()
                    waiting = None
                slowly = LOOK_SLOWLY_S if allowed is None and waiting is None else LOOK_S
                await asyncio.sleep(min(slowly, *(w.every_s for w in watches)))
            for role, ports in _by_host(w.sends_on for w in self.directions).items():
                await self.agents[role].ask("stop", Done, ports=ports)

        watching = asyncio.create_task(watch())
        both: set[asyncio.Future[Any]] = {waits, watching}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            return await waits
        finally:
            await cancelled(*both)

    async def _look(self, watches: Sequence[DirectionWatch]) -> None:
        """Give each watch the counts of both ends of its direction, if they have begun. Each port is asked once, receivers first."""
        receiving = await self._statuses(direction.receives_on for direction in self.directions)
        sending = await self._statuses(direction.sends_on for direction in self.directions)
        for direction, watch in zip(self.directions, watches, strict=True):
            arrived = self._arrived(direction, receiving[direction.receives_on])
            there = sending[direction.sends_on]
            if arrived is not None and there.status.sending is not None:
                of = of_stream(there.status.sending.streams, self.streams[direction.name], direction.sender)
                watch.see(sent_so_far(there.status.sending, of, since_s=there.since_s, until_s=there.until_s), arrived)

    def _arrived(self, direction: Direction, reply: _StatusReply) -> ArrivedSoFar | None:
        """Return the receiver's counts; None if it has none yet."""
        if (receiving := reply.status.receiving) is None:
            return None
        of = of_stream(receiving.streams, self.streams[direction.name], direction.receiver)
        return arrived_so_far(receiving, of, since_s=reply.since_s, until_s=reply.until_s)

    async def _statuses(self, ports: Iterable[Port]) -> dict[Port, _StatusReply]:
        each = list(dict.fromkeys(ports))
        return dict(zip(each, await asyncio.gather(*(self._status(port) for port in each)), strict=True))

    async def _status(self, port: Port) -> _StatusReply:
        asked = time.monotonic()
        status = await self.agents[port.host].ask("status", Status, port=str(port))
        return _StatusReply(status, asked, time.monotonic())

    async def _settle(self, port: Port, directions: Sequence[Direction], sent: Mapping[Port, Sent]) -> list[FlowAccount]:
        """Return the accounts of the streams that one port receives. Raises ToolFailed, HostError."""
        of_senders = [of_stream(sent[of.sends_on].streams, self.streams[of.name], of.sender) for of in directions]
        streams, drain = [to_settle(of) for of in of_senders], self.load.offer.drain
        if self.ends_when_all_came:
            await self._all_came([(direction, of.sent) for direction, of in zip(directions, of_senders, strict=True)], within_s=drain)
            drain = NO_TIME
        received = await self.agents[port.host].ask(
            "settle", Received, port=str(port), sent=streams, drain_ns=round(drain * NS), timeout_s=drain + REPLY_S
        )
        sound(received, port.host)
        return [self._account(direction, sent[direction.sends_on], received, nth) for nth, direction in enumerate(directions)]

    async def _all_came(self, wanted: Sequence[tuple[Direction, int]], *, within_s: float) -> None:
        """Return as soon as the wanted number of different frames has arrived in each direction, or after `within_s`."""
        over = time.monotonic() + within_s
        for direction, frames in wanted:
            while (came := self._arrived(direction, await self._status(direction.receives_on))) is None or came.unique < frames:
                if (left := over - time.monotonic()) <= 0:
                    return
                await asyncio.sleep(min(COMES_S, left))

    def _account(self, direction: Direction, sent: Sent, received: Received, nth: int) -> FlowAccount:
        """Return the account of the `nth` direction that a port receives. Only the first one has the counts of the port as a whole."""
        stream = self.streams[direction.name]
        of_sender = of_stream(sent.streams, stream, direction.sender)
        of_receiver = of_stream(received.streams, stream, direction.receiver)
        if nth:
            received = replace(received, foreign=0, stale=0, kernel_dropped=received.kernel_dropped and 0)
        return FlowAccount(
            direction,
            flow_of(direction.name, of_sender, of_receiver, received, sent_by=sent.timed_by),
            tuple(doubts_of(direction.name, of_sender, of_receiver, received)),
            of_sender.seconds if sent.ended == "stopped" else None,
            of_sender.first_monotonic_ns,
            tuple(links_lost(sent, received)),
            None if (learned := of_receiver.learned) is None else LearnedTuples(learned.frames, learned.different),
        )


def _by_port(of: Iterable[tuple[Port, Direction]]) -> dict[Port, list[Direction]]:
    directions_by_port: dict[Port, list[Direction]] = {}
    for port, direction in of:
        directions_by_port.setdefault(port, []).append(direction)
    return directions_by_port


def _by_host(ports: Iterable[Port]) -> dict[str, list[str]]:
    """Return host → its ports among these, each once."""
    ports_by_host: dict[str, list[str]] = {}
    for port in dict.fromkeys(ports):
        ports_by_host.setdefault(port.host, []).append(str(port))
    return ports_by_host


def watches_of(
    directions: Sequence[Direction],
    load: EngineLoad,
    tell: Callable[[str, Mapping[str, float]], None] | None = None,
    *,
    every_s: float = 1.0,
) -> list[DirectionWatch]:
    """Return a watch for each direction, with readings `every_s` apart. `tell` gets the newest rates of each."""
    once = load.offer.once
    return [DirectionWatch(direction.name, LossWatch(load.offer.drain), every_s, keeps_looks=once, tell=tell) for direction in directions]
