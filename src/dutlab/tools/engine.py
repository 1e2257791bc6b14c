"""Tool `dutlab-engine`: sends and accounts for every frame. One agent on the source, one on the sink, alive between trials.

A trial opens the ports it needs and gives them back at its end, so that nothing listens on them while another tool measures.
Each part of a trial (warm-up, measurement, probe) has stream numbers of its own: what is still on its way from an earlier part can never be
taken for a frame of this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dutlab.doubts import Doubt
from dutlab.dut.mode import SeenProbe
from dutlab.errors import CommandFailed, ToolFailed, ToolMissing
from dutlab.hosts.host import Host
from dutlab.methods.ports import Flow, FrameMix, Offer, Outcome, Reading
from dutlab.spec.mixes import sizes_in_words
from dutlab.spec.testbed import Link, Port, Testbed
from dutlab.tools.agent import REPLY_S, TOOL, Agent, fault
from dutlab.tools.engine_load import DESTINATION_PORT, NS, SOURCE_PORT, Load, Way
from dutlab.tools.engine_report import arrived_so_far, doubts_of, flow_of, of_stream, readings_of, sent_so_far
from dutlab.tools.find_engine import find_engine
from dutlab.tools.loss_watch import LossWatch
from dutlab.tools.neighbours import next_hop_mac
from dutlab.tools.path_counters import PathCount, lost_by_place, read_path
from dutlab.units import FrameBytes, Pps, Seconds

__all__ = ["Engine", "find_engine"]

PROBE_FRAMES = 10
PROBE_RATE = Pps(1000.0)
PROBE_DRAIN = Seconds(0.2)
WARMUP_DRAIN = Seconds(0.1)
LOOK_S = 0.2
"""How often both ends are asked what got lost, in a trial that may be stopped."""
_PROBE_PORTS = range(20000, 48000)
_LAST_STREAM = 65535


@dataclass(frozen=True)
class _Heard:
    """What became of the frames of one way, by the accounts of both agents."""

    way: Way
    flow: Flow
    doubts: tuple[Doubt, ...]
    sources: tuple[str, ...]
    """Source addresses as the receiver saw them."""
    stopped_s: float | None
    """How long was sent, if sending was stopped."""

    def with_places(self, before: PathCount, after: PathCount) -> _Heard:
        """The same, with the places where frames got lost between two readings of the path's counters."""
        places = lost_by_place(before=before, after=after, sent=self.flow.sent_frames, received=self.flow.received_frames)
        return replace(self, flow=replace(self.flow, places=places))


