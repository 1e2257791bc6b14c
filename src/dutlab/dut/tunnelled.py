"""Common part of modes with tunnels from the source of each link, and several tunnels per link (factor `tunnels`).

The first tunnel of a link uses the link's own addresses. Each further one has a separate inner source address (spec/tunnels.py), with
routes to it at the sink and the DUT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol, Self

from dutlab.dut.mode import Check, Mode, OfRecord, UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.spec.tunnels import inner_network, inner_source, loaded

SOURCE = "source"
SET_S = 300.0
"""Time limit in seconds for setting a thousand tunnels, even on an emulated processor."""
# All pings start at once, because a WireGuard tunnel negotiates keys with its first packet.
_PING_EACH = 'for a; do ping -n -q -c 3 -i 0.2 -W 5 -I "$a" "$0" >/dev/null 2>&1 || echo "$a" & done; wait'


@dataclass(frozen=True)
class Tunnel:
    """One tunnel of a link."""

    place: int
    """Index of the link among those through the DUT."""
    number: int
    link: Link

    @property
    def name(self) -> str:
        """Name of its port."""
        return f"dutlab-t{self.place}{f'.{self.number}' if self.number else ''}"

    @property
    def inside(self) -> IPv4Address | IPv6Address:
        """Source address of packets in the tunnel."""
        return inner_source(self.link, self.place, self.number)


def tunnels_of(testbed: Testbed, numbers: Iterable[int]) -> list[Tunnel]:
    """Return the tunnels with these numbers, for every link."""
    number_list = list(numbers)
    return [Tunnel(place, number, link) for place, link in enumerate(testbed.links.values()) for number in number_list]


class Router(Mode, Protocol):
    """Mode of the DUT without its tunnels."""

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check the DUT's own state, without frames."""


@dataclass(frozen=True)
class TunnelledMode(OfRecord):
    """Mode with tunnels between the DUT, as a router, and a source."""

    router: Router
    source: Host | None
    hosts: Mapping[str, Host] = field(default_factory=dict, kw_only=True)
    """All hosts of the testbed, by name."""
    count: int = field(default=1, kw_only=True)
    """Tunnels per link."""

    def with_tunnels(self, count: int) -> Self:
        """Return the mode with `count` tunnels per link."""
        return replace(self, count=count)

    @property
    def loaded(self) -> Sequence[int]:
        """Numbers of the tunnels that have an end at the source."""
        return loaded(self.count)

    def _source(self) -> Host:
        if self.source is None:
            raise HostError("a tunnel has two ends, and only one is reached", host=SOURCE)
        return self.source

    def _extras(self, testbed: Testbed) -> Iterator[tuple[str, str]]:
        """Yield host and a line for `ip -batch`: settings for tunnels after the first that do not disappear with their ports."""
        if self.count > 1:
            for place, link in enumerate(testbed.links.values()):
                yield link.sink.host, f"route add {inner_network(place)} via {link.sink_gateway.ip} dev {link.sink.interface}"

    async def apply_extras(self, testbed: Testbed) -> None:
        """Add the settings for tunnels after the first. Raises CommandFailed, HostError."""
        for name, lines in self._extras_by_host(testbed).items():
            host = self._source() if name == self._source().name else self.hosts[name]
            await host.run(["ip", "-batch", "-"], stdin=lines.encode())

    def undo_extras(self, testbed: Testbed) -> list[UndoStep]:
        """Return the steps that remove these settings."""
        return [
            UndoStep(name, ("sh",), without_fail(lines.replace(" add ", " del ")), "no additional tunnels, as it was found")
            for name, lines in self._extras_by_host(testbed).items()
        ]

    def _extras_by_host(self, testbed: Testbed) -> dict[str, str]:
        text_by_host: dict[str, str] = {}
        for name, line in self._extras(testbed):
            text_by_host[name] = f"{text_by_host.get(name, '')}{line}\n"
        return text_by_host

    async def pings(self, testbed: Testbed) -> list[Check]:
        """Check that packets of the source's own kernel pass each tunnel with an end at the source, and are answered."""
        checks = []
        for place, (name, link) in enumerate(testbed.links.items()):
            checks.append(await pinged(self._source(), name, str(link.sink_address.ip)))
            if further := [str(inner_source(link, place, number)) for number in self.loaded[1:]]:
                script = ["sh", "-c", _PING_EACH, str(link.sink_address.ip), *further]
                silent = (await self._source().run(script, timeout_s=SET_S)).text.split()
                what = f"link {name}: pings pass through {len(further)} more of its {self.count} tunnels"
                checks.append(Check(what, not silent, f"no answer to {', '.join(silent) or 'none'}"))
        return checks


def without_fail(batch: str) -> str:
    """Return a script of `ip -batch` that ignores failed lines."""
    return f"ip -force -batch - >/dev/null 2>&1 <<'end' || true\n{batch}end\n"


async def pinged(source: Host, name: str, address: str) -> Check:
    """Check that three packets of the source's own kernel reach the far end and are answered."""
    done = await source.run(["ping", "-n", "-c", "3", "-W", "1", address], check=False)
    summary = next((line for line in done.text.splitlines() if "packets transmitted" in line), f"ping ended with {done.status}")
    return Check(f"link {name}: the source's own packets pass", done.status == 0, summary)
