"""A generator that only sends: how a trial of one goes, and how its frames are accounted for.

asked is what the program tried to send, sent what its port counted as gone, received what was taken of it at the other end
(receive_counter.py), or where nothing can be taken what the port there counted as come; both between two readings around the trial, its
drain included. What the program tried and its port did not send was refused; what the port dropped of it was refused by the next port. A
port's counter does not tell the program's frames from those of others: a handful more than was sent are taken for strangers, more than that
is a doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from dutlab.bounds import OUTPUT_BYTES
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import CommandTimedOut, ToolFailed
from dutlab.hosts.host import Done, Host
from dutlab.hosts.programs import versions_of
from dutlab.hosts.running import together
from dutlab.methods.ledger import negative_loss
from dutlab.methods.ports import Flow, Offer, Outcome
from dutlab.spec.mixes import sizes_in_words
from dutlab.tools.engine.directions import directions_of
from dutlab.tools.engine.load import DESTINATION_PORT, Direction
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators.receive_counter import Reading, taken
from dutlab.tools.path_counters import TOLERATED, PathCount, PortCount, lost_by_place, read_path, strangers_among
from dutlab.units import FrameBytes, Pps, Seconds

SHORTEST = Seconds(0.5)
"""A program needs some tens of milliseconds to begin."""
WARMUP_DRAIN = Seconds(0.1)
KILL_S = 3.0
GRACE_S = 10.0


@dataclass(frozen=True)
class SendOrder:
    """Order to a program for one direction: `rate` in frames a second, None for as fast as it can."""

    frame_bytes: FrameBytes
    """With FCS."""
    rate: Pps | None
    seconds: Seconds

    @property
    def frames(self) -> int | None:
        """Number of frames, at least one; None where it is not known before."""
        return None if self.rate is None else max(1, round(self.rate * self.seconds))


@dataclass(frozen=True)
class SendReport:
    """Report of the program on one direction. `tried_frames` is None when it does not count them."""

    tried_frames: int | None
    seconds: float
    """From the first frame to the last."""
    raw: dict[str, bytes] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)


class SendingProgram(Protocol):
    """A program that sends."""

    @property
    def tool(self) -> str: ...
    async def check(self, host: Host) -> str:
        """Its version on a host that sends. Raises ToolMissing, HostError."""

    async def send(self, direction: Direction, asked: SendOrder) -> SendReport:
        """From its start to its end. Raises ToolFailed, HostError."""


async def run_for(host: Host, argv: Sequence[str], seconds: float, *, tool: str, stdin: bytes = b"") -> Done:
    """Runs a program and ends it after so many seconds, by SIGINT or else SIGKILL. Raises ToolFailed when neither helps, HostError."""
    try:
        limited = ["timeout", "-s", "INT", "-k", f"{KILL_S:g}", f"{seconds:g}", *argv]
        return await host.run(limited, stdin=stdin, timeout_s=seconds + KILL_S + GRACE_S, check=False, most_bytes=OUTPUT_BYTES)
    except CommandTimedOut as e:
        raw = {f"{tool}.txt": e.stderr_tail.encode()}
        raise ToolFailed(f"could not be ended after {seconds:g} s", tool=tool, host=host.name, raw=raw) from e


@dataclass(frozen=True)
class Counts:
    """One reading: of the four ports of a direction, and of what was taken at its end so far."""

    path: PathCount
    taken: int | None


class CountedGenerator:
    """A tools.generators.GeneratorTool over a program."""

    def __init__(self, program: SendingProgram, place: GeneratorSite) -> None:
        self._program, self._place = program, place
        self._version, self._checked = "", set[str]()

    async def check(self) -> str:
        """Checks the hosts that send; the others need nothing."""
        self._version = versions_of({host: await self._check(host) for host in self._place.senders})
        return self._version

    async def close(self) -> None:
        """Nothing runs between trials."""

    async def offer(self, offer: Offer) -> Outcome:
        """Raises ToolFailed, HostError."""
        directions = await directions_of(self._place.hosts, self._place.testbed, offer)
        for host in dict.fromkeys(direction.sender for direction in directions):
            if host not in self._checked:
                await self._check(host)
        ((size, _),) = offer.mix.parts  # no experiment asks for more: spec.generators
        asked = SendOrder(size, offer.rate, max(offer.duration, SHORTEST))
        async with AsyncExitStack() as taking:
            takers = [await taking.enter_async_context(self._taken(direction)) for direction in directions]
            if offer.warmup > 0:
                await self._send(directions, replace(asked, seconds=max(offer.warmup, SHORTEST)))
                await asyncio.sleep(WARMUP_DRAIN)
            before = await asyncio.gather(*(self._counts(direction, taker) for direction, taker in zip(directions, takers, strict=True)))
            send_reports = await self._send(directions, asked)
            await asyncio.sleep(offer.drain)
            after = await asyncio.gather(*(self._counts(direction, taker) for direction, taker in zip(directions, takers, strict=True)))
        sends = [_Sent(*of_direction) for of_direction in zip(directions, send_reports, before, after, strict=True)]
        flows = [send.flow(asked, tool=self._program.tool) for send in sends]
        return Outcome(
            flows=tuple(flows),
            doubts=tuple(d for send, flow in zip(sends, flows, strict=True) for d in send.doubts(flow)),
            raw={name: text for t in send_reports for name, text in t.raw.items()},
            facts={
                f"{self._program.tool}_version": self._version,
                "frame_sizes": sizes_in_words(offer.mix.parts),
                **{name: fact for t in send_reports for name, fact in t.facts.items()},
            },
        )

    async def _check(self, host: str) -> str:
        self._checked.add(host)
        return await self._program.check(self._place.hosts[host])

    async def _send(self, directions: Sequence[Direction], asked: SendOrder) -> list[SendReport]:
        """In all directions at once."""
        return await together(self._program.send(direction, asked) for direction in directions)

    def _taken(self, direction: Direction) -> AbstractAsyncContextManager[Reading]:
        return taken(self._place.hosts[direction.receiver], direction.receives_on.interface)

    async def _counts(self, direction: Direction, taker: Reading) -> Counts:
        path, so_far = await asyncio.gather(read_path(self._place.hosts, self._place.testbed.links[direction.link]), taker())
        return Counts(path, so_far)


@dataclass(frozen=True)
class _Sent:
    """Work of a program in one direction, and the counters around that."""

    direction: Direction
    told: SendReport
    before: Counts
    after: Counts

    @property
    def taken(self) -> int | None:
        """Datagrams recognised at the direction's end; None where nothing was taken there."""
        return None if self.before.taken is None or self.after.taken is None else self.after.taken - self.before.taken

    def flow(self, asked: SendOrder, *, tool: str) -> Flow:
        """Raises ToolFailed when a counter that is needed cannot be read."""
        direction, send_report = self.direction, self.told
        near, far = (3, 0) if direction.is_back else (0, 3)
        before, after = self.before.path, self.after.path
        left = _since(tool, direction.sender, before[near], after[near])
        tried = left.sent + left.send_dropped if send_report.tried_frames is None else send_report.tried_frames
        sent = tried if tried < left.sent <= tried + TOLERATED else left.sent  # a few were strangers'
        wanted = max(tried, sent, asked.frames or 0)
        strangers = 0
        if (received := self.taken) is None:
            received = _since(tool, direction.receiver, before[far], after[far]).received
            strangers = strangers_among(received, sent=sent)
            received -= strangers
        places = lost_by_place(before=before, after=after, sent=sent, received=received, reverse=direction.is_back)
        return Flow(
            link=direction.name,
            intended_frames=wanted,
            sent_frames=sent,
            refused_frames=wanted - sent,
            backpressure_frames=min(left.send_dropped, max(0, tried - sent)),
            received_frames=received,
            lost_frames=sent - received,
            duplicated_frames=0,
            reordered_frames=None,
            foreign_frames=strangers,
            sent_seconds=send_report.seconds,
            mean_frame_bytes=float(asked.frame_bytes),
            received_bytes=received * asked.frame_bytes,
            places=places,
        )

    def doubts(self, flow: Flow) -> tuple[Doubt, ...]:
        """Return doubts that the program's way of sending, and counting at ports, leave open."""
        direction = self.direction
        came = (
            f"{direction.receives_on}'s counter"
            if self.taken is None
            else f"datagrams to UDP port {DESTINATION_PORT} at {direction.receives_on}"
        )
        detail = f"sent: {direction.sends_on}'s counter; received: {came}"
        return (*self.told.doubts, Doubt(DoubtKind.COUNTED_BY_PORTS, detail, direction.name), *negative_loss(flow))


def _since(tool: str, role: str, before: PortCount | None, after: PortCount | None) -> PortCount:
    if before is None or after is None:
        remedy = "use a generator that brings its own receiver (engine, iperf3-udp), or a Linux host"
        raise ToolFailed(
            "the counters of its port cannot be read, so it is not known what was sent and received", tool=tool, host=role, remedy=remedy
        )
    return after.since(before)
