"""Generators that only send: the course of a trial, and the account of its frames.

asked: frames that the program tried to send. sent: frames that its port counted. received: frames that were taken at the other end
(receive_counter.py), or, if nothing can be taken there, frames that the port there counted. All are differences of two readings around the
trial, drain included. Frames that the program tried and its port did not send were refused; those that the port dropped are backpressure.
A port also counts foreign frames: a small excess over the frames sent counts as foreign frames, a larger one is a doubt.
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
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import negative_loss
from dutlab.methods.ports import Offer, Outcome
from dutlab.spec.mixes import sizes_in_words
from dutlab.tools.engine.directions import directions_of
from dutlab.tools.engine.load import DESTINATION_PORT, Direction
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators.receive_counter import Reading, taken
from dutlab.tools.path_counters import TOLERATED, PathCount, PortCount, lost_by_place, read_path, strangers_among
from dutlab.units import FrameBytes, Pps, Seconds

SHORTEST = Seconds(0.5)
"""Shortest trial: a program needs some tens of milliseconds to begin."""
WARMUP_DRAIN = Seconds(0.1)
KILL_S = 3.0
GRACE_S = 10.0


@dataclass(frozen=True)
class SendOrder:
    """Order to a program for one direction. `rate` is in frames a second; None: as fast as it can."""

    frame_bytes: FrameBytes
    """Frame size, FCS included."""
    rate: Pps | None
    seconds: Seconds

    @property
    def frames(self) -> int | None:
        """Number of frames, at least one; None if it is not known in advance."""
        return None if self.rate is None else max(1, round(self.rate * self.seconds))


@dataclass(frozen=True)
class SendReport:
    """Report of the program on one direction. `tried_frames` is None if it does not count them."""

    tried_frames: int | None
    seconds: float
    """Time from the first frame to the last."""
    raw: dict[str, bytes] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)


class SendingProgram(Protocol):
    """A program that sends frames."""

    @property
    def tool(self) -> str: ...
    async def check(self, host: Host) -> str:
        """Return its version on a host that sends. Raises ToolMissing, HostError."""

    async def send(self, direction: Direction, asked: SendOrder) -> SendReport:
        """Run the program to its end. Raises ToolFailed, HostError."""


async def run_for(host: Host, argv: Sequence[str], seconds: float, *, tool: str, stdin: bytes = b"") -> Done:
    """Run a program and end it after `seconds`, by SIGINT or else SIGKILL. Raises ToolFailed if neither ends it, HostError."""
    try:
        limited = ["timeout", "-s", "INT", "-k", f"{KILL_S:g}", f"{seconds:g}", *argv]
        return await host.run(limited, stdin=stdin, timeout_s=seconds + KILL_S + GRACE_S, check=False, most_bytes=OUTPUT_BYTES)
    except CommandTimedOut as e:
        raw = {f"{tool}.txt": e.stderr_tail.encode()}
        raise ToolFailed(f"could not be ended after {seconds:g} s", tool=tool, host=host.name, raw=raw) from e


@dataclass(frozen=True)
class Counts:
    """One reading: the four ports of a direction, and the datagrams taken at its end so far."""

    path: PathCount
    taken: int | None


class CountedGenerator:
    """A tools.generator_tool.GeneratorTool that runs a SendingProgram."""

    def __init__(self, program: SendingProgram, place: GeneratorSite) -> None:
        self._program, self._place = program, place
        self._version, self._checked = "", set[str]()

    async def check(self) -> str:
        """Check the hosts that send, and return their versions; other hosts need nothing."""
        self._version = versions_of({host: await self._check(host) for host in self._place.senders})
        return self._version

    async def close(self) -> None:
        """Do nothing: no process runs between trials."""

    async def offer(self, offer: Offer) -> Outcome:
        """Carry out a trial. Raises ToolFailed, HostError."""
        directions = await directions_of(self._place.hosts, self._place.testbed, offer)
        for host in dict.fromkeys(direction.sender for direction in directions):
            if host not in self._checked:
                await self._check(host)
        ((size, _),) = offer.mix.parts  # spec.generators allows one size only
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
        """Send in all directions at once."""
        return await together(self._program.send(direction, asked) for direction in directions)

    def _taken(self, direction: Direction) -> AbstractAsyncContextManager[Reading]:
        return taken(self._place.hosts[direction.receiver], direction.receives_on.interface)

    async def _counts(self, direction: Direction, taker: Reading) -> Counts:
        path, so_far = await asyncio.gather(read_path(self._place.hosts, self._place.testbed.links[direction.link]), taker())
        return Counts(path, so_far)


@dataclass(frozen=True)
class _Sent:
    """Report of a program on one direction, and the counters before and after."""

    direction: Direction
    send_report: SendReport
    before: Counts
    after: Counts

    @property
    def taken(self) -> int | None:
        """Datagrams taken at the direction's end; None if nothing can be taken there."""
        return None if self.before.taken is None or self.after.taken is None else self.after.taken - self.before.taken

    def flow(self, asked: SendOrder, *, tool: str) -> Flow:
        """Return the flow. Raises ToolFailed if a needed counter cannot be read."""
        direction, send_report = self.direction, self.send_report
        near, far = (3, 0) if direction.is_back else (0, 3)
        before, after = self.before.path, self.after.path
        left = _since(tool, direction.sender, before[near], after[near])
        tried = left.sent + left.send_dropped if send_report.tried_frames is None else send_report.tried_frames
        sent = tried if tried < left.sent <= tried + TOLERATED else left.sent  # the excess is foreign frames
        wanted = max(tried, sent, asked.frames or 0)
        strangers = 0
        if (received := self.taken) is None:
            received = _since(tool, direction.receiver, before[far], after[far]).received
            strangers = strangers_among(received, sent=sent)
            received -= strangers
        places = lost_by_place(before=before, after=after, sent=sent, received=received, reverse=direction.is_back)
        return Flow.counted(
            direction.name, asked=wanted, sent=sent, received=received, seconds=send_report.seconds, frame_bytes=float(asked.frame_bytes),
            backpressure_frames=min(left.send_dropped, max(0, tried - sent)), foreign_frames=strangers, places=places,
        )  # fmt: skip

    def doubts(self, flow: Flow) -> tuple[Doubt, ...]:
        """Return the doubts that follow from the program's way of sending and from counting at ports."""
        direction = self.direction
        came = (
            f"{direction.receives_on}'s counter"
            if self.taken is None
            else f"datagrams to UDP port {DESTINATION_PORT} at {direction.receives_on}"
        )
        detail = f"sent: {direction.sends_on}'s counter; received: {came}"
        return (*self.send_report.doubts, Doubt(DoubtKind.COUNTED_BY_PORTS, detail, direction.name), *negative_loss(flow))


def _since(tool: str, role: str, before: PortCount | None, after: PortCount | None) -> PortCount:
    if before is None or after is None:
        remedy = "use a generator that brings its own receiver (engine, iperf3-udp), or a Linux host"
        raise ToolFailed(
            "the counters of its port cannot be read, so it is not known what was sent and received", tool=tool, host=role, remedy=remedy
        )
    return after.since(before)
