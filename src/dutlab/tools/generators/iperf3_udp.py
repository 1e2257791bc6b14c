"""Generator `iperf3-udp`: one datagram per frame, from a client on the host that sends to a server on the host that receives.

asked and sent are the client's counts, received is the server's. Frames that the sending port dropped in the trial (a veth whose other end
is full) were refused, not sent: iperf3 does not see them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dutlab.doubts import Doubt, DoubtKind
from dutlab.hosts.programs import versions_of
from dutlab.hosts.running import together
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import negative_loss
from dutlab.methods.ports import Offer, Outcome
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.generators.base import StreamsModel
from dutlab.spec.generators.iperf3_udp import payload_of
from dutlab.spec.mixes import sizes_in_words
from dutlab.tools.engine.directions import directions_of
from dutlab.tools.engine.load import Direction
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.iperf3.datagrams import DatagramEnd, Datagrams, Sent, send
from dutlab.tools.iperf3.program import FIRST_PORT, PORTS_TRIED, version_of
from dutlab.tools.path_counters import PathCount, lost_by_place, read_path


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """Make the generator; tools.generators.registry calls this."""
    assert isinstance(model, StreamsModel)  # noqa: S101 -- the registry's key
    return Iperf3Udp(model, place)


class Iperf3Udp:
    """Generator `iperf3-udp`, a tools.generator_tool.GeneratorTool."""

    def __init__(self, model: StreamsModel, place: GeneratorSite) -> None:
        self._model, self._place = model, place
        self._version = ""

    async def check(self) -> str:
        """Return the version; of both ends if they differ. Raises ToolMissing, HostError."""
        ends = dict.fromkeys((*self._place.senders, *self._place.receivers))
        version_by_host = {host: await version_of(self._place.hosts[host]) for host in ends}
        self._version = versions_of(version_by_host)
        return self._version

    async def close(self) -> None:
        """Do nothing: no process runs between trials."""

    async def offer(self, offer: Offer) -> Outcome:
        """Carry out a trial, without a warm-up: each test is a separate connection. Raises ToolFailed, HostError."""
        directions = await directions_of(self._place.hosts, self._place.testbed, offer)
        ((size, _),) = offer.mix.parts  # spec.generators allows one size only
        datagrams = {direction.name: self._datagrams(direction, size, offer) for direction in directions}
        before = await self._paths(directions)
        sent = await together(self._send(direction, datagrams[direction.name], nth) for nth, direction in enumerate(directions))
        after = await self._paths(directions)
        flows = [
            flow_of(
                direction,
                s,
                size,
                asked=None if offer.rate is None else round(offer.rate * datagrams[direction.name].whole_seconds),
                before=b,
                after=a,
            )
            for direction, s, b, a in zip(directions, sent, before, after, strict=True)
        ]
        incomplete = [
            Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(s.repairs), direction.name)
            for direction, s in zip(directions, sent, strict=True)
            if s.repairs
        ]
        return Outcome(
            flows=tuple(flows),
            doubts=(*incomplete, *(d for flow in flows for d in negative_loss(flow))),
            raw={name: text for s in sent for name, text in s.raw.items()},
            facts={"iperf3_version": self._version, "frame_sizes": sizes_in_words(offer.mix.parts)},
        )

    def _datagrams(self, direction: Direction, size: int, offer: Offer) -> Datagrams:
        length = payload_of(size, ipv6=":" in direction.source)
        return Datagrams(length, offer.rate, float(offer.duration), self._model.streams)

    async def _send(self, direction: Direction, datagrams: Datagrams, nth: int) -> Sent:
        near = DatagramEnd(self._place.hosts[direction.sender], direction.source, self._place.cores(self._model, direction.sender))
        far = DatagramEnd(
            self._place.hosts[direction.receiver], direction.destination, tuple(self._place.cpus.get(direction.receiver) or ())
        )
        return await send(near, far, datagrams, name=direction.name, first_port=FIRST_PORT + nth * PORTS_TRIED)

    async def _paths(self, directions: list[Direction]) -> list[PathCount]:
        return list(
            await asyncio.gather(*(read_path(self._place.hosts, self._place.testbed.links[direction.link]) for direction in directions))
        )


def flow_of(direction: Direction, counts: Sent, size: int, *, asked: int | None, before: PathCount, after: PathCount) -> Flow:
    """Return the flow of one direction. `asked` is rate × time; None at full speed."""
    near = 3 if direction.is_back else 0
    b, a = before[near], after[near]
    dropped = 0 if b is None or a is None else a.since(b).send_dropped
    refused = max(0, min(dropped, counts.sent - counts.received))
    sent = counts.sent - refused
    wanted = max(counts.sent, asked or 0)
    places: Mapping[str, int] = lost_by_place(before=before, after=after, sent=sent, received=counts.received, reverse=direction.is_back)
    return Flow.counted(
        direction.name, asked=wanted, sent=sent, received=counts.received, seconds=counts.seconds, frame_bytes=float(size),
        backpressure_frames=refused, reordered_frames=counts.out_of_order, places=places,
    )  # fmt: skip
