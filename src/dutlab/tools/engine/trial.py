"""One part of a trial (warm-up, measurement, probe) on ports that are open: arm, start, watch, drain, read the counters."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import cancelled
from dutlab.errors import ToolFailed
from dutlab.methods.ports import Flow
from dutlab.tools.engine.agent import REPLY_S, TOOL, Agent, fault
from dutlab.tools.engine.clocks import Offset
from dutlab.tools.engine.load import DESTINATION_PORT, NS, Direction, EngineLoad
from dutlab.tools.engine.loss_watch import LossWatch
from dutlab.tools.engine.report import arrived_so_far, doubts_of, flow_of, of_stream, sent_so_far
from dutlab.tools.engine.watch import DirectionWatch
from dutlab.tools.path_counters import PathCount, lost_by_place
from dutlab.units import Seconds

LOOK_S = 0.2
"""How often both ends are asked what they count, in a trial that may be stopped; in others once a second, first after this time."""
LOOK_SLOWLY_S = 1.0
TOGETHER_S = 0.3
"""Where both hosts send, they begin so much after the first is told to: time to tell the other, and for both to load their plans."""

ROUGH = 0.1
"""An error of the clocks above this share of the median latency is a doubt."""


@dataclass(frozen=True)
class FlowAccount:
    """What became of the frames of one direction, by the accounts of both agents."""

    direction: Direction
    flow: Flow
    doubts: tuple[Doubt, ...]
    stopped_s: float | None
    """How long was sent, if sending was stopped."""
    first_ns: int | None
    """When the first frame was sent, by the sender's clock; None if none was."""

    def with_places(self, before: PathCount, after: PathCount) -> FlowAccount:
        """The same, with the places where frames got lost between two readings of the path's counters."""
        places = lost_by_place(
            before=before, after=after, sent=self.flow.sent_frames, received=self.flow.received_frames, reverse=self.direction.is_back
        )
        return replace(self, flow=replace(self.flow, places=places))

    def with_clocks(self, apart: Offset | None) -> FlowAccount:
        """The same, with the error of its latencies: that of the offset between two clocks, or none of a single one."""
        latency, error_ns = self.flow.latency, 0 if apart is None else apart.error_ns
        if latency is None:
            return self
        heard = replace(self, flow=replace(self.flow, latency_error_ns=error_ns))
        if error_ns <= latency.p50_ns * ROUGH:
            return heard
        detail = f"p50 {latency.p50_ns} ns, clocks known to within {error_ns} ns"
        return replace(heard, doubts=(*self.doubts, Doubt(DoubtKind.LATENCY_ROUGH, detail, self.flow.link)))


