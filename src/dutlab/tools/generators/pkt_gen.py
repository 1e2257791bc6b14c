"""Generator `pkt-gen` of netmap: `-f tx` on the host that sends, `-f rx` on the host that receives, each ended by timeout(1).

It counts the frames that it put into the card's ring, not those that left the card (netmap#536: 79 Gb/s on a 10 Gb/s link). It reports
about once a second on each host, by that host's own clock. The reports are matched by time (pkt_gen_log), without the offset of the clocks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import cancelled
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Done, Host
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import negative_loss
from dutlab.methods.ports import Offer, Outcome, ToolReading
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.generators.pkt_gen import PktGenModel
from dutlab.spec.mixes import sizes_in_words
from dutlab.tools.engine.directions import directions_of
from dutlab.tools.engine.load import DESTINATION_PORT, Direction
from dutlab.tools.gate import Gate
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool, require_sent_frames
from dutlab.tools.generators.pkt_gen_log import ROUND_S, PktGenLog, matched, parse
from dutlab.tools.path_counters import strangers_among
from dutlab.units import FCS_BYTES, FrameBytes, Pps, Seconds

TOOL = "pkt-gen"
INSTALL = "build it from netmap (apps/pkt-gen) and load netmap; FreeBSD has it in net/netmap or tools/tools/netmap"
LINK_WAIT_S = 2
"""Wait for the link to come up again after netmap took the port (-w)."""
READY_S = 1.0
"""Additional wait until the receiver surely listens."""
GRACE_S = 10.0
NS = 1e9


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """Make the generator; tools.generators.registry calls this."""
    assert isinstance(model, PktGenModel)  # noqa: S101 -- the registry's key
    return PktGen(model, place)


@dataclass(frozen=True)
class PktGenOutputs:
    """Output of both ends of one direction."""

    direction: Direction
    sender: Done
    receiver: Done
    ahead_s: float
    """Offset of the receiver's clock against the sender's."""

    @property
    def sent(self) -> PktGenLog:
        return parse(output_of(self.sender))

    @property
    def received(self) -> PktGenLog:
        return parse(output_of(self.receiver))

    @property
    def raw(self) -> dict[str, bytes]:
        ends = (("tx", self.sender), ("rx", self.receiver))
        return {f"pkt-gen-{self.direction.name}-{end}.txt": done.stderr + done.stdout for end, done in ends}


class PktGen:
    """Generator `pkt-gen`, a tools.generator_tool.GeneratorTool."""

    def __init__(self, model: PktGenModel, place: GeneratorSite) -> None:
        self._model, self._place = model, place

    async def check(self) -> str:
        """Check that both ends have it; it reports no version. Raises ToolMissing, HostError."""
        for name in dict.fromkeys((*self._place.senders, *self._place.receivers)):
            host = self._place.hosts[name]
            done = await host.run([self._model.program, "-h"], check=False)
            if done.status == NO_SUCH_PROGRAM or b"-f" not in done.stdout + done.stderr:
                raise ToolMissing("pkt-gen is not installed", tool=TOOL, host=host.name, remedy=INSTALL)
        return "not stated by pkt-gen"

    async def close(self) -> None:
        """Do nothing: no process runs between trials."""

    async def offer(self, offer: Offer) -> Outcome:
        """Carry out a trial. Raises ToolFailed, HostError."""
        directions = await directions_of(self._place.hosts, self._place.testbed, offer)
        ((size, _),) = offer.mix.parts  # spec.generators allows one size only
        if offer.warmup > 0:
            await asyncio.gather(*(self._send(direction, size, offer.rate, offer.warmup) for direction in directions))
        heard = await asyncio.gather(*(self._both(direction, size, offer) for direction in directions))
        flows = [flow_of(h, size, asked=None if offer.rate is None else round(offer.rate * offer.duration)) for h in heard]
        queued = [Doubt(DoubtKind.QUEUED_NOT_SENT, about=flow.link) for flow in flows]
        return Outcome(
            flows=tuple(flows),
            doubts=(*queued, *(d for flow in flows for d in negative_loss(flow))),
            raw={name: text for h in heard for name, text in h.raw.items()},
            facts={"frame_sizes": sizes_in_words(offer.mix.parts)},
            readings=[reading for h in heard for reading in readings_of(h)],
        )

    async def _both(self, direction: Direction, size: FrameBytes, offer: Offer) -> PktGenOutputs:
        """Run both ends. The receiver starts first and listens until the drain is over."""
        ahead_s = await self._ahead_s(direction)
        longest = 2 * (LINK_WAIT_S + READY_S) + offer.duration + offer.drain
        receiving = asyncio.create_task(self._run(direction.receiver, direction.receives_on.interface, "rx", longest, []))
        try:
            await asyncio.sleep(LINK_WAIT_S + READY_S)
            sender = await self._send(direction, size, offer.rate, offer.duration)
            return PktGenOutputs(direction, sender, await receiving, ahead_s)
        finally:
            await cancelled(receiving)

    async def _send(self, direction: Direction, size: FrameBytes, rate: Pps | None, seconds: Seconds) -> Done:
        options = [
            "-l",
            str(size - FCS_BYTES),
            "-s",
            f"{direction.source}:{direction.source_port}",
            "-d",
            f"{direction.destination}:{DESTINATION_PORT}",
        ]
        options += ["-D", direction.destination_mac, "-p", str(self._model.streams)]
        options += [] if rate is None else ["-R", str(round(rate)), "-n", str(round(rate * seconds))]
        if cores := self._place.cores(self._model, direction.sender):
            options += ["-a", str(cores[0])]
        longest = LINK_WAIT_S + seconds + (0 if rate is None else 2)  # after its number of frames it ends automatically
        return await self._run(direction.sender, direction.sends_on.interface, "tx", longest, options)

    async def _run(self, role: str, interface: str, what: str, longest_s: float, options: list[str]) -> Done:
        argv = [self._model.program, "-i", f"netmap:{interface}", "-f", what, "-w", str(LINK_WAIT_S), "-T", "1000", *options]
        return await self._place.hosts[role].run(
            ["timeout", "-s", "INT", f"{longest_s:g}", *argv], timeout_s=longest_s + GRACE_S, check=False
        )

    async def _ahead_s(self, direction: Direction) -> float:
        clocks = [await _clock_ns(self._place.hosts[role]) for role in (direction.receiver, direction.sender)]
        return (clocks[0] - clocks[1]) / NS


async def _clock_ns(host: Host) -> int:
    """Return the offset of the host's wall clock against ours."""
    gate = await Gate.stand(host, "true", asyncio.Semaphore(1))
    await gate.process.end()
    return gate.clock.offset.ns


