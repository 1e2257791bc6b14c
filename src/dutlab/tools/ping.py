"""Tool `ping`: the path MTU of each link, hop by hop in both directions, by pings that no router may fragment (RFC 1191).

A path's MTU is the largest IP packet that passes whole. Its payload, which ping calls the size, is 28 bytes less over IPv4 (RFC 791: 20,
RFC 792: 8), 48 less over IPv6 (RFC 8200: 40, RFC 4443: 8). So 9000 carries 8972. The narrow hop is the one with the least MTU.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from dutlab.dut.mode import FormingProber, Prober, SeenProbe
from dutlab.errors import MeasurementError, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Host
from dutlab.hosts.programs import all_there, versions_of
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.spec.wire_form import PLAIN, WireForm
from dutlab.systems.system import hint
from dutlab.tools.generator_tool import GeneratorSite

TOOL = "ping"
LEAST_MTU = {4: 68, 6: 1280}
"""Size that every hop must carry (RFC 791 section 3.2, RFC 8200 section 5)."""
LARGEST_MTU = 9216
HEADERS = {4: 28, 6: 48}
TRIES = 2
"""Pings of one size: a single lost ping proves nothing about its size."""


@dataclass(frozen=True)
class _Hop:
    """An address on the path, and its port."""

    link: str
    sender: str
    """Host that pings."""
    port: str
    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class _Refused:
    """A packet that did not pass. `hint` is the MTU that the refusal named, 0 where it named none."""

    hint: int


class Ping:
    """Pings from the ends of links."""

    def __init__(self, hosts: Mapping[str, Host], testbed: Testbed) -> None:
        self._hosts, self._testbed = hosts, testbed

    async def check(self) -> str:
        """Return the version; of each host at an end of a link, if they differ. Raises ToolMissing, ToolsMissing."""
        ends = [host for host in self._testbed.ends if host in self._hosts]
        return versions_of(dict(zip(ends, await all_there(self._version(host) for host in ends), strict=True)))

    async def _version(self, host: str) -> str:
        words = self._hosts[host].system.ping
        if not words.version:
            return f"ping of {words.system}"
        done = await self._hosts[host].run(words.version, check=False)
        if done.status == NO_SUCH_PROGRAM:
            raise ToolMissing("ping is not installed", tool=TOOL, host=host, remedy="install it (Debian: apt install iputils-ping)")
        return (done.text.strip() or done.errors.strip()).splitlines()[0][:60] if done.text or done.stderr else "unknown"

    async def path_mtu(self, cell: Cell) -> Measured:
        """Return path_mtu_bytes and payload_bytes of each link, of the direction that carries less.

        If one direction has no answer, as behind a translator, the other one counts. Raises MeasurementError if neither has.
        """
        rows: list[Row] = []
        figures, notes = {}, []
        for name in cell.links:
            directions = [await self._direction(hops) for hops in _directions(self._testbed.links[name])]
            rows += [row for of_direction, _ in directions for row in of_direction]
            whole = [_mtu(of_direction[-1]) for of_direction, stuck in directions if stuck is None]
            stuck = [why for _, why in directions if why is not None]
            if not whole:
                raise stuck[0]
            version = self._testbed.links[name].source_address.version
            figures[name] = {"path_mtu_bytes": min(whole), "payload_bytes": min(whole) - HEADERS[version]}
            notes += [_narrow(name, rows), *(f"of one direction only: {why}" for why in stuck)]
        return Measured(figures=figures, tables={"path_mtu": rows}, notes=[n for n in notes if n])

    async def passes(self, link: Link, *, reverse: bool = False) -> bool:
        """Return whether an echo request crosses a path and its answer returns."""
        (*_, there), (*_, back) = _directions(link)
        hop = back if reverse else there
        return await self._answers(hop, LEAST_MTU[hop.address.version]) is None

    async def cable(self, link: str, sender: str, receiver: str, sizes: Sequence[int]) -> int | None:
        """Return the first of `sizes` (packets in bytes) that passes whole from the end `sender` to the port `receiver` on the same cable.

        The last of `sizes` must be the smallest; None if even that is not answered.
        """
        hop = next(
            direction[0]
            for direction in _directions(self._testbed.links[link])
            if (direction[0].sender, direction[0].port) == (sender, receiver)
        )
        most, *others = sizes
        if await self._answers(hop, most) is None:
            return most
        if not others or await self._answers(hop, others[-1]) is not None:
            return None
        # By now the neighbour is known. Earlier pings can be lost to its discovery, or on a busy machine, without proving a limit.
        for size in (most, *others[:-1]):
            if await self._answers(hop, size) is None:
                return size
        return others[-1]

    async def _direction(self, hops: tuple[_Hop, ...]) -> tuple[list[Row], MeasurementError | None]:
        """Return a row for each hop that answers, and the fault if the end does not. A router on the path may be silent."""
        out: list[Row] = []
        most, silent = LARGEST_MTU, None
        for hop in hops:
            try:
                mtu = most = await self._bisect(hop, most)
            except MeasurementError as e:
                silent = silent or e
                if hop is hops[-1]:
                    return out, silent
                continue
            out.append(
                {
                    "link": hop.link,
                    "from": hop.sender,
                    "to": hop.port,
                    "path_mtu_bytes": mtu,
                    "payload_bytes": mtu - HEADERS[hop.address.version],
                }
            )
        return out, None

    async def _bisect(self, hop: _Hop, most: int) -> int:
        """Return the largest packet to `hop` that is answered; nothing larger than `most` passed the hops before it.

        A router that refuses a packet states its MTU (RFC 1191 section 4): that size is tried next, and accepted only if it passes. If
        no refusal states one, the MTU that the testbed gives the link is tried first.
        """
        passes, fails = LEAST_MTU[hop.address.version], most
        if (refused := await self._answers(hop, most)) is None:
            return most
        stated_mtu = hint = refused.hint or self._testbed.links[hop.link].mtu
        if await self._answers(hop, passes) is not None:
            raise MeasurementError(
                f"link {hop.link}: {hop.port} ({hop.address}) answers no ping of {passes} bytes from {hop.sender}",
                remedy="let ICMP echo through, and see whether the port is up",
            )
        while fails - passes > 1:
            size = hint if passes < hint < fails else (passes + fails) // 2
            if (refused := await self._answers(hop, size)) is None:
                passes, hint = size, size + 1 if size == stated_mtu else 0  # one byte more tests the stated MTU
            else:
                fails, stated_mtu, hint = size, refused.hint, refused.hint
        return passes

    async def _answers(self, hop: _Hop, packet: int) -> _Refused | None:
        """Return None if the hop answers a packet of this size, else the refusal."""
        version = hop.address.version
        words = self._hosts[hop.sender].system.ping
        argv = words.argv(version, packet - HEADERS[version], str(hop.address))
        for _ in range(TRIES):
            done = await self._hosts[hop.sender].run(argv, check=False, timeout_s=10.0)
            if words.answered(done.status, done.text, str(hop.address)):
                return None
            if named := hint(done.text + done.errors):
                return _Refused(named)
        return _Refused(0)


async def check(site: GeneratorSite, cells: Sequence[Cell]) -> str:
    """Return the version at the ends of all links. Raises as Ping.check."""
    return await Ping(site.hosts, site.testbed).check()


async def path_mtu(site: GeneratorSite, cell: Cell) -> Measured:
    """Run workload `path-mtu`. Raises as Ping.path_mtu."""
    return await Ping(site.hosts, site.testbed).path_mtu(cell)


@dataclass(frozen=True)
class ProbesByEnds:
    """A dut.mode.FormingProber: the engine's frames on links with both ends in `framed`, pings on the others."""

    engine: Prober
    ping: Ping
    testbed: Testbed
    framed: frozenset[str]
    form: WireForm = PLAIN
    """Form of the frames; pings have no other form."""

    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        """Probe each link. Raises ToolFailed, MeasurementError, HostError, PortRefused."""
        framed = [link for link in links if self.framed.issuperset(self.testbed.links[link].ends)]
        probe_by_link = dict(zip(framed, await self.engine.probe(framed, reverse=reverse), strict=True)) if framed else {}
        for link in links:
            if link not in probe_by_link:
                if self.form != PLAIN:
                    raise MeasurementError(f"link {link}: an end does not run the engine, so nothing shows the form of its frames")
                passes = await self.ping.passes(self.testbed.links[link], reverse=reverse)
                probe_by_link[link] = SeenProbe(1, int(passes), None, None)
        return [probe_by_link[link] for link in links]

    def through(self, form: WireForm) -> ProbesByEnds:
        """Return the prober with frames of this form."""
        engine = self.engine.through(form) if isinstance(self.engine, FormingProber) else self.engine
        return replace(self, engine=engine, form=form)


