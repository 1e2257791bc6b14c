"""Input of the doctor: facts of hosts as run folders keep them, the links between the hosts, and current readings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any


@dataclass(frozen=True)
class InventoryPort:
    """An interface of a host."""

    host: str
    interface: str

    def __str__(self) -> str:
        return f"{self.host}:{self.interface}"


@dataclass(frozen=True)
class InventoryLink:
    """The path of a packet. Ports 0 and 1 share a cable, and so do ports 2 and 3. On a segment all ports share one network."""

    name: str
    ports: tuple[InventoryPort, ...]
    next_hops: tuple[str, ...]
    """Address at the other end of each port's cable, or of the next port of the segment; empty where that port has no address."""
    speed_bps_l1: float | None = None
    mtu: int = 1500
    is_segment: bool = False

    @property
    def cables(self) -> tuple[tuple[InventoryPort, InventoryPort], ...]:
        """Pairs of ports: the two ends of each cable of a path; on a segment, every two ports."""
        return tuple(combinations(self.ports, 2)) if self.is_segment else tuple(zip(self.ports[::2], self.ports[1::2], strict=True))


@dataclass(frozen=True)
class CoreShare:
    """Share of a core that other work took while nothing was measured."""

    busy_percent: float
    stolen_percent: float


@dataclass(frozen=True)
class WatchedCores:
    """Load of a host's cores, watched for `seconds`."""

    seconds: float
    cores: Mapping[int, CoreShare]


@dataclass(frozen=True)
class PassedMtu:
    """The longest tried IP packet that passed whole between two ports of one cable: `mtu` bytes."""

    link: str
    sender: InventoryPort
    receiver: InventoryPort
    mtu: int


@dataclass(frozen=True)
class Streams:
    """A TCP load of the experiment."""

    workload: str
    streams: int
    both_ways: bool = False
    """True if both ends send at once."""


@dataclass(frozen=True)
class Inventory:
    """Facts and readings from which findings follow. Missing ones cause no finding."""

    facts: Mapping[str, Mapping[str, Any]]
    """Host → facts."""
    links: tuple[InventoryLink, ...] = ()
    watched: Mapping[str, WatchedCores] = field(default_factory=dict)
    carried: tuple[PassedMtu, ...] = ()
    pinned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Host → cores that its programs are bound to; for the DUT, cores that its forwarding is bound to."""
    one_machine: bool = False
    """True if all hosts are namespaces of one machine, so that a core has the same number on each."""
    loads: tuple[Streams, ...] = ()
    dut: str = "dut"
    """The host that is measured; empty where there is none."""

    def fact(self, host: str, *path: str) -> Any:  # noqa: ANN401 facts are whatever JSON holds
        """Return a fact by its path; None if the fact or a part of its path is missing."""
        value: Any = self.facts.get(host)
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def text(self, host: str, *path: str) -> str:
        """Return a fact that is text; empty if it is missing or not text."""
        value = self.fact(host, *path)
        return value if isinstance(value, str) else ""

    def cards(self) -> Iterator[tuple[InventoryPort, Mapping[str, Any]]]:
        """Yield every interface that has facts."""
        for host, facts in self.facts.items():
            interfaces = facts.get("interfaces")
            for name, card in interfaces.items() if isinstance(interfaces, Mapping) else ():
                if isinstance(card, Mapping):
                    yield InventoryPort(host, str(name)), card

    def card(self, port: InventoryPort) -> Mapping[str, Any]:
        """Return the facts of an interface; empty when there are none."""
        value = self.fact(port.host, "interfaces", port.interface)
        return value if isinstance(value, Mapping) else {}

    def speed(self, port: InventoryPort) -> float | None:
        """Return the intended speed of a port in bits a second at L1: its link's in the testbed file, else the card's own."""
        nominal = next((link.speed_bps_l1 for link in self.links if port in link.ports), None)
        trained = self.card(port).get("speed_mbps")
        return nominal or (trained * 1e6 if isinstance(trained, int) and trained > 0 else None)


def whole(value: object) -> int | None:
    """Return `value` if it is a whole number, else None. Facts of a damaged file may hold anything."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def cpus_of(text: object) -> tuple[int, ...]:
    """Return the core numbers of a list as the kernel writes it: `0-2,5`. Empty if `text` is not such a list."""
    if not isinstance(text, str) or not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text):
        return ()
    spans = [part.partition("-") for part in text.split(",")]
    return tuple(n for low, _, high in spans for n in range(int(low), int(high or low) + 1))
