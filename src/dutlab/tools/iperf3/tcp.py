"""Tool `iperf3`: TCP through the DUT on one link or several at once.

Each link has a server on its sink, or on the setting's `server`, and a client on its source, bound to their addresses of the link. Both are
pinned with taskset(1) if the testbed names cores. All servers listen before any client starts, and all clients start together. A server
runs for one test only.

Figures of a link are goodput_bps (received by the sink in the time that counts), sent_bps, retransmits, sender_cpu_percent and
receiver_cpu_percent (of one core, measured by iperf3 itself). For several links, `a+b` is their sum. With `direction: bidir`, `a` and
`a.back` are the two directions, and `a+a.back` is their sum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface, IPv6Network

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import ToolFailed
from dutlab.events import Tell, no_observer
from dutlab.hosts.host import Done, Host, Process
from dutlab.hosts.programs import all_there, versions_of
from dutlab.hosts.running import together
from dutlab.methods.ports import Measured, ToolReading
from dutlab.plan.cell import Cell
from dutlab.spec.cores import cores_on
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.spec.traffic import Directions
from dutlab.spec.translation import embedded_interface
from dutlab.spec.tunnels import inner_source, loaded
from dutlab.spec.workloads.iperf3 import Iperf3Setting, TcpSetting
from dutlab.spec.workloads.matrix import MatrixSetting
from dutlab.subject import back_of, joined
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.iperf3 import json_output
from dutlab.tools.iperf3.datagrams import DatagramEnd, Datagrams, Sent, send
from dutlab.tools.iperf3.json_output import Iperf3Result, UnreadableError, apart_s, both_ways, of_clients
from dutlab.tools.iperf3.program import BOTH_WAYS, FIRST_PORT, PORTS_TRIED, PROGRAM, TOOL, ended, listen, run_client, version_of
from dutlab.tools.live import received_rate

GRACE_S = 15.0
"""Time limit in addition to omit and duration: for connecting, exchanging results and ending."""
CONNECT_RETRIES = 2
RETRY_PAUSE_S = 0.2
TOGETHER = 0.05
"""Largest difference between the ends of simultaneous tests, as a share of the duration."""
_FLAGS = {"forward": [], "reverse": ["-R"], "bidir": ["--bidir"]}
_ADDS = ("goodput_bps", "sent_bps", "retransmits", "sender_cpu_percent", "receiver_cpu_percent")


@dataclass(frozen=True)
class _End:
    """A host and the address that a test is bound to there."""

    name: str
    host: Host
    address: str
    interface: str
    reached_at: str = ""
    """Address that a client connects to, if a translator on the path makes it another one."""


@dataclass(frozen=True)
class _Test:
    """Test of one client on a link."""

    link: str
    near: _End
    far: _End
    setting: TcpSetting
    client: int = 0
    """Index of the client on the link; each client uses another tunnel (factor `tunnels`)."""
    more: tuple[str, ...] = ()
    """Additional options for both ends."""

    @property
    def name(self) -> str:
        """Name in files and messages."""
        return f"{self.link}.{self.client + 1}" if self.client else self.link


@dataclass(frozen=True)
class FinishedTest:
    """A finished test of one client."""

    test: _Test
    result: Iperf3Result
    """Result from client to server; for `reverse`, from server to client."""
    back: Iperf3Result | None
    """Result from server to client, if the test ran in both directions at once."""
    client: Done
    server: Done
    retries: int


def hosts_of(cell: Cell, testbed: Testbed) -> tuple[str, ...]:
    """Return the hosts that run iperf3."""
    if isinstance(cell.setting, Iperf3Setting) and (server := cell.setting.server):
        return tuple(dict.fromkeys((*(testbed.links[link].source.host for link in cell.links), server)))
    return cell.setting.ends or tuple(dict.fromkeys(host for link in cell.links for host in testbed.links[link].ends))


async def check(site: GeneratorSite, cells: Sequence[Cell]) -> str:
    """Return the iperf3 version of the hosts; of each host if they differ. Raises ToolMissing, ToolsMissing if absent or too old."""
    hosts = list(dict.fromkeys(host for cell in cells for host in hosts_of(cell, site.testbed)))
    both = {host for cell in cells if cell.setting.ways is Directions.BOTH for host in hosts_of(cell, site.testbed)}
    versions = await all_there(version_of(site.hosts[host], *((BOTH_WAYS, "direction: bidir") if host in both else ())) for host in hosts)
    return versions_of(dict(zip(hosts, versions, strict=True)))


class Iperf3:
    """iperf3 on the hosts of links. `cpus` is host → cores for taskset; a host that is absent or empty is not pinned."""

    def __init__(
        self,
        hosts: Mapping[str, Host],
        testbed: Testbed,
        cpus: Mapping[str, Sequence[int]],
        tell: Tell = no_observer,
        numbered_links: Sequence[str] = (),
        *,
        nat64: IPv6Network | None = None,
    ) -> None:
        self._hosts, self._testbed, self._cpus, self._tell = hosts, testbed, cpus, tell
        self._nat64 = nat64
        self._numbered = tuple(numbered_links or testbed.through_dut().links)

    async def measure(self, cell: Cell) -> Measured:
        """Run one test on every link of the cell at once, with one client per tunnel that has a stream.

        Raises ToolFailed with the output of iperf3, HostError if a host vanished.
        """
        setting = cell.setting_as(TcpSetting)
        return _measured(cell, await self._all([t for nth, name in enumerate(cell.links) for t in self._of_link(cell, setting, name, nth)]))

    def _of_link(self, cell: Cell, setting: TcpSetting, name: str, nth: int) -> list[_Test]:
        """Return the tests of a link, with its streams divided over its tunnels. `nth` is the index of the link in the cell."""
        link = self._testbed.links[name]
        server = setting.server if isinstance(setting, Iperf3Setting) else ""
        near, far = self._ends(link, link.source.host, server or link.sink.host)
        ends_apart_s = nth * (setting.ends_apart_s if isinstance(setting, Iperf3Setting) else 0)
        ways = loaded(cell.tunnels)
        taken = [ways[n] for n in loaded(len(ways), setting.streams)]
        tests = []
        for client, number in enumerate(taken):
            streams = setting.streams // len(taken) + (client < setting.streams % len(taken))
            own = setting.model_copy(update={"streams": streams, "duration_s": setting.duration_s - ends_apart_s})
            from_ = replace(near, address=str(inner_source(link, self._numbered.index(name), number))) if number else near
            tests.append(_Test(name, from_, far, own, client))
        return tests

    async def finished(self, name: str, setting: TcpSetting, more: Sequence[str]) -> FinishedTest:
        """Run one test on the link `name`, with `more` options at both ends. Raises as measure()."""
        link = self._testbed.links[name]
        near, far = self._ends(link, link.source.host, link.sink.host)
        (test,) = await self._all([_Test(name, near, far, setting, more=tuple(more))])
        return test

    async def pair(self, cell: Cell) -> Measured:
        """Run one test from the setting's host `client` to its host `server`, on the cell's link. Raises as measure()."""
        (link,) = cell.links
        setting = cell.setting_as(MatrixSetting)
        client, server = setting.client, setting.server
        for host in (client, server):
            await version_of(self._hosts[host])
        near, far = self._ends(self._testbed.links[link], client, server)
        if setting.protocol == "udp":
            return await datagrams_between(self._of_datagrams(near, link), self._of_datagrams(far, link), link, setting)
        return _measured(cell, await self._all([_Test(link, near, far, setting)]))

    def _of_datagrams(self, end: _End, link: str) -> DatagramEnd:
        return DatagramEnd(end.host, end.address, cores_on(self._cpus.get(end.name), link))

    def _ends(self, link: Link, near: str, far: str) -> tuple[_End, _End]:
        here, there = link.between(near, far)
        of = {address: port.interface for port, address in zip(link.ports, link.addresses, strict=True)}
        client, server = _End(near, self._hosts[near], str(here.ip), of[here]), _End(far, self._hosts[far], str(there.ip), of[there])
        if self._nat64 is None or not isinstance(here, IPv4Interface) or not isinstance(there, IPv4Interface):
            return client, server
        own, reached_at = (str(embedded_interface(self._nat64, address).ip) for address in (here, there))
        return replace(client, address=own), replace(server, reached_at=reached_at)

    async def _all(self, tests: Sequence[_Test]) -> list[FinishedTest]:
        """Run the tests at once. All servers listen before any client starts."""
        async with AsyncExitStack() as ended_at_exit:
            servers = []
            for i, test in enumerate(tests):
                cores = cores_on(self._cpus.get(test.far.name), test.link)
                port = FIRST_PORT + i * PORTS_TRIED
                servers.append(await listen(test.far.host, test.far.address, port, ended_at_exit, cores=cores, more=test.more))
            return await together(self._one(test, *server) for test, server in zip(tests, servers, strict=True))

    async def _one(self, test: _Test, port: int, server: Process) -> FinishedTest:
        """Run the client of one test, wait for the server's end, and parse the results. Raises ToolFailed."""
        near, far, setting = test.near, test.far, test.setting
        argv = [
            *near.host.system.pinned(cores_on(self._cpus.get(near.name), test.link)),
            PROGRAM,
            "-c",
            far.reached_at or far.address,
            "-p",
            str(port),
            "-B",
            near.address,
        ]
        argv += ["-P", str(setting.streams), "-O", str(setting.omit_s), "-t", str(setting.duration_s), "-J"]
        argv += ["-Z"] if setting.zerocopy else []
        argv += [*_FLAGS[setting.direction], *test.more]
        retries = 0
        while True:
            rate = nullcontext() if test.client else received_rate(far.host, far.interface, test.link, TOOL, self._tell)
            async with rate:
                client = await run_client(near.host, argv, timeout_s=setting.loaded_s + GRACE_S, name=f"link {test.name}", lets="TCP")
            if retries == CONNECT_RETRIES or "Connection refused" not in (json_output.error_in(client.stdout) or ""):
                break
            retries += 1
            await asyncio.sleep(RETRY_PAUSE_S)
        served = await ended(server, client)
        try:
            result = json_output.parse(client.stdout)
            back = json_output.parse(client.stdout, back=True) if setting.ways is Directions.BOTH else None
        except UnreadableError as e:
            complaint = client.complaint
            why = f"link {test.name}: {e}{f'; on stderr: {complaint}' if complaint else ''}"
            if (other := json_output.error_in(served.stdout)) is not None:
                why += f"; the server reports: {other}"
            raise ToolFailed(why, tool=TOOL, host=near.host.name, raw=_raw(test.name, client, served)) from e
        return FinishedTest(test, result, back, client, served, retries)


