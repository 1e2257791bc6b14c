"""Level that gives links their distance, below all other levels: tc-netem(8) and tc-tbf(8), measured with pings, removed at the end.

Each direction has a queue before one of the ports in `Link.distance_ports`. Pings go from that port to the other end of its cable: the
request passes the queue, the answer does not. They are measured just before the queue is added, and with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar

from dutlab.dut.levels import Hosts, Revived, nobody_revives
from dutlab.dut.linux_queues import bucket_bytes, queues_of, script_of, taken, undo_of, unknown
from dutlab.dut.mode import Check, UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.spec.distance import QUEUE_S
from dutlab.spec.links import Link, Port
from dutlab.spec.testbed import Testbed

_ROOM = 100_000
"""Most packets that a netem queue holds."""
_PINGS, _MOST_PINGS, _LOSSES = 20, 1000, 10
"""Pings without loss, most pings, and number of lost pings to aim for where a link has loss."""
_EACH_S = 0.002
"""Shortest interval of pings without root (ping(8)); longer at a low rate."""
_PING_BITS = 98 * 8
_SIGMAS = 4
_TRIES = 3
"""Attempts per port: other load may delay a ping by as much as a distance."""
_WITHIN_S, _WITHIN = 0.002, 0.1


@dataclass(frozen=True)
class DistantPort:
    """Port with a queue that adds the distance of one direction of a link."""

    port: Port
    link: Link
    neighbour: str
    """Address at the other end of the port's cable."""

    def lines(self) -> list[str]:
        """Return the arguments of tc for each queue."""
        link, words, parent = self.link, list[str](), "root handle 1:"
        if link.delay is not None or link.loss is not None:
            delay = "" if link.delay is None else f" delay {_us(link.delay)}" + ("" if link.jitter is None else f" {_us(link.jitter)}")
            loss = "" if link.loss is None else f" loss {link.loss * 100:.6g}%"
            words.append(f"qdisc add dev {{port}} {parent} netem{delay}{loss} limit {_ROOM}")
            parent = "parent 1:1 handle 10:"
        if link.rate is not None:
            bucket, wait = bucket_bytes(link.rate, link.mtu), _us(link.queue or QUEUE_S)
            words.append(f"qdisc add dev {{port}} {parent} tbf rate {link.rate:.0f}bit burst {bucket} latency {wait}")
        return words


@dataclass(frozen=True)
class CablePings:
    """Result of pings over a cable."""

    sent: int
    times_s: Sequence[float]

    @property
    def lost(self) -> int:
        """Number of pings without an answer."""
        return self.sent - len(self.times_s)


@dataclass
class DistanceLevel:
    """Distances of all links of a testbed. The measured values are kept for the checks of each mode."""

    ports: Sequence[DistantPort]
    measured: dict[str, str] = field(default_factory=dict)
    stands: dict[str, str] = field(default_factory=dict)
    reboots: ClassVar[bool] = False

    async def undo(self, hosts: Hosts) -> Sequence[UndoStep]:
        """Return the steps that remove the queues. Raises HostError for a port with a queue that could not be restored."""
        steps = []
        for name, ports in self._by_host().items():
            if faults := await taken(hosts[name], ports):
                raise HostError(faults[0], host=name)
            steps.append(undo_of(hosts[name], ports, "no distance, as it was found"))
        return steps

    async def apply(self, hosts: Hosts, revived: Revived = nobody_revives) -> None:
        """Add the queues and measure them. Raises HostError where the pings do not measure the asked distance."""
        del revived
        for far in self.ports:
            await self._make(hosts[far.port.host], far)

    async def verify(self, hosts: Hosts) -> Sequence[Check]:
        """Check that the queues are still those that were measured."""
        checks = []
        for far in self.ports:
            now = await _shown(hosts[far.port.host], far.port.interface)
            holds = now == self.stands.get(str(far.port))
            text = self.measured.get(str(far.port), "") if holds else f"its queues are now: {now or 'none'}"
            checks.append(Check(f"link {far.link.name}: {far.link.distance_words} before {far.port}", holds, text))
        return checks

    async def faults(self, hosts: Hosts) -> Sequence[str]:
        """Return faults of hosts without commands, and of kernels that lack netem or tbf."""
        faults = []
        for name in self._by_host():
            of_host = [far for far in self.ports if far.port.host == name]
            if name not in hosts:
                faults += [f"link {far.link.name}: no command reaches {name}, so it can add no distance" for far in of_host[:1]]
            elif why := await unknown(hosts[name], [script_of("lo", far.lines()) for far in of_host]):
                words = of_host[0].link.distance_words
                faults.append(
                    f"{name}: its kernel cannot make the distance of link {of_host[0].link.name} ({words}): {why}; delay, jitter and loss "
                    f"need CONFIG_NET_SCH_NETEM, rate CONFIG_NET_SCH_TBF: leave them out, or put a router with such a kernel on the path"
                )
            else:
                faults += await taken(hosts[name], self._by_host()[name])
        return faults

    def _by_host(self) -> Mapping[str, list[str]]:
        ports_by_host: dict[str, list[str]] = {}
        for far in self.ports:
            ports_by_host.setdefault(far.port.host, []).append(far.port.interface)
        return ports_by_host

    async def _make(self, host: Host, far: DistantPort) -> None:
        port = far.port.interface
        for left in reversed(range(_TRIES)):
            await host.run(["sh", "-e"], stdin=script_of(port, ()).encode())
            without = await _pinged(host, far, _PINGS)
            await host.run(["sh", "-e"], stdin=script_of(port, far.lines()).encode())
            with_it = await _pinged(host, far, _pings(far.link.loss))
            text, why = _judged(far.link, without, with_it)
            if not why or not left:
                break
        if why:
            raise HostError(f"the distance of link {far.link.name} is not what was asked for: {why}", host=host.name)
        self.measured[str(far.port)], self.stands[str(far.port)] = text, await _shown(host, port)


