"""Places on a link where frames were lost, by the counters of the four ports on its path.

    asked → generator → sender's card → DUT in → DUT stack → DUT out → sink's card → sink → received

The loss at a place is the difference between the counter before it and the counter after it. So the losses add up to the frames sent and
not received. A place is left out if a counter is missing, or does not count the engine's frames (some drivers do not count frames that XDP
sends or drops). Nothing is guessed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dutlab.hosts.host import Host
from dutlab.spec.links import Link, Port

# Linux, Documentation/ABI/testing/sysfs-class-net-statistics
_COUNTERS = "/sys/class/net/{}/statistics/{}"
_COUNTED = ("tx_packets", "tx_dropped", "rx_packets")
TOLERATED = 16
"""Foreign frames (a neighbour solicitation, a probe's echo) by which a counter may exceed the one before it."""


def strangers_among(came: int, *, sent: int) -> int:
    """Return how many of `came` frames count as foreign: the excess over `sent` if it is small; a large excess has no explanation, so 0."""
    return came - sent if 0 < came - sent <= TOLERATED else 0


@dataclass(frozen=True)
class PortCount:
    """Counts of one port since it was created, in frames."""

    sent: int
    send_dropped: int
    received: int

    def since(self, before: PortCount) -> PortCount:
        """Return the frames between two readings."""
        return PortCount(self.sent - before.sent, self.send_dropped - before.send_dropped, self.received - before.received)


PathCount = tuple[PortCount | None, ...]
"""Counts of source, DUT in, DUT out and sink, in path order; None if there is no such port, or it cannot be read."""


async def read_path(hosts: Mapping[str, Host], link: Link, *, without: Collection[Port] = ()) -> PathCount:
    """Return the counters of the link's ends and of the DUT's two ports, read at the same time; None for ports in `without`.

    Raises HostError if a host vanished.
    """
    around = (link.dut_in, link.dut_out) if link.forwarders else (None, None)
    ports = (None if port in without else port for port in (link.source, *around, link.sink))
    return tuple(await asyncio.gather(*(_read(hosts, port) for port in ports)))


async def _read(hosts: Mapping[str, Host], port: Port | None) -> PortCount | None:
    if port is None or (host := hosts.get(port.host)) is None:  # no DUT, or a black box
        return None
    done = await host.run(["cat", *(_COUNTERS.format(port.interface, name) for name in _COUNTED)], check=False)
    words = done.text.split()
    return PortCount(*map(int, words)) if done.status == 0 and len(words) == len(_COUNTED) and all(w.isdigit() for w in words) else None


def lost_by_place(*, before: PathCount, after: PathCount, sent: int, received: int, reverse: bool = False) -> dict[str, int]:
    """Return place → frames lost there, for the known places; empty if no counter of the path helps."""
    counts = [None if b is None or a is None else a.since(b) for b, a in zip(before, after, strict=True)]
    source, dut_in, dut_out, sink = reversed(counts) if reverse else counts
    stations = (  # frames left after each place
        ("sender's card", None if source is None else source.sent),
        ("DUT in", None if dut_in is None else dut_in.received),
        ("DUT stack", None if dut_out is None else dut_out.sent + dut_out.send_dropped),
        ("DUT out", None if dut_out is None else dut_out.sent),
        ("sink's card", None if sink is None else sink.received),
        ("sink", received),
    )
    places: dict[str, int] = {}
    alive: int | None = sent
    for place, left in stations:
        ahead = left is not None and alive is not None and left > alive + TOLERATED  # it also counts foreign frames, or frames twice
        if left is None or alive is None or ahead or (left == 0 and alive > TOLERATED and received):
            alive = None if ahead or not left else left
            continue
        places[place] = max(0, alive - left)
        alive = left
    return places