async def goodput(site: GeneratorSite, cell: Cell) -> Measured:
    """Run workload `iperf3`. Raises as Iperf3.measure."""
    return await Iperf3(site.hosts, site.testbed, site.cpus, site.tell, site.numbered_links, nat64=site.form.nat64).measure(cell)


async def pair(site: GeneratorSite, cell: Cell) -> Measured:
    """Run workload `matrix`. Raises as Iperf3.pair."""
    return await Iperf3(site.hosts, site.testbed, site.cpus, site.tell).pair(cell)


def _raw(name: str, client: Done, server: Done) -> dict[str, bytes]:
    """Return the output of both ends, by file name."""
    return {f"iperf3-{name}-client.json": client.stdout, f"iperf3-{name}-server.json": server.stdout}


def _measured(cell: Cell, ran: Sequence[FinishedTest]) -> Measured:
    by_link: dict[str, list[FinishedTest]] = {}
    for r in ran:
        by_link.setdefault(r.test.link, []).append(r)
    results = {link: of_clients([r.result for r in of]) for link, of in by_link.items()}
    each = {link: _figures(link, results[link], of) for link, of in by_link.items()}
    figures = {place: of for by_place in each.values() for place, of in by_place.items()}
    if len(by_link) > 1:
        whole = [next(iter(by_place)) for by_place in each.values()]
        added = (name for name in _ADDS if all(name in figures[place] for place in whole))
        figures[joined(whole)] = {name: sum(figures[place][name] for place in whole) for name in added}
    facts = {"iperf3_version": ran[0].result.version}
    if congestion := sorted({r.result.congestion for r in ran if r.result.congestion}):
        facts["iperf3_congestion_control"] = ", ".join(congestion)
    if retries := sum(r.retries for r in ran):
        facts["iperf3_connect_retries"] = str(retries)
    if len(ran) > len(by_link):
        facts["iperf3_source_addresses"] = ", ".join(r.test.near.address for r in ran)
    return Measured(
        figures=figures,
        doubts=(*(d for r in ran for d in _doubts(r, each[r.test.link])), *_apart(cell, ran)),
        raw={name: text for r in ran for name, text in _raw(r.test.name, r.client, r.server).items()},
        facts=facts,
        readings=tuple(
            ToolReading(of[0].client.started_s + i.end_s, back_of(link) if _is_back(of) else link, name, value)
            for link, of in by_link.items()
            for i in results[link].intervals
            for name, value in (("goodput_bps", i.goodput_bps), ("retransmits", i.retransmits))
            if value is not None
        ),
    )