class Engine:
    """A methods.ports.Generator and a dut.mode.Prober.

    `cpus` is role → cores for the engine's threads; `binary` is where it lies, on all hosts or by role.
    """

    def __init__(
        self,
        hosts: Mapping[str, Host],
        testbed: Testbed,
        cpus: Mapping[str, Sequence[int]],
        binary: str | Mapping[str, str],
        *,
        backend: str = "auto",
    ) -> None:
        self._hosts, self._testbed, self._cpus, self._backend = hosts, testbed, cpus, backend
        self._binaries = dict.fromkeys(hosts, binary) if isinstance(binary, str) else dict(binary)
        self._agents: dict[str, Agent] = {}
        self._clock_is_one: bool | None = None
        self._streams = itertools.cycle(range(1, _LAST_STREAM + 1))
        # Begins anywhere: a flow that an earlier process tracked in the DUT a moment ago is not to be met again.
        self._probe_ports = itertools.cycle(random.sample(_PROBE_PORTS, 4096))

    async def check(self) -> str:
        """The version, of both ends when they differ. Raises ToolMissing, ToolFailed, HostError."""
        versions = [str((await self._agent(role)).hello.get("version", "unknown")) for role in ("source", "sink")]
        return versions[0] if versions[0] == versions[1] else f"source {versions[0]}, sink {versions[1]}"

    async def offer(self, offer: Offer) -> Outcome:
        """Raises ToolFailed, HostError, PortRefused."""
        ways = [await self._way(name, source_port=SOURCE_PORT) for name in offer.links]
        for agent in self._agents.values():
            agent.take_lines()
            agent.take_events()
        load = Load(offer.mix, offer.rate, offer.drain, offer.duration)
        async with self._opened(ways) as notes:
            if offer.warmup > 0:
                await self._carry_out(ways, replace(load, duration=offer.warmup, drain=WARMUP_DRAIN), events=False)
            before = await self._paths(ways)
            heard = await self._carry_out(ways, load, events=True, stop_after_lost=offer.stop_after_lost)
            after = await self._paths(ways)
        heard = [h.with_places(b, a) for h, b, a in zip(heard, before, after, strict=True)]
        return self._outcome(heard, notes, offer.mix)

    async def _paths(self, ways: Sequence[Way]) -> list[PathCount]:
        return list(await asyncio.gather(*(read_path(self._hosts, self._testbed.links[way.link]) for way in ways)))

    async def probe(self, link: str, *, reverse: bool = False) -> SeenProbe:
        """Raises ToolFailed, HostError, PortRefused."""
        way = await self._way(link, reverse=reverse, source_port=next(self._probe_ports))
        shortest = FrameBytes(64 if "." in way.source else 84)  # the shortest frame that carries a probe in UDP, over IPv4 and IPv6
        load = Load(FrameMix("probe", ((shortest, 1),)), PROBE_RATE, PROBE_DRAIN, frames=PROBE_FRAMES)
        async with self._opened([way]):
            (heard,) = await self._carry_out([way], load, events=False)
        return SeenProbe(heard.flow.sent_frames, heard.flow.received_frames, " ".join(heard.sources) or None)

    async def close(self) -> None:
        """Ends both agents. The engine can be used again after it."""
        agents, self._agents = list(self._agents.values()), {}
        await asyncio.gather(*(agent.close() for agent in agents))

    async def _agent(self, role: str) -> Agent:
        if (agent := self._agents.get(role)) is not None and agent.alive:
            return agent
        if agent is not None:
            await agent.close()
        try:
            self._agents[role] = await Agent.start(self._hosts[role], self._binaries[role])
        except CommandFailed as e:
            why = f"{self._binaries[role]} cannot be started: {e.stderr_tail.strip() or e.status}"
            raise ToolMissing(
                why, tool=TOOL, host=self._hosts[role].name, remedy="copy the engine there, or set DUTLAB_ENGINE to it"
            ) from e
        return self._agents[role]

    async def _way(self, name: str, *, source_port: int, reverse: bool = False) -> Way:
        link: Link = self._testbed.links[name]
        ends = [
            ("source", link.source, link.source_address, link.dut_in_address),
            ("sink", link.sink, link.sink_address, link.dut_out_address),
        ]
        (role, here, address, gateway), (_, there, destination, _) = reversed(ends) if reverse else ends
        mac = await next_hop_mac(self._hosts[role], here.interface, gateway.ip)
        return Way(name, role, here, there, str(address.ip), str(destination.ip), mac, source_port, link.isolated)

    @contextlib.asynccontextmanager
    async def _opened(self, ways: Sequence[Way]) -> AsyncIterator[list[str]]:
        """The ports of `ways`, open; yields what the agents say of them. After a failure the agents are gone, and all they held."""
        notes, opened = [], []
        try:
            for role in ("source", "sink"):
                await self._agent(role)
            for i, way in enumerate(ways):
                for role, port in ((way.sender, way.sends_on), (way.receiver, way.receives_on)):
                    said = await self._agents[role].ask("open", **self._open_arguments(role, port, i, isolated=way.isolated))
                    opened.append((role, port))
                    notes += [f"{port}: {said.get('backend', '?')}", *(f"{port}: {note}" for note in said.get("notes", []))]
            yield notes
            for role, port in opened:
                await self._agents[role].ask("close", port=str(port))
        except BaseException:
            await self.close()
            await self._still_there()
            raise

    def _open_arguments(self, role: str, port: Port, nth: int, *, isolated: bool) -> dict[str, Any]:
        networks = sorted({str(a.network) for link in self._testbed.links.values() for a in link.addresses})
        cpus = self._cpus.get(role) or ()
        arguments = {
            "port": str(port),
            "iface": port.interface,
            "backend": self._backend,
            "guard": {"allow": networks, "isolated": isolated},
        }
        return arguments | ({"cpu": cpus[nth % len(cpus)]} if cpus else {})

    async def _still_there(self) -> None:
        """Raises HostError when a host has vanished: that is then the reason, whatever failed first."""
        for role in ("source", "sink"):
            await self._hosts[role].run(["true"], timeout_s=REPLY_S)

    async def _carry_out(self, ways: Sequence[Way], load: Load, *, events: bool, stop_after_lost: int | None = None) -> list[_Heard]:
        """Arm, start receivers, start senders, wait until all was sent, drain, read the counters."""
        streams = {way.link: next(self._streams) for way in ways}
        for way in ways:
            receive = {"streams": [streams[way.link]], "absorb_udp_ports": [DESTINATION_PORT]}
            await self._agents[way.receiver].ask("arm", port=str(way.receives_on), receive=receive, events=events)
            await self._agents[way.sender].ask("arm", port=str(way.sends_on), send=load.send_plan(way, streams[way.link]), events=events)
        for role in dict.fromkeys(way.receiver for way in ways):
            instant = {} if await self._one_clock() else {"at_monotonic_ns": 0}  # another clock's send times say nothing about staleness
            await self._agents[role].ask("start", ports=[str(w.receives_on) for w in ways if w.receiver == role], **instant)
        for role in dict.fromkeys(way.sender for way in ways):
            await self._agents[role].ask("start", ports=[str(w.sends_on) for w in ways if w.sender == role])
        patience = load.longest_s + REPLY_S
        waits = asyncio.gather(*(self._agents[w.sender].ask("wait", port=str(w.sends_on), timeout_s=patience) for w in ways))
        sent = await (waits if stop_after_lost is None else self._watched(waits, ways, streams, load, stop_after_lost))
        settling = [self._settle(way, streams[way.link], said, load) for way, said in zip(ways, sent, strict=True)]
        return list(await asyncio.gather(*settling))

    async def _watched(
        self, waits: asyncio.Future[list[dict[str, Any]]], ways: Sequence[Way], streams: Mapping[str, int], load: Load, allowed: int
    ) -> list[dict[str, Any]]:
        """The replies of `waits`; sending is stopped once more frames than `allowed` are certainly lost or were refused by the DUT."""
        watches = {way.link: LossWatch(load.drain) for way in ways}

        async def watch() -> None:
            while sum(w.lost + w.refused_by_peer for w in watches.values()) <= allowed:
                await asyncio.sleep(LOOK_S)
                await asyncio.gather(*(self._look(way, streams[way.link], watches[way.link]) for way in ways))
            for role in dict.fromkeys(way.sender for way in ways):
                await self._agents[role].ask("stop", ports=[str(w.sends_on) for w in ways if w.sender == role])

        watching = asyncio.create_task(watch())
        both: set[asyncio.Future[Any]] = {waits, watching}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            return await waits
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _look(self, way: Way, stream: int, watch: LossWatch) -> None:
        """Has `watch` see what both ends have counted, if they have begun."""
        arrived, sent = None, None
        asked = time.monotonic()
        status = await self._agents[way.receiver].ask("status", port=str(way.receives_on))
        with _read(way.receiver):
            if "receiving" in status:
                arrived = arrived_so_far(status["receiving"], stream, since_s=asked, until_s=time.monotonic())
        asked = time.monotonic()
        status = await self._agents[way.sender].ask("status", port=str(way.sends_on))
        with _read(way.sender):
            if "sending" in status:
                sent = sent_so_far(status["sending"], stream, since_s=asked, until_s=time.monotonic())
        if sent is not None and arrived is not None:
            watch.see(sent, arrived)

    async def _settle(self, way: Way, stream: int, sent: Mapping[str, Any], load: Load) -> _Heard:
        if (err := sent.get("err")) is not None:
            raise fault(err, host=way.sender)
        with _read(way.sender):
            of_sender = of_stream(sent, stream)
            frames = int(of_sender["sent"])
        received = await self._agents[way.receiver].ask(
            "settle",
            port=str(way.receives_on),
            sent=[{"stream": stream, "frames": frames, **{k: of_sender[k] for k in ("numbered",) if k in of_sender}}],
            drain_ns=round(load.drain * NS),
            timeout_s=load.drain + REPLY_S,
        )
        if (err := received.get("err")) is not None:
            raise fault(err, host=way.receiver)
        one_clock = await self._one_clock()
        with _read(way.receiver):
            of_receiver = of_stream(received, stream)
            return _Heard(
                way,
                flow_of(way.link, of_sender, of_receiver, received, one_clock=one_clock),
                tuple(doubts_of(way.link, of_receiver, received, one_clock=one_clock)),
                tuple(dict.fromkeys(str(source["address"]) for source in of_receiver["sources"])),
                float(of_sender["seconds"]) if sent["ended"] == "stopped" else None,
            )

    async def _one_clock(self) -> bool:
        """Whether source and sink share a kernel, and so its monotonic clock. boot_id names one boot of one kernel (random(4))."""
        if self._clock_is_one is None:
            boots = [await self._hosts[role].run(["cat", "/proc/sys/kernel/random/boot_id"], check=False) for role in ("source", "sink")]
            self._clock_is_one = all(b.status == 0 and b.stdout == boots[0].stdout for b in boots)
        return self._clock_is_one

    def _outcome(self, heard: Sequence[_Heard], notes: Sequence[str], mix: FrameMix) -> Outcome:
        readings: list[Reading] = []
        for role, agent in self._agents.items():
            with _read(role):
                offset_ns = int(agent.hello["realtime_ns"]) - int(agent.hello["monotonic_ns"])
                events = agent.take_events()
                for way in (h.way for h in heard):
                    port, counter = (way.sends_on, "sent") if role == way.sender else (way.receives_on, "received")
                    readings += readings_of(way.link, events, port=str(port), counter=counter, clock_offset_ns=offset_ns)
        return Outcome(
            flows=tuple(h.flow for h in heard),
            doubts=tuple(d for h in heard for d in h.doubts),
            raw={f"engine-{role}.jsonl": agent.take_lines() for role, agent in self._agents.items()},
            facts={
                "engine_version": str(self._agents["source"].hello.get("version", "unknown")),
                "engine_ports": "; ".join(notes),
                "frame_sizes": sizes_in_words(mix.parts),
            },
            readings=readings,
            stopped_early_s=Seconds(max(stopped)) if (stopped := [h.stopped_s for h in heard if h.stopped_s is not None]) else None,
        )


@contextlib.contextmanager
def _read(host: str) -> Iterator[None]:
    """Makes ToolFailed of what goes wrong inside when an agent's account lacks a word or has another kind of value there."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise ToolFailed(f"its account cannot be read: {e!r}", tool=TOOL, host=host) from e