def _directions(link: Link) -> list[tuple[_Hop, ...]]:
    """Return the hops of each direction: the port at the end of each cable, the nearest first. On a segment: one hop per pair of hosts."""
    ports = link.addressed
    if link.segment:
        pairs = permutations(ports, 2)
        return [(_Hop(link.name, near.host, str(far), address.ip),) for (near, _), (far, address) in pairs]
    return [
        tuple(_Hop(link.name, link.source.host, str(port), address.ip) for port, address in ports[1::2]),
        tuple(_Hop(link.name, link.sink.host, str(port), address.ip) for port, address in ports[-2::-2]),
    ]


def _narrow(link: str, rows: list[Row]) -> str:
    """Return a sentence about the narrow hop; empty if all hops carry the same size."""
    own = [row for row in rows if row["link"] == link]
    widest, least = max(own, key=_mtu), min(own, key=_mtu)
    if _mtu(widest) == _mtu(least):
        return ""
    narrow, wide = f"{_mtu(least):.0f} bytes", f"{_mtu(widest):.0f} pass to {widest['to']}"
    return f"link {link}: the narrow hop is the one before {least['to']} from {least['from']}: {narrow}, where {wide}"


def _mtu(row: Row) -> float:
    return float(row["path_mtu_bytes"] or 0)
