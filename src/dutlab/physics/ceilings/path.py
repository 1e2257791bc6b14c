"""Path of the data of drives: their own PCI Express links, those that they share, and memory.

The links follow from the path of each drive to the processor, as its host reports it. A device on the paths of several drives is shared by
them. Both ends of a link report it, so of the devices with the same drives behind them, the narrowest counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from dutlab.physics.ceilings.ceiling import number
from dutlab.physics.ceilings.pcie import FLIT_GENERATION, GENERATIONS, PAYLOADS, WIDTHS, PcieLink, pcie_ceilings

OWN, SHARED = "the drives' own links", "uplinks"
"""Names of the rungs of both kinds of links."""


@dataclass(frozen=True)
class Rung:
    """Limit of one part, in requests a second."""

    name: str
    iops: float
    formula: str


@dataclass(frozen=True)
class BlockLoad:
    """Requests of `block` bytes, and the reads and writes of drives per request to the array."""

    block: int
    to_read: float
    to_write: float


class DataPath(Protocol):
    """Path of data between processor and drives."""

    @property
    def memory(self) -> tuple[float, int] | None:
        """Memory: megatransfers a second, and channels; None if not known."""

    def rungs(self, drives: int, traffic: BlockLoad) -> list[Rung]:
        """Return the rungs of its known links."""


@dataclass(frozen=True)
class Path:
    """Path with equal links, given by the user. None: not known. `payload` is the links' maximum payload size."""

    drive_link: PcieLink | None = None
    uplink: PcieLink | None = None
    uplinks: int = 1
    payload: int | None = None
    memory: tuple[float, int] | None = None

    def rungs(self, drives: int, traffic: BlockLoad) -> list[Rung]:
        """Return the sum of the drives' links, and the sum of the uplinks."""
        levels = ((OWN, self.drive_link, drives), (SHARED, self.uplink, self.uplinks))
        return [_sum(name, [(link, self.payload)] * count, traffic) for name, link, count in levels if link is not None]


@dataclass(frozen=True)
class TrainedLink:
    """A link with its trained speed and width, and the drives whose data pass it."""

    address: str
    link: PcieLink
    payload: int | None
    drives: frozenset[str]

    def oversubscription(self, own: Mapping[str, TrainedLink]) -> float | None:
        """Return the oversubscription: the sum of its drives' own links over this link; None if one of them is not known."""
        if not all(name in own for name in self.drives):
            return None
        return sum(own[name].link.bytes_per_s for name in self.drives) / self.link.bytes_per_s


@dataclass(frozen=True)
class Topology:
    """All links between drives and processor that the host reports."""

    links: tuple[TrainedLink, ...]
    memory: tuple[float, int] | None = None

    @cached_property
    def own(self) -> dict[str, TrainedLink]:
        """Drive → the link that only this drive uses."""
        return {next(iter(link.drives)): link for link in self.links if len(link.drives) == 1}

    @property
    def shared(self) -> list[TrainedLink]:
        """Links shared by several drives; those with the most drives first."""
        return sorted((link for link in self.links if len(link.drives) > 1), key=lambda link: (-len(link.drives), link.address))

    def rungs(self, drives: int, traffic: BlockLoad) -> list[Rung]:
        """Return the sum of the drives' own links if all are known, and the rate that the shared links let pass."""
        own_rungs = [_sum(OWN, [(link.link, link.payload) for link in self.own.values()], traffic)] if len(self.own) == drives else []
        top = [link for link in self.shared if not any(link.drives < other.drives for other in self.shared)]
        if not top:
            return own_rungs
        passes = [self._passes(link, lambda one: requests(one.link, one.payload, traffic)[0]) for link in top]
        alone = [link for name, link in self.own.items() if not any(name in other.drives for other in top)]
        passes += [requests(link.link, link.payload, traffic)[0] for link in alone]
        return [*own_rungs, Rung(SHARED, sum(passes), " + ".join(number(one) for one in passes))]

    def _passes(self, at: TrainedLink, most: Callable[[TrainedLink], float]) -> float:
        """Return the rate that reaches the processor over `at`: at most its own limit, and at most the sum of the links below it."""
        below = [link for link in self.links if link.drives < at.drives]
        nearest = [link for link in below if not any(link.drives < other.drives for other in below)]
        known = frozenset().union(*(link.drives for link in nearest)) == at.drives
        return min(most(at), sum(self._passes(link, most) for link in nearest)) if known else most(at)


def topology(ways: Mapping[str, Sequence[Mapping[str, Any]]], memory: tuple[float, int] | None = None) -> Topology:
    """Return the topology from each drive's path: steps with `address`, `link_gts`, `link_width` and `payload_bytes`, the drive first."""
    behind, link_by_address = defaultdict[str, set[str]](set), dict[str, tuple[PcieLink, int | None]]()
    for name, way in ways.items():
        for step in way:
            link, payload = _link(step), step.get("payload_bytes")
            if link is not None:
                behind[str(step.get("address"))].add(name)
                link_by_address[str(step.get("address"))] = (
                    link,
                    payload if link.generation < FLIT_GENERATION and payload in PAYLOADS else None,
                )
    least = dict[frozenset[str], TrainedLink]()
    for address, drives in behind.items():
        link, payload = link_by_address[address]
        known = least.get(same := frozenset(drives))
        if known is None or link.bytes_per_s < known.link.bytes_per_s:
            least[same] = TrainedLink(address, link, payload, same)
    return Topology(tuple(least.values()), memory)


def requests(link: PcieLink, payload: int | None, traffic: BlockLoad) -> tuple[float, str]:
    """Return the requests a second that a link passes in its busier direction, and the formula. Both directions carry data at once."""
    ceilings = pcie_ceilings(link, payload=payload)
    back, forth = (ceilings[0], ceilings[0]) if payload is None else (ceilings[1], ceilings[2])
    ways = [(share, way.value) for share, way in ((traffic.to_read, back), (traffic.to_write, forth)) if share]
    share, rate = min(ways, key=lambda way: way[1] / way[0])
    return rate / (traffic.block * share), f"{number(rate)} / ({traffic.block} × {share:g})"


def _sum(name: str, links: Sequence[tuple[PcieLink, int | None]], traffic: BlockLoad) -> Rung:
    counts = {link: links.count(link) for link in dict.fromkeys(links)}
    each = {link: requests(*link, traffic) for link in counts}
    return Rung(
        name,
        sum(counts[link] * iops for link, (iops, _) in each.items()),
        " + ".join(f"{counts[link]} × {formula}" for link, (_, formula) in each.items()),
    )


def _link(step: Mapping[str, Any]) -> PcieLink | None:
    """Return the link of a step; None if it is not reported, or is not a PCI Express link."""
    generation = next((number for number, of in GENERATIONS.items() if of.gigatransfers == step.get("link_gts")), None)
    width = step.get("link_width")
    return PcieLink(generation, width) if generation is not None and width in WIDTHS else None
