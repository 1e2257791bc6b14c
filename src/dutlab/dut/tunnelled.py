"""A router that ends tunnels from the source of each link: what all such modes share, and several tunnels a link (factor `tunnels`).

The first tunnel of a link carries the link's own addresses. Another has a separate source address inside (spec/tunnels.py), to which
routes lead at the sink and the DUT.
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
"""A thousand tunnels are set within so long, also by an emulated processor."""
# All at once: a tunnel of WireGuard agrees on keys with the first packet.
_PING_EACH = 'for a; do ping -n -q -c 3 -i 0.2 -W 5 -I "$a" "$0" >/dev/null 2>&1 || echo "$a" & done; wait'


@dataclass(frozen=True)
class Tunnel:
    """One of a link's tunnels."""

    place: int
    """Of the link among those through the DUT."""
    number: int
    link: Link

    @property
    def name(self) -> str:
        """Of its port."""
        return f"dutlab-t{self.place}{f'.{self.number}' if self.number else ''}"

    @property
    def inside(self) -> IPv4Address | IPv6Address:
        """Source address of what goes through it."""
        return inner_source(self.link, self.place, self.number)


def tunnels_of(testbed: Testbed, numbers: Iterable[int]) -> list[Tunnel]:
    """Those with these numbers, of every link."""
    number_list = list(numbers)
    return [Tunnel(place, number, link) for place, link in enumerate(testbed.links.values()) for number in number_list]


class Router(Mode, Protocol):
    """The mode that the DUT is in but for its tunnels."""

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """What the DUT says of itself, without a frame."""


@dataclass(frozen=True)
class TunnelledMode(OfRecord):
    """The router that a DUT is but for its tunnels, and the host at their other end."""

    router: Router
    source: Host | None
    hosts: Mapping[str, Host] = field(default_factory=dict, kw_only=True)
    """All of the testbed, by name."""
    count: int = field(default=1, kw_only=True)
    """Tunnels of a link."""

    def with_tunnels(self, count: int) -> Self:
        """The same with so many a link."""
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
        """Host → what `ip -batch` adds there for tunnels after the first, and does not go with their ports."""
        if self.count > 1:
            for place, link in enumerate(testbed.links.values()):
                yield link.sink.host, f"route add {inner_network(place)} via {link.sink_gateway.ip} dev {link.sink.interface}"

    async def apply_extras(self, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError."""
        for name, lines in self._extras_by_host(testbed).items():
            host = self._source() if name == self._source().name else self.hosts[name]
            await host.run(["ip", "-batch", "-"], stdin=lines.encode())

    def undo_extras(self, testbed: Testbed) -> list[UndoStep]:
        """Takes it away."""
        return [
            UndoStep(name, ("sh",), without_fail(lines.replace(" add ", " del ")), "nothing of several tunnels, as it was found")
            for name, lines in self._extras_by_host(testbed).items()
        ]

    def _extras_by_host(self, testbed: Testbed) -> dict[str, str]:
        text_by_host: dict[str, str] = {}
        for name, line in self._extras(testbed):
            text_by_host[name] = f"{text_by_host.get(name, '')}{line}\n"
        return text_by_host

    async def pings(self, testbed: Testbed) -> list[Check]:
        """That packets of the source's own kernel pass through each tunnel that it has an end of, and are answered."""
        checks = []
        for place, (name, link) in enumerate(testbed.links.items()):
            checks.append(await pinged(self._source(), name, str(link.sink_address.ip)))
            if further := [str(inner_source(link, place, number)) for number in self.loaded[1:]]:
                script = ["sh", "-c", _PING_EACH, str(link.sink_address.ip), *further]
                silent = (await self._source().run(script, timeout_s=SET_S)).text.split()
                what = f"link {name}: they pass through {len(further)} more of its {self.count} tunnels"
                checks.append(Check(what, not silent, f"no answer to {', '.join(silent) or 'none'}"))
        return checks


def without_fail(batch: str) -> str:
    """A script of `ip -batch` whose lines may fail."""
    return f"ip -force -batch - >/dev/null 2>&1 <<'end' || true\n{batch}end\n"


async def pinged(source: Host, name: str, address: str) -> Check:
    """That three packets of the source's own kernel reach the far end and are answered."""
    done = await source.run(["ping", "-n", "-c", "3", "-W", "1", address], check=False)
    summary = next((line for line in done.text.splitlines() if "packets transmitted" in line), f"ping ended with {done.status}")
    return Check(f"link {name}: the source's own packets pass", done.status == 0, summary)
