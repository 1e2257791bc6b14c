"""Tool `dutlab-engine`: sends and accounts for every frame, with one agent per host that sends or receives, alive between trials.

A trial opens the ports it needs and closes them at its end, so that nothing listens on them while another tool measures.
Each part of a trial (warm-up, measurement, probe) has separate stream numbers, so a late frame of an earlier part is never taken for a
frame of this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network, ip_address
from typing import Any, TypeVar

from dutlab.dut.mode import SeenProbe, UdpFlow
from dutlab.ending import cancelled, run_to_end
from dutlab.errors import CommandFailed, ToolMissing
from dutlab.events import Tell, no_observer
from dutlab.hosts.host import Host
from dutlab.hosts.neighbours import NextHop, next_hop_mac
from dutlab.hosts.programs import versions_of
from dutlab.methods.ports import NO_TIME, LostSoFar, Offer, Outage, Outcome, ToolReading
from dutlab.reason import reason_in
from dutlab.spec.cores import Cores, cores_on
from dutlab.spec.links import Port
from dutlab.spec.mixes import Mix, sizes_in_words
from dutlab.spec.testbed import Testbed
from dutlab.spec.translation import embedded_network
from dutlab.spec.wire_form import PLAIN, WireForm
from dutlab.tools.engine.agent import REPLY_S, TOOL, Agent
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.clocks import Clocks, Offset
from dutlab.tools.engine.directions import direction_of, directions_of
from dutlab.tools.engine.load import DESTINATION_PORT, NS, Direction, EngineLoad, of_streams
from dutlab.tools.engine.outage import Between, lost_numbers
from dutlab.tools.engine.protocol import Backend, Done, Opened
from dutlab.tools.engine.trial import FlowAccount, Part, watches_of
from dutlab.tools.engine.watch import DirectionWatch
from dutlab.tools.path_counters import PathCount, read_path
from dutlab.units import SHORTEST_FRAME, SHORTEST_IPV6_FRAME, Pps, Seconds

__all__ = ["Engine", "find_engine"]

PROBE_FRAMES = 10
PROBE_RATE = Pps(1000.0)
PROBE_DRAIN = Seconds(0.2)
WARMUP_DRAIN = Seconds(0.1)
_PROBE_PORTS = range(20000, 48000)
_LAST_STREAM = 65535
R = TypeVar("R")
_WHICH_CLOCK = "cat /proc/sys/kernel/random/boot_id && { cat /proc/self/timens_offsets 2>/dev/null || true; }"
"""Command that identifies a clock: a boot of a kernel (random(4)), and the shift of the time namespace (time_namespaces(7))."""


class Engine:
    """A methods.ports.Generator and a dut.mode.Prober.

    `cpus` is host → cores for the engine's threads; `binary` is its path at both ends of all paths, or a path per host. `form` is
    that of frames on the cables. `agents` are those of another engine, to share them.
    """

    def __init__(
        self,
        hosts: Mapping[str, Host],
        testbed: Testbed,
        cpus: Mapping[str, Sequence[int]],
        binary: str | Mapping[str, str],
        *,
        backend: Backend = "auto",
        tell: Tell = no_observer,
        next_hop: NextHop = next_hop_mac,
        form: WireForm = PLAIN,
        agents: dict[str, Agent] | None = None,
    ) -> None:
        self._hosts, self._testbed, self._cpus, self._backend, self._next_hop = hosts, testbed, cpus, backend, next_hop
        self._tell = tell
        self._form = form
        ends = (port.host for link in testbed.links.values() if link.path for port in (link.source, link.sink))
        self._binaries = dict.fromkeys(ends, binary) if isinstance(binary, str) else dict(binary)
        self._agents: dict[str, Agent] = {} if agents is None else agents
        self._which_clock: dict[str, bytes] = {}
        self._streams = itertools.cycle(range(1, _LAST_STREAM + 1))
        # Each probe has a separate port, in random order: so a flow that an earlier process left in the DUT is not taken for this one.
        self._probe_ports = itertools.cycle(random.sample(_PROBE_PORTS, 4096))

    @property
    def binaries(self) -> Mapping[str, str]:
        """Host → path of the engine there."""
        return self._binaries

    async def check(self) -> str:
        """Return the version; of each host if they differ. Raises ToolMissing, ToolFailed, HostError."""
        return versions_of({host: (await self._agent(host)).hello.version for host in self._binaries})

    async def offer(self, offer: Offer) -> Outcome:
        """Carry out a trial. Raises ToolFailed, HostError, PortRefused."""
        whole = await directions_of(self._hosts, self._testbed, offer, next_hop=self._next_hop, form=self._form)
        if offer.broadcast_ratio:  # the engine broadcasts on isolated links only
            whole = [replace(of, isolated=self._testbed.isolates(self._testbed.links[of.link])) for of in whole]
        directions = [each for direction in whole for each in of_streams(direction, offer)]
        for agent in self._agents.values():
            agent.take_lines()
        load = EngineLoad(offer)
        watches = watches_of(directions, load, lambda flow, rates: self._tell(flow, TOOL, rates), every_s=offer.readings_every)
        async with self._opened(directions, learns=offer.learns) as notes:
            if offer.warmup > 0:
                warming = load.warming_up(offer.warmup, WARMUP_DRAIN)
                await self._part(directions, warming, await self._clocks(directions)).carry_out()
            clocks, before = await self._clocks(directions), await self._paths(directions)
            part = replace(self._part(directions, load, clocks), chains=offer.chains)
            heard = await part.carry_out(watches=watches, stop_after_lost=offer.stop_after_lost, begun=offer.begun)
            for watch, h in zip(watches, heard, strict=True):
                watch.report_finished(h.flow)
            after = await self._paths(directions)
            later = await self._clocks(directions)
        if not offer.broadcast_ratio and not offer.streams:  # the path's counters include broadcast frames, and all streams
            heard = [h.with_places(b, a) for h, b, a in zip(heard, before, after, strict=True)]
        apart = {d.link: self._apart(d.link, clocks, later) for d in directions}
        heard = [h.with_clocks(apart[h.direction.link]) for h in heard]
        facts = {"engine_ports": "; ".join(notes), "frame_sizes": sizes_in_words(offer.mix.parts)}
        if clocks.offsets:
            ahead = {link: str(of.ns) for link, of in apart.items()}
            facts |= {
                "sink_clock_ahead_ns": ", ".join(f"{link}: {ns}" for link, ns in ahead.items()) if len(ahead) > 1 else ahead.popitem()[1],
                "clock_error_ns": str(max(of.error_ns for of in apart.values())),
            }
        return self._outcome(heard, watches, facts, clocks)

    def _part(self, directions: Sequence[Direction], load: EngineLoad, clocks: Clocks) -> Part:
        offer = load.offer
        paced = offer.rate is not None or offer.profile
        broadcasts = {direction.name: next(self._streams) for direction in directions} if offer.broadcast_ratio and paced else {}
        return Part(self._agents, directions, {direction.name: next(self._streams) for direction in directions}, load, clocks, broadcasts)

    async def _clocks(self, directions: Sequence[Direction]) -> Clocks:
        """Return the offsets of the agents' clocks against ours, each clock measured once; empty if there is only one."""
        hosts = _hosts_of(directions)
        for host in hosts:
            if host not in self._which_clock:
                done = await self._hosts[host].run(["sh", "-c", _WHICH_CLOCK], check=False)
                self._which_clock[host] = done.stdout if done.status == 0 else host.encode()
        which = {host: self._which_clock[host] for host in hosts}
        readers = {clock: host for host, clock in which.items()}
        if len(readers) == 1:
            return Clocks(which, {})
        return Clocks(which, {clock: await self._agents[host].offset() for clock, host in readers.items()})

    def _apart(self, name: str, before: Clocks, after: Clocks) -> Offset:
        """Return how far the clock of the link's sink was ahead of its source's, with a bound for the whole trial."""
        sink, source = self._testbed.links[name].sink.host, self._testbed.links[name].source.host
        return before.ahead(sink, source).lasting(after.ahead(sink, source))

    async def _paths(self, directions: Sequence[Direction]) -> list[PathCount]:
        """Return the counters of each direction's path, without ports that several of these links share: they count all links."""
        links = [self._testbed.links[direction.link] for direction in directions]
        used = Counter(port for link in {link.name: link for link in links}.values() for port in link.ports)
        shared = {port for port, links_on_it in used.items() if links_on_it > 1}
        return list(await asyncio.gather(*(read_path(self._hosts, link, without=shared) for link in links)))

    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        """Probe each link with a few frames. Raises ToolFailed, HostError, PortRefused."""
        if not links:
            return []
        directions = await asyncio.gather(
            *(
                direction_of(
                    self._hosts,
                    self._testbed,
                    link,
                    reverse=reverse,
                    source_port=next(self._probe_ports),
                    next_hop=self._next_hop,
                    form=self._form,
                )
                for link in links
            )
        )
        shortest = SHORTEST_FRAME if all("." in direction.source for direction in directions) else SHORTEST_IPV6_FRAME
        probe = Offer(tuple(links), Mix(name="probe", parts=((shortest, 1),)), PROBE_RATE, NO_TIME, drain=PROBE_DRAIN)
        load = EngineLoad(probe, PROBE_FRAMES)
        async with self._opened(directions):
            part = self._part(directions, load, await self._clocks(directions))
            heard = await replace(part, ends_when_all_came=True).carry_out()
        return [_seen(account) for account in heard]

    def on(self, cores: Sequence[int]) -> Engine:
        """Return another engine on the same hosts, whose sources send from these cores."""
        cpus = {**self._cpus, **{link.source.host: cores for link in self._testbed.links.values()}}
        return Engine(self._hosts, self._testbed, cpus, self._binaries, backend=self._backend, tell=self._tell, form=self._form)

    def through(self, form: WireForm) -> Engine:
        """Return an engine with the same agents, for frames of this form."""
        return Engine(
            self._hosts,
            self._testbed,
            self._cpus,
            self._binaries,
            backend=self._backend,
            tell=self._tell,
            next_hop=self._next_hop,
            form=form,
            agents=self._agents,
        )

    async def close(self) -> None:
        """End all agents. The engine can be used again afterwards."""
        agents = list(self._agents.values())
        self._agents.clear()  # shared with the engines of `through`
        await asyncio.gather(*(agent.close() for agent in agents))

    async def _agent(self, role: str) -> Agent:
        if (agent := self._agents.get(role)) is not None and agent.alive:
            return agent
        if agent is not None:
            await agent.close()
        try:
            self._agents[role] = await Agent.start(self._hosts[role], self._binaries[role])
        except CommandFailed as e:
            why = f"{self._binaries[role]} cannot be started: {reason_in(e.stderr_tail) or e.status}"
            raise ToolMissing(
                why, tool=TOOL, host=self._hosts[role].name, remedy="copy the engine there, or set DUTLAB_ENGINE to it"
            ) from e
        return self._agents[role]

    @contextlib.asynccontextmanager
    async def _opened(self, directions: Sequence[Direction], *, learns: bool = False) -> AsyncIterator[list[str]]:
        """Open the ports of `directions` and yield the agents' notes on them. Ports that learn get a back end that reads frames.

        After a failure the agents have ended, and hold nothing.
        """
        try:
            for host in _hosts_of(directions):
                await self._agent(host)
            guarded = {port for of in directions if not of.isolated for port in (of.sends_on, of.receives_on)}
            learning = {of.receives_on for of in directions if learns}
            wanted: dict[tuple[str, Port], dict[str, Any]] = {}
            for i, direction in enumerate({of.link: of for of in directions}.values()):  # both directions of a link have the same ports
                for role, port in ((direction.sender, direction.sends_on), (direction.receiver, direction.receives_on)):
                    if (role, port) not in wanted:  # links may share a cable
                        own = self._testbed.hosts[role].backend
                        backend: Backend = "af_packet" if port in learning else self._backend if own == "auto" else own
                        wanted[role, port] = self._open_arguments(role, port, i, backend, isolated=port not in guarded)
            opened = await self._asked("open", Opened, wanted)
            yield [f"{port}: {note}" for (_, port), reply in opened.items() for note in (reply.backend, *reply.notes)]
            await self._asked("close", Done, {of: {"port": str(of[1])} for of in opened})
        except BaseException:
            await run_to_end(self.close())
            await self._still_there(directions)
            raise

    async def _asked(self, op: str, kind: type[R], wanted: Mapping[tuple[str, Port], Mapping[str, Any]]) -> dict[tuple[str, Port], R]:
        """Return the replies about each port. All hosts are asked at once, each about one port after another. Raises as Agent.ask()."""

        async def of_host(host: str) -> dict[tuple[str, Port], R]:
            return {of: await self._agents[host].ask(op, kind, **arguments) for of, arguments in wanted.items() if of[0] == host}

        asked = [asyncio.ensure_future(of_host(host)) for host in dict.fromkeys(host for host, _ in wanted)]
        try:
            reply_by_port = {of: reply for replies in await asyncio.gather(*asked) for of, reply in replies.items()}
        finally:
            await cancelled(*asked)
        return {of: reply_by_port[of] for of in wanted}

    def _open_arguments(self, role: str, port: Port, nth: int, backend: Backend, *, isolated: bool) -> dict[str, Any]:
        networks = {a.network for link in self._testbed.links.values() for a in link.addresses}
        if (prefix := self._form.nat64) is not None:
            networks |= {embedded_network(prefix, network) for network in networks if isinstance(network, IPv4Network)}
        link = next((name for name, of in self._testbed.links.items() if port in of.ports), "")
        cpus, apart = self._cpus.get(role) or (), cores_on(self._cpus.get(role), link)
        each = self._testbed.hosts[role].cpus_per_port
        arguments = {
            "port": str(port),
            "iface": port.interface,
            "backend": backend,
            "guard": {"allow": sorted(map(str, networks)), "isolated": isolated},
        }
        if not apart:
            return arguments
        by_link = isinstance(cpus, Cores) and cpus.by_link
        mine = list(apart[:each]) if by_link else [cpus[(nth * each + i) % len(cpus)] for i in range(each)]
        return arguments | {"cpu": mine if each > 1 else mine[0]}

    async def _still_there(self, directions: Sequence[Direction]) -> None:
        """Check that all hosts answer. Raises HostError if one has vanished: that is the cause, even if another call failed first."""
        for host in _hosts_of(directions):
            await self._hosts[host].run(["true"], timeout_s=REPLY_S)

    def _outcome(
        self, heard: Sequence[FlowAccount], watches: Sequence[DirectionWatch], facts: Mapping[str, str], clocks: Clocks
    ) -> Outcome:
        readings, lost_by = list[ToolReading](), dict[str, LostSoFar]()
        for direction, watch in zip((h.direction for h in heard), watches, strict=True):
            one_clock = clocks.are_one(direction.sender, direction.receiver)
            readings += watch.readings(self._wall(direction.sender), self._wall(direction.receiver), latency=one_clock)
            if (lost := watch.lost_so_far(self._wall(direction.receiver))) is not None:
                lost_by[watch.flow] = lost
        return Outcome(
            flows=tuple(h.flow for h in heard),
            doubts=tuple(d for h in heard for d in h.doubts),
            link_lost="; ".join(dict.fromkeys(lost for h in heard for lost in h.links_lost)),
            raw={f"engine-{role}.jsonl": agent.take_lines() for role, agent in self._agents.items()},
            facts={
                "engine_version": versions_of({host: agent.hello.version for host, agent in self._agents.items()}),
                **facts,
            },
            readings=readings,
            lost_by=lost_by,
            learned={h.direction.name: h.learned for h in heard if h.learned is not None},
            outages={
                h.flow.link: outage for h, watch in zip(heard, watches, strict=True) if (outage := self._outage(h, watch)) is not None
            },
            began_s=min((self._wall(h.direction.sender)(h.first_ns) for h in heard if h.first_ns is not None), default=None),
            stopped_early_s=Seconds(max(stopped)) if (stopped := [h.stopped_s for h in heard if h.stopped_s is not None]) else None,
        )

    def _outage(self, heard: FlowAccount, watch: DirectionWatch) -> Outage | None:
        """Return the outage of a flow; None if no frame was lost, no looks were kept, or refused frames make numbers and times differ."""
        flow = heard.flow
        if heard.first_ns is None or not watch.looks or not flow.sent_frames or flow.refused_frames:
            return None
        first_ns, gap_ns, wall_s = heard.first_ns, flow.sent_seconds / flow.sent_frames * NS, self._wall(heard.direction.sender)
        numbers = lost_numbers(watch.looks, sent=flow.sent_frames, lost=flow.lost_frames, pps=NS / gap_ns)
        if numbers is None:
            return None

        def sent_at(between: Between) -> tuple[float, float]:
            low, high = (wall_s(round(first_ns + number * gap_ns)) for number in between)
            return low, high

        return Outage(sent_at(numbers.first_lost), None if numbers.back is None else sent_at(numbers.back))

    def _wall(self, role: str) -> Callable[[int], float]:
        """Return a function from an agent's monotonic time to wall clock, by both clocks in its greeting."""
        hello = self._agents[role].hello
        offset_ns = hello.realtime_ns - hello.monotonic_ns
        return lambda monotonic_ns: (monotonic_ns + offset_ns) / NS


def _seen(account: FlowAccount) -> SeenProbe:
    of, flow = account.direction, account.flow
    sent_as = UdpFlow(ip_address(of.source), ip_address(of.destination), of.source_port, DESTINATION_PORT)
    return SeenProbe(flow.sent_frames, flow.received_frames, " ".join(flow.sources) or None, sent_as)


def _hosts_of(directions: Iterable[Direction]) -> list[str]:
    """Return every host that sends or receives, each once."""
    return list(dict.fromkeys(host for of in directions for host in (of.sender, of.receiver)))