def _is_back(ran: Sequence[FinishedTest]) -> bool:
    return ran[0].test.setting.ways is Directions.BACK


def _figures(link: str, result: Iperf3Result, ran: Sequence[FinishedTest]) -> dict[str, dict[str, float]]:
    """Return the figures of a link and its measured directions; the sum of both comes first."""
    if backs := [r.back for r in ran if r.back is not None]:
        return both_ways(link, result.figures, of_clients(backs).figures)
    return {back_of(link) if _is_back(ran) else link: result.figures}


def _doubts(ran: FinishedTest, places: Iterable[str]) -> list[Doubt]:
    whys, asked_s = list(ran.result.repairs), ran.test.setting.duration_s
    if ran.result.seconds < asked_s * (1 - TOGETHER):
        whys.append(f"it measured {ran.result.seconds:.1f} of {asked_s} s")
    if json_output.error_in(ran.server.stdout) is not None or not ran.server.stdout.strip():
        whys.append(f"the server ended badly: {json_output.error_in(ran.server.stdout) or 'it printed nothing'}")
    return [Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(whys), place) for place in places] if whys else []


def _apart(cell: Cell, ran: Sequence[FinishedTest]) -> list[Doubt]:
    """Return a doubt if the links were not loaded at the same time."""
    longest_s = max(r.test.setting.duration_s for r in ran)
    ends = [r.client.started_s + r.client.seconds + longest_s - r.test.setting.duration_s for r in ran]
    late_s = max(max(ends) - min(ends), *(apart_s([r.result for r in ran if r.test.link == link]) for link in cell.links))
    if late_s <= longest_s * TOGETHER + 0.1:  # starting and ending a client process takes some tens of milliseconds
        return []
    return [Doubt(DoubtKind.NOT_TOGETHER, f"they began or ended {late_s:.1f} s apart", cell.link_label)]


async def datagrams_between(near: DatagramEnd, far: DatagramEnd, link: str, setting: MatrixSetting) -> Measured:
    """Send datagrams from a client on `near` to a server on `far`. Raises ToolFailed, ToolMissing, HostError."""
    wanted = Datagrams(setting.length_bytes, setting.rate_pps, setting.duration_s, setting.streams)
    sent = await send(near, far, wanted, name=link, first_port=FIRST_PORT)
    doubts = [Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(sent.repairs), link)] if sent.repairs else []
    return Measured(figures={link: datagram_figures(sent, wanted.length)}, raw=sent.raw, doubts=tuple(doubts))


def datagram_figures(sent: Sent, length: int) -> dict[str, float]:
    """Return goodput, sent rate and loss ratio of payload. Duplicates do not make the loss ratio negative."""
    arrived, asked = (count * length * 8 / sent.seconds for count in (sent.received, sent.sent))
    return {"goodput_bps": arrived, "sent_bps": asked, "loss_ratio": max(0.0, 1 - sent.received / sent.sent) if sent.sent else 0.0}