@dataclass(frozen=True)
class Part:
    """`load` on `directions`, each under its stream number in `streams`. `agents` and `clocks` are by host: each agent's against ours."""

    agents: Mapping[str, Agent]
    directions: Sequence[Direction]
    streams: Mapping[str, int]
    load: EngineLoad
    clocks: Mapping[str, Offset] | None
    """None: all agents read one clock."""
    broadcasts: Mapping[str, int] = field(default_factory=dict)
    """Likewise of the frames to everybody that are sent beside them; nobody counts those."""
    ends_when_all_came: bool = False
    """What comes after the last frame does not matter: a direction of which every frame has arrived is not waited for."""
    trial: int = field(default_factory=lambda: 1 + secrets.randbelow(2**16 - 1))
    """The number that its probes carry: frames of any other sender are stale, whatever its clock."""

    async def carry_out(
        self, *, watches: Sequence[DirectionWatch] = (), stop_after_lost: int | None = None, begun: Callable[[], None] | None = None
    ) -> list[FlowAccount]:
        """The account of each direction. `watches`, one a direction, see what is counted meanwhile; `begun` is as Offer has it.

        Raises ToolFailed, HostError.
        """
        await self._arm()
        await self._start()
        patience = self.load.longest_s + TOGETHER_S + REPLY_S
        waits = asyncio.gather(*(self.agents[w.sender].ask("wait", port=str(w.sends_on), timeout_s=patience) for w in self.directions))
        sent = await (self._watched(waits, watches, stop_after_lost, begun) if watches else waits)
        return list(await asyncio.gather(*(self._settle(direction, said) for direction, said in zip(self.directions, sent, strict=True))))

    async def _arm(self) -> None:
        plans: dict[tuple[str, str], dict[str, Any]] = {}
        for direction in self.directions:
            stream = self.streams[direction.name]
            receive = {"streams": [stream], "trial": self.trial, "absorb_udp_ports": [DESTINATION_PORT]} | self._sender_clock(direction)
            plans.setdefault((direction.receiver, str(direction.receives_on)), {})["receive"] = receive
            sent = self.load.send_plan(direction, stream, self.broadcasts.get(direction.name))
            plans.setdefault((direction.sender, str(direction.sends_on)), {})["send"] = {"trial": self.trial} | sent
        for (role, port), plan in plans.items():
            await self.agents[role].ask("arm", port=port, **plan)

    def _sender_clock(self, direction: Direction) -> dict[str, Any]:
        return (
            {}
            if self.clocks is None
            else {"sender_clock": {"ahead_ns": self.clocks[direction.sender].since(self.clocks[direction.receiver]).ns}}
        )

    async def _start(self) -> None:
        """All receive before the first one sends; where both hosts send, they begin at one instant."""
        for role in dict.fromkeys(direction.receiver for direction in self.directions):
            await self.agents[role].ask("start", ports=[str(w.receives_on) for w in self.directions if w.receiver == role], half="receive")
        senders = {
            direction.sender: [str(w.sends_on) for w in self.directions if w.sender == direction.sender] for direction in self.directions
        }
        if len(senders) == 1:
            for role, ports in senders.items():
                await self.agents[role].ask("start", ports=ports, half="send")
            return
        first = next(iter(senders))
        now_ns = int((await self.agents[first].ask("clock"))["replied_monotonic_ns"])
        for role, ports in senders.items():
            ahead = 0 if self.clocks is None else self.clocks[role].since(self.clocks[first]).ns
            await self.agents[role].ask("start", ports=ports, half="send", at_monotonic_ns=now_ns + ahead + round(TOGETHER_S * NS))

    async def _watched(
        self,
        waits: asyncio.Future[list[dict[str, Any]]],
        watches: Sequence[DirectionWatch],
        allowed: int | None,
        begun: Callable[[], None] | None,
    ) -> list[dict[str, Any]]:
        """The replies of `waits`; sending is stopped once more frames than `allowed` are certainly lost or were refused by the DUT."""

        async def watch() -> None:
            waiting = begun
            await asyncio.sleep(LOOK_S)
            while True:
                await asyncio.gather(*(self._look(direction, seen) for direction, seen in zip(self.directions, watches, strict=True)))
                if allowed is not None and sum(w.losses.lost + w.losses.backpressure for w in watches) > allowed:
                    break
                if waiting is not None and all(w.sending for w in watches):
                    waiting()
                    waiting = None
                await asyncio.sleep(LOOK_SLOWLY_S if allowed is None and waiting is None else LOOK_S)
            for role in dict.fromkeys(direction.sender for direction in self.directions):
                await self.agents[role].ask("stop", ports=[str(w.sends_on) for w in self.directions if w.sender == role])

        watching = asyncio.create_task(watch())
        both: set[asyncio.Future[Any]] = {waits, watching}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            return await waits
        finally:
            await cancelled(*both)

    async def _look(self, direction: Direction, watch: DirectionWatch) -> None:
        """Has `watch` see what both ends have counted, if they have begun."""
        arrived, sent, stream = None, None, self.streams[direction.name]
        asked = time.monotonic()
        status = await self.agents[direction.receiver].ask("status", port=str(direction.receives_on))
        with read(direction.receiver):
            if "receiving" in status:
                arrived = arrived_so_far(status["receiving"], stream, since_s=asked, until_s=time.monotonic())
        asked = time.monotonic()
        status = await self.agents[direction.sender].ask("status", port=str(direction.sends_on))
        with read(direction.sender):
            if "sending" in status:
                sent = sent_so_far(status["sending"], stream, since_s=asked, until_s=time.monotonic())
        if sent is not None and arrived is not None:
            watch.see(sent, arrived)

    async def _arrived(self, direction: Direction) -> int | None:
        """Different frames, as the receiver counts them now; None when it has not looked yet."""
        status = await self.agents[direction.receiver].ask("status", port=str(direction.receives_on))
        now = time.monotonic()
        with read(direction.receiver):
            if "receiving" not in status:
                return None
            return arrived_so_far(status["receiving"], self.streams[direction.name], since_s=now, until_s=now).unique

    async def _settle(self, direction: Direction, sent: Mapping[str, Any]) -> FlowAccount:
        stream = self.streams[direction.name]
        if (err := sent.get("err")) is not None:
            raise fault(err, host=direction.sender)
        with read(direction.sender):
            of_sender = of_stream(sent, stream)
            frames = int(of_sender["sent"])
        drain = Seconds(0) if self.ends_when_all_came and await self._arrived(direction) == frames else self.load.drain
        received = await self.agents[direction.receiver].ask(
            "settle",
            port=str(direction.receives_on),
            sent=[{"stream": stream, "frames": frames, **{k: of_sender[k] for k in ("numbered",) if k in of_sender}}],
            drain_ns=round(drain * NS),
            timeout_s=drain + REPLY_S,
        )
        if (err := received.get("err")) is not None:
            raise fault(err, host=direction.receiver)
        with read(direction.receiver):
            of_receiver = of_stream(received, stream)
            return FlowAccount(
                direction,
                flow_of(direction.name, of_sender, of_receiver, received),
                tuple(doubts_of(direction.name, of_sender, of_receiver, received)),
                float(of_sender["seconds"]) if sent["ended"] == "stopped" else None,
                None if (first := of_sender.get("first_monotonic_ns")) is None else int(first),
            )


def watches_of(
    directions: Sequence[Direction], load: EngineLoad, tell: Callable[[str, Mapping[str, float]], None] | None = None
) -> list[DirectionWatch]:
    """A watch for each direction; `tell` takes the newest rates of each."""
    return [DirectionWatch(direction.name, LossWatch(load.drain), tell=tell) for direction in directions]


@contextlib.contextmanager
def read(host: str) -> Iterator[None]:
    """Makes ToolFailed of what goes wrong inside when an agent's account lacks a word or has another kind of value there."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise ToolFailed(f"its account cannot be read: {e!r}", tool=TOOL, host=host) from e