def distance_level(testbed: Testbed) -> DistanceLevel | None:
    """Return the level of the testbed's distances; None where no link has one."""
    ports = dict[Port, DistantPort]()
    for link in testbed.links.values():
        if link.is_distant:
            for port in link.distance_ports:
                ports.setdefault(port, DistantPort(port, link, str(link.addresses[link.path.index(port) ^ 1].ip)))
    return DistanceLevel(list(ports.values())) if ports else None


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}us"


def _pings(loss: float | None) -> int:
    """Return the number of pings, enough to lose some at this loss ratio."""
    return _PINGS if loss is None else min(_MOST_PINGS, max(_PINGS, math.ceil(_LOSSES / loss)))


async def _pinged(host: Host, far: DistantPort, count: int) -> CablePings:
    """Ping the neighbour `count` times. Raises HostError."""
    longest = 2 * ((far.link.delay or 0) + (far.link.jitter or 0)) + (far.link.queue or QUEUE_S) + 1
    each = max(_EACH_S, 2 * _PING_BITS / far.link.rate if far.link.rate else 0)
    asked = ["ping", "-n", "-I", far.port.interface, "-c", str(count), "-i", f"{each:.3f}", "-W", f"{longest:.0f}", far.neighbour]
    done = await host.run(asked, check=False, timeout_s=60 + count * each + longest)
    return CablePings(count, [float(ms) / 1000 for ms in re.findall(r" time=([0-9.]+) ms", done.text)])


def _judged(link: Link, without: CablePings, with_it: CablePings) -> tuple[str, str]:
    """Return the measured distance in words, and why it is not the asked one (empty if it is)."""
    if without.lost or not with_it.times_s:
        silent = without if without.lost else with_it
        return "", f"{silent.lost} of {silent.sent} pings over its cable got no answer {'without' if without.lost else 'with'} it"
    added = median(with_it.times_s) - median(without.times_s)
    text = f"measured by {with_it.sent} pings: {added * 1000:.1f} ms more, {with_it.lost} lost"
    wanted = link.delay or 0.0
    if abs(added - wanted) > max(_WITHIN_S, _WITHIN * wanted) + (link.jitter or 0):
        return text, f"{added * 1000:.1f} ms more where {wanted * 1000:g} ms were asked for"
    expected = with_it.sent * (link.loss or 0)
    if abs(with_it.lost - expected) > _SIGMAS * math.sqrt(expected * (1 - (link.loss or 0))) + (link.loss is not None):
        return text, f"{with_it.lost} of {with_it.sent} pings lost where {expected:.1f} were expected"
    return text, ""


async def _shown(host: Host, port: str) -> str:
    """Return the port's queues and their settings, without counters. Raises HostError."""
    queues = await queues_of(host, port)
    return ", ".join(f"{of['kind']} {of['handle']} {of.get('options', {})}" for of in queues)