def output_of(done: Done) -> str:
    """Return the reports (standard error) and the final account (standard output)."""
    return (done.stderr + b"\n" + done.stdout).decode("utf-8", "replace")


def flow_of(heard: PktGenOutputs, size: FrameBytes, *, asked: int | None) -> Flow:
    """Return the flow of one direction. `asked` is rate × time; None at full speed. Raises ToolFailed if an end gave no account."""
    sent, received = heard.sent.total, heard.received.total
    for done, total, direction in ((heard.sender, sent, "Sent"), (heard.receiver, received, "Received")):
        if total is None or total.direction != direction:
            raise ToolFailed(
                f"ended with {done.status} and no account of its frames: {done.reason}", tool=TOOL, host=done.host, raw=heard.raw
            )
    assert sent is not None and received is not None  # noqa: S101, PT018 -- checked above
    require_sent_frames(sent.packets, asked=asked, tool=TOOL, host=heard.sender.host, raw=heard.raw)
    wanted, strangers = max(sent.packets, asked or 0), strangers_among(received.packets, sent=sent.packets)
    return Flow.counted(
        heard.direction.name, asked=wanted, sent=sent.packets, received=received.packets - strangers, seconds=sent.seconds,
        frame_bytes=float(size), foreign_frames=strangers,
    )  # fmt: skip


def readings_of(heard: PktGenOutputs) -> list[ToolReading]:
    """Return the rates sent and received in each interval of the receiver, at its end by the sender's clock."""
    out = []
    for at_s, sent, received in matched(heard.sent.reports, heard.received.reports, offset_s=heard.ahead_s):
        wall_s = heard.sender.started_s + (at_s - heard.sender.started_s) % ROUND_S  # its lines count modulo 1000 s
        for name, value in (("offered_pps", sent), ("received_pps", received), ("lost_pps", max(0.0, sent - received))):
            out.append(ToolReading(wall_s, heard.direction.name, name, value))
    return out
